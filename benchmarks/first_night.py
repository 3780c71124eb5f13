"""The first night of the rehearsal by stage: three files of scores, without training.

As in `rehearsal`: 1.8 million generated rows and 24 identities, a champion, then a night with two
candidates. Seconds and largest memory are given by stage, and for measuring, deciding and pages
together. `BENCHMARK_TREE=FOLDER` runs the code of another checkout on the same rows, so that two
trees can be compared, one after the other.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks._commands import run_command
from benchmarks._measurement import Measurement
from benchmarks.rehearsal import ROWS, add_noise, make_champion, measure_stages, write_config
from biasgate.tasks.data.civil_comments import IDENTITIES

# Prefect's keys of the tasks. A task that is in none of these has its own line.
SUMS = {
    "measuring": (
        "gather evidence",
        "list identities",
        "measure identity",
        "summarise identities",
        "count missing",
        "explain bias",
        "analyse rows",
    ),
    "deciding": ("decide candidate",),
    "pages": ("write report", "draw figures", "write candidate page", "write evaluation page"),
}


def measure(rows: int | None = None) -> Measurement:
    """Make a champion, and judge two candidates against it in a night."""
    n_rows = rows or ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = make_champion(folder, n_rows)
        add_noise(folder, "other.csv", 0.05)
        write_config(folder, {"file": "scores.csv", "other": "other.csv"})
        night = run_command(folder, "nightly", "official.yaml", "--output", "nights")
        figures |= {
            "night: seconds": night.seconds,
            "night: peak GiB": night.peak,
            **measure_stages(folder, night, SUMS),
        }
    return Measurement(
        inputs={
            "rows": n_rows,
            "identities": len(IDENTITIES),
            "models": 3,
            "tree": os.environ.get("BENCHMARK_TREE") or "this one",
        },
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow"),
    )
