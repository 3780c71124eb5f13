"""`biasgate verify` of a champion with a large file, against hashing the file only."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.verify import verify_model
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf

MEGABYTES, ROUNDS = 500, 9
MODEL = "large"
_ROWS = {"name": "rows", "source": "table", "path": "rows.csv", "text": "text"}
_EVALUATION = {
    "name": "large",
    "registered_model": MODEL,
    "evaluation_sets": [_ROWS | {"identities": ["gay"]}],
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

        def verify() -> None:
            findings = verify_model(MODEL, None, gateway, store)
            assert all(finding.holds for finding in findings), findings

        def hash_file() -> None:
            with large.open("rb") as stream:
                hashlib.file_digest(stream, "sha256")

        seconds, _ = time_contenders({"hash": hash_file, "verify": verify}, ROUNDS)
    return Measurement(
        inputs={"megabytes": megabytes, "rounds": ROUNDS},
        figures={
            "seconds, hashing the file alone": min(seconds["hash"]),
            "seconds, verify": min(seconds["verify"]),
            "verify, times hashing": compute_median_ratio(seconds["verify"], seconds["hash"]),
        },
        packages=("mlflow", "numpy", "scikit-learn"),
    )


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
    command = [sys.executable, "-m", "biasgate", "evaluate", "large.yaml", "--output", "out"]
    result = subprocess.run(  # noqa: S603 - our own command
        [*command, "--store", str(store)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
