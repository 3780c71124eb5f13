"""The kinds of candidates, a module for each, with their helpers."""
