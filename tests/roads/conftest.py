"""Inputs in every form, a registered model, and the command in this process."""

import logging
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import road_rows
from support.roads import SHARED, candidate_of
from support.scorers import listening, serving
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.data.civil_comments import IDENTITIES


@dataclass(frozen=True)
class Inputs:
    """Comments in every form, in a folder and below an address."""

    folder: Path
    url: str
    rows: dict[str, list[dict[str, Any]]]
    identities: list[str]


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("inputs"), road_rows.comments()
    road_rows.write_release(folder, rows)
    road_rows.write_tables(folder, rows)
    with listening(partial(_Files, directory=str(folder))) as url:
        yield Inputs(folder, url, rows, list(IDENTITIES))


@pytest.fixture(scope="session")
def served():
    """The address of a model that somebody serves."""
    with serving() as address:
        yield address


@pytest.fixture(scope="session")
def road_store(tmp_path_factory):
    return tmp_path_factory.mktemp("roads-store")


@pytest.fixture(scope="session")
def biasgate(road_store, prefect_server):
    """Run the command in this process, on one store, without a word of Prefect."""
    del prefect_server
    loggers = [
        logging.getLogger(one) for one in ("prefect", "prefect.flow_runs", "prefect.task_runs")
    ]

    def biasgate(*arguments):
        given = [*map(str, arguments), "--store", str(road_store)]
        with pytest.MonkeyPatch.context() as patch:
            for logger in loggers:
                patch.setattr(logger, "disabled", True)
            return CliRunner().invoke(app, given)

    return biasgate


@pytest.fixture(scope="session")
def shared_model(biasgate, inputs, tmp_path_factory):
    """Train a model, and make it champion of its name: on another set, by another evaluation."""
    folder = tmp_path_factory.mktemp("shared")
    road = {"rows_a_shard": "default", "score_file": "csv"}
    trained = candidate_of("tfidf", road, inputs, "") | {"name": "first", "max_features": 1000}
    rows = {"name": "phrases", "source": "templates", "terms": ["gay"], "rows_per_term": 40}
    rules = [{"metric": "auc", "scope": "overall", "floor": 0.01}]
    policy = {"version": 1, "name": "lenient", "allow_first": True, "rules": rules}
    content = {"name": SHARED, "registered_model": SHARED, "candidates": [trained]}
    content |= {"evaluation_sets": [rows], "policy": "lenient.yaml"}
    (folder / "lenient.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    (folder / "shared.yaml").write_text(yaml.safe_dump(content), "utf-8")
    done = biasgate("evaluate", folder / "shared.yaml", "--output", folder / "out")
    assert done.exit_code == 0, done.output + done.stderr


@pytest.fixture(scope="session")
def encoder(inputs):
    """A tiny transformer, in the folder of the inputs."""
    pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
    from support.encoders import save  # noqa: PLC0415 - needs torch

    return save(inputs.folder / "encoder", {0: "neutral", 1: "toxic"})
