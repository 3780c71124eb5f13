"""Candidates that are a function of an installed package."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
from support.comments import ODD, batch

from tasks.data.freezing import SOURCES, freeze
from tasks.errors import CandidateError, InputError
from tasks.scoring.kinds import CANDIDATES
from tasks.scoring.scored import score_rows


def length_score(texts):
    return [min(len(text), 1000) / 1000 for text in texts]


@pytest.fixture
def module(monkeypatch):
    """An installed package with some functions."""
    made = types.ModuleType("toxic_package")
    made.__spec__ = types.SimpleNamespace(name="toxic_package")
    made.score = length_score
    monkeypatch.setitem(sys.modules, "toxic_package", made)
    return made


def candidate(**options):
    settings = {"name": "own", "kind": "python", "call": "toxic_package:score", "version": "1"}
    return CANDIDATES.validate_python(settings | options)


def scored(texts, **options):
    with candidate(**options).open(None) as scorer:
        return scorer.score(batch(texts))


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_every_text_gets_the_functions_score_whatever_the_batches(batch_size):
    assert scored(ODD, batch_size=batch_size).tolist() == length_score(ODD)


def test_of_two_probabilities_the_second_is_the_score(module):
    module.score = lambda texts: np.array([[0.9, 0.1]] * len(texts))
    assert scored(["a", "b"]).tolist() == [0.1, 0.1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda texts: length_score(texts)[1:], "must return one score per text; got 1 for 2"),
        (lambda texts: ["toxic"] * len(texts), "must return one score or two class probabilities"),
        (lambda texts: [[0.1, 0.2, 0.7]] * len(texts), r"got shape \(2, 3\)"),
        (lambda texts: [[0.1], [0.2, 0.3]][: len(texts)], "must return one score"),
        (lambda _: None, "must return one score"),
    ],
)
def test_an_answer_that_is_no_score_is_refused(module, answer, message):
    module.score = answer
    with pytest.raises(InputError, match=message):
        scored(["a", "b"])


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("toxic_package:other", "must name a function that can be imported.*other"),
        ("toxic_package.deeper:score", "must name a function that can be imported"),
        ("toxic_package:__doc__", "must be callable"),
    ],
)
def test_a_call_that_is_no_function_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        scored(["a"], call=call)


def test_a_package_that_is_not_installed_is_refused_before_any_work():
    with pytest.raises(InputError, match="must name an installed package; got 'not_there_at_all'"):
        candidate(call="not_there_at_all.models:score").check()


def test_scores_are_reused_by_version_and_never_without():
    def digest(**options):
        return candidate(**options).open(None).digest

    assert digest(version="1") == digest(version="1", name="other", batch_size=7)
    assert digest(version="1") != digest(version="2")
    assert digest(version="1") != digest(call="toxic_package:other")
    unversioned = {"name": "own", "kind": "python", "call": "toxic_package:score"}
    once, again = (CANDIDATES.validate_python(unversioned) for _ in range(2))
    assert once.open(None).digest != again.open(None).digest
    # Within one run the settings travel as plain values and mean the same scores.
    copied = CANDIDATES.validate_python(once.model_dump(mode="json"))
    assert once.open(None).digest == copied.open(None).digest


def test_what_a_failing_function_says_is_withheld(module, tmp_path):
    def score(texts):
        raise KeyError(texts[3])

    module.score = score
    frame = pd.DataFrame({"id": range(20), "text": [f"secret {i}" for i in range(20)]})
    frame.assign(label=frame["id"] % 2, group=1).to_csv(tmp_path / "rows.csv", index=False)
    source = {"name": "rows", "source": "table", "path": tmp_path / "rows.csv", "text": "text"}
    rows = freeze(SOURCES.validate_python(source | {"identities": ["group"]}), tmp_path / "store")
    own = candidate()
    message = r"'own' failed with KeyError at .*test_scoring_python\.py:\d+"
    with pytest.raises(CandidateError, match=message) as failed:
        score_rows(own.open(None), rows, own, str(tmp_path / "scores"))
    assert "secret" not in str(failed.value)
    assert failed.value.__context__ is None
