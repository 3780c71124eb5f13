"""Evaluation sets: their sources, and how they are frozen."""
