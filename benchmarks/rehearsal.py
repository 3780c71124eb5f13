"""A night at full size: 1.8 million rows, 24 identities, three models, from CSV to report.

Generated rows in the layout of Kaggle's `train.csv` are evaluated by `biasgate nightly`: a file of
scores and a trained TF-IDF baseline are compared with a champion. Further nights follow without
changes. Times of tasks are those that Prefect recorded. Tasks of a kind may run at once, so their
time is from the first start to the last end, minus the time without any. Memory and disk are read
about every second.

The rival computes the same point estimates in one process by pandas, and by scikit-learn on masks,
without intervals, verdict, or report, with the same fitted pipeline. It scores some comments at a
time: all 1.8 million at once need more than 19 GiB.
"""

from __future__ import annotations

import csv
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import yaml
from sklearn.metrics import roc_auc_score
from support.release import rows_of_release, write_csv

from benchmarks._commands import GIB, MIB, CommandRun, run_command, sum_file_sizes
from benchmarks._measurement import Measurement, measure_own_peak
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.scoring.training import TRAINING_KEY

ROWS, NIGHTS, MODEL = 1_800_000, int(os.environ.get("REHEARSAL_NIGHTS", "30")), "rehearsed"
TRAINED_ON, ROWS_A_STEP = 20_000, 100_000
POLICY = """\
version: 1
name: own
allow_first: true
rules:
  - {metric: bpsn_auc, scope: each, floor: 0.5, mode: estimate}
  - {metric: bnsp_auc, scope: worst, floor: 0.5, slice: short, mode: estimate}
"""
WORDS = {
    "name": "words",
    "kind": "tfidf",
    "train_on": {
        "name": "training",
        "source": "civil_comments",
        "folder": ".",
        "split": "test_public",
    },
    "allow_training_rows": True,  # some short texts may be the same
}


def measure(rows: int | None = None) -> Measurement:
    """Make a champion, then run nights."""
    n_rows = rows or ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = make_champion(folder, n_rows)
        write_config(folder, {"file": "scores.csv"}, WORDS)
        trained = run_command(folder, "train", "official.yaml")
        figures |= {"train: seconds": trained.seconds, "train: peak GiB": trained.peak}
        for night in range(1, NIGHTS + 1):
            ran = run_command(folder, "nightly", "official.yaml", "--output", "nights")
            resources = {"seconds": ran.seconds, "peak GiB": ran.peak}
            if night in (1, 2, NIGHTS):
                of_night = resources | measure_stages(folder, ran)
                figures |= {f"night {night}: {key}": value for key, value in of_night.items()}
                figures |= _measure_sizes(folder, f"after night {night}: GiB")
            resources |= _measure_sizes(folder, "GiB")
            rounded = {key: round(value, 3) for key, value in resources.items()}
            print(f"night {night}:", rounded, flush=True)
        figures |= _measure_rival(folder)
    return Measurement(
        inputs={"rows": n_rows, "identities": len(IDENTITIES), "models": 3, "nights": NIGHTS},
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow", "scikit-learn"),
    )


def make_champion(folder: Path, n_rows: int) -> dict[str, float]:
    """Write rows for evaluation and training, and scores; evaluate a champion.

    `train.csv` is evaluated, with `scores.csv`; `test_public_expanded.csv` is for training.
    """
    # A share at which each identity has enough rows for the policy, even in a quick run.
    mentions = dict.fromkeys(map(str, IDENTITIES), 0.05)
    n_training = min(TRAINED_ON, n_rows)
    tables = rows_of_release(n_training, 7, shares={"test_public": 1}, mentions=mentions)
    write_csv(folder / "test_public_expanded.csv", tables)
    tables = rows_of_release(n_rows, 8, shares={"train": 1}, mentions=mentions)
    rng = np.random.default_rng(7)
    with (folder / "scores.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "prediction"])

        def write_scores(table: pa.Table) -> pa.Table:
            """Write scores of a table, and return it in the layout of `train.csv`."""
            predicted = table["toxicity"].to_numpy() + rng.normal(0, 0.4, len(table))
            writer.writerows(zip(table["id"].to_pylist(), predicted.tolist(), strict=True))
            return table.rename_columns({"toxicity": "target"})

        write_csv(folder / "train.csv", map(write_scores, tables))
    add_noise(folder, "noisy.csv", 0.1)
    write_config(folder, {"first": "noisy.csv"})
    (folder / "own.yaml").write_text(POLICY, "utf-8")
    champion = run_command(folder, "evaluate", "official.yaml", "--output", "first")
    return {
        "GiB, the CSV": (folder / "train.csv").stat().st_size / GIB,
        "champion alone: seconds": champion.seconds,
        "champion alone: peak GiB": champion.peak,
    }


def add_noise(folder: Path, name: str, scale: float) -> None:
    """Write scores that are a little worse than those of `scores.csv`."""
    table = pacsv.read_csv(folder / "scores.csv")
    noise = np.random.default_rng(8).normal(0, scale, len(table))
    noisy = pa.array(table["prediction"].to_numpy() + noise)
    pacsv.write_csv(table.set_column(1, "prediction", noisy), folder / name)


def write_config(folder: Path, scores: Mapping[str, str], *candidates: dict[str, Any]) -> None:
    """Write the evaluation file of files of scores and other candidates."""
    rows = {"name": "comments", "source": "civil_comments", "folder": ".", "split": "train"}
    content = {
        "name": "official",
        "registered_model": MODEL,
        "evaluation_sets": [rows | {"identities": list(IDENTITIES)}],
        "candidates": [
            *(
                {"name": name, "kind": "scores", "path": path, "register": MODEL}
                for name, path in scores.items()
            ),
            *candidates,
        ],
        "policy": "own.yaml",
    }
    (folder / "official.yaml").write_text(yaml.safe_dump(content), "utf-8")


def measure_stages(
    folder: Path, ran: CommandRun, sums: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """Return seconds, memory and disk by kind of task, for kinds that took a second at least.

    `sums` names kinds of tasks that are also taken together.
    """
    figures: dict[str, float] = {}
    spans_by_stage = _read_spans(folder, ran.states[0].time)
    for name, kinds in (sums or {}).items():
        together = [span for kind in kinds for span in spans_by_stage.get(kind, [])]
        spans_by_stage[f"sum of {name}"] = _join_spans(together)
    for stage, spans in spans_by_stage.items():
        seconds = sum(end - start for start, end in spans)
        if seconds >= 1:
            states_by_span = [
                [state for state in ran.states if start <= state.time <= end + 1]
                for start, end in spans
            ]
            resident = [state.resident for states in states_by_span for state in states]
            written = sum(
                states[-1].stored - states[0].stored for states in states_by_span if states
            )
            figures |= {
                f"seconds, {stage}": seconds,
                f"peak GiB, {stage}": max(resident, default=0) / GIB,
                f"MiB written, {stage}": written / MIB,
            }
    return figures


def _read_spans(folder: Path, since: float) -> dict[str, list[tuple[float, float]]]:
    """Return the spans of time of tasks by kind, in seconds since 1970, without overlaps."""
    with sqlite3.connect(folder / "prefect" / "prefect.db") as database:
        rows = database.execute(
            "SELECT task_key, start_time, end_time FROM task_run WHERE end_time IS NOT NULL"
        ).fetchall()
    spans: dict[str, list[tuple[float, float]]] = {}
    for key, *times in rows:
        start, end = (datetime.fromisoformat(f"{time}+00:00").timestamp() for time in times)
        if start >= since:
            kind = str(key).rpartition("-")[0].replace("_", " ")
            spans.setdefault(kind, []).append((start, end))
    return {kind: _join_spans(of_kind) for kind, of_kind in spans.items()}


def _join_spans(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of time in order, with overlapping spans joined."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _measure_sizes(folder: Path, prefix: str) -> dict[str, float]:
    store = folder / ".biasgate"
    sizes = {place.name: sum_file_sizes(place) / GIB for place in sorted(store.iterdir())}
    return {
        f"{prefix}, the store": sum_file_sizes(store) / GIB,
        **{f"{prefix}, {name} of the store": size for name, size in sizes.items() if size > 0.01},
        f"{prefix}, reports": sum_file_sizes(folder / "nights") / GIB,
    }


def _measure_rival(folder: Path) -> dict[str, float]:
    """Score and measure in one process, as a notebook would."""
    import mlflow  # noqa: PLC0415 - the rival does not need it

    mlflow.set_tracking_uri(f"sqlite:///{folder / '.biasgate' / 'mlflow.db'}")
    versions = mlflow.MlflowClient().search_model_versions()
    [trained] = [version for version in versions if TRAINING_KEY in version.tags]
    pipeline = mlflow.sklearn.load_model(f"models:/{trained.name}/{trained.version}")
    (folder / "pipeline.pickle").write_bytes(pickle.dumps(pipeline))
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})\n"
    code += "from benchmarks.rehearsal import run_rival; run_rival()"
    result = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return {f"the usual way: {key}": value for key, value in figures.items()}


def run_rival() -> None:
    """Print seconds and peak GiB of the rival, in the working folder."""
    began = time.perf_counter()
    table = pd.read_csv("train.csv", usecols=["id", "comment_text", "target", *IDENTITIES])
    scores = pd.read_csv("scores.csv").set_index("id")["prediction"]
    read = time.perf_counter()
    pipeline = pickle.loads(Path("pipeline.pickle").read_bytes())  # noqa: S301 - written above
    texts = table["comment_text"]
    parts = [texts.iloc[row : row + ROWS_A_STEP] for row in range(0, len(texts), ROWS_A_STEP)]
    predicted = np.concatenate([pipeline.predict_proba(part)[:, 1] for part in parts])
    columns = [table["id"].map(scores).to_numpy(), predicted]
    scored = time.perf_counter()
    is_rated = table[list(IDENTITIES)].notna().all(axis=1).to_numpy()
    label = (table["target"] >= 0.5).to_numpy()[is_rated]
    members = [(table[name] >= 0.5).to_numpy()[is_rated] for name in IDENTITIES]
    for score in (columns[0][is_rated], columns[1][is_rated], columns[0][is_rated]):
        for group in members:
            for kept in (group, group ^ label, ~(group ^ label)):
                roc_auc_score(label[kept], score[kept])
    measured = time.perf_counter()
    figures = {"seconds, read": read - began, "seconds, score": scored - read}
    figures |= {"seconds, measure": measured - scored, "seconds": measured - began}
    figures["peak GiB"] = measure_own_peak()
    print(json.dumps(figures))
