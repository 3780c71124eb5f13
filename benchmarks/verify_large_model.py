"""`biasgate verify` of a champion with a large file, against hashing that file alone.

Also the start-up of the command, in seconds of processor time, and how much of it is the import
of MLflow.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf

MEGABYTES, ROUNDS, STARTS = 500, 9, 5
MODEL = "large"
_EVALUATION = {
    "name": "large",
    "registered_model": MODEL,
    "evaluation_sets": [
        {"name": "rows", "source": "table", "path": "rows.csv", "text": "text"}
        | {"identities": ["gay"]}
    ],
    "candidates": [{"name": "large", "kind": "mlflow", "model": f"models:/{MODEL}/1"}],
    "policy": "own.yaml",
}
_POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "rules": [{"metric": "auc", "scope": "overall", "floor": 0.6}],
}


def measure(rows: int | None = None) -> Measurement:
    """Time both in turns, in this process; `rows` are megabytes."""
    megabytes = rows or MEGABYTES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, large = folder / "store", folder / "weights.bin"
        large.write_bytes(os.urandom(1_000_000) * megabytes)
        _make_champion(folder, store, large)
        gateway = Gateway.from_store(store)

        def verified() -> None:
            findings = verify_model(MODEL, None, gateway, store)
            assert all(one.holds for one in findings), findings

        seconds = time_contenders({"hash": lambda: _hash(large), "verify": verified}, ROUNDS, {})
        whole = [
            _command(["-m", "biasgate", "verify", MODEL, "--store", str(store)])
            for _ in range(STARTS)
        ]
        imports = [_command(["-c", "import mlflow"]) for _ in range(STARTS)]
    stores = "import mlflow.store.tracking.sqlalchemy_store"
    with_store = [_command(["-c", stores]) for _ in range(STARTS)]
    return Measurement(
        inputs={"megabytes": megabytes, "rounds": ROUNDS, "starts": STARTS},
        figures={
            "seconds, hashing the file alone": min(seconds["hash"]),
            "seconds, verify": min(seconds["verify"]),
            "verify, times hashing": compute_median_ratio(seconds["verify"], seconds["hash"]),
            "CPU seconds, the command with its start-up": min(whole),
            "CPU seconds of it, importing MLflow": min(imports),
            "CPU seconds of it, with MLflow's database store": min(with_store),
        },
        packages=("mlflow", "numpy", "scikit-learn"),
    )


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _make_champion(folder: Path, store: Path, large: Path) -> None:
    """Register a model with the large file among its files, and let it become champion."""
    texts = [f"{word} {n}" for n in range(200) for word in ("kind words", "vile insult")]
    with (folder / "rows.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "text", "label", "gay"])
        rows.writerows([n, text, n % 2, n // 2 % 2] for n, text in enumerate(texts))
    model = folder / "model"
    pipeline = Tfidf(name=MODEL, kind="tfidf", model=f"models:/{MODEL}/1").pipeline()
    save_classifier(pipeline.fit(texts, [0, 1] * 200), model, EXAMPLE)
    os.link(large, model / large.name)
    gateway = Gateway.from_store(store)
    run_id = gateway.ensure_run(gateway.ensure_experiment("models"), MODEL, MODEL)
    gateway.log_folder(run_id, model, "model")
    gateway.end_run(run_id)
    gateway.register(MODEL, run_id, "model", {})
    for name, content in (("large.yaml", _EVALUATION), ("own.yaml", _POLICY)):
        (folder / name).write_text(json.dumps(content), "utf-8")  # JSON is YAML
    command = ["evaluate", str(folder / "large.yaml"), "--output", str(folder / "out")]
    _command(["-m", "biasgate", *command, "--store", str(store)])


def _command(arguments: list[str]) -> float:
    """Run Python; return its seconds of processor time."""
    before = _spent()
    done: Any = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
