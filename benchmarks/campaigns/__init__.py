"""Campaigns of faults, longer than a test may take: each is `python -m benchmarks.campaigns.NAME`.

A small part of each runs as a test in `tests/campaigns`, whose helpers these programs share.
"""

from benchmarks import HERE

__all__ = ["HERE"]
