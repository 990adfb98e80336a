"""Experiments in Scotland Yard on the board of London and its districts."""
