"""experiments/student_of_games."""
