"""Benchmarks: one module each, with a function `measure(rows)` that returns a `Measurement`."""
