"""experiments/perfect_information."""
