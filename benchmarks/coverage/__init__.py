"""How often intervals hold the true value, and how often a floor at the truth passes.

`python -m benchmarks.coverage` draws the samples and writes docs/evidence/coverage.md and
docs/evidence/clustered-coverage.md.
"""
