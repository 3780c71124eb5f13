"""The first night of the rehearsal alone, by stage: three files of scores, and no training.

As in `rehearsal`: 1.8 million generated rows and 24 identities, a champion, then one night with two
candidates beside it. Each stage has its seconds and its most memory, and so have measuring,
deciding and pages, taken together. `BENCHMARK_TREE=FOLDER` runs the code of another checkout on the
same rows, so that two trees can be compared, one after the other.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks._commands import run_command, write_config, write_release
from benchmarks._measurement import Measurement
from benchmarks.rehearsal import MODEL, ROWS, add_noise, scores_of, stages_of
from biasgate.tasks.data.civil_comments import IDENTITIES

# Prefect's keys of the tasks. One that is in none of these still has a line of its own.
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
    """Make a champion, and judge two candidates beside it in one night."""
    n_rows, every = rows or ROWS, list(IDENTITIES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_release(folder, n_rows)
        add_noise(folder, "noisy.csv", 0.1)
        add_noise(folder, "other.csv", 0.05)
        write_config(folder, [scores_of("first", "noisy.csv")], MODEL, identities=every)
        first = run_command(folder, "evaluate", "official.yaml", "--output", "first")
        both = [scores_of("file", "scores.csv"), scores_of("other", "other.csv")]
        write_config(folder, both, MODEL, identities=every)
        night = run_command(folder, "nightly", "official.yaml", "--output", "nights")
        figures = {
            "champion alone: seconds": first.seconds,
            "champion alone: peak GiB": first.peak,
            "night: seconds": night.seconds,
            "night: peak GiB": night.peak,
            **stages_of(folder, night, SUMS),
        }
    return Measurement(
        inputs={
            "rows": n_rows,
            "identities": len(every),
            "models": 3,
            "tree": os.environ.get("BENCHMARK_TREE") or "this one",
        },
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow"),
    )
