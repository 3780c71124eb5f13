"""Many nights in a row on the stack: data change, versions appear, and servers fail meanwhile.

    python -m benchmarks.campaigns.soak /tmp/soak --nights 50

Each night is a process of its own, forked from one that has imported everything. While it runs, the
next fault of a seeded plan happens; one that came too late is tried again, earlier, on the next
night. After each night all files become a day older, so that `biasgate clean` sees fifty days.
"""

from __future__ import annotations

import argparse
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
from dataclasses import asdict, dataclass, field
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

from benchmarks.campaigns import HERE
from benchmarks.campaigns.disturbing import be_quiet
from biasgate.flows.nightly import nightly
from biasgate.output import describe_disk_error
from biasgate.tasks.cleaning import VerdictReferences, iter_store_items
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.mlflow_server.runs import Gateway

NAME, MODEL = "soak", "toxicity"
VERDICTS = ("Passed", "Blocked", "Undecided", "Error", "Reported")
DAY_S = 86_400
NIGHT_S = 900  # a night that takes longer hangs
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
# Processes forked from one that has imported everything and started nothing.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["benchmarks.campaigns.soak"])


@dataclass
class Night:
    """One night.

    Attributes
    ----------
    number : int
        From 1.
    ended : str
        The name of its state, `killed`, or `failed`.
    said : str
        Its sentences, or the error.
    seconds : float
        How long it took.
    fault : str or None
        What happened while it ran.
    size : int
        Bytes of the store afterwards, without what is pinned.
    pinned : dict of str to int
        Number of sets and scores that are always kept, since `champion` moved on them.
    """

    number: int
    ended: str
    said: str
    seconds: float
    fault: str | None = None
    size: int = 0
    pinned: dict[str, int] = field(default_factory=dict)


@dataclass
class Soak:
    """The nights, and what was found after them."""

    folder: Path
    stack: Stack
    nights: list[Night] = field(default_factory=list)
    versions: int = 0

    @property
    def store(self) -> Path:
        """The store, on a small disk where one can be mounted."""
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
            self.versions += 1
            # Every third one knows nothing.
            register(self.folder, self.versions, noise=0.5 if self.versions % 3 == 0 else 0.1)

    def night(self, number: int, fault: str | None, wait_s: float) -> Night:
        """Run one night, with a fault after some seconds."""
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
        ended, said = json.loads(result.read_text("utf-8"))
        return Night(number, ended, said, seconds, fired)

    def disturb(self, fault: str, process: Any) -> None:
        """Let one fault happen."""
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
            for one in [place, *place.rglob("*")]:
                if not one.is_symlink() and one.exists():
                    found = one.stat()
                    os.utime(one, (found.st_atime - DAY_S, found.st_mtime - DAY_S))

    def measure(self, night: Night) -> None:
        """Note what is on the disk, and what of it may never be removed."""
        files = self.store.rglob("*")
        rests = VerdictReferences.from_ledgers(Gateway.from_store(self.store))
        kept = [item for item in iter_store_items(self.store) if rests.includes(item)]
        night.size = sum(one.stat().st_size for one in files if one.is_file())
        night.size -= sum(item.size for item in kept)
        night.pinned = dict(Counter(item.kind for item in kept))

    def command(self, *arguments: str) -> str:
        """Run `biasgate`, and return what it prints."""
        environment = os.environ | {"BIASGATE_STORE": str(self.store)}
        done = subprocess.run(
            [sys.executable, "-m", "biasgate", *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )
        return done.stdout

    def clean(self) -> None:
        """Remove what is older than two days."""
        self.command("clean", "--keep", "2d", "--store", str(self.store), "--yes")


def plan(seed: int, n_nights: int) -> dict[int, str]:
    """Return from which night on each fault is due: each kind equally often, the disk once.

    The last nights are left for faults that came too late.
    """
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    found = [*FAULTS * max(1, n_nights // 25), DISK]
    draws.shuffle(found)
    nights = sorted(draws.sample(range(2, max(n_nights - 3, len(found) + 2)), len(found)))
    return dict(zip(nights, found, strict=True))


def run(soak: Soak, n_nights: int, seed: int = 7, first: int = 1) -> None:
    """Run all nights, from the first one that is missing."""
    soak.prepare()
    due, waiting, usual, missed = plan(seed, n_nights), [], 15.0, 0
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    for number in range(first, n_nights + 1):
        soak.change(number)
        waiting += [due[number]] if number in due else []
        # The last night must be an undisturbed one.
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
            soak.clean()
        soak.measure(night)
        soak.nights.append(night)
        with (soak.folder / "nights.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(night)) + "\n")


def full_disk_night(soak: Soak, number: int) -> Night:
    """Run a night whose store is on a disk with no space for anything new."""
    disk = soak.folder / "disk"
    write_comments(soak.folder / "comments.csv", 1000 + number)  # a new set must be written
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"0" * 4096):
            pass
    night = soak.night(number, None, 0)
    (disk / "ballast").unlink()
    if "disk is full" in night.said or "No space left" in night.said:
        night.fault = DISK
    return night


def _run_night(folder: Path, result: Path) -> None:
    be_quiet(result.with_suffix(".log"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent)])
    places = [str(folder / one) for one in ("soak.yaml", "nights", "disk/store")]
    settings = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    try:
        with temporary_settings(settings):
            state: Any = nightly(*places, return_state=True)
        if state.is_completed():
            found = [state.name, state.message]
        else:
            error = state.result(raise_on_failure=False)
            said = describe_disk_error(error, {"store": Path(places[2])}) if error else None
            found = ["failed", f"{state.name}: {state.message} {said or ''}".strip()]
    except BaseException as error:  # noqa: BLE001 - each end of a night is looked at
        said = describe_disk_error(error, {"store": Path(places[2])})
        found = ["failed", said or f"{type(error).__name__}: {error}"]
    result.write_text(json.dumps(found), "utf-8")
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
    rows = [f"{seed}-{at},{','.join(map(str, one))}" for at, one in enumerate(comments(seed, 300))]
    file.write_text("\n".join(["id,text,label,gay,muslim", *rows]), "utf-8")


def register(folder: Path, number: int, noise: float) -> None:
    """Register a new version, whose training labels are wrong in a share of rows."""
    rows = comments(10_000 + number, 400)
    wrong = np.random.default_rng(number).random(len(rows)) < noise
    labels = np.array([one[1] for one in rows]) ^ wrong
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model.fit([one[0] for one in rows], labels)
    place = folder / "models" / str(number)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    save_classifier(model, place, [one[0] for one in rows])
    client = MlflowClient()
    found = client.get_experiment_by_name("training")
    experiment = found.experiment_id if found else client.create_experiment("training")
    run_id = client.create_run(experiment).info.run_id
    client.log_artifacts(run_id, str(place), "model")
    client.set_terminated(run_id)
    if not client.search_registered_models(f"name = '{MODEL}'"):
        client.create_registered_model(MODEL)
    source = f"{client.get_run(run_id).info.artifact_uri}/model"
    tags = {"stage": "candidate"}
    client.create_model_version(MODEL, source, run_id=run_id, tags=tags)


# ------------------------------------------------------------------ what is left


def left_running(soak: Soak) -> list[str]:
    """Return runs that are not ended, in MLflow and in Prefect."""
    client = MlflowClient()
    experiments = [one.experiment_id for one in client.search_experiments()]
    found = client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=1000)
    names = [f"MLflow: {one.info.run_name}" for one in found]
    not_ended = ["RUNNING", "PENDING", "CANCELLING"]
    api = {PREFECT_API_URL: soak.stack.environment()["PREFECT_API_URL"]}
    with temporary_settings(api), get_client(sync_client=True) as prefect:
        wanted = FlowRunFilter.model_validate({"state": {"type": {"any_": not_ended}}})
        names += [f"Prefect: {one.name}" for one in prefect.read_flow_runs(flow_run_filter=wanted)]
    return names


def downloads(soak: Soak) -> Counter[str]:
    """Return how often MLflow's server was asked for the weights of each run's model."""
    log = (soak.folder / "stack" / "logs" / "mlflow.log").read_text("utf-8", "replace")
    asked = re.findall(r'"GET \S*/([0-9a-f]{32})/artifacts/model/model\.skops\S* HTTP\S+ 200', log)
    return Counter(asked)


def promotions(soak: Soak) -> Counter[str]:
    """Return how often each version was promoted."""
    said = json.loads(soak.command("history", MODEL, "--json", "--store", str(soak.store)))
    return Counter(str(one.get("version")) for one in said if one["action"] == "promotion")


def versions(soak: Soak) -> dict[str, tuple[str, int]]:
    """Return each version's run with its number and how often it was promoted."""
    promoted = promotions(soak)
    found = MlflowClient().search_model_versions(f"name = '{MODEL}'")
    return {one.run_id: (one.version, promoted[str(one.version)]) for one in found}


def remembered(soak: Soak) -> list[dict[str, Any]]:
    """Return the nights of `biasgate trend`."""
    store = ["--store", str(soak.store)]
    return list(json.loads(soak.command("trend", NAME, "--nights", "365", "--json", *store)))


def report(soak: Soak) -> dict[str, Any]:
    """Return the figures of a soak."""
    nights = soak.nights
    known = versions(soak)
    return {
        "nights": len(nights),
        "ended": dict(Counter(one.ended for one in nights)),
        "faults": dict(Counter(one.fault for one in nights if one.fault)),
        "disturbed": {f"{one.number} {one.fault}": one.ended for one in nights if one.fault},
        "minutes": round(sum(one.seconds for one in nights) / 60, 1),
        "size": [one.size for one in nights],
        "pinned": [one.pinned for one in nights],
        "trend": len(remembered(soak)),
        "running": left_running(soak),
        "downloads": [(*known.get(key, ("?", 0)), n) for key, n in downloads(soak).items()],
    }


def main() -> None:
    """Run a soak and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nights", type=int, default=50)
    options = parser.parse_args()
    stack = Stack(options.folder.resolve() / "stack", say=lambda text: print(text, flush=True))
    stack.up()
    os.environ.update(stack.environment())
    soak = Soak(options.folder.resolve(), stack)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(soak.folder / "disk")]
    (soak.folder / "disk").mkdir(exist_ok=True)
    subprocess.run(mount, check=True)
    try:
        run(soak, options.nights)
        print(json.dumps(report(soak), indent=1))
    finally:
        subprocess.run(["umount", "-l", str(soak.folder / "disk")], check=False)
        stack.down()


if __name__ == "__main__":
    main()
