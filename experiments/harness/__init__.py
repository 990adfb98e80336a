"""experiments/harness."""
