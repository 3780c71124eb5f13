"""Candidates: how each kind gives scores, and where scores are kept."""
