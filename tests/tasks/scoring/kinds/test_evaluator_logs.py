"""Logs of inspect_ai and lm-evaluation-harness as scores: numbers by hand, and what is refused.

The samples have the keys that inspect_ai 0.3 and lm-eval 0.4 write.
"""

import json
import math

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.json_lines import value_of
from biasgate.tasks.data.table import TableSource
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

COMMENT = "secretword"


def sample(at, value, answer, *, epoch=1, **more):
    toxic = at % 2 == 0
    return {
        "id": f"c{at}",
        "epoch": epoch,
        "input": f"{COMMENT} {at}",
        "target": "toxic" if toxic else "harmless",
        "scores": {
            "toxicity": {"value": value, "answer": str(value)},
            "flagged": {"value": "C" if answer == toxic else "I", "answer": answer},
        },
        "metadata": {"label": int(toxic), "gay": at % 3 == 0, "article": f"a{at % 4}"},
    } | more


def inspect_log(folder, samples, **changed):
    content = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    (folder / "run.json").write_text(json.dumps(content | changed), "utf-8")
    return folder / "run.json"


def lm_samples(folder, rows):
    (folder / "samples_t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    return folder / "samples_t.jsonl"


def lm_sample(at, logs, **more):
    return {
        "doc_id": at,
        "doc": {"id": f"d{at}", "text": COMMENT, "label": at % 2, "gay": at % 3 == 0},
        "target": str(at % 2),
        "filtered_resps": [[str(one), "False"] for one in logs],
        "filter": "none",
        "acc": 1.0,
    } | more


def candidate(kind, path, **options):
    found = CANDIDATES.validate_python({"name": "run", "kind": kind, "path": path} | options)
    found.check()
    return found


def test_a_score_is_the_value_of_the_scorer(tmp_path):
    path = inspect_log(tmp_path, [sample(0, 0.9, "toxic"), sample(1, 0.25, "harmless")])
    found = candidate("inspect_log", path, scorer="toxicity").scores()
    assert found.to_dict() == {"c0": 0.9, "c1": 0.25}


def test_epochs_are_averaged(tmp_path):
    epochs = [
        sample(at, value, "toxic", epoch=n)
        for n, at, value in [(1, 0, 0.5), (1, 1, 0.0), (2, 0, 1.0), (2, 1, 0.5)]
    ]
    found = candidate("inspect_log", inspect_log(tmp_path, epochs), scorer="toxicity").scores()
    assert found.to_dict() == {"c0": 0.75, "c1": 0.25}
    with pytest.raises(InputError, match="must be there equally often"):
        candidate("inspect_log", inspect_log(tmp_path, epochs[:3]), scorer="toxicity").scores()


def test_answers_may_be_words_and_correct_is_not_toxic(tmp_path):
    samples = [sample(0, 1, "toxic"), sample(1, 0, "harmless"), sample(2, 0.5, "unsure")]
    path = inspect_log(tmp_path, samples)
    words = {"toxic": 1, "unsure": 0.5, "harmless": 0}
    options = {"scorer": "flagged", "score": "answer", "answers": words}
    assert candidate("inspect_log", path, **options).scores().tolist() == [1, 0, 0.5]
    there = r"The scorer has value, answer; what words mean is said in `answers`"
    with pytest.raises(InputError, match=r"none has one\. " + there):
        candidate("inspect_log", path, scorer="flagged").scores()


def test_a_failed_sample_has_no_score_which_must_be_allowed(tmp_path):
    failed = sample(1, 0.2, "harmless", error={"message": COMMENT})
    path = inspect_log(tmp_path, [sample(0, 0.9, "toxic"), failed])
    with pytest.raises(InputError) as caught:
        candidate("inspect_log", path, scorer="toxicity").scores()
    assert "Set `allow_missing: true`" in str(caught.value)
    assert COMMENT not in str(caught.value)
    found = candidate("inspect_log", path, scorer="toxicity", allow_missing=True).scores()
    assert math.isnan(found["c1"])


def test_a_scorer_that_no_sample_has_is_told_with_those_that_there_are(tmp_path):
    path = inspect_log(tmp_path, [sample(0, 0.9, "toxic"), sample(1, 0.2, "harmless")])
    for options in ({}, {"allow_missing": True}):
        with pytest.raises(
            InputError, match=r"none has one\. Its scorers are toxicity, flagged\.$"
        ):
            candidate("inspect_log", path, scorer="toxcity", **options).scores()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"choice": 2}, r"none has one\. A sample has 2 choices, of which 0 is the first\.$"),
        ({"score": "accuracy"}, r"none has one\. A sample has doc_id, doc, target, .*acc"),
        ({"choice": 1, "filter": "strict"}, r"`filter` must be one of those in .*: none; got 'str"),
    ],
)
def test_a_choice_or_filter_that_no_sample_has_is_told_with_what_there_is(tmp_path, options, said):
    path = lm_samples(tmp_path, [lm_sample(0, [-1, -2]), lm_sample(1, [-2, -1])])
    with pytest.raises(InputError, match=said):
        candidate("lm_eval_samples", path, **options).scores()


def test_labels_identities_and_clusters_come_from_the_metadata_of_samples(tmp_path):
    path = inspect_log(tmp_path, [sample(at, 0.5, "toxic") for at in range(6)])
    source = TableSource.model_validate(
        {
            "name": "rows",
            "source": "table",
            "path": path,
            "label": "metadata.label",
            "identities": {"gay": "metadata.gay"},
            "cluster": "metadata.article",
        }
    )
    source.check()
    [rows] = source.chunks()
    assert rows["id"].to_pylist() == [f"c{at}" for at in range(6)]
    assert rows["label"].to_pylist() == [1, 0, 1, 0, 1, 0]
    assert rows["identity/gay"].to_pylist() == [1, 0, 0, 1, 0, 0]
    assert rows["cluster"].to_pylist() == ["a0", "a1", "a2", "a3", "a0", "a1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[]", r"name it \.jsonl"),
        (b'{"status": "error", "eval": {}, "samples": []}', "the status success"),
        (b'{"status": "success", "eval": {}}', "with all samples"),
        (b'{"status": "success", "eval": {', "with all samples"),
    ],
)
def test_what_is_no_whole_log_is_refused(tmp_path, content, words):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=words):
        candidate("inspect_log", tmp_path / "run.json", scorer="toxicity")


def test_a_log_in_the_own_format_of_inspect_is_to_be_converted(tmp_path):
    (tmp_path / "run.eval").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"inspect log convert run\.eval --to json"):
        candidate("inspect_log", tmp_path / "run.eval", scorer="toxicity")


def test_the_probability_of_a_choice_is_its_share_of_the_likelihoods(tmp_path):
    path = lm_samples(tmp_path, [lm_sample(0, [-1.0, -1.0]), lm_sample(1, [-3.0, -1.0])])
    found = candidate("lm_eval_samples", path, id="doc.id", choice=1).scores()
    assert found.to_dict() == {"d0": 0.5, "d1": pytest.approx(1 / (1 + math.exp(-2)))}
    assert candidate("lm_eval_samples", path, score="acc").scores().to_dict() == {"0": 1, "1": 1}


def test_only_one_filter_counts(tmp_path):
    rows = [lm_sample(0, [-1, -1]), lm_sample(0, [-9, -1], filter="strict")]
    path = lm_samples(tmp_path, rows)
    assert candidate("lm_eval_samples", path, choice=0).scores().tolist() == [0.5]
    strict = candidate("lm_eval_samples", path, choice=0, filter="strict").scores()
    assert strict.tolist() == [pytest.approx(math.exp(-8) / (1 + math.exp(-8)))]


def test_huge_likelihoods_do_not_overflow(tmp_path):
    path = lm_samples(tmp_path, [lm_sample(0, [-2000.0, -1000.0])])
    assert candidate("lm_eval_samples", path, choice=1).scores().tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give `choice`"),
        ({"choice": 1, "score": "acc"}, "give `choice`"),
        ({"choice": 1, "register": "m"}, "`register` is for `kind: scores`"),
    ],
)
def test_options_that_say_nothing_or_two_things_are_refused(tmp_path, options, words):
    path = lm_samples(tmp_path, [lm_sample(0, [-1, -1])])
    with pytest.raises(ValueError, match=words):
        candidate("lm_eval_samples", path, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"choice": 2}, "a likelihood of each choice"), ({"score": "em"}, "a number in `em`")],
)
def test_a_sample_without_a_score_is_named_without_its_text(tmp_path, options, words):
    path = lm_samples(tmp_path, [lm_sample(0, [-1, -1])])
    with pytest.raises(InputError) as caught:
        candidate("lm_eval_samples", path, **options).scores()
    assert words in str(caught.value)
    assert COMMENT not in str(caught.value)


def test_dotted_names_are_looked_up_inside_and_whole_ones_first():
    row = {"a": {"b": 1, "c.d": 2}, "a.b": 3, "e.f": {"g": 4}}
    assert [value_of(row, name) for name in ("a.b", "a.c.d", "e.f.g", "a.x", "x.y")] == [
        3,
        2,
        4,
        None,
        None,
    ]
