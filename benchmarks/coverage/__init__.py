"""Coverage of the intervals, and false passes of a floor at the truth, by simulation.

`python -m benchmarks.coverage` draws the samples, fills a table of docs/evidence/intervals.md, and
writes its tables as CSV in docs/evidence/coverage.
"""
