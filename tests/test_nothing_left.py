"""No command leaves a temporary file behind, also not one that was killed, after the next one."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.runs import Gateway

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FEATURES = 2**20  # 8 bytes each: a model of 8 MiB
POLICY = """\
version: 1
name: own
allow_first: true
rules: [{metric: auc, scope: overall, floor: 0.6}]
"""
FILE = """\
name: leftovers
registered_model: toxicity
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, text: text, identities: [gay]}
candidates:
  - {name: hashing, kind: mlflow, model: "models:/toxicity/1"}
policy: own.yaml
"""
COMMANDS = {
    "evaluate": ["-m", "biasgate", "evaluate", "file.yaml", "--output", "out", "--store", "store"],
    "verify": ["-m", "biasgate", "verify", "toxicity", "--store", "store"],
    "open_champion": [
        "-c",
        "import biasgate, shutil; shutil.rmtree(biasgate.open_champion('toxicity', 'store'))",
    ],
}


@pytest.fixture
def place(tmp_path, mlflow_server, prefect_home):
    """A folder with an evaluation of an 8 MiB model that a server keeps; `TMPDIR` is in it."""
    frame = pd.DataFrame({"id": range(200), "label": [0, 1] * 100, "gay": [0, 0, 1, 1] * 50})
    frame["text"] = [f"{'awful' if one else 'kind'} {i}" for i, one in enumerate(frame["label"])]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    prefect_home(tmp_path / "prefect")
    (tmp_path / "own.yaml").write_text(POLICY)
    (tmp_path / "file.yaml").write_text(FILE)
    pipeline = make_pipeline(HashingVectorizer(n_features=FEATURES), LogisticRegression())
    pipeline.fit(frame["text"], frame["label"])
    save_classifier(pipeline, tmp_path / "model", frame["text"][:2])
    assert sum(one.stat().st_size for one in (tmp_path / "model").rglob("*")) > 8 * FEATURES
    gateway = Gateway(mlflow_server)
    run_id = gateway.ensure_run(gateway.ensure_experiment("models"), "first", "first")
    gateway.log_folder(run_id, tmp_path / "model", "model")
    gateway.end_run(run_id)
    gateway.register("toxicity", run_id, "model", {})
    (tmp_path / "temporary").mkdir()
    return tmp_path


def start(place, what):
    environment = os.environ | {
        "TMPDIR": str(place / "temporary"),
        "PREFECT_HOME": str(place / "prefect"),
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }
    environment.pop("PREFECT_API_URL", None)
    with (place / f"{what}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *COMMANDS[what]],
            cwd=place,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def complete(place, what):
    assert start(place, what).wait(300) == 0, (place / f"{what}.log").read_text()[-3000:]


def found(place):
    """The bytes of each file and folder among temporary files and in the store's work folder."""
    folders = place / "temporary", place / "store" / "work"
    every = [one for folder in folders for one in folder.rglob("*")]
    return {
        str(one.relative_to(place)): one.stat().st_size if one.is_file() else 0 for one in every
    }


def kill_while_it_downloads(place, what):
    process = start(place, what)
    while process.poll() is None:
        # A file of this process is removed while it is looked at.
        with suppress(FileNotFoundError):
            if any("/files/" in one for one in found(place)):
                break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, (place / f"{what}.log").read_text()[-3000:]


def test_nothing_is_left_by_a_command_nor_by_a_killed_one_after_the_next(place):
    for what in COMMANDS:
        complete(place, what)
        assert found(place) == {}, what
    for what in COMMANDS:
        kill_while_it_downloads(place, what)
        assert found(place), what
        complete(place, what)
        assert found(place) == {}, what
