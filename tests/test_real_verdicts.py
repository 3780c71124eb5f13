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
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.records import Report, Verdict

pytestmark = pytest.mark.slow
EVALUATIONS = Path(__file__).parents[1] / "docs" / "reproduce"


@pytest.fixture(scope="module")
def evaluate(real_data, tmp_path_factory, prefect_server):  # noqa: ARG001 - for its effect
    """Run an evaluation of a page; return its exit code and the folder of its one candidate."""

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
def by_definition(real_data):
    """Compute every cell of both models from the phrases: shares of pairs, counted by ranks."""
    phrases = pd.read_parquet(real_data / "perspective_templates.parquet")
    toxic = phrases["toxicity"] == "toxic"
    found = {}
    for term in pd.read_csv(real_data / "perspective_unitary_results.csv")["subgroup"]:
        inside = phrases["phrase"].str.contains(rf"\b{re.escape(term)}\b")
        for column in ("TOXICITY@6", "TOXICITY@1"):
            scores = phrases[column]
            own, other = scores[inside], scores[~inside]
            toxic_own, harmless_own = own[toxic], own[~toxic]
            toxic_other, harmless_other = other[toxic], other[~toxic]
            found[term, column] = {
                "subgroup_auc": share_of_pairs(harmless_own, toxic_own),
                "bpsn_auc": share_of_pairs(harmless_own, toxic_other),
                "bnsp_auc": share_of_pairs(harmless_other, toxic_own),
                "positive_aeg": share_of_pairs(toxic_other, toxic_own) - 0.5,
                "negative_aeg": share_of_pairs(harmless_other, harmless_own) - 0.5,
            }
    return found


def share_of_pairs(lower, upper):
    """Return the share of pairs in which `upper` has the higher score, ties counted half."""
    ranks = pd.concat([lower, upper]).rank().to_numpy()[len(lower) :]
    return (ranks.sum() - len(upper) * (len(upper) + 1) / 2) / (len(upper) * len(lower))


def test_perspective_6_is_judged_by_its_values_on_these_phrases(perspective, by_definition):
    code, verdict = perspective
    assert (code, verdict["outcome"]) == (3, "fail")
    by_margin = [one for one in verdict["results"] if one["rule"] != "shown_harm"]
    assert len(by_margin) == 1 + 5 * 51
    for one in by_margin:
        assert one["outcome"] == ("fail" if worse(one, by_definition) else "pass")
    for one in Verdict.from_dict(verdict).results:
        if one.rule != "shown_harm":
            assert "on these rows" in describe_check(one)
            assert "bounds" not in describe_check(one)


def worse(one, by_definition):
    """Say by the definitions whether a number is worse than the champion's by the margin."""
    if one["scope"] == "overall":
        return False
    now, before = (by_definition[one["group"], f"TOXICITY@{at}"][one["metric"]] for at in (6, 1))
    if one["metric"].endswith("_aeg"):
        return abs(now) - abs(before) >= 0.10
    return before - now >= 0.05


def test_perspective_6_is_worse_by_more_than_the_tolerance_in_32_gaps(perspective, by_definition):
    shown = {
        (one["metric"], one["group"])
        for one in perspective[1]["results"]
        if one["rule"] == "shown_harm" and one["outcome"] == "fail"
    }
    wider = {
        (metric, group)
        for group, at in by_definition
        if at == "TOXICITY@6"
        for metric in ("positive_aeg", "negative_aeg")
        if abs(by_definition[group, at][metric]) - abs(by_definition[group, "TOXICITY@1"][metric])
        > 0.04
    }
    assert shown == wider
    assert len(shown) == 32
    assert len({group for _, group in shown}) == 25


def test_perspective_6_fails_margins_for_gaps_of_fourteen_terms_and_for_nothing_else(perspective):
    failed = [
        one
        for one in perspective[1]["results"]
        if one["outcome"] == "fail" and one["rule"] != "shown_harm"
    ]
    assert Counter(one["metric"] for one in failed) == {"negative_aeg": 10, "positive_aeg": 5}
    assert {one["group"] for one in failed} == {
        "bisexual",
        "nonbinary",
        "christian",
        "muslim",
        "jewish",
        "catholic",
        "protestant",
        "sikh",
        "taoist",
        "millenial",
        "middle aged",
        "elderly",
        "blind",
        "paralyzed",
    }


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
    report = Report.read((folder / "report.json").read_bytes())
    verdict = build_verdict(
        report,
        read_policy(policy, Path()),
        EvidenceFile(folder / FILE),
        {},
        n_candidates=1,
        today=date(2026, 11, 21),
    )
    assert (code, verdict.outcome) == (3, "fail")
    by_outcome = {
        outcome: [(one.metric, one.group) for one in verdict.results if one.outcome == outcome]
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
    assert Counter(one.outcome for one in verdict.results)["pass"] == 42
