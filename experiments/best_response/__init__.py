"""Experiments with best responses: exact, local and learned; and AIVAT."""
