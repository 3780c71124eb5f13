"""Three nights: the champion is measured with the candidates, and nights are compared."""

import json
import random

import pytest
import yaml

from biasgate.flows.evaluate import evaluate
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.remembering.memory import Memory

from .conftest import EVALUATION, MODEL, SHIFTED, _comments, _shifted_score, _write_table

pytestmark = pytest.mark.slow


def night(world, to, **changes):
    config = world.folder / "nights.yaml"
    settings = EVALUATION | {"name": "by night", "candidates": [SHIFTED]} | changes
    config.write_text(yaml.safe_dump(settings), "utf-8")
    output = world.folder / "output" / to
    summary = evaluate(str(config), str(output), str(world.store), night=True)
    return summary, json.loads((output / "trend.json").read_text("utf-8")), output


@pytest.fixture(scope="module")
def nights(world, first):
    """Nights after a promotion, with other comments, and without any candidate."""
    del first
    found = [night(world, "one")]
    draws = random.Random(21)  # noqa: S311 - not for secrets
    rows = _comments(draws, "later", 240)
    _write_table(world.folder / "test.csv", rows)
    pairs = [{"id": row["id"], "prediction": repr(_shifted_score(row, draws))} for row in rows]
    _write_table(world.folder / "shifted.csv", pairs)
    found.append(night(world, "two"))
    tagged = {"candidates": [], "registered_candidates": {"tags": {"stage": "candidate"}}}
    found.append(night(world, "three", **tagged))
    return found


def test_the_champion_is_measured_and_keeps_its_verdict(nights, world):
    summary, _, output = nights[0]
    decisions = {decision.candidate: decision for decision in summary.decisions}
    assert decisions.keys() == {"shifted", "champion"}
    assert summary.outcome_of == ["shifted"]
    assert "own verdict is unchanged" in decisions["champion"].sentence
    version = world.gateway.get_alias(MODEL, "champion")
    runs = {verdict.run_id for verdict in summary.verdicts}
    assert version.tags["biasgate.comments.run_id"] not in runs
    assert (output / "comments" / "champion" / "report.json").is_file()


def test_each_night_says_what_changed(nights):
    first, second, third = (
        [night["news"] for night in trend["nights"]][-1] for _, trend, _ in nights
    )
    assert first == ["shifted on comments: new.", "champion on comments: new."]
    assert "champion on comments: new data since night 1." in second
    assert "shifted on comments: new model, new data since night 1." in second
    assert third == ["shifted: not measured tonight."]


def test_a_night_keeps_joint_intervals_of_every_identity(nights):
    champion = nights[1][1]["nights"][-1]["models"][1]
    low, high = champion["joint"]["bpsn_auc/gay"]
    _, shown_low, shown_high = champion["numbers"]["bpsn_auc/gay"]
    assert low < shown_low < shown_high < high


def test_who_moved_is_in_the_summary_and_the_trend_and_fresh_comments_alone_move_nobody(nights):
    for summary, trend, _ in nights:
        assert (summary.moved, trend["moved"]) == ([], [])


def test_an_identity_of_which_all_scores_turn_is_named_by_the_outcome(world, first):
    del first
    rows = [row | {"id": f"x{row['id']}"} for row in world.rows]
    _write_table(world.folder / "test.csv", rows)
    found = []
    for to, wrong in (("four", ""), ("five", "gay")):
        scores = [
            {
                "id": row["id"],
                "prediction": 0.1 + 0.5 * (row["label"] != (row["mention"] == wrong)) + at / 10_000,
            }
            for at, row in enumerate(rows)
        ]
        _write_table(world.folder / "shifted.csv", scores)
        changes = {"name": "files alone", "registered_model": None, "candidates": [SHIFTED]}
        found.append(night(world, to, **changes))
    assert found[0][0].moved == []
    summary, trend, _ = found[1]
    assert any(line.startswith("gay got worse with shifted") for line in summary.moved)
    assert trend["moved"] == summary.moved == trend["nights"][-1]["news"][: len(summary.moved)]


def test_a_night_without_candidates_measures_the_champion_alone(nights):
    summary, trend, _ = nights[2]
    assert [decision.candidate for decision in summary.decisions] == ["champion"]
    assert len(trend["nights"]) == 3


def test_the_report_has_the_section_and_no_comment(nights, world):
    page = (nights[1][2] / "report.html").read_text("utf-8")
    assert "Night 2, beside the last 1" in page
    written = [page, (nights[1][2] / "trend.json").read_text("utf-8")]
    assert not [row["mark"] for row in world.rows if any(row["mark"] in line for line in written)]


def test_the_memory_is_in_mlflow(nights, world):
    del nights
    assert [night.number for night in Memory(world.gateway, "by night").read_nights(9)] == [1, 2, 3]


def test_a_night_that_fails_is_remembered(nights, world):
    del nights
    gone = SHIFTED | {"path": "gone.csv"}
    with pytest.raises(InputError):
        night(world, "six", candidates=[gone])
    failed = Memory(world.gateway, "by night").read_nights(1)[0]
    assert (failed.number, failed.models) == (4, [])
    assert failed.news[0].startswith("failed (InputError); see the log of flow run ")
