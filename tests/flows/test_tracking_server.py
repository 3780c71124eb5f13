"""A tracking server over HTTP instead of the local store: the same results, the same gate."""

import dataclasses
import shutil

import pytest

pytestmark = pytest.mark.slow


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
