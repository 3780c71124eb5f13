"""Decisions of policies on sets of common sizes, by simulation."""
