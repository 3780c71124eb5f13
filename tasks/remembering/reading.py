"""`trend.json` next to the results of a night."""

from __future__ import annotations

from pathlib import Path

from biasgate.tasks.records.trend import Trend

FILE = "trend.json"


def read_trend(output: Path) -> Trend | None:
    """Return what was written next to the results; None if the run was no night."""
    path = output / FILE
    if not path.is_file():
        return None
    return Trend.read(path.read_bytes())
