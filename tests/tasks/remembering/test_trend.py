"""Changes since earlier nights, as sentences and as rows of a table."""

import copy
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.evaluations import write_inputs
from support.partial import partial

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reading_evaluation import read_evaluation, remember_failed_night
from biasgate.tasks.records.trend import (
    Digests,
    Night,
    NotCompared,
    Remembered,
    Trend,
)
from biasgate.tasks.remembering.memory import Memory
from biasgate.tasks.remembering.moved import find_moves, find_not_compared
from biasgate.tasks.remembering.rows import compare_nights
from biasgate.tasks.remembering.trend import (
    CAUSES,
    _compute_model_digest,
    describe_moves,
    describe_news,
    find_causes,
    find_changes,
)
from biasgate.tasks.reporting.page.page import describe_trend
from biasgate.tasks.reporting.terminal import print_trend
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.store import Workplace

DIGESTS = Digests(model="m", data="d", options="o", policy="p", code="c")
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def model(name="champion", uri="models:/toxicity/2", value=0.9, **digests):
    return Remembered(
        candidate=name,
        model=uri,
        evaluation_set="news",
        run_id="r",
        outcome="pass",
        digests=replace(DIGESTS, **digests),
        joint={},
        reasons={},
        numbers={
            "auc/overall": [value, value - 0.01, value + 0.01],
            "bpsn_auc/gay": [None, None, None],
            "share/gay": [0.1, None, None],
        },
    )


def night(number, *models):
    return Night(
        schema_version=1,
        evaluation="e",
        number=number,
        at="2026-11-22T02:00:00+00:00",
        run_id=f"run-{number}",
        joint_confidence=0.95,
        models=list(models) or [model()],
        news=[],
    )


def news(tonight, before):
    moved = describe_moves(find_moves([*before, tonight]))
    return describe_news(tonight, before, find_changes(tonight, before), moved)


def test_a_night_like_the_last_is_no_news():
    assert news(night(2), [night(1)]) == []


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_named_by_its_digest(cause):
    assert find_causes(replace(DIGESTS, **{cause: "other"}), DIGESTS) == [cause]
    assert news(night(5, model(**{cause: "other"})), [night(4)]) == [
        f"champion on news: new {cause} since night 4."
    ]


def test_a_model_is_compared_with_the_night_that_had_it_last():
    before = [night(1, model(data="x")), night(2, model("other", "models:/toxicity/9"))]
    [changed] = find_changes(night(3), before)
    assert (changed.since, changed.causes) == (1, ["data"])


def test_a_candidate_that_is_trained_anew_is_compared_with_its_last_night():
    before = [night(1, model("words", "models:/toxicity/7", model="seven"))]
    tonight = night(2, model("words", "models:/toxicity/8", model="eight"))
    assert news(tonight, before) == ["words on news: new model since night 1."]


def test_a_candidate_that_changes_to_and_fro_is_not_compared_with_an_older_night_of_its_model():
    good = model("words", "models:/toxicity/3", model="three")
    bad = replace(model("words", "models:/toxicity/1", model="one"), outcome="fail")
    watched = model("champion", "models:/toxicity/3", model="three")
    nights = [night(1, good), night(2, bad, watched), night(3, good), night(4, bad, watched)]
    last = "words on news: new model since night"
    assert news(nights[2], nights[:2])[:2] == [
        f"{last} 2.",
        "words on news: passed; in night 2 it was blocked.",
    ]
    assert news(nights[3], nights[:3])[:2] == [
        f"{last} 3.",
        "words on news: blocked; in night 3 it was passed.",
    ]
    # The champion is the candidate of the night before, under another name.
    assert not [one for one in news(nights[3], nights[:3]) if "champion on news" in one]


def test_a_version_is_the_same_model_whether_it_was_trained_that_night_or_taken_from_the_registry():
    trained = CANDIDATES.validate_python(
        {"name": "words", "kind": "tfidf", "train_on": {"source": "templates", "name": "training"}}
    ).model_copy(update={"model": "models:/toxicity/2"})
    watched = CANDIDATES.validate_python(
        {"name": "champion", "kind": "mlflow", "model": "models:/toxicity/2"}
    )
    digests = set()
    for one, digest in ((trained, "a"), (watched, "b")):
        bound = partial({"candidate": {"bound": {"what": "files", "digest": "files"}}})
        measured = partial({"report": {"candidate": {"digest": digest}}})
        digests.add(
            _compute_model_digest(SimpleNamespace(candidate=one, report=measured.report), bound)
        )
    assert len(digests) == 1


def test_another_outcome_is_news():
    blocked = replace(model(), outcome="fail")
    assert news(night(2, blocked), [night(1)]) == [
        "champion on news: blocked; in night 1 it was passed."
    ]


def test_a_new_version_and_one_that_is_gone_are_news():
    tonight = night(2, model("toxicity-3", "models:/toxicity/3"))
    assert news(tonight, [night(1)]) == [
        "toxicity-3 on news: new.",
        "champion: not measured tonight.",
    ]


def test_of_many_moved_identities_the_last_are_counted():
    nights = [fallen(at, value, n_groups=13) for at, value in enumerate((0.95, 0.75), 1)]
    sentences = describe_moves(find_moves(nights))
    assert len(sentences) == 11
    assert sentences[-1] == "3 more identities moved."


def test_tonight_stands_beside_the_nights_before():
    [line] = compare_nights([night(1, model(value=0.8)), night(2, model(value=0.85)), night(3)])
    assert line.before == ""
    auc, bpsn, share = line.rows
    assert (auc.metric, auc.group, auc.earlier) == ("auc", "", ("0.800", "0.850"))
    assert (auc.lowest, auc.highest, auc.tonight) == ("0.800", "0.850", "0.900")
    assert auc.interval == "[0.890, 0.910]"
    assert (bpsn.tonight, bpsn.lowest, bpsn.interval) == ("-", "-", "")
    assert (share.tonight, share.interval) == ("0.100", "")


def test_a_candidate_that_is_trained_again_stands_beside_its_earlier_models():
    nights = [
        night(1, model("words", "models:/toxicity/7", 0.8)),
        night(2, model("words", "models:/toxicity/8", 0.7), model(uri="models:/toxicity/7")),
        night(3, model("words", "models:/toxicity/9"), model(uri="models:/toxicity/8")),
    ]
    words, champion = compare_nights(nights)
    assert words.rows[0].earlier == ("0.800", "0.700")
    assert words.before == "before: models:/toxicity/7, models:/toxicity/8"
    # A version that is measured again has its own numbers alone.
    assert (champion.rows[0].earlier, champion.before) == (("0.700",), "")


def test_what_has_no_interval_is_never_named_and_has_its_reason():
    """One without an interval, one that is new, and one that the first night could not measure."""
    first, last = fallen(1, 0.95), fallen(2, 0.75)
    lacking = replace(last.models[0], joint={}, reasons={KEY: "has 3 clusters"})
    [found] = find_not_compared([first, replace(last, models=[lacking])])
    assert (found.candidate, found.evaluation_set) == ("words", "news")
    assert (found.identities, found.reason) == (["gay"], "has 3 clusters")
    assert find_moves([first, replace(last, models=[lacking])]) == []
    unmeasured = replace(first, models=[replace(first.models[0], joint={})])
    [found] = find_not_compared([unmeasured, last])
    assert found.reason == "not measured in both nights"
    assert find_moves([unmeasured, last]) == []
    [found] = find_not_compared([last])
    assert found.reason == "no earlier night of this candidate on this set with the same options"
    assert find_moves([last]) == find_moves([]) == find_not_compared([]) == []
    assert find_not_compared([first, last]) == []


def test_the_section_of_the_page_holds_news_tests_and_numbers():
    trend = Trend(
        schema_version=1,
        evaluation="e",
        nights=[night(1), replace(night(2), news=["x"])],
        changed=[],
        moved=[],
        not_compared=[
            NotCompared(candidate="c", evaluation_set="s", identities=["a", "b"], reason="r")
        ],
    )
    view = describe_trend(trend)
    assert (view.number, view.n_before, view.news) == (2, 1, ("x",))
    assert len(view.lines) == 1
    assert view.not_compared == ("c on s: a, b not compared with earlier nights (r).",)


@pytest.mark.parametrize(
    ("n_nights", "message"),
    [
        (0, "trend_nights: .*greater than or equal to 1; got 0"),
        (366, "trend_nights: .*less than or equal to 365; got 366"),
    ],
)
def test_a_wrong_number_of_nights_is_refused(tmp_path, n_nights, message):
    (tmp_path / "rows.csv").write_text("id,label,gay,p\n1,0,1,.1\n")
    (tmp_path / "file.yaml").write_text(
        "name: e\nevaluation_sets: [{name: a, source: table, path: rows.csv, identities: [gay]}]\n"
        "candidates: [{name: c, kind: scores, path: rows.csv, score: p}]\n"
        f"trend_nights: {n_nights}\n"
    )
    with pytest.raises(InputError, match=message):
        read_evaluation(tmp_path / "file.yaml")


def test_records_are_not_changed_by_reading_them():
    nights = [night(1), night(2)]
    kept = copy.deepcopy(nights)
    compare_nights(nights)
    news(nights[1], nights[:1])
    assert nights == kept


def test_a_night_that_failed_has_its_place_and_no_text_of_its_error(tmp_path):
    config, store = write_inputs(tmp_path) / "file.yaml", tmp_path / "store"
    failed = SimpleNamespace(name="Failed", data=TimeoutError("a comment"))
    for run_id, is_night in (("one", True), ("two", True), ("two", True), ("three", False)):
        of = {"config": str(config), "store": str(store), "night": is_night}
        remember_failed_night(None, SimpleNamespace(id=run_id, parameters=of), failed)
    known = Memory(Workplace(store).gateway, "mistakes").read_nights(9)
    assert [(one.number, one.run_id, one.models) for one in known] == [
        (1, "one", []),
        (2, "two", []),
    ]
    assert known[1].news == ["failed (TimeoutError); see the log of flow run two."]
    assert compare_nights(known) == []


def test_a_failed_night_hides_nothing_of_the_nights_before_it():
    measured = night(1, model(), model("other", "models:/toxicity/3"))
    failed = replace(night(2), models=[])
    [first, _] = compare_nights([measured, failed])
    assert (first.candidate, first.rows[0].earlier) == ("champion", ())
    [said] = describe_news(night(3, model()), [measured, failed], [], [])
    assert said == "other: not measured tonight."


KEY = "bpsn_auc/gay"


def moving(number, numbers, half=0.04, **changes):
    """Build a night of a model whose joint intervals have this half-width."""
    joint = {key: [value - half, value + half] for key, value in numbers.items()}
    shown = {key: [value, value - half / 2, value + half / 2] for key, value in numbers.items()}
    of = replace(model("words", f"models:/toxicity/{number}"), numbers=shown, joint=joint)
    return replace(night(number, of), **{"joint_confidence": 1 - 0.05 / len(numbers)} | changes)


def fallen(number, value, n_groups=1, **changes):
    groups = ["gay", *(f"group {at}" for at in range(1, n_groups))]
    return moving(number, {f"bpsn_auc/{group}": value for group in groups}, **changes)


def test_the_identity_that_fell_is_named_first():
    nights = [fallen(at, value) for at, value in enumerate((0.954, 0.953, 0.861, 0.744), 1)]
    [one] = find_moves(nights)
    assert (one.group, one.is_worse) == ("gay", True)
    assert one.sentence == "gay got worse with words on news: BPSN AUC 0.954 -> 0.744 in 4 nights."
    assert one.bars == "██▅▁"
    assert news(nights[-1], nights[:-1])[0] == one.sentence


def test_several_numbers_of_an_identity_are_one_move():
    numbers = {KEY: 0.95, "subgroup_auc/gay": 0.95, "bnsp_auc/gay": 0.95}
    nights = [moving(1, numbers), moving(2, numbers | {KEY: 0.7, "subgroup_auc/gay": 0.8})]
    [one] = find_moves(nights)
    assert (one.metric, one.n_more) == ("bpsn_auc", 1)
    assert one.sentence.endswith(" in 2 nights (and 1 more of its numbers).")


def test_what_came_back_is_not_said_to_have_moved():
    values = enumerate((0.95, 0.75, 0.95), 1)
    assert find_moves([fallen(at, value) for at, value in values]) == []


def test_an_unchanged_model_on_the_same_comments_moves_nobody():
    """The difference is exactly 0, also if an interval has no width."""
    for half in (0.04, 0.0):
        assert find_moves([fallen(at, 0.95, half=half) for at in (1, 2)]) == []


def test_a_change_is_shown_beyond_the_joined_reach_of_both_intervals():
    """Both intervals reach .04, so that their difference reaches .0566."""
    for value, n_moved in ((0.844, 0), (0.843, 1)):
        assert len(find_moves([fallen(1, 0.9), fallen(2, value)])) == n_moved


def test_intervals_of_a_night_with_fewer_numbers_are_widened():
    """The first night has a confidence of .95; .99875 is needed, 1.65 times as far."""
    nights = [fallen(1, 0.9, 40, joint_confidence=0.95), fallen(2, 0.825, 40)]
    assert find_moves(nights[1:] * 2) == []
    assert find_moves(nights) == []
    assert len(find_moves([fallen(1, 0.9, 40), nights[1]])) == 40


def test_a_night_that_failed_and_other_options_are_passed_over():
    failed = replace(night(2), models=[])
    other = fallen(1, 0.5)
    other = replace(other, models=[replace(other.models[0], digests=replace(DIGESTS, options="x"))])
    nights = [other, fallen(2, 0.95), failed, fallen(4, 0.75)]
    [one] = find_moves(nights)
    assert one.values == (0.95, 0.75)


def test_a_gap_gets_worse_on_either_side_of_zero():
    nights = [moving(at, {"negative_aeg/gay": value}) for at, value in ((1, -0.05), (2, -0.4))]
    [one] = find_moves(nights)
    assert (one.is_worse, one.texts) == (True, ["-0.050", "-0.400"])
    [one] = find_moves(nights[::-1])
    assert not one.is_worse


def test_the_terminal_says_first_who_moved_and_has_tables_on_demand(capsys):
    nights = [fallen(at, value) for at, value in enumerate((0.95, 0.75), 1)]
    nights[-1] = replace(nights[-1], news=[find_moves(nights)[0].sentence])
    print_trend(nights, None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("  gay got worse with words on news: BPSN AUC 0.950 -> 0.750")
    assert any("0.950 0.750  █▁  words on news" in line for line in lines)
    assert not any("Earlier nights" in line for line in lines)
    print_trend(nights, None, everything=True)
    assert "Earlier nights" in capsys.readouterr().out
    print_trend(nights, "auc")
    assert "█▁" not in capsys.readouterr().out  # nothing of another metric


def test_a_memory_that_cannot_be_written_changes_nothing(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    of = {"config": str(tmp_path / "none.yaml"), "store": str(tmp_path), "night": True}
    remember_failed_night(None, SimpleNamespace(id="one", parameters=of), None)
    assert "will not show this night: InputError" in caplog.text
