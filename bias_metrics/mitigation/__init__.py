"""Where bias in training data comes from, what would balance it, and what trainings show."""
