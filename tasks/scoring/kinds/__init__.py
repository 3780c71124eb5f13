"""The kinds of candidates, one module each, with their helpers."""
