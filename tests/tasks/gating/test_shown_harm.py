"""Significant losses block under the included policies, and are named in the first line."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.judging import CHAMPION, judge_rows, policy_of

from biasgate.tasks.check_messages import describe_exception
from biasgate.tasks.gating.policy import SHIPPED, read_policy
from biasgate.tasks.wording import get_verdict_words, list_exception_lines

N = 6_000
NAMES = ("transgender", "christian", "female")
AT = 1.0


def rows(plant=None, by=1.0, n_small=600, seed=3):
    """Rows of three identities; harmless or toxic scores of `transgender` are shifted."""
    rng = np.random.default_rng(seed)
    label = rng.random(N) < 0.3
    small = np.zeros(N, dtype=bool)
    n_toxic = n_small * 2 // 5
    for of_class, n in ((label, n_toxic), (~label, n_small - n_toxic)):
        small[rng.permutation(np.flatnonzero(of_class))[:n]] = True
    groups = {"transgender": small}
    groups |= {name: rng.random(N) < 0.15 for name in NAMES[1:]}
    base = 3 * label + rng.standard_normal(N)
    champion, candidate = (base + 0.4 * rng.standard_normal(N) for _ in range(2))
    if plant in {"harmless", "both"}:
        candidate += by * (small & ~label)
    if plant in {"toxic", "both"}:
        candidate -= by * (small & label)
    return {
        "id": pa.array([str(number) for number in range(N)]),
        "label": label,
        **{f"identity/{name}": mask for name, mask in groups.items()},
        "score/candidate": candidate,
        "score/champion": champion,
    }


def judge(folder, columns, policy, threshold=None, rivals=("champion",)):
    if "reference" in rivals:
        columns = columns | {"score/reference": columns["score/champion"]}
    if "champion" not in rivals:
        columns = {key: one for key, one in columns.items() if key != "score/champion"}
    compared = dict.fromkeys(rivals, replace(CHAMPION, threshold=threshold))
    return judge_rows(folder, columns, policy, threshold=threshold, rivals=compared)


def shown(verdict):
    results = [result for result in verdict.results if result.rule == "shown_harm"]
    return {result.metric: result for result in results if result.group == "transgender"}


PLANTS = {
    "both": ["subgroup_auc"],
    "harmless": ["bpsn_auc", "negative_aeg", "fpr_gap"],
    "toxic": ["bnsp_auc", "positive_aeg", "fnr_gap"],
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["default", "no-worse", "strict"])
def test_a_loss_in_each_metric_blocks_and_is_named_first(tmp_path, name, plant):
    verdict = judge(tmp_path, rows(plant), read_policy(name, SHIPPED), AT)
    assert verdict.outcome == "fail"
    for metric in PLANTS[plant]:
        result = shown(verdict)[metric]
        assert (result.outcome, result.action) == ("fail", "block")
        assert (result.threshold is not None) == metric.endswith("_gap")
    first = verdict.results[0]
    assert (first.rule, first.group) == ("shown_harm", "transgender")
    assert get_verdict_words(verdict).text == "Blocked: worse for transgender"


@pytest.mark.parametrize(("plant", "metric"), [("harmless", "bpsn_auc"), ("toxic", "bnsp_auc")])
def test_a_group_of_twelve_comments_that_is_clearly_worse_blocks(tmp_path, plant, metric):
    columns = rows(plant, by=6.0, n_small=12, seed=2)
    verdict = judge(tmp_path, columns, read_policy("default", SHIPPED))
    assert verdict.outcome == "fail"
    assert metric in shown(verdict)
    assert get_verdict_words(verdict).text == "Blocked: worse for transgender"


@pytest.mark.parametrize(
    ("options", "allowed_by"),
    [
        ({}, "no_rule"),
        ({"shown_harm": {"tolerance": 0.4}}, 0.8),
        ({"shown_harm": {"action": "warn"}}, "warning"),
    ],
)
def test_a_loss_that_is_shown_and_does_not_block_is_named(tmp_path, options, allowed_by):
    lenient = policy_of({"metric": "bpsn_auc", "scope": "each", "floor": 0.6}, **options)
    verdict = judge(tmp_path, rows("harmless"), lenient)
    assert (verdict.outcome, bool(shown(verdict))) == ("pass", allowed_by == "warning")
    assert get_verdict_words(verdict).text == "Passed for 2 of 3 identities"
    [entry] = [exception for exception in verdict.exceptions if exception.why == "shown_worse"]
    assert (entry.group, entry.allowed_by) == ("transgender", allowed_by)
    assert entry.loss.worse_by_at_least > 0
    proven, *lines = list_exception_lines([verdict])
    assert proven == "Passed only for christian, female."
    assert f"Exception: {describe_exception(entry)}" in lines


def test_the_objective_leaves_out_who_is_not_measured(tmp_path):
    columns = rows()
    columns["identity/female"] = np.zeros(N, dtype=bool)
    entry = {"identity": "female", "reason": "none", "expires": "2099-12-31"}
    rule = {"metric": "bpsn_auc", "scope": "each", "margin": 0.3}
    objective = judge(tmp_path, columns, policy_of(rule, not_measured=[entry])).objective
    assert objective.value is not None
    assert objective.change is not None


def test_two_rivals_share_alpha(tmp_path):
    policy = read_policy("default", SHIPPED)
    verdict = judge(tmp_path, rows("harmless"), policy, rivals=("champion", "reference"))
    harm = [one for one in verdict.results if one.rule == "shown_harm"]
    assert {one.kind for one in harm} == {"champion", "reference"}
    assert {one.confidence for one in harm} == {0.975}
    assert verdict.bounds.jointly == 2 * 3 * 5


def test_the_results_name_whose_comments_a_loss_comes_from(tmp_path):
    columns = rows("harmless", by=2.0)
    rng = np.random.default_rng(8)
    shared = columns["identity/transgender"] & (rng.random(N) < 0.5)
    columns["identity/christian"] = shared | (rng.random(N) < 0.05)
    verdict = judge(tmp_path, columns, read_policy("default", SHIPPED))
    harm = [one for one in verdict.results if one.rule == "shown_harm"]
    assert {one.without for one in harm if one.group == "christian"} == {("transgender",)}
    assert verdict.outcome == "fail"


def test_a_name_that_the_set_lacks_changes_nothing(tmp_path):
    entry = {"identity": "martian", "reason": "none", "expires": "2099-12-31"}
    rule = {"metric": "bpsn_auc", "scope": "each", "floor": 0.6}
    verdict = judge(tmp_path, rows(), policy_of(rule, not_measured=[entry]))
    assert (verdict.outcome, verdict.exceptions) == ("pass", [])


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ({"identity": "female", "expires": "2020-01-01"}, "`not_measured` ended on 2020-01-01."),
        ({"identity": "femal"}, "`not_measured` has 'femal': is it this identity?"),
        (
            {"identity": "femal", "expires": "2020-01-01"},
            "`not_measured` has 'femal': is it this identity?",
        ),
    ],
)
def test_an_entry_that_ended_or_is_misspelt_is_told_where_evidence_lacks(tmp_path, entry, hint):
    columns = rows()
    columns["identity/female"] = np.zeros(N, dtype=bool)
    exemption = {"reason": "none", "expires": "2099-12-31"} | entry
    rule = {"metric": "bpsn_auc", "scope": "each", "margin": 0.3}
    policy = policy_of(rule, roll_up={"gender": list(NAMES)}, not_measured=[exemption])
    verdict = judge(tmp_path, columns, policy)
    assert verdict.outcome == "insufficient"
    [lacking] = [result for result in verdict.results if result.outcome == "insufficient"]
    assert (lacking.group, lacking.reason) == ("female", "small_group")
    assert lacking.hint.endswith(hint)
