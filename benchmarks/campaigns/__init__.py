"""Campaigns of faults, longer than a test may take: each is `python -m benchmarks.campaigns.NAME`.

A small part of each runs as a test in `tests/campaigns`, whose helpers these programs share.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parents[2] / "tests"
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))
