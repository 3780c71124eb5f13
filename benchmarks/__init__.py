"""Benchmarks: modules with a function `measure(rows)` that returns a `Measurement`.

They import helpers from `tests/support`.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
