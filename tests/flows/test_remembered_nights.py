"""Three nights: the champion is measured beside the candidates, and each night knows the others."""

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
    """The night after a promotion, one with other comments, and one without any candidate."""
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
    decisions = {one.candidate: one for one in summary.decisions}
    assert decisions.keys() == {"shifted", "champion"}
    assert summary.outcome_of == ["shifted"]
    assert "keeps the verdict that it has" in decisions["champion"].sentence
    version = world.gateway.alias(MODEL, "champion")
    runs = {one.run_id for one in summary.verdicts}
    assert version.tags["biasgate.comments.run_id"] not in runs
    assert (output / "comments" / "champion" / "report.json").is_file()


def test_each_night_says_what_changed(nights):
    first, second, third = ([one["news"] for one in trend["nights"]][-1] for _, trend, _ in nights)
    assert first == ["shifted on comments: new.", "champion on comments: new."]
    assert "champion on comments: new data since night 1." in second
    assert "shifted on comments: new model, new data since night 1." in second
    assert third == ["shifted: not measured tonight."]


def test_an_unchanged_model_on_other_comments_is_tested_for_drift(nights):
    by_place = {one["candidate"]: one for one in nights[1][1]["drift"]}
    assert by_place["champion"]["why_not"] is None, nights[0][1]["nights"]
    assert (by_place["champion"]["n_before"], by_place["champion"]["n_now"]) == (240, 240)
    assert by_place["champion"]["why_not"] is None
    assert by_place[None]["evaluation_set"] == "comments"
    assert by_place["shifted"]["why_not"].startswith("no earlier night of this model")


def test_the_data_are_tested_for_drift_where_every_model_is_new(world, first):
    del first
    rows = [one | {"id": f"x{one['id']}"} for one in world.rows]
    _write_table(world.folder / "test.csv", rows)
    scores = [{"id": one["id"], "prediction": 0.1 + 0.5 * one["label"]} for one in rows]
    found = []
    for to, changed in (("four", rows), ("five", [r for r in rows if r["mention"] != "gay"])):
        _write_table(world.folder / "test.csv", changed)
        known = {one["id"] for one in changed}
        kept = [one for one in scores if one["id"] in known]
        _write_table(world.folder / "shifted.csv", kept)
        alone = SHIFTED | {"allow_two_valued": True}
        changes = {"name": "files alone", "registered_model": None, "candidates": [alone]}
        found.append(night(world, to, **changes))
    by_place = {one["candidate"]: one for one in found[1][1]["drift"]}
    assert by_place["shifted"]["why_not"].startswith("no earlier night of this model")
    assert by_place[None]["why_not"] is None
    assert {one["group"] for one in by_place[None]["alarms"]} >= {"gay"}


def test_a_night_without_candidates_measures_the_champion_alone(nights):
    summary, trend, _ = nights[2]
    assert [one.candidate for one in summary.decisions] == ["champion"]
    assert len(trend["nights"]) == 3


def test_the_report_has_the_section_and_no_comment(nights, world):
    page = (nights[1][2] / "report.html").read_text("utf-8")
    assert "Night 2, beside the last 1" in page
    written = [page, (nights[1][2] / "trend.json").read_text("utf-8")]
    assert not [row["mark"] for row in world.rows if any(row["mark"] in one for one in written)]


def test_the_memory_is_in_mlflow(nights, world):
    del nights
    assert [one.number for one in Memory(world.gateway, "by night").nights(9)] == [1, 2, 3]


def test_a_night_that_fails_is_remembered(nights, world):
    del nights
    gone = SHIFTED | {"path": "gone.csv"}
    with pytest.raises(InputError):
        night(world, "six", candidates=[gone])
    failed = Memory(world.gateway, "by night").nights(1)[0]
    assert (failed.number, failed.models) == (4, [])
    assert failed.news[0].startswith("failed (InputError); the log of flow run ")
