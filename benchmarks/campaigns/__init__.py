"""Campaigns of faults, too long for tests: `python -m benchmarks.campaigns.NAME`.

Tests run a part.
"""
