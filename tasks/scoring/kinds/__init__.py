"""The kinds of candidates, one module each, and what they share."""
