"""How often intervals hold the true value, and how often a floor at the truth passes.

`python -m benchmarks.coverage` draws the samples, fills a table of docs/evidence/intervals.md,
and writes its tables as CSV in docs/evidence/coverage.
"""
