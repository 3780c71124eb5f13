"""What changed since earlier nights, in words and in rows."""

import copy
import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.evaluations import write_inputs
from support.partial import partial

from bias_metrics import Change
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reading_evaluation import read_evaluation, remember_failed_night
from biasgate.tasks.records.trend import (
    Digests,
    Drifted,
    Night,
    Remembered,
    Trend,
)
from biasgate.tasks.remembering.memory import Memory
from biasgate.tasks.remembering.moved import moved
from biasgate.tasks.remembering.rows import lines_of
from biasgate.tasks.remembering.trend import (
    CAUSES,
    _model_digest,
    alarm_in_words,
    causes_of,
    changes_of,
    sentences_of,
)
from biasgate.tasks.reporting.page.page import describe_trend, result_in_words
from biasgate.tasks.reporting.terminal import print_trend
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.store import Workplace

DIGESTS = Digests(model="m", data="d", options="o", policy="p", code="c")
ALARM = Change(
    metric="bpsn_auc",
    group="gay",
    before=0.91,
    now=0.84,
    change=-0.07,
    low=-0.09,
    high=-0.05,
    p_value=0.001,
    drifted=True,
)
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def model(name="champion", uri="models:/toxicity/2", value=0.9, **digests):
    return Remembered(
        candidate=name,
        model=uri,
        evaluation_set="news",
        run_id="r",
        outcome="pass",
        digests=replace(DIGESTS, **digests),
        rows="news-1",
        scored_by="m",
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
        models=list(models) or [model()],
        news=[],
    )


def drift(*alarms, candidate="champion", why_not=None):
    return Drifted(
        candidate=candidate,
        evaluation_set="news",
        n_before=1000,
        n_now=200,
        n_shared=0,
        alarms=list(alarms),
        why_not=why_not,
    )


def news(tonight, before, *drifted):
    return sentences_of(tonight, before, changes_of(tonight, before), drifted)


def test_a_night_like_the_last_is_no_news():
    assert news(night(2), [night(1)], drift()) == []


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_named_by_its_digest(cause):
    assert causes_of(replace(DIGESTS, **{cause: "other"}), DIGESTS) == [cause]
    assert news(night(5, model(**{cause: "other"})), [night(4)]) == [
        f"champion on news: new {cause} since night 4."
    ]


def test_a_model_is_compared_with_the_night_that_had_it_last():
    before = [night(1, model(data="x")), night(2, model("other", "models:/toxicity/9"))]
    [changed] = changes_of(night(3), before)
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
        digests.add(_model_digest(SimpleNamespace(candidate=one, report=measured.report), bound))
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


def test_an_alarm_says_the_number_before_and_now():
    assert news(night(2), [night(1)], drift(ALARM)) == [
        "Drift of champion on news: bpsn_auc of gay 0.910 -> 0.840 (-0.070 [-0.090, -0.050])."
    ]
    length = replace(ALARM, metric="length", group="overall", before=99.6, now=80.4)
    assert alarm_in_words(length).startswith("length 99.6 -> 80.4 ")


def test_many_alarms_are_counted():
    told = news(night(2), [night(1)], drift(*[ALARM] * 13, candidate=None))
    assert len(told) == 11
    assert told[-1] == "Drift of the data on news: 3 more numbers."


def test_tonight_stands_beside_the_nights_before():
    [line] = lines_of([night(1, model(value=0.8)), night(2, model(value=0.85)), night(3)])
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
    words, champion = lines_of(nights)
    assert words.rows[0].earlier == ("0.800", "0.700")
    assert words.before == "before: models:/toxicity/7, models:/toxicity/8"
    # A version that is measured again has its own numbers alone.
    assert (champion.rows[0].earlier, champion.before) == (("0.700",), "")


def test_a_test_that_was_not_made_says_why():
    assert result_in_words(drift(why_not="the same rows")) == (
        "champion on news: not tested for drift (the same rows)."
    )
    assert result_in_words(drift(ALARM)).endswith("200 comments against 1,000; 1 changed.")
    both = replace(drift(), n_shared=150)
    assert "1,000, 150 of them in both; no number changed" in result_in_words(both)


def test_the_section_of_the_page_holds_news_tests_and_numbers():
    trend = Trend(
        schema_version=1,
        evaluation="e",
        nights=[night(1), replace(night(2), news=["x"])],
        drift=[drift()],
        changed=[],
        alpha=0.01,
    )
    view = describe_trend(trend)
    assert (view.number, view.n_before, view.news) == (2, 1, ("x",))
    assert len(view.tests) == len(view.lines) == 1


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{nights: 0}", "drift.nights: .*greater than or equal to 1; got 0"),
        ("{alpha: 0}", "drift.alpha: .*; got 0"),
        ("{days: 3}", "drift.days: unknown key"),
    ],
)
def test_a_wrong_section_is_refused(tmp_path, section, message):
    (tmp_path / "rows.csv").write_text("id,label,gay,p\n1,0,1,.1\n")
    (tmp_path / "file.yaml").write_text(
        "name: e\nevaluation_sets: [{name: a, source: table, path: rows.csv, identities: [gay]}]\n"
        f"candidates: [{{name: c, kind: scores, path: rows.csv, score: p}}]\ndrift: {section}\n"
    )
    with pytest.raises(InputError, match=message):
        read_evaluation(tmp_path / "file.yaml")


def test_records_are_not_changed_by_reading_them():
    nights = [night(1), night(2)]
    kept = copy.deepcopy(nights)
    lines_of(nights)
    news(nights[1], nights[:1])
    assert nights == kept


def test_a_night_that_failed_has_its_place_and_no_text_of_its_error(tmp_path):
    config, store = write_inputs(tmp_path) / "file.yaml", tmp_path / "store"
    failed = SimpleNamespace(name="Failed", data=TimeoutError("a comment"))
    for run_id, is_night in (("one", True), ("two", True), ("two", True), ("three", False)):
        of = {"config": str(config), "store": str(store), "night": is_night}
        remember_failed_night(None, SimpleNamespace(id=run_id, parameters=of), failed)
    known = Memory(Workplace(store).gateway, "mistakes").nights(9)
    assert [(one.number, one.run_id, one.models) for one in known] == [
        (1, "one", []),
        (2, "two", []),
    ]
    assert known[1].news == ["failed (TimeoutError); the log of flow run two says where."]
    assert lines_of(known) == []


def test_a_failed_night_hides_nothing_of_the_nights_before_it():
    measured = night(1, model(), model("other", "models:/toxicity/3"))
    failed = replace(night(2), models=[])
    [first, _] = lines_of([measured, failed])
    assert (first.candidate, first.rows[0].earlier) == ("champion", ())
    [said] = sentences_of(night(3, model()), [measured, failed], [], [])
    assert said == "other: not measured tonight."


def fallen(number, value, *, half=0.02, group="gay"):
    numbers = {f"bpsn_auc/{group}": [value, value - half, value + half]}
    return night(number, replace(model("words", f"models:/toxicity/{number}"), numbers=numbers))


def test_the_identity_that_fell_is_named_first_with_the_night_since_when_it_is_shown():
    nights = [fallen(at, value) for at, value in enumerate((0.954, 0.953, 0.861, 0.744), 1)]
    [one] = moved(nights)
    assert (one.group, one.is_worse, one.since) == ("gay", True, 3)
    assert one.sentence == (
        "gay got worse with words on news: BPSN AUC 0.954 -> 0.744 in 4 nights, "
        "shown since night 3."
    )
    assert one.bars == "██▅▁"
    assert news(nights[-1], nights[:-1])[0] == one.sentence


def test_what_came_back_is_not_said_to_have_moved():
    assert moved([fallen(at, value) for at, value in enumerate((0.95, 0.75, 0.95), 1)]) == []


def test_a_gap_gets_worse_on_either_side_of_zero():
    nights = []
    for number, value in ((1, -0.05), (2, -0.4)):
        cells = {"negative_aeg/gay": [value, value - 0.02, value + 0.02]}
        nights.append(night(number, replace(model(), numbers=cells)))
    [one] = moved(nights)
    assert (one.is_worse, one.texts) == (True, ["-0.050", "-0.400"])


def test_by_chance_alone_hardly_ever_anything_moves():
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        nights = []
        for number in range(1, 6):
            values = rng.normal(0.85, 0.01, 24)
            cells = {
                f"bpsn_auc/{at}": [one, one - 1.96 * 0.01, one + 1.96 * 0.01]
                for at, one in enumerate(values)
            }
            nights.append(night(number, replace(model(), numbers=cells)))
        wrong += bool(moved(nights, alpha=0.1))
    assert wrong / 400 < 0.1 + 3 * (0.1 * 0.9 / 400) ** 0.5


def test_the_terminal_says_first_who_moved_and_has_tables_on_demand(capsys):
    nights = [fallen(at, value) for at, value in enumerate((0.95, 0.75), 1)]
    nights[-1] = replace(nights[-1], news=[moved(nights)[0].sentence])
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
    assert "does not know of this night: InputError" in caplog.text
