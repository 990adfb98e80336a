"""Experiments in Scotland Yard on the board of London."""
