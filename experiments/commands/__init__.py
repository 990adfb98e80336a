"""experiments/commands."""
