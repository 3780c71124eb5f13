"""Scores in nested JSON lines, as other evaluators write them, are paired, clustered and judged."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from support.cells import cell
from support.evaluations import run

metrics = pytest.importorskip("sklearn.metrics")

N, N_CLUSTERS = 400, 50
ORDER = range(N - 1, -1, -1)
pytestmark = pytest.mark.evaluates
CANDIDATES = {"same": 0.0, "worse": 0.15}
"""How much higher each one scores harmless comments that mention gay people."""
RULES = [
    {"metric": "auc", "scope": "overall", "floor": 0.75, "margin": 0.1},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.65, "margin": 0.08},
]


def settings(name):
    return {
        "name": name,
        "kind": "scores",
        "path": f"{name}.jsonl",
        "id": "sample.id",
        "score": "scores.toxicity",
    }


EVALUATION = {
    "name": "rows",
    "evaluation_sets": [
        {
            "name": "comments",
            "source": "table",
            "path": "comments.jsonl",
            "label": "metadata.label",
            "identities": {"gay": "metadata.gay"},
            "cluster": "metadata.article",
        }
    ],
    "champion": settings("old"),
    "candidates": [settings(name) for name in CANDIDATES],
    "policy": "own.yaml",
}


class Comments:
    """Comments that are similar within an article, and the scores of models."""

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

    def write(self):
        """Write the comments, and the answers of each model in a separate order."""
        rows = [{"id": f"c{at}", "metadata": self.metadata(at)} for at in range(N)]
        write_lines("comments.jsonl", rows)
        for name, scores in self.scores.items():
            write_lines(
                f"{name}.jsonl",
                [{"sample": {"id": f"c{at}"}, "scores": {"toxicity": scores[at]}} for at in ORDER],
            )


def write_lines(path, rows):
    Path(path).write_text("\n".join(map(json.dumps, rows)), "utf-8")


@pytest.fixture(scope="module")
def judged(tmp_path_factory, prefect_server):
    """Comments, printed text, and reports and verdicts by candidate."""
    del prefect_server
    comments = Comments()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("rows"))
        comments.write()
        policy = {"version": 1, "name": "own", "rules": RULES}
        Path("own.yaml").write_text(yaml.safe_dump(policy), "utf-8")
        Path("rows.yaml").write_text(yaml.safe_dump(EVALUATION), "utf-8")
        code, text = run("evaluate", "rows.yaml", "--output", "out", "--store", "store")

        def read(file):
            return {
                name: json.loads(Path(file.format(name)).read_text("utf-8")) for name in CANDIDATES
            }

        yield SimpleNamespace(
            comments=comments,
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
    failed = [check for check in judged.verdicts["worse"]["results"] if check["outcome"] == "fail"]
    assert {(check["kind"], check["metric"], check["group"]) for check in failed} == {
        ("champion", "bpsn_auc", "gay")
    }


def aucs(comments, name):
    """Return the AUCs by scikit-learn."""
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
        for metric, value in expected.items():
            found = cell(bias, metric, None if metric == "auc" else "gay")
            assert found["value"] == pytest.approx(value, abs=1e-12)
        for check in judged.verdicts[name]["results"]:
            assert check["value"] == pytest.approx(expected[check["metric"]], abs=1e-12)
            if check["kind"] == "champion":
                assert check["rival"] == pytest.approx(old[check["metric"]], abs=1e-12)


def test_errors_are_those_of_whole_articles_and_not_of_rows(judged):
    """The delete-one jackknife of scikit-learn's AUC, over articles."""
    comments = judged.comments
    rows = [comments.article != article for article in range(N_CLUSTERS)]
    with_toxic = np.unique(comments.article[comments.toxic]).size
    for name, report in judged.reports.items():
        scores = comments.scores[name]
        left = [metrics.roc_auc_score(comments.toxic[kept], scores[kept]) for kept in rows]
        error = math.sqrt((N_CLUSTERS - 1) * np.var(left))
        auc = cell(report["bias"], "auc")
        assert auc["std_error"] == pytest.approx(error, rel=0.02)
        assert auc["row_std_error"] < 0.6 * error
        results = judged.verdicts[name]["results"]
        assert {check["n_clusters"] for check in results if check["metric"] == "auc"} == {
            with_toxic
        }


def test_a_candidate_is_compared_with_the_champion_comment_by_comment(judged):
    """Both err on the same articles, so their difference has a smaller error than each AUC."""
    width = {
        check["kind"]: check["high"] - check["low"]
        for check in judged.verdicts["same"]["results"]
        if check["metric"] == "auc"
    }
    assert 0 < width["champion"] < 0.7 * width["floor"]
