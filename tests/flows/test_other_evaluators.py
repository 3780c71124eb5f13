"""Runs of inspect_ai judged beside one of lm-evaluation-harness: paired, clustered, to a verdict.

The logs have the keys that inspect_ai 0.3 and lm-eval 0.4 write. Where both are installed, they
also write logs themselves, inspect_ai those of the example for it.
"""

import gc
import json
import math
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from support.evaluations import run

from bias_metrics import evaluate_bias

metrics = pytest.importorskip("sklearn.metrics")

N, N_CLUSTERS = 400, 50
pytestmark = pytest.mark.evaluates
CANDIDATES = {"same": 0.0, "worse": 0.15}
"""How much higher each one scores harmless comments that mention gay people."""
RULES = [
    {"metric": "auc", "scope": "overall", "floor": 0.75, "margin": 0.1},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.65, "margin": 0.08},
]
EVALUATION = {
    "name": "logs",
    "evaluation_sets": [
        {
            "name": "comments",
            "source": "table",
            "path": "same.json",
            "label": "metadata.label",
            "identities": {"gay": "metadata.gay"},
            "cluster": "metadata.article",
        }
    ],
    "champion": {
        "name": "old",
        "kind": "lm_eval_samples",
        "path": "old.jsonl",
        "id": "doc.id",
        "choice": 1,
    },
    "candidates": [
        {"name": name, "kind": "inspect_log", "path": f"{name}.json", "scorer": "toxicity"}
        for name in CANDIDATES
    ],
    "policy": "own.yaml",
}


class Comments:
    """Comments of articles, whose toxic and harmless ones are alike, and the scores of models."""

    def __init__(self, seed=5):
        rng = np.random.default_rng(seed)
        self.article = np.arange(N) % N_CLUSTERS
        self.toxic, self.gay = rng.random(N) < 0.4, rng.random(N) < 0.35
        alike = rng.normal(0, 0.12, (2, N_CLUSTERS))[self.toxic.astype(int), self.article]
        shared = 0.3 + 0.3 * self.toxic + alike + rng.normal(0, 0.06, N)
        self.scores = {
            name: np.clip(
                np.round(shared + rng.normal(0, 0.02, N) + more * (self.gay & ~self.toxic), 4),
                0.01,
                0.99,
            )
            for name, more in ({"old": 0.0} | CANDIDATES).items()
        }

    def metadata(self, at):
        return {
            "label": int(self.toxic[at]),
            "gay": bool(self.gay[at]),
            "article": f"a{self.article[at]}",
        }

    def lm_eval(self, name):
        """Lines of a multiple-choice task whose second choice is toxic."""
        for at, score in enumerate(self.scores[name].tolist()):
            answers = [[str(math.log(one) - 7), "False"] for one in (1 - score, score)]
            yield {
                "doc_id": at,
                "doc": {"id": f"c{at}", "text": f"comment {at}"} | self.metadata(at),
                "filtered_resps": answers,
                "filter": "none",
            }

    def inspect(self, name):
        """A log, with its samples in an order of their own."""
        samples = [
            {
                "id": f"c{at}",
                "epoch": 1,
                "input": f"comment {at}",
                "target": "toxic" if self.toxic[at] else "harmless",
                "metadata": self.metadata(at),
                "scores": {"toxicity": {"value": float(self.scores[name][at])}},
            }
            for at in np.random.default_rng(1).permutation(N).tolist()
        ]
        told = {"created": "2026-11-25T00:00:00+00:00", "task": "t", "model": "mockllm/model"}
        told |= {"dataset": {}, "config": {}}
        return {"version": 2, "status": "success", "eval": told, "samples": samples}


def written(comments):
    """Write logs as those evaluators do."""
    Path("old.jsonl").write_text("\n".join(map(json.dumps, comments.lm_eval("old"))), "utf-8")
    for name in CANDIDATES:
        Path(f"{name}.json").write_text(json.dumps(comments.inspect(name)), "utf-8")


def measured(comments):
    """Let those evaluators run on models that answer with the scores."""
    pytest.importorskip("inspect_ai")
    pytest.importorskip("lm_eval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What they warn of, and leave open, is theirs.
        measured_by_lm_eval(comments, "old")
        for name in CANDIDATES:
            measured_by_inspect(comments, name)
        gc.collect()


def measured_by_inspect(comments, name):
    """Run the example for inspect_ai with its mock model."""
    import inspect_ai  # noqa: PLC0415
    from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: PLC0415
    from inspect_bias import inspect_bias  # noqa: PLC0415

    def answer(asked, *_):
        at = int(asked[-1].text.split()[-1])
        said = ModelOutput.from_content("mockllm/model", f"{comments.scores[name][at]}")
        # Otherwise it counts tokens by a table from the network.
        said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return said

    kept = ("id", "input", "target", "metadata")
    samples = [{key: one[key] for key in kept} for one in comments.inspect(name)["samples"]]
    Path("comments.jsonl").write_text("\n".join(map(json.dumps, samples)), "utf-8")
    [log] = inspect_ai.eval(
        inspect_bias(dataset="comments.jsonl"),
        model=get_model("mockllm/model", custom_outputs=answer),
        log_dir="logs",
        log_format="json",
        display="none",
    )
    assert log.status == "success", log.error
    Path(log.location.removeprefix("file://")).rename(f"{name}.json")


def measured_by_lm_eval(comments, name):
    """Run a multiple-choice task."""
    import lm_eval  # noqa: PLC0415
    from datasets import Dataset  # noqa: PLC0415
    from lm_eval.api.model import LM  # noqa: PLC0415
    from lm_eval.loggers import EvaluationTracker  # noqa: PLC0415

    class Answers(LM):
        def loglikelihood(self, requests):
            asked = [one.args for one in requests]
            scores = [comments.scores[name][int(text.split()[-1])] for text, _ in asked]
            shares = [
                score if choice == " toxic" else 1 - score
                for score, (_, choice) in zip(scores, asked, strict=True)
            ]
            return [(math.log(share) - 7, False) for share in shares]

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

        generate_until = loglikelihood_rolling

    rows = Dataset.from_list([line["doc"] for line in comments.lm_eval(name)])
    task = {
        "task": "toxicity",
        "custom_dataset": lambda **_: {"test": rows},
        "output_type": "multiple_choice",
        "test_split": "test",
        "doc_to_text": "{{text}}",
        "doc_to_choice": ["harmless", "toxic"],
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    tracker = EvaluationTracker(output_path="lm_eval")
    found = lm_eval.simple_evaluate(
        Answers(), tasks=[task], log_samples=True, evaluation_tracker=tracker
    )
    tracker.save_results_aggregated(found, samples=found["samples"])
    tracker.save_results_samples("toxicity", found["samples"]["toxicity"])
    [file] = Path("lm_eval").rglob("samples_*.jsonl")
    file.rename(f"{name}.jsonl")


@pytest.fixture(scope="module", params=[written, measured], ids=["written", "measured"])
def judged(request, tmp_path_factory, prefect_server):
    """The comments; logs by candidate; what the command said, and its reports and verdicts."""
    del prefect_server
    comments = Comments()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("logs"))
        request.param(comments)
        policy = {"version": 1, "name": "own", "rules": RULES}
        Path("own.yaml").write_text(yaml.safe_dump(policy), "utf-8")
        Path("logs.yaml").write_text(yaml.safe_dump(EVALUATION), "utf-8")
        code, text = run("evaluate", "logs.yaml", "--output", "out", "--store", "store")

        def read(file):
            return {
                name: json.loads(Path(file.format(name)).read_text("utf-8")) for name in CANDIDATES
            }

        yield SimpleNamespace(
            comments=comments,
            logs=read("{}.json"),
            code=code,
            text=text,
            reports=read("out/comments/{}/report.json"),
            verdicts=read("out/comments/{}/verdict.json"),
        )


def test_the_same_passes_and_the_worse_is_blocked(judged):
    assert judged.code == 3, judged.text
    outcomes = {name: verdict["outcome"] for name, verdict in judged.verdicts.items()}
    assert outcomes == {"same": "pass", "worse": "fail"}
    assert {verdict["champion"]["name"] for verdict in judged.verdicts.values()} == {"old"}
    failed = [one for one in judged.verdicts["worse"]["results"] if one["outcome"] == "fail"]
    assert {(one["kind"], one["metric"], one["group"]) for one in failed} == {
        ("champion", "bpsn_auc", "gay")
    }


def aucs(comments, name):
    """The AUCs by scikit-learn."""
    toxic, gay, scores = comments.toxic, comments.gay, comments.scores[name]
    compared = {
        "auc": np.ones_like(toxic),
        "subgroup_auc": gay,
        "bpsn_auc": gay != toxic,
        "bnsp_auc": gay == toxic,
    }
    return {
        metric: metrics.roc_auc_score(toxic[mask], scores[mask])
        for metric, mask in compared.items()
    }


def test_every_auc_is_that_of_scikit_learn(judged):
    old = aucs(judged.comments, "old")
    for name, report in judged.reports.items():
        expected, bias = aucs(judged.comments, name), report["bias"]
        cells = {"auc": bias["overall"]["auc"]} | bias["subgroups"]["gay"]
        for metric, value in expected.items():
            assert cells[metric]["value"] == pytest.approx(value, abs=1e-12)
        for one in judged.verdicts[name]["results"]:
            assert one["value"] == pytest.approx(expected[one["metric"]], abs=1e-12)
            if one["kind"] == "champion":
                assert one["rival"] == pytest.approx(old[one["metric"]], abs=1e-12)


def test_errors_are_those_of_whole_articles_and_not_of_rows(judged):
    """The delete-one jackknife of scikit-learn's AUC, over articles."""
    comments = judged.comments
    rows = [comments.article != one for one in range(N_CLUSTERS)]
    with_toxic = np.unique(comments.article[comments.toxic]).size
    for name, report in judged.reports.items():
        scores = comments.scores[name]
        left = [metrics.roc_auc_score(comments.toxic[kept], scores[kept]) for kept in rows]
        error = math.sqrt((N_CLUSTERS - 1) * np.var(left))
        cell = report["bias"]["overall"]["auc"]
        assert cell["std_error"] == pytest.approx(error, rel=0.02)
        assert cell["row_std_error"] < 0.6 * error
        results = judged.verdicts[name]["results"]
        assert {one["n_clusters"] for one in results if one["metric"] == "auc"} == {with_toxic}


def test_a_candidate_is_compared_with_the_champion_comment_by_comment(judged):
    """Both err on the same articles: their difference is known better than either of them."""
    width = {
        one["kind"]: one["high"] - one["low"]
        for one in judged.verdicts["same"]["results"]
        if one["metric"] == "auc"
    }
    assert 0 < width["champion"] < width["floor"] / 2


@pytest.mark.parametrize("judged", [measured], ids=["measured"], indirect=True)
def test_the_metrics_of_the_example_are_those_of_the_library(judged):
    comments = judged.comments
    for name, log in judged.logs.items():
        [told] = [one["metrics"] for one in log["results"]["scores"]]
        found = evaluate_bias(comments.toxic, comments.scores[name], {"gay": comments.gay})
        for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
            cell = getattr(found.subgroups["gay"], metric)
            for part in ("", "_low", "_high"):
                expected = getattr(cell, part.removeprefix("_") or "value")
                assert told[f"{metric}_gay{part}"]["value"] == pytest.approx(expected)
        assert "subgroup_auc_muslim" not in told


def test_inspect_ai_reads_what_is_written_here(tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    comments = Comments()
    (tmp_path / "same.json").write_text(json.dumps(comments.inspect("same")), "utf-8")
    read = log.read_eval_log(str(tmp_path / "same.json"))
    scores = {one.id: one.scores["toxicity"].value for one in read.samples}
    assert [scores[f"c{at}"] for at in range(N)] == comments.scores["same"].tolist()
