"""What a pass leaves open is said by `biasgate policy explain`, `suggest` and `plan`."""

import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from support.judging import evidence_of, given, policy_of, report_of
from typer.testing import CliRunner

from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.planning import (
    Counts,
    Guess,
    expected_reaches,
    open_loss,
    paired_reach,
    standard_error,
)
from bias_metrics.gate.power import visible_loss
from bias_metrics.metrics import AUCS
from biasgate.cli import app
from biasgate.tasks.common.files import write_json
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.gating.plan import Comments, Mentions
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.gating.policy_explained import bounds_in_words
from biasgate.tasks.gating.policy_losses import (
    IdentityLoss,
    asked_by,
    losses_in_words,
    losses_of_comments,
    losses_of_evidence,
    losses_of_fewest,
)

MARGIN = {"metric": "bnsp_auc", "scope": "each", "margin": 0.01}
N = 1_500


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    label = rng.random(N) < 0.3
    gay, deaf = rng.random(N) < 0.2, np.arange(N) < 4  # of whom one is toxic
    label[:4] = [True, False, False, False]
    common = 1.5 * label + rng.standard_normal(N)
    candidate, champion = (common + 0.3 * rng.standard_normal(N) for _ in range(2))
    return {
        "id": [str(at) for at in range(N)],
        "label": label,
        "identity/gay": gay,
        "identity/deaf": deaf,
        "score/candidate": candidate,
        "score/champion": champion,
    }


def written(folder, columns):
    evidence_of(folder, columns, power_mean_groups=["gay", "deaf"])
    return folder


@pytest.fixture
def compared(rows, tmp_path):
    """The evidence of a candidate and a champion."""
    return written(tmp_path, rows)


@pytest.fixture
def single(rows, tmp_path):
    """The evidence of a candidate without a champion."""
    return written(tmp_path, {key: one for key, one in rows.items() if key != "score/champion"})


def of(losses, identity, metric):
    [found] = [x for x in losses if (x.identity, x.loss.metric) == (identity, metric)]
    return found


def command(*arguments):
    result = CliRunner().invoke(app, ["policy", *map(str, arguments)])
    assert result.exit_code == 0, result.stderr
    return result.output


def test_with_a_champion_the_error_of_the_difference_is_measured(rows, compared):
    found = of(losses_of_evidence(compared, asked_by(policy_of(MARGIN))), "gay", "bnsp_auc")
    members = {name: rows[f"identity/{name}"] for name in ("gay", "deaf")}
    scores = rows["score/candidate"], rows["score/champion"]
    cell = compare_bias(rows["label"], *scores, members, confidence=0.9).subgroups["gay"].bnsp_auc
    reach = cell.value - cell.low
    assert found.correlation is None
    assert found.loss.not_excluded == pytest.approx(reach)
    assert found.loss.visible == pytest.approx(visible_loss(reach, 0.95))
    toxic = int((rows["label"] & rows["identity/gay"]).sum())
    assert found.toxic == toxic
    assert found.loss.margin == 0.01
    assert found.loss.more == np.ceil(toxic * (reach / 0.01) ** 2) - toxic


def test_without_a_champion_a_correlation_is_assumed(single):
    asked = asked_by(policy_of(MARGIN))
    loose, close = (
        of(losses_of_evidence(single, asked, correlation), "gay", "bnsp_auc")
        for correlation in (0.0, 0.75)
    )
    assert (loose.correlation, close.correlation) == (0.0, 0.75)
    # Half as far: the error of a difference is proportional to sqrt(1 - correlation).
    assert close.loss.not_excluded == pytest.approx(loose.loss.not_excluded / 2)


def test_against_itself_a_model_s_differences_are_assumed(rows, tmp_path):
    same = written(tmp_path, rows | {"score/champion": rows["score/candidate"]})
    found = of(losses_of_evidence(same, asked_by(policy_of(MARGIN))), "gay", "bnsp_auc")
    assert found.correlation == 0.8
    assert found.loss.not_excluded > 0


def test_each_metric_is_compared_by_its_strictest_rule():
    asked = asked_by(
        policy_of(
            MARGIN | {"margin": 0.05},
            MARGIN | {"reference_margin": 0.02, "margin": None, "id": "r", "confidence": 0.99},
            MARGIN | {"margin": 0.001, "action": "warn", "id": "w"},
            MARGIN | {"margin": 0.002, "slice": "short", "id": "s"},
            {"metric": "bpsn_auc", "scope": ["gay"], "margin": 0.03},
            {"metric": "subgroup_auc", "scope": "each", "floor": 0.5},
        )
    )
    known = asked("deaf", "bnsp_auc")
    assert (known.confidence, known.margin) == (0.99, 0.02)
    assert asked("gay", "bpsn_auc").margin == 0.03
    assert asked("deaf", "bpsn_auc").margin is None
    assert asked("gay", "subgroup_auc").margin is None


def test_the_worst_metric_of_each_identity_is_a_line_the_worst_identity_first(compared):
    lines = losses_in_words(losses_of_evidence(compared, asked_by(policy_of(MARGIN))))
    deaf, gay = lines[2:4]
    assert deaf.split()[:3] == ["deaf", "1", "3"]
    assert "any" in deaf
    assert gay.startswith("gay")
    assert "BNSP AUC" in gay
    assert gay.endswith("toxic")
    text = "\n".join(lines)
    assert "Measured: the AUCs, and the errors of their differences from the champion's." in text
    assert "Assumed" not in text


@pytest.mark.parametrize(("margin", "more"), [(0.2, "0"), (0.0999, "1 harmless"), (None, "")])
def test_how_many_more_comments_are_needed_stands_last(margin, more):
    loss = open_loss("bpsn_auc", 0.9, (0.1, 0.2), (70, 300), 0.95, margin)
    _, _, line, *notes = losses_in_words([IdentityLoss("gay", 70, 300, None, None, loss)])
    shown = [] if margin is None else [f"{margin:g}", *more.split()]
    assert line.split("0.151", 1)[1].split() == shown
    assert any(note.startswith("more: comments that are lacking") for note in notes) == bool(shown)


def test_what_is_assumed_is_said(single):
    text = "\n".join(losses_in_words(losses_of_evidence(single, asked_by(policy_of(MARGIN)))))
    assert "Assumed: a correlation\nof 0.8 of the two models' estimates." in text


def test_all_metrics_are_in_the_json_of_each_command(compared, tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nname: p\nrules: [{metric: bnsp_auc, scope: each, margin: 0.01}]")
    answers = [
        json.loads(command("explain", policy, compared, "--json")),
        json.loads(command("plan", policy, compared, "--json")),
        json.loads(command("suggest", compared, "--json")),
    ]
    for answer in answers:
        assert len(answer["losses"]) == 2 * 5
        lacking = [x for x in answer["losses"] if x["identity"] == "deaf" and "reason" in x]
        assert "bnsp_auc" in {x["metric"] for x in lacking}
        assert all(x["not_excluded"] is None for x in lacking)
    assert answers[0]["losses"] == answers[1]["losses"]
    assert "version: 1" in answers[2]["policy"]
    assert {x["margin"] for x in answers[2]["power"]} == {0.01, 0.02, 0.03, 0.05, 0.1}


def test_each_command_prints_the_table(compared, tmp_path):
    explained, planned = (command(name, "no-worse", compared) for name in ("explain", "plan"))
    table = explained[explained.index("What a pass leaves open") :]
    assert planned.endswith(table)
    suggested = command("suggest", compared)
    assert "# What a pass leaves open, in the worst metric of each identity:" in suggested
    assert "# Too few rows to judge: deaf. They block as" in suggested
    (tmp_path / "mine.yaml").write_text(suggested)
    assert read_policy(str(tmp_path / "mine.yaml"), Path()).name == "suggested"


def test_where_only_counts_are_known_the_auc_is_assumed_and_said_to_decide(tmp_path):
    file = tmp_path / "shares.yaml"
    file.write_text("toxic: 0.1\nidentities:\n  deaf: {share: 0.02, toxic: 0.2}\n")
    asked = ["no-worse", "--shares", file, "--correlation", "0.7"]
    plan = json.loads(command("plan", *asked, "--json"))
    losses, n = plan["losses"], plan["comments"]
    drawn = round(n * 0.02 * 0.2), round(n * 0.02 * 0.8)
    assert {(x["toxic"], x["harmless"]) for x in losses} == {drawn}
    assert {(x["auc"], x["correlation"]) for x in losses} == {(0.80, 0.7), (0.87, 0.7), (0.93, 0.7)}
    bnsp = [x["not_excluded"] for x in losses if x["metric"] == "bnsp_auc"]
    assert bnsp == sorted(bnsp, reverse=True)
    text = command("plan", *asked)
    assert "Only counts are known. Assumed: each AUC" in text
    assert "The width goes with the AUC: wide at .80, narrow at .95." in text


def test_the_counts_of_comments_drawn_at_random_decide_what_is_not_excluded():
    """With normal errors: 1.64 standard errors of a difference of two estimates."""
    mentions = Mentions(0.05, 0.8, Guess(correlation=0.7))
    comments = Comments(0.1, {"most": mentions}, {}, Guess())
    losses = losses_of_comments(comments, 100_000, asked_by(policy_of(MARGIN)))
    counts = Counts(5_000, 80_000, 5_000, 10_000)
    losses = [x for x in losses if x.loss.metric in AUCS]
    assert [x.auc for x in losses[::3]] == [0.80, 0.87, 0.93]
    for x in losses:
        error = np.sqrt(2 * (1 - 0.7)) * standard_error(x.loss.metric, x.auc, counts)
        assert (x.toxic, x.harmless) == (5_000, 80_000)
        assert x.loss.not_excluded == pytest.approx(NormalDist().inv_cdf(0.95) * error)


def test_the_lines_of_an_identity_stand_together():
    """Neither identity has ten comments of each class, so neither has a bound in any line."""
    few = Mentions(0.04, 0.04, Guess())
    comments = Comments(0.1, {"gay": few, "deaf": few}, {}, Guess())
    lines = losses_in_words(losses_of_comments(comments, 100, asked_by(policy_of(MARGIN))))
    cells = [line.split() for line in lines[2:8]]
    aucs = "0.80", "0.87", "0.93"
    assert [(cell[0], cell[3]) for cell in cells] == [(x, y) for x in ("gay", "deaf") for y in aucs]
    assert all("any" in cell for cell in cells)


def test_two_comments_of_the_background_are_counted_as_two():
    """Twelve of a hundred comments are toxic; ten of them mention the identity."""
    comments = Comments(0.12, {"most": Mentions(0.1, 0.5, Guess())}, {}, Guess())
    losses = losses_of_comments(comments, 100, asked_by(policy_of(MARGIN)))
    for x in [x for x in losses if x.loss.metric == "bpsn_auc"]:
        ends = expected_reaches("bpsn_auc", 0.9, Guess(auc=x.auc), Counts(10, 50, 2, 38))
        assert x.loss.not_excluded == pytest.approx(paired_reach("bpsn_auc", *ends, 0.8))


def test_a_plan_that_no_number_of_comments_meets_leaves_nothing_to_count(tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nname: p\nrules: [{metric: bpsn_auc, scope: each, floor: 0.95}]")
    text = command("plan", policy, "--shares", "civil_comments")
    assert "No number of comments drawn at random" in text
    assert "What a pass leaves open" not in text


def test_without_a_set_a_policy_is_explained_at_the_fewest_comments_that_its_rules_need():
    policy = policy_of(
        MARGIN | {"min_positives": 60, "min_negatives": 30},
        MARGIN | {"min_positives": 40, "min_negatives": 30, "id": "second"},
        {"metric": "auc", "scope": "overall", "floor": 0.5},
    )
    found = losses_of_fewest(policy)
    assert {(x.toxic, x.harmless, x.loss.metric) for x in found} == {(40, 30, "bnsp_auc")}
    assert [x.auc for x in found] == [0.80, 0.87, 0.93]
    one = losses_of_fewest(policy_of(MARGIN | {"min_positives": 40, "min_negatives": 1}))
    assert all(x.loss.not_excluded > 0 for x in one)  # which negatives of its own do not decide
    overall = policy_of({"metric": "auc", "scope": "overall", "floor": 0.5})
    assert losses_in_words(losses_of_fewest(overall)) == []
    assert "any with so many     50        50  0.80" in command("explain", "no-worse")


@pytest.mark.parametrize(
    ("threshold", "n"), [(None, "up to 10 bounds: 5 of"), (0.5, "up to 14 bounds: 7 of")]
)
def test_how_many_bounds_are_looked_at_is_said_and_how_often_any_is_false(compared, threshold, n):
    if threshold is not None:
        bias = evaluate_bias([0, 1], [0.1, 0.9], {})
        write_json(compared / "report.json", report_of(bias, thresholds=given(threshold)))
    text = bounds_in_words(policy_of(MARGIN), compared / FILE)
    assert f"is looked for in {n} each of 2 identities" in text
    assert "in at most 5 of 100 sets is any of them false" in text


def test_without_a_set_the_bounds_of_each_identity_are_counted():
    text = bounds_in_words(policy_of(MARGIN, confidence=0.975))
    assert "5 bounds of each identity, and 2 more where a threshold is given" in text
    assert "in at most 2.5 of 100 sets" in text
