"""The planned number of comments for a policy, compared with simulations."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from support.cells import cell, counts_of, n_of
from support.judging import evidence_of, policy_of
from support.promoted import frozen_set, judged_version, local
from typer.testing import CliRunner

from bias_metrics import Difference, MetricValue, compare_bias, evaluate_bias
from bias_metrics.gate.decision import judge_rules, list_needed_evidence
from bias_metrics.gate.plans import (
    PlanAssumptions,
    PlannedCounts,
    estimate_auc_chance,
    estimate_group_chance,
    predict_standard_error,
)
from bias_metrics.gate.verdict import Evidence
from bias_metrics.metrics import AUCS
from bias_metrics.table import BiasTable, Key
from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.plan import Comments, Mentions, Need, Plan, describe_plan
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.gating.policy_planned import (
    _estimate_correlations,
    measure_comments,
    plan_policy,
    read_comment_shares,
)

NORMAL = NormalDist()
AUC, SCORES_ALIKE = 0.92, 0.85
SUPPORT = {"min_positives": 20, "min_negatives": 20}
MARGINS = [
    {"metric": "subgroup_auc", "scope": "each", "margin": 0.05, **SUPPORT},
    {"metric": "bpsn_auc", "scope": "each", "margin": 0.04, **SUPPORT},
    {"metric": "bnsp_auc", "scope": "each", "margin": 0.04, **SUPPORT},
    {"metric": "negative_aeg", "scope": "each", "margin": 0.1, **SUPPORT},
]
FLOORS = [
    {"metric": "subgroup_auc", "scope": "each", "floor": 0.85, **SUPPORT},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.87, **SUPPORT},
    {"metric": "positive_aeg", "scope": "each", "ceiling": 0.15, **SUPPORT},
]
GROUPS = {"a": (0.02, 0.06), "b": (0.01, 0.02), "c": (0.005, 0.05), "d": (0.01, 0.01)}
ONE_GROUP = {"a": GROUPS["a"]}
TOXIC = 0.12


def compute_correlation():
    """Return the correlation of two AUCs of normal scores: that of their rows' placements."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal(200_000)
    own = rng.standard_normal((2, 200_000))
    distance = np.sqrt(2) * NORMAL.inv_cdf(AUC)
    scores = np.sqrt(SCORES_ALIKE) * common + np.sqrt(1 - SCORES_ALIKE) * own
    grid = np.linspace(-6, 8, 2001)
    below = np.array([NORMAL.cdf(one) for one in grid])
    placed = [np.interp(one + distance, grid, below) for one in scores]
    return float(np.corrcoef(*placed)[0, 1])


def known(have=(0, 0), total=(0, 0), groups=GROUPS):
    guess = PlanAssumptions(auc=AUC, correlation=compute_correlation())
    members = {name: Mentions(*shares, guess, have) for name, shares in groups.items()}
    return Comments(TOXIC, members, {}, guess, total)


def passes(policy, counts, outside, rng):
    """Draw rows with these counts and two equally good models, and judge."""
    sizes = [*counts.values(), outside]
    labels = np.concatenate([np.arange(sum(one)) < one[0] for one in sizes])
    group = np.repeat(np.arange(len(sizes)), [sum(one) for one in sizes])
    members = {name: group == at for at, name in enumerate(counts)}
    base = np.sqrt(SCORES_ALIKE) * rng.standard_normal(labels.size)
    base += np.sqrt(2) * NORMAL.inv_cdf(AUC) * labels
    own = np.sqrt(1 - SCORES_ALIKE) * rng.standard_normal((2, labels.size))
    rules = policy.decision_rules()
    [key] = list_needed_evidence(rules)
    candidate, champion = base + own
    measured = evaluate_bias(labels, candidate, members, confidence=key[1])
    apart = compare_bias(labels, candidate, champion, members, confidence=key[1])
    evidence = {key: Evidence(measured.add_numbers(apart, "champion"))}
    return judge_rules(evidence, rules).outcome == "pass"


def drawn(n, rng):
    """Draw the counts of a random sample of comments."""
    shares = [one for pair in GROUPS.values() for one in pair]
    inside = rng.multinomial(round(n), [*shares, 1 - sum(shares)])
    counts = dict(zip(GROUPS, inside[:-1].reshape(-1, 2).tolist(), strict=True))
    toxic = TOXIC - sum(one for one, _ in GROUPS.values())
    share = toxic / (1 - sum(shares))
    n_toxic = int(rng.binomial(inside[-1], share))
    return counts, (n_toxic, int(inside[-1]) - n_toxic)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [MARGINS, FLOORS], ids=["margins", "limits"])
def test_with_the_planned_number_of_comments_the_planned_share_passes(rules):
    policy = policy_of(*rules)
    plan = plan_policy(policy, known(), power=0.8)
    rng, draws = np.random.default_rng(1), 300
    share = sum(passes(policy, *drawn(plan.comments, rng), rng) for _ in range(draws)) / draws
    assert 0.75 <= share <= 0.9


def test_numbers_of_comments_vary_by_their_square_root():
    """Nine in ten samples have the support: about 1.28 standard deviations more are expected."""
    wide = policy_of(
        {"metric": "subgroup_auc", "scope": "each", "margin": 0.4, "min_positives": 20}
    )
    plan = plan_policy(wide, known(groups=ONE_GROUP), power=0.9)
    expected = GROUPS["a"][0] * plan.comments
    assert (expected - 20) / np.sqrt(expected) == pytest.approx(NORMAL.inv_cdf(0.9), abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [MARGINS, FLOORS], ids=["margins", "limits"])
def test_with_the_comments_that_each_identity_needs_the_planned_share_passes(rules):
    policy, total = policy_of(*rules), (900, 7000)
    plan = plan_policy(policy, known((6, 8), total), power=0.8)
    counts = {need.identity: (need.toxic, need.harmless) for need in plan.needs}
    outside = tuple(need - 4 * few for need, few in zip(total, (6, 8), strict=True))
    rng, draws = np.random.default_rng(2), 300
    share = sum(passes(policy, counts, outside, rng) for _ in range(draws)) / draws
    assert 0.75 <= share <= 0.9


# ------------------------------------------------------------------ plans


def test_the_cheapest_label_comes_first_and_what_is_there_is_subtracted():
    policy = policy_of(*MARGINS)
    nothing, some = (plan_policy(policy, known(have, (900, 7000))) for have in ((0, 0), (20, 40)))
    labels = [one.label for one in nothing.needs]
    assert labels == sorted(labels)
    assert [one.identity for one in nothing.needs] == ["d", "b", "a", "c"]
    assert some.needs[0].label < nothing.needs[0].label
    for need in some.needs:
        toxic, harmless = GROUPS[need.identity]
        share = toxic / (toxic + harmless)
        assert need.toxic == pytest.approx(20 + share * need.label, abs=1)
        assert need.harmless == pytest.approx(40 + (1 - share) * need.label, abs=1)
    enough = plan_policy(policy, known((300, 900), (9000, 70000)))
    assert {one.label for one in enough.needs} == {0}
    assert enough.chance > 0.8
    assert {one.judged for one in enough.needs} == {"alone"}


@pytest.mark.parametrize("groups", [GROUPS, {"most": (0.06, 0.84)}], ids=["small", "most"])
@pytest.mark.parametrize("metric", ["bpsn_auc", "bnsp_auc"])
def test_before_anything_is_labelled_other_comments_come_in_their_shares(metric, groups):
    policy = policy_of({"metric": metric, "scope": "each", "margin": 0.02})
    comments = known(groups=groups)
    for need in plan_policy(policy, comments).needs:
        toxic, harmless = groups[need.identity]

        def chance(label, toxic=toxic, harmless=harmless):
            n = label / (toxic + harmless)  # comments in all
            outside = n * (TOXIC - toxic), n * (1 - TOXIC - harmless)
            counts = PlannedCounts(n * toxic, n * harmless, *outside)
            return estimate_group_chance(policy.decision_rules(), comments.guess, counts)

        wanted = 0.8 ** (1 / len(groups))
        assert chance(need.label / 1.002 - 1) < wanted <= chance(need.label + 1)


def test_the_comments_that_an_overall_rule_needs_have_the_stated_share_of_toxic_ones():
    policy = policy_of({"metric": "auc", "scope": "overall", "floor": 0.91})
    comments = known()

    def chance(n):
        counts = n * TOXIC, n * (1 - TOXIC)
        return estimate_auc_chance(policy.decision_rules()[0], AUC, comments.guess, *counts)

    n = plan_policy(policy, comments, power=0.8).comments
    assert chance(n / 1.002) < 0.8 <= chance(n + 1)


def test_a_limit_that_is_missed_cannot_be_labelled_away():
    missed = {"metric": "bpsn_auc", "scope": "each", "floor": 0.95}
    plan = plan_policy(policy_of(missed), known((300, 900), (9000, 70000)))
    assert plan.comments is None
    assert {(need.label, need.toxic) for need in plan.needs} == {(None, None)}
    text = "\n".join(describe_plan(plan))
    assert "No number of random comments gives a probability of 80%." in text
    assert "No number of comments suffices for a, b, c, d: " in text


def test_identities_that_no_number_is_enough_for_stand_last():
    comments = known()
    missed = Mentions(0.05, 0.05, replace(comments.guess, auc=0.8))
    comments = replace(comments, identities={"missed": missed, **comments.identities})
    plan = plan_policy(policy_of({"metric": "bpsn_auc", "scope": "each", "floor": 0.85}), comments)
    labels = {need.identity: need.label for need in plan.needs}
    *others, last = labels
    assert last == "missed"
    assert labels["missed"] is None
    assert [labels[name] for name in others] == sorted(labels[name] for name in others)


@pytest.mark.parametrize(
    ("metric", "shares"),
    [
        ("subgroup_auc", (0, 0.05)),
        ("subgroup_auc", (0.05, 0)),
        ("bpsn_auc", (TOXIC, 0.05)),  # no other comment is toxic
        ("bnsp_auc", (0.05, 1 - TOXIC)),  # or harmless
    ],
)
def test_where_a_compared_class_has_no_comments_no_number_is_enough(metric, shares):
    support = {"min_positives": 1, "min_negatives": 1}
    wide = policy_of({"metric": metric, "scope": "each", "margin": 0.45, **support})
    plan = plan_policy(wide, known(groups={"a": shares}))
    assert plan.comments is None
    assert [need.label for need in plan.needs] == [None]
    assert plan_policy(wide, known(groups={"a": (0.05, 0.05)})).comments is not None


def test_a_background_is_what_an_identity_leaves_of_the_labelled_comments():
    comments = known((30, 400), (30, 7000), ONE_GROUP)
    support = {"min_positives": 100, "min_negatives": 1}
    policy = policy_of({"metric": "bpsn_auc", "scope": "each", "margin": 0.45, **support})
    few, enough = (
        plan_policy(policy, replace(comments, have=(toxic, 7000))) for toxic in (129, 130)
    )
    assert (few.chance, few.needs[0].judged) == (0, None)
    assert enough.chance > 0.9
    assert (enough.needs[0].judged, enough.needs[0].label) == ("alone", 0)


def test_labels_are_needed_exactly_where_the_chance_falls_short():
    comments, policy = known((60, 200), (900, 7000), ONE_GROUP), policy_of(MARGINS[0])
    chance = estimate_group_chance(
        policy.decision_rules(), comments.guess, PlannedCounts(60, 200, 840, 6800)
    )
    for power, label in ((chance, 0), (chance + 1e-9, pytest.approx(5, abs=4))):
        [need] = plan_policy(policy, comments, power=power).needs
        assert need.label == label


def test_one_comment_short_of_the_support_is_not_enough():
    comments = known((200, 19), (900, 7000), {"a": (0, 0.05)})
    wide = MARGINS[0] | {"margin": 0.45}  # with a twentieth harmless comment it passes
    assert plan_policy(policy_of(wide), comments).needs[0].label > 0
    assert plan_policy(policy_of(wide | {"min_negatives": 19}), comments).needs[0].label == 0


def test_of_an_identity_that_no_comment_mentions_yet_half_are_taken_as_toxic():
    comments = known(total=(900, 7000), groups={"a": (0, 0)})
    [need] = plan_policy(policy_of(MARGINS[0]), comments).needs
    assert need.toxic > 20
    assert need.toxic == need.harmless == pytest.approx(need.label / 2, abs=1)


def test_small_identities_need_fewer_comments_in_all_if_they_are_judged_in_a_category():
    asked = [one | {"min_positives": 150, "min_negatives": 150} for one in MARGINS]
    comments = known()
    guess = comments.guess
    shares = [sum(one) for one in zip(*GROUPS.values(), strict=True)]
    joined = replace(comments, categories={"all": Mentions(*shares, guess)})
    alone = plan_policy(policy_of(*asked), comments)
    rolled = plan_policy(policy_of(*asked, roll_up={"all": [*GROUPS]}), joined)
    assert rolled.comments < 0.7 * alone.comments


def test_where_an_identity_is_judged_now_is_said():
    asked = [one | {"min_positives": 30, "min_negatives": 30} for one in MARGINS]
    comments = known((10, 20), (900, 7000))
    joined = replace(comments, categories={"all": Mentions(0.1, 0.2, comments.guess, (40, 80))})
    plan = plan_policy(policy_of(*asked, roll_up={"all": [*GROUPS]}), joined)
    assert {one.judged for one in plan.needs} == {"all"}
    assert 0 < plan.chance < 1
    assert "; judged in all now)" in "\n".join(describe_plan(plan))
    without = plan_policy(policy_of(*asked), comments)
    assert {one.judged for one in without.needs} == {None}
    assert without.chance == 0


@pytest.mark.parametrize("order", [1, -1])
def test_where_an_identity_is_judged_is_told_of_the_rule_that_needs_most(order):
    """Thirty toxic comments are in the smaller category, fifty only in all together."""
    rules = [
        {"metric": metric, "scope": "each", "margin": 0.1, "min_positives": least}
        for metric, least in (("subgroup_auc", 30), ("bnsp_auc", 50))
    ]
    comments = known((20, 40), (900, 7000))
    guess = comments.guess
    categories = {
        "some": Mentions(0.03, 0.08, guess, (40, 80)),
        "all": Mentions(0.1, 0.2, guess, (80, 160)),
    }
    roll_up = {"some": ["a", "b"], "all": ["some", "c", "d"]}
    joined = replace(comments, categories=categories)
    blind = policy_of(*rules[::order], roll_up=roll_up, blind={"margin": 0.1})
    assert {need.judged for need in plan_policy(blind, joined).needs} == {"all"}
    # A category of categories passes none of its identities.
    plan = plan_policy(policy_of(*rules[::order], roll_up=roll_up), joined)
    judged = {need.identity: need.judged for need in plan.needs}
    assert judged == {"a": None, "b": None, "c": "all", "d": "all"}
    assert plan.chance == 0


def test_a_plan_is_told_identity_by_identity():
    needs = (
        Need("alone", "alone", 1300, 60, 10),
        Need("nowhere", None, 31, 61, 20),
        Need("within", "religion", 32, 62, 3000),
        Need("one", "alone", 300, 900, 0),
        Need("two", "alone", 301, 901, 0),
        Need("never", None, None, None, None),
    )
    plan = Plan("p", 0.8, 0.25, 50_000, None, needs, ())
    already = "in all; judged by itself already, with a lower probability)"
    rolled = "in all; judged in religion now)"
    first, *lines, last = describe_plan(plan)
    assert first.endswith("passes with a probability of 25% today.")
    assert lines == [
        "For a probability of 80%: 50,000 comments drawn at random, all labelled.",
        "To judge each identity by itself with that probability, the cheapest first:",
        f"  label 10 more comments that mention alone (1,300 toxic and 60 harmless {already}",
        "  label 20 more comments that mention nowhere (31 toxic and 61 harmless in all)",
        f"  label 3,000 more comments that mention within (32 toxic and 62 harmless {rolled}",
        "Enough comments: one, two.",
    ]
    assert last.startswith("No number of comments suffices for never: ")


def test_forty_identities_are_told_and_how_many_more_there_are():
    needs = [Need(f"identity {n}", "alone", 30, 60, 10) for n in range(42)]
    lines = [
        list(describe_plan(Plan("p", 0.8, 0.25, 50_000, None, tuple(needs[:n]), ())))
        for n in (40, 42)
    ]
    assert "mention identity 39 (" in lines[0][-1]
    assert lines[1] == [*lines[0], "  ... and 2 more identities: see them with `--json`"]


def test_rules_that_no_plan_covers_are_named():
    rules = [
        *MARGINS,
        {"metric": "final_score", "scope": "aggregate", "floor": 0.8},
        {"metric": "fpr_gap", "scope": "each", "threshold": "given", "ceiling": 0.1},
        {"metric": "bpsn_auc", "scope": "each", "floor": 0.5, "action": "warn", "id": "warning"},
        {"metric": "auc", "scope": "overall", "floor": 0.8},
        {"metric": "bpsn_auc", "scope": "each", "floor": 0.5, "slice": "short"},
        {"metric": "auc", "scope": "overall", "floor": 0.5, "slice": "short"},
    ]
    plan = plan_policy(policy_of(*rules), known(), per_night=1000)
    names = "final_score/aggregate, fpr_gap/each/given, warning, bpsn_auc/each/short"
    assert plan.not_planned == (*names.split(", "), "auc/overall/short")
    assert plan.nights == -(-plan.comments // 1000)
    text = "\n".join(describe_plan(plan))
    assert f"Not planned for: {names}, auc/overall/short." in text
    assert f"all labelled, or {plan.nights} nights." in text


def test_named_identities_have_rules_of_their_own():
    rule = {"metric": "bpsn_auc", "scope": ["a"], "margin": 0.04, **SUPPORT}
    needs = {need.identity: need.label for need in plan_policy(policy_of(rule), known()).needs}
    assert needs["a"] > 0
    assert needs["b"] == needs["c"] == needs["d"] == 0


# ------------------------------------------------------------------ inputs


def command(*arguments):
    return CliRunner().invoke(app, ["policy", "plan", *map(str, arguments)])


def test_before_anything_is_labelled_shares_are_enough(tmp_path):
    file = tmp_path / "shares.yaml"
    file.write_text("toxic: 0.1\nidentities:\n  deaf: {share: 0.02, toxic: 0.2, auc: 0.95}\n")
    result = command("no-worse", "--shares", file, "--design-effect", 2, "--json")
    plan = json.loads(result.output)
    [need] = plan["needs"]
    assert (need["identity"], need["judged"]) == ("deaf", None)
    assert need["toxic"] == pytest.approx(0.2 * need["label"], abs=1)
    assert plan["chance"] is None
    policy, assumed = read_policy("no-worse", Path()), {"auc": 0.9, "correlation": 0.8}
    comments = read_comment_shares(file, policy, **assumed, design_effect=1.0)
    assert comments.identities["deaf"].have == (0, 0)
    easy = json.loads(command("no-worse", "--shares", file, "--json").output)
    assert easy["needs"][0]["label"] < need["label"]
    assert plan["comments"] > easy["comments"] > 0


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("toxic", {"toxic": 0}),
        ("toxic", {"toxic": 1}),
        ("identities.deaf.share", {"share": 0}),
        ("identities.deaf.share", {"share": 1.5}),
        ("identities.deaf.auc", {"auc": 0.5}),
        ("identities.deaf.auc", {"auc": 1}),
    ],
)
def test_a_share_of_none_or_all_is_refused_and_an_auc_of_chance_or_no_error(tmp_path, key, values):
    file = tmp_path / "shares.yaml"
    content = {"toxic": 0.1, "share": 0.02, "auc": 0.95} | values
    deaf = {"share": content["share"], "toxic": 0.2, "auc": content["auc"]}
    file.write_text(json.dumps({"toxic": content["toxic"], "identities": {"deaf": deaf}}))
    policy, assumed = read_policy("no-worse", Path()), {"auc": 0.9, "correlation": 0.8}
    with pytest.raises(InputError, match=rf"{key}: Input should be (greater|less) than"):
        read_comment_shares(file, policy, **assumed, design_effect=1.0)


def test_the_shares_of_civil_comments_come_with_it():
    policy = read_policy("no-worse", Path())
    comments = read_comment_shares(
        "civil_comments", policy, auc=0.9, correlation=0.8, design_effect=1.0
    )
    assert len(comments.identities) == 9
    assert comments.categories["gender"].toxic == pytest.approx(0.1023 * 0.153 + 0.1202 * 0.134)
    output = command("no-worse", "--shares", "civil_comments").output
    assert "\n  label " in output
    assert "more comments" not in output


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a model on six hundred rows."""
    folder = tmp_path_factory.mktemp("results")
    frozen_set(folder)
    judged_version(local(folder), folder, folder / "first")
    return folder / "first" / "judged"


def test_how_closely_models_agree_follows_from_the_error_of_their_difference():
    """Two errors of .1 with a correlation of .92: that of the difference is .04."""

    def agreeing(own, apart):
        numbers = {}
        for metric in AUCS:
            numbers[Key(metric, "a")] = MetricValue(0.9, std_error=own)
            numbers[Key(metric, "a", against="champion")] = Difference(0.9, 0.9, 0.0, apart)
        return list(_estimate_correlations(BiasTable(numbers, {})))

    assert agreeing(0.1, 0.04) == pytest.approx([0.92] * len(AUCS))
    assert set(agreeing(0.1, 1e-9)) == {0.999}  # never quite the same numbers
    assert set(agreeing(0.1, 0.2)) == {0.0}
    assert agreeing(0.1, None) == agreeing(None, 0.04) == []


def test_after_an_evaluation_its_counts_and_numbers_are_those_of_the_plan(results):
    policy = policy_of(*MARGINS, roll_up={"both": ["gay", "muslim"]})
    comments = measure_comments(results, policy, correlation=0.8, auc=0.9)
    report = json.loads((results / "report.json").read_text("utf-8"))["bias"]
    for name, one in comments.identities.items():
        rows = counts_of(report, name)
        cells = {key: cell(report, key, name) for key in AUCS}
        assert one.have == (rows["n_positive"], rows["n_negative"])
        n = n_of(report)
        assert [one.toxic * n, one.harmless * n] == pytest.approx(one.have)
        assert one.guess.get_value("bpsn_auc") == cells["bpsn_auc"]["value"]
        outside = [all_of - own for all_of, own in zip(comments.have, one.have, strict=True)]
        counts = PlannedCounts(*one.have, *outside)
        errors = [predict_standard_error(key, cells[key]["value"], counts) for key in AUCS]
        factors = [
            (cells[key]["std_error"] / error) ** 2 for key, error in zip(AUCS, errors, strict=True)
        ]
        assert one.guess.inflation == pytest.approx(np.median(factors))
    assert comments.toxic == counts_of(report)["n_positive"] / n_of(report)
    assert comments.have[0] == counts_of(report)["n_positive"]
    output = command("default", results)
    assert output.exit_code == 0
    assert "today" in output.output


def planned_for_two(folder, score):
    """The assumptions about an identity with two toxic comments, and its measured cells."""
    numbers = np.arange(1500)
    label, two = numbers < 450, (numbers < 2) | ((numbers >= 450) & (numbers < 480))
    rows = {
        "id": numbers.astype(str),
        "label": label,
        "identity/two": two,
        "score/candidate": score,
    }
    evidence_of(folder, rows, power_mean_groups=["two"])
    comments = measure_comments(folder, policy_of(*MARGINS), correlation=0.8, auc=0.9)
    assert comments.have == (450, 1050)
    cells = evaluate_bias(label, score, {"two": two}, confidence=0.9).subgroups["two"]
    return comments.identities["two"].guess, cells


def test_two_comments_of_a_class_are_enough_to_know_an_error(tmp_path):
    score = np.random.default_rng(0).standard_normal(1500) + 1.5 * (np.arange(1500) < 450)
    guess, group = planned_for_two(tmp_path, score)
    counts, cells = PlannedCounts(2, 30, 448, 1020), {metric: group[metric] for metric in AUCS}
    factors = [
        (cell.std_error / predict_standard_error(metric, cell.value, counts)) ** 2
        for metric, cell in cells.items()
    ]
    assert guess.inflation == pytest.approx(np.median(factors))
    assert guess.inflation != pytest.approx(1)


def test_a_model_without_any_error_is_planned_for_with_those_of_independent_rows(tmp_path):
    guess, _ = planned_for_two(tmp_path, (np.arange(1500) < 450).astype(float))
    assert guess.inflation == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either the folder of an evaluation, or `--shares`"),
        (("nowhere",), "must be an evidence.parquet, or a results folder"),
        (("--shares", "nowhere.yaml"), "or civil_comments; nowhere.yaml does not exist"),
    ],
)
def test_a_plan_without_numbers_is_refused(arguments, message):
    result = command("no-worse", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
