"""experiments/blueprints."""
