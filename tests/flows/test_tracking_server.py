"""A tracking server over HTTP instead of the local store: the same results, the same gate."""

import dataclasses
import shutil
import socket

import pytest
import yaml

from biasgate.flows.evaluate import evaluate
from biasgate.tasks.common.errors import ServerError


@pytest.mark.slow
@pytest.mark.usefixtures("mlflow_server")
def test_a_server_gets_runs_artifacts_and_the_champion(world, tmp_path):
    folder = tmp_path / "world"
    shutil.copytree(world.folder, folder, ignore=shutil.ignore_patterns("store", "output"))
    remote = dataclasses.replace(world, folder=folder)
    first = remote.evaluate("first")
    assert first.registry == {"champion": "1", "versions": 1}
    assert {run.info.status for run in remote.runs()} == {"FINISHED"}
    found = {path.name for path in (tmp_path / "artifacts").rglob("*") if path.is_file()}
    assert found >= {"report.json", "verdict.json", "heatmap.png", "model.skops"}
    assert not (remote.store / "mlflow.db").exists()
    champion = {"name": "champion", "kind": "mlflow", "model": "models:/toxicity@champion"}
    again = remote.evaluate("again", candidates=[champion])
    one, other = (
        result.read(f"comments/{name}/report.json")["bias"]
        for result, name in ((first, "words"), (again, "champion"))
    )
    assert one == other


@pytest.mark.parametrize("variable", ["MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"])
def test_a_server_that_is_gone_is_refused_before_anything_is_scored(
    variable, world, tmp_path, monkeypatch
):
    """Nothing else asks for it before: the scores are in a file, and no model is registered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv(variable, f"http://127.0.0.1:{probe.getsockname()[1]}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("BIASGATE_MLFLOW_WAIT_S", "0")
    rows = {"name": "rows", "source": "table", "path": str(world.folder / "test.csv")}
    scores = {"name": "filed", "kind": "scores", "path": str(world.folder / "shifted.csv")}
    content = {
        "name": "gone",
        "evaluation_sets": [rows | {"text": "comment", "terms": ["gay", "muslim"]}],
        "candidates": [scores],
        "policy": str(world.folder / "fair.yaml"),
    }
    config, store = tmp_path / "gone.yaml", tmp_path / "store"
    config.write_text(yaml.safe_dump(content), "utf-8")
    state = evaluate(str(config), str(tmp_path / "output"), str(store), return_state=True)
    with pytest.raises(ServerError, match="does not answer"):
        state.result()
    assert not (store / "sets").exists()
    assert not (store / "scores").exists()
