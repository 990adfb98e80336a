"""experiments/best_response."""
