"""A tracking server over HTTP gives the same results and verdicts as the local store."""

import base64
import dataclasses
import json
import shutil
import socket
import zlib
from pathlib import Path

import pytest
import yaml
from support.blocks import blocks_of

from biasgate.flows.evaluate import evaluate
from biasgate.tasks.common.errors import ServerError

from .conftest import ROWS

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "operate.md"
DOCS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


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
    local, remote = (
        result.read(f"comments/{name}/report.json")["bias"]
        for result, name in ((first, "words"), (again, "champion"))
    )
    assert local == remote


@pytest.mark.slow
@pytest.mark.usefixtures("mlflow_server")
def test_each_query_of_the_guide_finds_what_it_says_on_a_server(world, tmp_path):
    """The second set, next to `news`, is a set without bias."""
    folder = tmp_path / "world"
    shutil.copytree(world.folder, folder, ignore=shutil.ignore_patterns("store", "output"))
    remote = dataclasses.replace(world, folder=folder)
    sets = [
        ROWS | {"name": "news"},
        ROWS | {"name": "posts", "terms": ["muslim", "deaf"], "required": False},
    ]
    policy = yaml.safe_load((folder / "fair.yaml").read_text())
    policy["rules"] = [{"metric": "auc", "scope": "overall", "floor": 0.5, "mode": "estimate"}]
    (folder / "lax.yaml").write_text(yaml.safe_dump(policy))
    result = remote.evaluate("toxicity", name="toxicity", evaluation_sets=sets, policy="lax.yaml")
    [block] = [block for block in blocks_of(GUIDE) if "search_" in block.content]
    assert sum(path.read_text("utf-8").count("client.search_") for path in DOCS) == 3
    names = {}
    exec(compile(block.content, "guide", "exec"), names)  # noqa: S102 - our own page
    found = {key: [run.info.run_name for run in names[key]] for key in ("runs", "unfair_runs")}
    assert set(found["runs"]) == {"words on news", "shifted on news"}
    assert found["unfair_runs"] == ["shifted on news"]
    [unfair] = names["unfair_models"]
    assert unfair.name == "shifted"
    of_news = {
        metric.key: metric.value for metric in unfair.metrics if metric.dataset_name == "news"
    }
    assert of_news == result.run("shifted on news").data.metrics
    assert of_news["bpsn_auc/gay"] < 0.6
    # On the other set nothing is unfair to them, so that the query's set is heeded.
    changed = block.content.replace("'news'", "'posts'").replace("bpsn_auc/gay", "auc/overall")
    exec(compile(changed, "guide", "exec"), names)  # noqa: S102 - our own page
    assert {run.info.run_name for run in names["runs"]} == {"words on posts", "shifted on posts"}
    assert names["unfair_models"] == []
    views = [
        json.loads(text)
        for key, text in names["client"].get_experiment(names["experiment"]).tags.items()
        if key.startswith("mlflow.sharedViewState.")
    ]
    packed = [view["state"].removeprefix("deflate;") for view in views if "state" in view]
    states = [json.loads(zlib.decompress(base64.b64decode(state))) for state in packed]
    filters = [state["searchFilter"] for state in states if state.get("searchFilter")]
    assert len(filters) == 2
    everything = {*found["runs"], "words on posts", "shifted on posts"}
    for condition in filters:
        shown = names["client"].search_runs([names["experiment"]], condition)
        assert {run.info.run_name for run in shown} == everything


@pytest.mark.parametrize("variable", ["MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"])
def test_a_server_that_is_gone_is_refused_before_anything_is_scored(
    variable, world, tmp_path, monkeypatch
):
    """The first request: scores are in a file, and models are not registered."""
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
