"""The evidence of a verdict: rows joined with scores, stored in a file, and its measurement."""
