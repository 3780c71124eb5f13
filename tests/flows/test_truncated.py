"""Truncated comments are counted, reported, and limited by a policy."""

import json
import logging
import shutil

import mlflow
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from support.evaluations import FILE, POLICY, run, write_inputs

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.encoders import WORDS, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds.transformer import TransformerScorer  # noqa: E402 - after the skip

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PLAIN = [word for word in WORDS if word.startswith("w")]
LIMITED = POLICY + "max_truncated: {each: LIMIT, gap: LIMIT}\n"
N_GAY, N_OTHERS = 90, 3  # truncated


def short(rng, label):
    """Return a comment with the decisive word at its start."""
    words = [*rng.choice(PLAIN, 8)]
    words.insert(rng.integers(len(words)), "vile" if label else "kind")
    return " ".join(words)


def long(rng, label):
    """Return a comment with the decisive word after the sixteenth token."""
    return " ".join([*rng.choice(PLAIN, 20), "vile" if label else "kind"])


def start(folder):
    """Write rows, an encoder, its training rows and policies."""
    write_inputs(folder)
    rng, rows = np.random.default_rng(3), pd.read_csv(folder / "rows.csv")
    gay, others = (np.flatnonzero(rows["gay"] == value) for value in (1, 0))
    is_long = np.isin(np.arange(len(rows)), [*gay[:N_GAY], *others[:N_OTHERS]])
    rows["text"] = [
        (long if cut else short)(rng, label)
        for cut, label in zip(is_long, rows["label"], strict=True)
    ]
    rows.to_csv(folder / "rows.csv", index=False)
    label = rng.integers(0, 2, 400)
    texts = [short(rng, is_toxic) for is_toxic in label]
    training = pd.DataFrame({"id": range(400), "text": texts, "label": label, "gay": 0})
    training.to_csv(folder / "train.csv", index=False)
    encoder = save(folder / "encoder", {0: "a", 1: "b"}, initializer_range=0.05)
    transformers.AutoModel.from_pretrained(encoder).save_pretrained(encoder)
    for limit in ("0.9", "0.3"):
        (folder / f"limited{limit}.yaml").write_text(LIMITED.replace("LIMIT", limit))
    source = {"name": "training", "source": "table", "path": "train.csv", "text": "text"}
    return {
        "name": "tiny",
        "kind": "transformer",
        "folder": "encoder",
        "max_tokens": 16,
        "rows_a_shard": 50,
        "train_on": source | {"identities": ["gay"]},
        "fine_tuning": {"max_epochs": 12, "learning_rate": 0.003, "validation_fraction": 0.25},
    }


def evaluated(name, content):
    with open(f"{name}.yaml", "w", encoding="utf-8") as stream:  # noqa: PTH123
        yaml.safe_dump(content, stream)
    return run("evaluate", f"{name}.yaml", "--output", name, "--store", "store")


@pytest.fixture(scope="module")
def home(tmp_path_factory, prefect_server):
    """A folder with an evaluation of a transformer that reads 16 tokens per comment."""
    del prefect_server
    folder = tmp_path_factory.mktemp("truncated")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        content = yaml.safe_load(FILE) | {"candidates": [start(folder)]}
        done = {"unruled": evaluated("unruled", content)}
        for limit in ("0.9", "0.3"):
            done[limit] = evaluated(limit, content | {"policy": f"limited{limit}.yaml"})
        file = yaml.safe_load(FILE) | {"policy": "limited0.9.yaml"}
        done["file"] = evaluated("file", file)
        yield folder, done


def document(folder, name, what, candidate="tiny"):
    return json.loads((folder / name / "rows" / candidate / what).read_text("utf-8"))


def test_comments_are_counted_by_identity_with_intervals(home):
    folder, done = home
    assert done["unruled"][0] == 0, done["unruled"][1]
    report = document(folder, "unruled", "report.json")
    gay = report["truncated"]["subgroups"]["gay"]
    assert report["truncated"]["overall"]["n_marked"] == N_GAY + N_OTHERS
    assert report["evaluation_set"]["choices"]["n_rows_truncated"] == N_GAY + N_OTHERS
    assert (gay["n_marked"], gay["rate"]["value"]) == (N_GAY, N_GAY / gay["n"])
    others = N_OTHERS / (400 - gay["n"])
    assert gay["gap"]["value"] == pytest.approx(gay["rate"]["value"] - others)
    assert 0.3 < gay["gap"]["low"] < gay["gap"]["value"] < gay["gap"]["high"]
    table = pd.read_csv(folder / "unruled/rows/tiny/bias_metrics.csv")
    assert table[table["group"] == "gay"].set_index("metric").loc["n_truncated", "value"] == N_GAY


def test_the_identity_is_named_wherever_the_outcome_is(home):
    folder, done = home
    _, shown = run("show", "unruled/rows/tiny")
    card = folder / "unruled" / "rows" / "tiny" / "model_card.md"
    page = next((folder / "unruled").rglob("*.html"))
    for text in (done["unruled"][1], shown, card.read_text("utf-8"), page.read_text("utf-8")):
        words = " ".join(text.split())
        assert f"{N_GAY + N_OTHERS} of 400 comments were truncated" in words
        assert "significantly more often so for gay" in words
    _, shown = run("show", "unruled", "--identity", "gay")
    assert f"{N_GAY} of 206 comments truncated (43.7%), 23." in shown


def test_a_limit_that_is_kept_passes_and_one_that_is_not_blocks(home):
    folder, done = home
    assert done["0.9"][0] == 0, done["0.9"][1]
    assert done["0.3"][0] == 3, done["0.3"][1]
    assert "43.7% of comments truncated" in done["0.3"][1]
    results = document(folder, "0.3", "verdict.json")["results"]
    unmet = {
        (check["rule"], check["metric"], check["group"])
        for check in results
        if check["outcome"] == "fail"
    }
    assert unmet == {("max_truncated", name, "gay") for name in ("truncated_rate", "truncated_gap")}


def test_a_candidate_whose_truncation_is_unknown_is_insufficient(home):
    folder, done = home
    assert done["file"][0] == 4, done["file"][1]
    results = document(folder, "file", "verdict.json", "file")["results"]
    [unmet] = [check for check in results if check["outcome"] == "insufficient"]
    assert (unmet["rule"], unmet["reason"]) == ("max_truncated", "truncated_unknown")
    assert (
        "n_rows_truncated"
        not in document(folder, "file", "report.json", "file")["evaluation_set"]["choices"]
    )


def test_mlflow_has_the_shares_by_identity(home):
    folder, _ = home
    gay = document(folder, "unruled", "report.json")["truncated"]["subgroups"]["gay"]
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'store' / 'mlflow.db'}")
    found = [
        run.data.metrics
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id])
        if "truncated_rate/gay" in run.data.metrics
    ]
    assert found[0]["truncated_rate/overall"] == (N_GAY + N_OTHERS) / 400
    assert found[0]["truncated_rate/gay"] == gay["rate"]["value"]
    assert found[0]["truncated_gap/gay"] == gay["gap"]["value"]


def test_the_verdict_is_decided_again_from_the_evidence(home):
    folder, _ = home
    rows = pq.read_table(folder / "0.9/rows/tiny/evidence.parquet")
    assert sum(rows["truncated"].to_pylist()) == N_GAY + N_OTHERS
    for name, outcome in (("0.9", "pass"), ("0.3", "fail")):
        _, text = run("verify", f"./{name}")
        assert f"reproduces it ({outcome})" in text


def test_a_run_that_ended_between_parts_reports_the_same_numbers_when_resumed(home):
    folder, _ = home
    shutil.rmtree(folder / "store" / "scores")
    score, scored = TransformerScorer.score, []

    def ending(self, rows):
        if len(scored) == 3:
            raise ConnectionError
        scored.append(rows)
        return score(self, rows)

    def counted(self, rows):
        scored.append(rows)
        return score(self, rows)

    again = ("evaluate", "unruled.yaml", "--output", "resumed", "--store", "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransformerScorer, "score", ending)
        assert run(*again)[0] == 1
        assert len(list((folder / "store" / "scores").rglob("0*.parquet"))) == 3
        patch.setattr(TransformerScorer, "score", counted)
        code, text = run(*again)
    assert code == 0, text
    assert sum(rows.num_rows for rows in scored) == 400
    found, first = (document(folder, name, "report.json") for name in ("resumed", "unruled"))
    assert found["truncated"] == first["truncated"]
