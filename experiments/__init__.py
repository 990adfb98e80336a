"""Experiments: one file per figure or table, benchmarks, and the command line."""
