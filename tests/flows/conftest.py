"""A small evaluation of a trained model and a file of scores, run once per test module.

A shared evaluation would make tests depend on the modules that ran before in the process.
"""

import csv
import json
import logging
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from biasgate.flows.evaluate import evaluate
from biasgate.tasks.mlflow_server.runs import Gateway

HOSTILE = ["awful", "stupid", "rotten", "vile", "foul", "nasty"]
FRIENDLY = ["kind", "decent", "lovely", "honest", "gentle", "warm"]
PLAIN = ["neighbour", "talk", "street", "morning", "letter", "people", "again", "house", "story"]
IDENTITIES = ["gay", "muslim", "deaf"]
MODEL = "toxicity"

ROWS = {"source": "table", "path": "test.csv", "text": "comment", "terms": IDENTITIES}
TRAINING = {"name": "training", "source": "table", "path": "train.csv", "text": "comment"}
TRAINED = {"name": "words", "kind": "tfidf", "train_on": TRAINING | {"terms": IDENTITIES}}
SHIFTED = {"name": "shifted", "kind": "scores", "path": "shifted.csv"}
EVALUATION = {
    "name": "small",
    "registered_model": MODEL,
    # Nothing toxic mentions `deaf`, so that some of its numbers are undefined.
    "evaluation_sets": [ROWS | {"name": "comments", "power_mean_groups": ["gay", "muslim"]}],
    "candidates": [TRAINED, SHIFTED],
    "policy": "fair.yaml",
}


@dataclass(frozen=True)
class World:
    """Inputs and store of the evaluations."""

    folder: Path
    rows: list[dict[str, Any]]
    shifted: dict[str, float]

    @property
    def store(self):
        return self.folder / "store"

    @property
    def candidate(self):
        """Settings of `words`."""
        return TRAINED

    @property
    def gateway(self):
        return Gateway.from_store(self.store)

    def aliases(self):
        """Return the version of each alias, and the number of versions."""
        versions = self.gateway.client.search_model_versions(f"name = '{MODEL}'")
        found = {
            name: self.gateway.get_alias(MODEL, name) for name in ("champion", "previous_champion")
        }
        named = {name: version.version for name, version in found.items() if version is not None}
        return named | {"versions": len(versions)}

    def runs(self, condition=""):
        """Return all MLflow runs, newest first."""
        experiments = [
            experiment.experiment_id for experiment in self.gateway.client.search_experiments()
        ]
        return list(self.gateway.client.search_runs(experiments, condition))

    def evaluate(self, name, /, **changes):
        """Evaluate EVALUATION with some changes; return also failures as results."""
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(EVALUATION | changes), "utf-8")
        output = self.folder / "output" / name
        before = {run.info.run_id for run in self.runs()}
        places = str(config), str(output), str(self.store)
        state = evaluate(*places, return_state=True)
        new = [run for run in self.runs() if run.info.run_id not in before]
        return Result(state, output, new, self.aliases())


@dataclass(frozen=True)
class Result:
    """Results of an evaluation, and the registry right after it."""

    state: Any
    output: Path
    runs: list[Any]
    registry: dict[str, Any]

    def read(self, name):
        return json.loads((self.output / name).read_text("utf-8"))

    def run(self, name):
        [found] = [run for run in self.runs if run.info.run_name == name]
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory, prefect_server):
    del prefect_server
    folder = tmp_path_factory.mktemp("world")
    draws = random.Random(20)  # noqa: S311 - not for secrets
    _write_table(folder / "train.csv", _comments(draws, "train", 300))
    rows = _comments(draws, "test", 240)
    _write_table(folder / "test.csv", rows)
    shifted = {row["id"]: _shifted_score(row, draws) for row in rows}
    pairs = [{"id": key, "prediction": repr(score)} for key, score in shifted.items()]
    _write_table(folder / "shifted.csv", pairs)
    _write_policy(folder / "fair.yaml", floor=0.7)
    _write_policy(folder / "unreachable.yaml", floor=1.0, metric="subgroup_auc", ceiling=0.0001)
    _write_policy(folder / "many_rows.yaml", floor=0.7, min_positives=10_000)
    return World(folder, rows, shifted)


@pytest.fixture(scope="module")
def logged():
    """All log records of this process from here on."""
    lines = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: lines.append(record.getMessage())
    names = [None, "prefect", "biasgate.steps", "mlflow"]
    for name in names:
        logging.getLogger(name).addHandler(handler)
    yield lines
    for name in names:
        logging.getLogger(name).removeHandler(handler)


@pytest.fixture(scope="module")
def first(world, logged):
    """The first evaluation: `words` passes and becomes champion, `shifted` is blocked."""
    del logged
    return world.evaluate("first")


def _comments(draws, part, n_rows):
    """Return comments, each with a unique mark."""
    rows = []
    for number in range(n_rows):
        toxic = number % 2 == 1
        mention = [None, "gay", "muslim"][draws.randrange(3)]
        if number % 40 == 0:
            mention = "deaf"
        words = draws.sample(PLAIN, 4)
        # One in eight is worded against its label: a task that is neither trivial nor noise.
        unlike = draws.random() < 0.125
        words.append(draws.choice(HOSTILE if toxic != unlike else FRIENDLY))
        mark = f"{draws.getrandbits(60):015x}"
        text = " ".join([*words, *([mention] if mention else []), mark])
        row = {"id": f"{part}-{number}", "comment": text, "label": int(toxic)}
        rows.append(row | {"mark": mark, "mention": mention})
    return rows


def _shifted_score(row, draws):
    """Return a good score, except that harmless mentions of `gay` look toxic."""
    if row["mention"] == "gay" and not row["label"]:
        return 0.7 + 0.3 * draws.random()
    return 0.35 * row["label"] + 0.5 * draws.random()


def _write_table(path, rows):
    names = [name for name in rows[0] if name not in {"mark", "mention"}]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def _write_policy(path, *, floor, metric="bpsn_auc", ceiling=0.4, min_positives=5):
    demand = {"scope": ["gay", "muslim"], "min_positives": min_positives, "min_negatives": 5}
    demand |= {"mode": "estimate"}
    rules = [
        {"metric": metric, "floor": floor} | demand,
        {"metric": "negative_aeg", "ceiling": ceiling} | demand,
    ]
    policy = {"version": 1, "name": path.stem, "allow_first": True, "rules": rules}
    path.write_text(yaml.safe_dump(policy), "utf-8")
