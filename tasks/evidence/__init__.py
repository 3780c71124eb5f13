"""The rows of a verdict: chosen, joined with scores, kept in one file, and measured from it."""
