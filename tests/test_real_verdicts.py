"""Verdicts on real models and real data, checked by hand against published results."""

import json
import re
from collections import Counter
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.deployments import __file__ as deployments_file
from biasgate.tasks.gating.evidence import FILE, EvidenceFile
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.gating.verdict import build_verdict

pytestmark = pytest.mark.slow
EVALUATIONS = Path(deployments_file).parent / "evaluations"
ENOUGH_TEMPLATES = 20


@pytest.fixture(scope="module")
def evaluate(real_data, tmp_path_factory):
    """Run a shipped evaluation; return its exit code and the folder of its one candidate."""

    def run(name):
        folder = tmp_path_factory.mktemp(name)
        arguments = [str(EVALUATIONS / f"{name}.yaml"), "--output", str(folder / "out")]
        environment = {"BIASGATE_REAL_DATA": str(real_data)}
        result = CliRunner().invoke(
            app, ["evaluate", *arguments, "--store", str(folder / "store")], env=environment
        )
        return result.exit_code, next((folder / "out").glob("*/*/"))

    return run


@pytest.fixture(scope="module")
def perspective(evaluate):
    code, folder = evaluate("perspective")
    return code, json.loads((folder / "verdict.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def templates(real_data):
    """How many templates of each class mention each term: counted from the phrases themselves."""
    phrases = pd.read_parquet(real_data / "perspective_templates.parquet")
    terms = pd.read_csv(real_data / "perspective_unitary_results.csv")["subgroup"]
    found = {None: phrases.groupby("toxicity")["template"].nunique().to_dict()}
    for term in terms:
        mentions = phrases[phrases["phrase"].str.contains(rf"\b{re.escape(term)}\b")]
        found[term] = mentions.groupby("toxicity")["template"].nunique().to_dict()
    return found


def test_perspective_6_is_kept_back_for_want_of_templates_and_nothing_else(perspective, templates):
    code, verdict = perspective
    assert (code, verdict["outcome"]) == (4, "insufficient")
    assert len(verdict["results"]) == 256
    assert {one["outcome"] for one in verdict["results"]} == {"insufficient"}
    for one in verdict["results"]:
        fewer = min(templates[one["group"]].values())
        assert fewer < ENOUGH_TEMPLATES
        assert f"{fewer} clusters where 20" in one["sentence"]


def test_every_auc_of_the_perspective_verdict_is_a_published_one(perspective, real_data):
    published = pd.read_csv(real_data / "perspective_unitary_results.csv").set_index("subgroup")
    seen = 0
    for one in perspective[1]["results"]:
        if one["metric"] in {"subgroup_auc", "bpsn_auc", "bnsp_auc"}:
            row = published.loc[one["group"]]
            assert one["value"] == pytest.approx(row[f"TOXICITY@6_{one['metric']}"], abs=1e-6)
            assert one["rival"] == pytest.approx(row[f"TOXICITY@1_{one['metric']}"], abs=1e-6)
            seen += 1
    assert seen == 3 * 51


@pytest.fixture(scope="module")
def toxic_bert(evaluate):
    return evaluate("toxic_bert")


@pytest.mark.parametrize("policy", ["default", "strict"])
def test_toxic_bert_is_blocked_for_gay_and_lesbian_people(toxic_bert, policy):
    code, folder = toxic_bert
    report = json.loads((folder / "report.json").read_text("utf-8"))
    verdict = build_verdict(
        report,
        read_policy(policy, Path()),
        EvidenceFile(folder / FILE),
        {},
        n_candidates=1,
        today=date(2026, 11, 21),
    )
    assert (code, verdict["outcome"]) == (3, "fail")
    by_outcome = {
        outcome: [
            (one["metric"], one["group"]) for one in verdict["results"] if one["outcome"] == outcome
        ]
        for outcome in ("fail", "insufficient")
    }
    assert by_outcome == {
        "fail": [("bpsn_auc", "homosexual_gay_or_lesbian")],
        "insufficient": [
            ("subgroup_auc", "homosexual_gay_or_lesbian"),
            ("subgroup_auc", "black"),
            ("subgroup_auc", "white"),
            ("bpsn_auc", "black"),
        ],
    }
    assert Counter(one["outcome"] for one in verdict["results"])["pass"] == 42
