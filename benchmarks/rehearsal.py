"""A night at full size: 1.8 million rows, 24 identities, three models, from CSV to report.

Generated rows in the layout of Kaggle's `train.csv` are evaluated by `biasgate nightly`: a file of
scores and a trained TF-IDF baseline are judged beside a champion. Further nights follow, with
nothing new. Times of tasks are those that Prefect recorded; tasks of one kind may run at once, so
their time is from the first start to the last end, less the time in which none of them ran.
Memory is the resident memory of all processes together, so what they share is counted in each; it
and the disk are read about every second.

The same point estimates the usual way (pandas, and scikit-learn on masks, without intervals,
verdict, or report) are timed in one process, with the same fitted pipeline. It scores some comments
at a time: all 1.8 million at once need more than 19 GiB.
"""

from __future__ import annotations

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
from sklearn.metrics import roc_auc_score

from benchmarks._commands import (
    GIB,
    CommandRun,
    run_command,
    sum_file_sizes,
    write_config,
    write_release,
)
from benchmarks._measurement import Measurement
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.scoring.training import TRAINING_KEY

ROWS, NIGHTS, MODEL = 1_800_000, int(os.environ.get("REHEARSAL_NIGHTS", "30")), "rehearsed"
AT_A_TIME = 100_000


def measure(rows: int | None = None) -> Measurement:
    """Make a champion, and let nights follow."""
    n_rows = rows or ROWS
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_release(folder, n_rows)
        figures["GiB, the CSV"] = (folder / "train.csv").stat().st_size / GIB
        add_noise(folder, "noisy.csv", 0.1)
        every = list(IDENTITIES)
        write_config(folder, [scores_of("first", "noisy.csv")], MODEL, identities=every)
        first = run_command(folder, "evaluate", "official.yaml", "--output", "first")
        figures |= {
            "champion alone: seconds": first.seconds,
            "champion alone: peak GiB": first.peak,
        }
        both = [scores_of("file", "scores.csv"), _words()]
        write_config(folder, both, MODEL, identities=every)
        trained = run_command(folder, "train", "official.yaml")
        figures |= {"train: seconds": trained.seconds, "train: peak GiB": trained.peak}
        for night in range(1, NIGHTS + 1):
            ran = run_command(folder, "nightly", "official.yaml", "--output", "nights")
            if night in (1, 2, NIGHTS):
                of_night = {"seconds": ran.seconds, "peak GiB": ran.peak, **stages_of(folder, ran)}
                figures |= {f"night {night}: {key}": value for key, value in of_night.items()}
                figures |= _sizes(folder, f"after night {night}: GiB")
            now = {"seconds": ran.seconds, "peak GiB": ran.peak, **_sizes(folder, "GiB")}
            print(f"night {night}:", {key: round(one, 3) for key, one in now.items()}, flush=True)
        figures |= _the_usual_way(folder)
    return Measurement(
        inputs={"rows": n_rows, "identities": len(IDENTITIES), "models": 3, "nights": NIGHTS},
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow", "scikit-learn"),
    )


def add_noise(folder: Path, name: str, scale: float) -> None:
    """Write scores that are a little worse than those of `scores.csv`."""
    table = pacsv.read_csv(folder / "scores.csv")
    noise = np.random.default_rng(8).normal(0, scale, len(table))
    noisy = pa.array(table["prediction"].to_numpy() + noise)
    pacsv.write_csv(table.set_column(1, "prediction", noisy), folder / name)


def scores_of(name: str, path: str) -> dict[str, Any]:
    """Return a candidate whose scores are in a file."""
    return {"name": name, "kind": "scores", "path": path, "register": MODEL}


def _words() -> dict[str, Any]:
    training = {"name": "training", "source": "civil_comments", "folder": "."}
    found: dict[str, Any] = {"name": "words", "kind": "tfidf"}
    found |= {"train_on": training | {"split": "test_public"}}
    return found | {"allow_training_rows": True}  # some short texts may be the same


def stages_of(
    folder: Path, ran: CommandRun, sums: Mapping[str, Collection[str]] | None = None
) -> dict[str, float]:
    """Return seconds, memory and disk of each kind of task that took a second at least.

    `sums` names kinds of tasks that are also taken together.
    """
    found: dict[str, float] = {}
    by_stage = _spans(folder, ran.states[0].time)
    for name, kinds in (sums or {}).items():
        together = [span for kind in kinds for span in by_stage.get(kind, [])]
        by_stage[f"sum of {name}"] = _joined(together)
    for stage, spans in by_stage.items():
        seconds = sum(end - start for start, end in spans)
        if seconds >= 1:
            during = [
                [one for one in ran.states if start <= one.time <= end + 1] for start, end in spans
            ]
            seen = [one.resident for states in during for one in states]
            written = sum(states[-1].stored - states[0].stored for states in during if states)
            found |= {
                f"seconds, {stage}": seconds,
                f"peak GiB, {stage}": max(seen, default=0) / GIB,
            }
            found[f"MiB written, {stage}"] = written / 2**20
    return found


def _spans(folder: Path, since: float) -> dict[str, list[tuple[float, float]]]:
    """Return when tasks of each kind ran, in seconds since 1970, without overlaps."""
    with sqlite3.connect(folder / "prefect" / "prefect.db") as database:
        rows = database.execute(
            "SELECT task_key, start_time, end_time FROM task_run WHERE end_time IS NOT NULL"
        ).fetchall()
    times: dict[str, list[tuple[float, float]]] = {}
    for key, start, end in rows:
        begins, ends = (datetime.fromisoformat(f"{one}+00:00").timestamp() for one in (start, end))
        if begins >= since:
            times.setdefault(str(key).rpartition("-")[0].replace("_", " "), []).append(
                (begins, ends)
            )
    return {stage: _joined(spans) for stage, spans in times.items()}


def _joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of time in order, those that overlap as one."""
    joined: list[tuple[float, float]] = []
    for begins, ends in sorted(spans):
        if joined and begins <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(ends, joined[-1][1]))
        else:
            joined.append((begins, ends))
    return joined


def _sizes(folder: Path, what: str) -> dict[str, float]:
    store = folder / ".biasgate"
    found = {f"{what}, the store": sum_file_sizes(store) / GIB}
    found |= {
        f"{what}, {one.name} of the store": sum_file_sizes(one) / GIB
        for one in sorted(store.iterdir())
        if one.is_dir() and sum_file_sizes(one) > GIB / 100
    }
    return found | {f"{what}, reports": sum_file_sizes(folder / "nights") / GIB}


def _the_usual_way(folder: Path) -> dict[str, float]:
    """Score and measure in one process, as a notebook would."""
    pipeline = _fitted(folder)
    (folder / "pipeline.pickle").write_bytes(pickle.dumps(pipeline))
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})\n"
    code += "from benchmarks.rehearsal import usual_way; usual_way()"
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {f"the usual way: {key}": value for key, value in found.items()}


def _fitted(folder: Path) -> Any:
    """Return the baseline that was trained, as scikit-learn opens it."""
    import mlflow  # noqa: PLC0415 - the usual way does not need it

    mlflow.set_tracking_uri(f"sqlite:///{folder / '.biasgate' / 'mlflow.db'}")
    versions = mlflow.MlflowClient().search_model_versions()
    [one] = [version for version in versions if TRAINING_KEY in version.tags]
    return mlflow.sklearn.load_model(f"models:/{one.name}/{one.version}")


def usual_way() -> None:
    """Print seconds and peak GiB of the usual way, in the working folder."""
    import resource  # noqa: PLC0415 - not on Windows

    began = time.perf_counter()
    table = pd.read_csv("train.csv", usecols=["id", "comment_text", "target", *IDENTITIES])
    scores = pd.read_csv("scores.csv").set_index("id")["prediction"]
    read = time.perf_counter()
    pipeline = pickle.loads(Path("pipeline.pickle").read_bytes())  # noqa: S301 - written above
    texts = table["comment_text"]
    parts = [texts.iloc[at : at + AT_A_TIME] for at in range(0, len(texts), AT_A_TIME)]
    predicted = np.concatenate([pipeline.predict_proba(part)[:, 1] for part in parts])
    columns = [table["id"].map(scores).to_numpy(), predicted]
    scored = time.perf_counter()
    rated = table[list(IDENTITIES)].notna().all(axis=1).to_numpy()
    label = (table["target"] >= 0.5).to_numpy()[rated]
    members = [(table[name] >= 0.5).to_numpy()[rated] for name in IDENTITIES]
    for score in (columns[0][rated], columns[1][rated], columns[0][rated]):
        for group in members:
            for kept in (group, group ^ label, ~(group ^ label)):
                roc_auc_score(label[kept], score[kept])
    measured = time.perf_counter()
    found = {"seconds, read": read - began, "seconds, score": scored - read}
    found |= {"seconds, measure": measured - scored, "seconds": measured - began}
    found["peak GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    print(json.dumps(found))
