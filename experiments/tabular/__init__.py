"""experiments/tabular."""
