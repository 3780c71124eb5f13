"""Many nights in a row on the stack: data change, versions appear, and servers fail meanwhile.

Each night is a process, forked from a process that has imported everything. While it runs, the next
fault of a seeded plan happens; a fault that came too late is tried again, earlier, on the next
night. After each night all files become a day older, so that `biasgate clean` sees all nights.
`tests/campaigns/test_soak.py` runs it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from mlflow import MlflowClient
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from support.stack.servers import Stack

from benchmarks.campaigns.disturbing import MODEL, be_quiet, join_python_path
from biasgate.flows.nightly import nightly
from biasgate.output import describe_disk_error
from biasgate.tasks.cleaning import VerdictReferences, iter_store_items
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.runs import Gateway

NAME = "soak"
VERDICTS = ("Passed", "Blocked", "Undecided", "Error", "Reported")
DAY_S = 86_400
NIGHT_S = 900  # the longest night
DATA_EVERY, VERSION_EVERY, CLEAN_EVERY = 3, 3, 2
FAULTS = (
    "night killed",
    "MLflow restarted",
    "database restarted",
    "S3 away",
    "Prefect restarted",
)
DISK = "disk full"
POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "rules": [{"metric": "auc", "scope": "overall", "floor": 0.7, "mode": "estimate"}],
}
EVALUATION = {
    "name": NAME,
    "registered_model": MODEL,
    "registered_candidates": {"tags": {"stage": "candidate"}, "newest": 2},
    "evaluation_sets": [
        {
            "name": "comments",
            "source": "table",
            "path": "comments.csv",
            "text": "text",
            "identities": ["gay", "muslim"],
        }
    ],
    "policy": "own.yaml",
}
# Processes are forked from a process that has imported everything and started nothing.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.soak"])


@dataclass
class Night:
    """One night; `number` begins at 1."""

    number: int
    ending: str
    """The name of its state, `killed`, `hangs` or `failed`."""
    message: str
    """Its sentences, or the error."""
    seconds: float
    fault: str | None = None
    size: int = 0
    """Bytes of the store afterwards, without pinned files."""
    pinned: dict[str, int] = field(default_factory=dict)
    """Number of sets and scores that are always kept, since `champion` moved on them."""


@dataclass
class Soak:
    """A folder and a stack, with the nights so far."""

    folder: Path
    stack: Stack
    nights: list[Night] = field(default_factory=list)
    n_versions: int = 0

    @property
    def store(self) -> Path:
        """The store, on a small disk if possible."""
        return self.folder / "disk" / "store"

    def prepare(self) -> None:
        """Write the inputs, and the models that will be registered."""
        (self.folder / "disk").mkdir(parents=True, exist_ok=True)
        (self.folder / "own.yaml").write_text(yaml.safe_dump(POLICY), "utf-8")
        (self.folder / "soak.yaml").write_text(yaml.safe_dump(EVALUATION), "utf-8")

    def change(self, number: int) -> None:
        """Let time pass until a night: other comments, another version."""
        if number % DATA_EVERY == 1:
            write_comments(self.folder / "comments.csv", number)
        if number % VERSION_EVERY == 1:
            self.n_versions += 1
            # Every third version learned nothing.
            register(self.folder, self.n_versions, noise=0.5 if self.n_versions % 3 == 0 else 0.1)

    def night(self, number: int, fault: str | None, wait_s: float) -> Night:
        """Run a night, with a fault after some seconds."""
        result = self.folder / f"night-{number}.json"
        start = time.monotonic()
        process = SERVER.Process(target=_run_night, args=(self.folder, result))
        process.start()
        fired = None
        if fault is not None:
            process.join(wait_s)
            if process.is_alive():
                fired = fault
                self.disturb(fault, process)
        process.join(NIGHT_S)
        if process.is_alive():
            process.kill()
            return Night(number, "hangs", "", time.monotonic() - start, fired)
        seconds = time.monotonic() - start
        if process.exitcode == -signal.SIGKILL:
            return Night(number, "killed", "", seconds, fired)
        ending, message = json.loads(result.read_text("utf-8"))
        return Night(number, ending, message, seconds, fired)

    def disturb(self, fault: str, process: Any) -> None:
        """Let a fault happen."""
        if fault == "night killed":
            process.kill()
        elif fault == "S3 away":
            self.stack.stop("s3", signal.SIGKILL)
            time.sleep(5)
            self.stack.start("s3")
        else:
            name = {"MLflow": "mlflow", "database": "postgres", "Prefect": "prefect"}
            service = name[fault.partition(" ")[0]]
            self.stack.stop(service, None if service == "postgres" else signal.SIGKILL)
            self.stack.start(service)

    def grow_older(self) -> None:
        """Let everything in the store, and of the nights, be a day older."""
        for place in (self.store, self.folder / "nights"):
            for path in [place, *place.rglob("*")]:
                if not path.is_symlink() and path.exists():
                    times = path.stat()
                    os.utime(path, (times.st_atime - DAY_S, times.st_mtime - DAY_S))

    def measure(self, night: Night) -> None:
        """Record the size of the store, and the items that may never be removed."""
        files = self.store.rglob("*")
        references = VerdictReferences.from_ledgers(Gateway.from_store(self.store))
        kept = [item for item in iter_store_items(self.store) if references.includes(item)]
        night.size = sum(file.stat().st_size for file in files if file.is_file())
        night.size -= sum(item.size for item in kept)
        night.pinned = dict(Counter(item.kind for item in kept))

    def command(self, *arguments: str) -> str:
        """Run `biasgate`, and return its output."""
        environment = os.environ | {"BIASGATE_STORE": str(self.store)}
        result = subprocess.run(
            [sys.executable, "-m", "biasgate", *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )
        return result.stdout


def plan(seed: int, n_nights: int) -> dict[int, str]:
    """Return from which night on each fault is due: each kind equally often, the disk once.

    The last nights are left for faults that came too late.
    """
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    faults = [*FAULTS * max(1, n_nights // 25), DISK]
    draws.shuffle(faults)
    nights = sorted(draws.sample(range(2, max(n_nights - 3, len(faults) + 2)), len(faults)))
    return dict(zip(nights, faults, strict=True))


def run(soak: Soak, n_nights: int, seed: int = 7) -> None:
    """Run all nights."""
    soak.prepare()
    due, waiting, usual, missed = plan(seed, n_nights), [], 15.0, 0
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    for number in range(1, n_nights + 1):
        soak.change(number)
        waiting += [due[number]] if number in due else []
        # The last night must be undisturbed.
        fault = waiting[0] if waiting and number < n_nights else None
        if fault == DISK:
            night = full_disk_night(soak, number)
        else:
            night = soak.night(number, fault, draws.uniform(0.1, 0.7) * usual / 2**missed)
        if night.fault:
            waiting.pop(0)
            missed = 0
        else:
            usual = night.seconds
            missed += fault is not None
        soak.grow_older()
        if number % CLEAN_EVERY == 0:
            soak.command("clean", "--keep", "2d", "--store", str(soak.store), "--yes")
        soak.measure(night)
        soak.nights.append(night)


def full_disk_night(soak: Soak, number: int) -> Night:
    """Run a night with its store on a disk without space for new files."""
    disk = soak.folder / "disk"
    write_comments(soak.folder / "comments.csv", 1000 + number)  # a new set must be written
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"0" * 4096):
            pass
    night = soak.night(number, None, 0)
    (disk / "ballast").unlink()
    if "disk is full" in night.message or "No space left" in night.message:
        night.fault = DISK
    return night


def _run_night(folder: Path, result: Path) -> None:
    be_quiet(result.with_suffix(".log"))
    os.environ["PYTHONPATH"] = join_python_path()
    places = [str(folder / place) for place in ("soak.yaml", "nights", "disk/store")]
    settings = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    try:
        with temporary_settings(settings):
            state: Any = nightly(*places, return_state=True)
        if state.is_completed():
            ending = [state.name, state.message]
        else:
            error = state.result(raise_on_failure=False)
            problem = describe_disk_error(error, {"store": Path(places[2])}) if error else None
            ending = ["failed", f"{state.name}: {state.message} {problem or ''}".strip()]
    except BaseException as error:  # noqa: BLE001 - any end of a night is a result
        problem = describe_disk_error(error, {"store": Path(places[2])})
        ending = ["failed", problem or f"{type(error).__name__}: {error}"]
    result.write_text(json.dumps(ending), "utf-8")
    os._exit(0)


# ------------------------------------------------------------------ inputs


def comments(seed: int, n_rows: int) -> list[tuple[str, int, int, int]]:
    """Return text, label and mentions."""
    draws, rows = np.random.default_rng(seed), []
    for _ in range(n_rows):
        toxic, gay, muslim = (int(draws.random() < share) for share in (0.4, 0.4, 0.4))
        words = draws.choice(["rain", "train", "market", "tea", "letter", "garden"], 4).tolist()
        kind = toxic if draws.random() < 0.9 else 1 - toxic
        words.append(str(draws.choice(["awful", "horrid"] if kind else ["lovely", "kind"])))
        words += ["gay"] * gay + ["muslim"] * muslim
        rows.append((" ".join(words), toxic, gay, muslim))
    return rows


def write_comments(file: Path, seed: int) -> None:
    """Write the comments of some nights."""
    rows = [f"{seed}-{at},{','.join(map(str, row))}" for at, row in enumerate(comments(seed, 300))]
    file.write_text("\n".join(["id,text,label,gay,muslim", *rows]), "utf-8")


def register(folder: Path, number: int, noise: float) -> None:
    """Register a new version with wrong training labels in a share of rows."""
    rows = comments(10_000 + number, 400)
    is_wrong = np.random.default_rng(number).random(len(rows)) < noise
    texts, labels = [row[0] for row in rows], np.array([row[1] for row in rows]) ^ is_wrong
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)
    place = folder / "models" / str(number)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    save_classifier(model, place, texts)
    client = MlflowClient()
    training = client.get_experiment_by_name("training")
    experiment = training.experiment_id if training else client.create_experiment("training")
    run_id = client.create_run(experiment).info.run_id
    client.log_artifacts(run_id, str(place), "model")
    client.set_terminated(run_id)
    if not client.search_registered_models(f"name = '{MODEL}'"):
        client.create_registered_model(MODEL)
    source = f"{client.get_run(run_id).info.artifact_uri}/model"
    tags = {"stage": "candidate"}
    client.create_model_version(MODEL, source, run_id=run_id, tags=tags)


# ------------------------------------------------------------------ results


def list_open_runs(soak: Soak) -> list[str]:
    """Return runs that are not ended, in MLflow and in Prefect."""
    client = MlflowClient()
    experiments = [found.experiment_id for found in client.search_experiments()]
    runs = client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=1000)
    names = [f"MLflow: {run.info.run_name}" for run in runs]
    not_ended = ["RUNNING", "PENDING", "CANCELLING"]
    api = {PREFECT_API_URL: soak.stack.environment()["PREFECT_API_URL"]}
    with temporary_settings(api), get_client(sync_client=True) as prefect:
        wanted = FlowRunFilter.model_validate({"state": {"type": {"any_": not_ended}}})
        names += [f"Prefect: {run.name}" for run in prefect.read_flow_runs(flow_run_filter=wanted)]
    return names


def count_downloads(soak: Soak) -> Counter[str]:
    """Count the downloads of models from MLflow's server, by run."""
    log = (soak.folder / "stack" / "logs" / "mlflow.log").read_text("utf-8", "replace")
    model_file = r'"GET \S*/([0-9a-f]{32})/artifacts/model/model\.skops\S* HTTP\S+ 200'
    return Counter(re.findall(model_file, log))


def count_promotions(soak: Soak) -> Counter[str]:
    """Count the promotions by version."""
    moves = json.loads(soak.command("history", MODEL, "--json", "--store", str(soak.store)))
    return Counter(str(move.get("version")) for move in moves if move["action"] == "promotion")


def count_promotions_by_run(soak: Soak) -> dict[str, int]:
    """Return the promotions of versions by their run."""
    n_promotions = count_promotions(soak)
    versions = MlflowClient().search_model_versions(f"name = '{MODEL}'")
    return {version.run_id: n_promotions[str(version.version)] for version in versions}


def read_trend(soak: Soak) -> list[dict[str, Any]]:
    """Return the nights of `biasgate trend`."""
    store = ["--store", str(soak.store)]
    return list(json.loads(soak.command("trend", NAME, "--nights", "365", "--json", *store)))
