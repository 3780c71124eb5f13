"""A pipeline fitted here is the one that scikit-learn fits: n-grams, weights, coefficients."""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from support.comments import ODD

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds import tfidf
from biasgate.tasks.scoring.kinds import tfidf_training as training
from biasgate.tasks.scoring.kinds.tfidf import Tfidf
from biasgate.tasks.scoring.kinds.tfidf_training import Block, fit

RNG = np.random.default_rng(0)
SYLLABLES = ["ka", "Ma", "ra", "İ", "ΑΣ", "don't", "no\u0301", "2x", "_", "-", "😀", "b"]
TEXTS = [
    RNG.choice([" ", "\t", "  ", "\u3000"]).join(
        "".join(RNG.choice(SYLLABLES, size=RNG.integers(1, 4))) for _ in range(RNG.integers(0, 12))
    )
    for _ in range(300)
] + [text[:2000] for text in ODD]
LABELS = np.array(["ka" in text or n % 7 == 0 for n, text in enumerate(TEXTS)])
OPTIONS = [
    {},
    {"word_ngrams": (1, 1), "char_ngrams": (1, 2), "class_weight": "balanced"},
    {"word_ngrams": (2, 3), "char_ngrams": (4, 7), "max_features": 150, "regularization": 0.1},
    {"word_ngrams": (1, 3), "char_ngrams": (3, 3), "max_features": 60, "min_df": 12},
    {"char_ngrams": (6, 12), "min_df": 7},
]


SETTINGS = {"name": "words", "kind": "tfidf", "model": "models:/words/1"}


def make_pipeline(**options):
    return Tfidf(**SETTINGS | options).pipeline()


@pytest.mark.parametrize("options", OPTIONS)
def test_a_pipeline_is_the_one_that_scikit_learn_fits(options):
    theirs = make_pipeline(**options).fit(TEXTS, LABELS)
    ours = fit(make_pipeline(**options), lambda: TEXTS, LABELS)
    for (_, one), (_, other) in zip(
        ours[0].transformer_list, theirs[0].transformer_list, strict=True
    ):
        assert one.vocabulary_ == other.vocabulary_
        np.testing.assert_array_equal(one.idf_, other.idf_)
        assert vars(one).keys() == vars(other).keys()
        assert vars(one._tfidf).keys() == vars(other._tfidf).keys()
    mine, of_theirs = dict(vars(ours[-1])), dict(vars(theirs[-1]))
    np.testing.assert_allclose(mine.pop("coef_"), of_theirs.pop("coef_"), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        mine.pop("intercept_"), of_theirs.pop("intercept_"), rtol=0, atol=1e-9
    )
    np.testing.assert_equal(mine, of_theirs)
    assert all(type(one) is int for one in ours[0].transformer_list[0][1].vocabulary_.values())
    np.testing.assert_allclose(
        ours.predict_proba(ODD), theirs.predict_proba(ODD), rtol=0, atol=1e-10
    )


def test_a_smaller_tolerance_ends_nearer_the_optimum():
    fitted = {
        tolerance: fit(make_pipeline(max_features=60, tolerance=tolerance), lambda: TEXTS, LABELS)
        for tolerance in (1e-2, 1e-4, 1e-6, 1e-9)
    }
    found = {one: pipeline.predict_proba(TEXTS) for one, pipeline in fitted.items()}
    far = [float(np.abs(found[one] - found[1e-9]).max()) for one in (1e-2, 1e-4, 1e-6)]
    assert far[0] > 10 * far[1] > 100 * far[2]
    assert far[2] < 1e-4


def test_only_another_tolerance_than_scikit_learns_is_another_training():
    rows = SimpleNamespace(digest="rows", columns=["text"])
    train_on = {"name": "t", "source": "table", "path": "rows.csv", "text": "text"}
    train_on["terms"] = ["gay"]

    def make_key(**options):
        one = {"name": "words", "kind": "tfidf", "train_on": train_on} | options
        return Tfidf.model_validate(one).training_key(rows)

    assert make_key() == make_key(tolerance=1e-4) != make_key(tolerance=1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weighted_rows_count_as_in_scikit_learn(class_weight):
    options = {"max_features": 60, "class_weight": class_weight}
    weights = np.linspace(0.1, 3, len(TEXTS))
    theirs = make_pipeline(**options).fit(TEXTS, LABELS, classifier__sample_weight=weights)
    ours = fit(make_pipeline(**options), lambda: TEXTS, LABELS, weights)
    np.testing.assert_allclose(
        ours.predict_proba(ODD), theirs.predict_proba(ODD), rtol=0, atol=1e-6
    )


def test_weights_of_1_change_no_coefficient():
    plain, weighted = (
        fit(make_pipeline(max_features=60), lambda: TEXTS, LABELS, one)
        for one in (None, np.ones(len(TEXTS)))
    )
    np.testing.assert_array_equal(plain[-1].coef_, weighted[-1].coef_)


def test_the_number_of_cores_changes_no_coefficient(monkeypatch):
    monkeypatch.setattr(training, "_TEXTS_A_BLOCK", 9)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(training.joblib, "cpu_count", lambda cores=cores: cores)
        found.append(fit(make_pipeline(), lambda: TEXTS, LABELS)[-1].coef_)
    np.testing.assert_array_equal(*found)


def test_counts_beyond_a_byte_are_kept():
    texts = ["ha " * 700 + word for word in ("kind", "vile")] * 5
    labels = np.array([False, True] * 5)
    theirs, ours = (
        make_pipeline().fit(texts, labels),
        fit(make_pipeline(), lambda: texts, labels),
    )
    np.testing.assert_allclose(ours[-1].coef_, theirs[-1].coef_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kept", [200_000, 3])
def test_characters_are_counted_as_in_scikit_learn(monkeypatch, kept):
    monkeypatch.setattr(training, "_WORDS_KEPT", kept)
    vectorizer = make_pipeline(max_features=100)[0].transformer_list[1][1].fit(TEXTS)
    options = {"vocabulary": vectorizer.vocabulary_, "dtype": np.int32}
    theirs = CountVectorizer(analyzer="char_wb", ngram_range=(2, 5), **options)
    counter = training._make_counter(vectorizer)
    for texts in (TEXTS[:200], TEXTS[100:], ["", " "], []):
        ours, expected = counter.transform(texts), theirs.transform(texts or [""])[: len(texts)]
        assert ours.shape == expected.shape
        for one in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(ours, one), getattr(expected, one))
            assert getattr(ours, one).dtype == np.int32


def test_the_memory_of_a_training_is_given_back(monkeypatch):
    blocks, alive = [], []

    def make_block(*parts):
        block = Block(*parts)
        blocks.append(weakref.ref(block))
        return block

    monkeypatch.setattr(training, "Block", make_block)
    monkeypatch.setattr(tfidf, "release_memory", lambda: alive.append([one() for one in blocks]))
    monkeypatch.setattr(tfidf, "_iterate_texts", lambda _: TEXTS)
    monkeypatch.setattr(Tfidf, "training_labels", lambda *_: LABELS)
    monkeypatch.setattr(Tfidf, "training_weights", lambda *_: None)
    Tfidf(**SETTINGS, max_features=60)._fit_pipeline(None)
    assert blocks
    assert alive == [[None] * len(blocks)]


def test_comments_that_share_nothing_are_refused():
    with pytest.raises(InputError, match=r"in at least `min_df` = 5 comments; no n-gram .* its 3"):
        fit(make_pipeline(), lambda: ["one", "two", "three"], np.array([True, False, True]))


def test_that_the_solver_stopped_early_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(training, "log_message", lambda line, **_: said.append(line))
    pipeline = make_pipeline()
    pipeline[-1].max_iter = 2
    assert fit(pipeline, lambda: TEXTS, LABELS)[-1].n_iter_.tolist() == [2]
    assert "training stopped after 2 iterations, before it converged" in said
