"""Evaluation sets: where they come from and how they are frozen."""
