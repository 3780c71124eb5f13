"""The folder that the pages describe, with the results of two evaluations in it."""

import logging
import shutil

import mlflow
import pytest
import yaml
from support.pages import trained, write_scene
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.scoring.kinds import hugging_face


@pytest.fixture
def biasgate(scene):
    """Run the command in this process, in the pages' folder."""
    del scene
    return lambda *arguments: CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="session")
def judged(tmp_path_factory, prefect_server):
    """A folder in which two versions of `toxicity` became champion, one after the other."""
    del prefect_server
    folder = tmp_path_factory.mktemp("pages")
    write_scene(folder)
    whole = yaml.safe_load((folder / "whole.yaml").read_text("utf-8"))
    # The second is another model: it learns from characters too.
    first = trained("words", word_ngrams=[1, 1], max_features=40)
    second = trained("my_model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # where MLflow makes the folder of its default experiment
        for candidate in (first, second):
            (folder / "judged.yaml").write_text(yaml.safe_dump(whole | {"candidates": [candidate]}))
            done = CliRunner().invoke(app, ["evaluate", "judged.yaml", "--output", "out"])
            assert done.exit_code == 0, done.output + done.stderr
    return folder


@pytest.fixture
def scene(judged, tmp_path, monkeypatch):
    """A copy of that folder, as the folder to work in."""
    folder = tmp_path / "pages"
    shutil.copytree(judged, folder)
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    # Blocks with a transformer are only checked: an installation without torch runs them too.
    monkeypatch.setattr(hugging_face, "find_spec", lambda library: library)
    monkeypatch.delenv("BIASGATE_STORE", raising=False)
    for name in ("APPRISE_URLS", "HOOK_URL", "SLACK_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/hook")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    yield folder
    mlflow.set_tracking_uri(None)  # a page's script sets it
