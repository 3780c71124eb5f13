"""Benchmarks: a module each, with a function `measure(rows)` that returns a `Measurement`.

They import helpers from `tests/support`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parents[1] / "tests"
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))
