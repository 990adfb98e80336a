"""solvers/perfect_information."""
