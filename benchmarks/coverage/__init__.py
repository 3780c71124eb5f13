"""How often intervals hold the true value, and how often a floor at the truth passes.

`python -m benchmarks.coverage` draws the samples, writes docs/evidence/coverage.md, and its
tables as CSV in docs/evidence/coverage.
"""
