"""Pipelines that only scikit-learn can score are left to it, and the log says why."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from biasgate.tasks.scoring.ngrams import answers
from biasgate.tasks.scoring.ngrams.model import NgramModel
from biasgate.tasks.scoring.ngrams.recognised import NotFastError

TEXTS = ["kind words here", "vile insult there"] * 10
TOXIC = [0, 1] * 10
TWO = r"\w+ \w+"
LINEAR = LogisticRegression()


def words_of(text):
    return text.split()


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(answers, "say", lambda line, *, aside: lines.append((line, aside)))
    return lines


REFUSED = {
    "a tokenizer of its own": [CountVectorizer(tokenizer=words_of, token_pattern=None)],
    "a preprocessor of its own": [CountVectorizer(preprocessor=str.upper)],
    "an analyzer of its own": [CountVectorizer(analyzer=words_of)],
    "a way to read texts of its own": [CountVectorizer(strip_accents=str.upper)],
    "a token_pattern of its own": [TfidfVectorizer(token_pattern=TWO)],
    "computes in float32": [TfidfVectorizer(dtype=np.float32)],
    "a step HashingVectorizer": [HashingVectorizer(n_features=64)],
    "a step MaxAbsScaler": [TfidfVectorizer(), MaxAbsScaler()],
    "a step TfidfTransformer after": [TfidfVectorizer(), TfidfTransformer()],
    "a step Pipeline": [FeatureUnion([("a", make_pipeline(CountVectorizer(), MaxAbsScaler()))])],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_features_that_are_not_computed_here(reason, said):
    pipeline = make_pipeline(*REFUSED[reason], LogisticRegression()).fit(TEXTS, TOXIC)
    with pytest.raises(NotFastError, match=reason):
        NgramModel(pipeline)
    score = answers.answers_of(pipeline, "predict_proba", "model models:/m/1")
    np.testing.assert_array_equal(score(TEXTS), pipeline.predict_proba(TEXTS))
    [(line, aside)] = said
    assert line.startswith("model models:/m/1 is scored by scikit-learn itself, which is slower: ")
    assert reason in line
    assert aside


def test_models_that_are_not_linear():
    pipeline = make_pipeline(CountVectorizer(), RandomForestClassifier(n_estimators=2))
    with pytest.raises(NotFastError, match="RandomForestClassifier is not a known linear model"):
        NgramModel(pipeline.fit(TEXTS, TOXIC))
    with pytest.raises(NotFastError, match="it is a LogisticRegression, not a Pipeline"):
        NgramModel(LINEAR)


def test_sparse_coefficients():
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, TOXIC)
    pipeline[-1].sparsify()
    with pytest.raises(NotFastError, match="coefficients are not an array"):
        NgramModel(pipeline)


def test_numbers_beyond_the_vocabulary():  # they would be places in memory
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, TOXIC)
    pipeline[0].vocabulary_["kind"] = 10**6
    with pytest.raises(NotFastError, match="not numbered from 0 on"):
        NgramModel(pipeline)


def test_coefficients_of_another_vocabulary():
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, TOXIC)
    pipeline[0].vocabulary_["more"] = 6
    with pytest.raises(NotFastError, match="not of one size"):
        NgramModel(pipeline)


def test_what_is_not_text_is_refused_by_scikit_learn(said):
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, TOXIC)
    score = answers.answers_of(pipeline, "predict_proba", "model m")
    with pytest.raises(AttributeError, match="lower"):
        score([None])
    with pytest.raises(ValueError, match="0 sample"):
        score([])
    assert said == []
