"""Reading of `trend.json` in the results folder of a night."""

from __future__ import annotations

from pathlib import Path

from biasgate.tasks.records.trend import Trend

FILE = "trend.json"


def read_trend(output: Path) -> Trend | None:
    """Read `trend.json` from a results folder; None if the run was not scheduled."""
    path = output / FILE
    if not path.is_file():
        return None
    return Trend.read(path.read_bytes())
