"""N-gram models give scikit-learn's answers, for any text and any pipeline that they accept."""

import re
import sys
import warnings

import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.svm import LinearSVC
from support.comments import ODD

from biasgate.tasks.scoring.ngrams import recognised
from biasgate.tasks.scoring.ngrams.counting import counter_of
from biasgate.tasks.scoring.ngrams.model import TEXTS_A_STEP, NgramModel
from biasgate.tasks.scoring.ngrams.reading import Reader

# Letters that grow or depend on their neighbours in lower case, marks, joiners, white space of
# every kind, lone surrogates, characters of four bytes.
NASTY = "İΣςΑßﬁǅ\u0301\u0345\u200b\u200d\xad\ufeff\x1c\x85\xa0\u2028\u3000\t\n\r\ud800\udfff😀é_1²"
CHARACTERS = st.one_of(st.sampled_from("ab "), st.sampled_from(NASTY), st.characters())
TEXTS = st.lists(st.text(CHARACTERS, max_size=30), min_size=1, max_size=8)
COMMON = {
    "ngram_range": st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 2), (2, 5), (3, 3), (4, 6)]),
    "lowercase": st.booleans(),
    "strip_accents": st.sampled_from([None, "ascii", "unicode"]),
    "binary": st.booleans(),
    "norm": st.sampled_from(["l1", "l2", None]),
    "use_idf": st.booleans(),
    "sublinear_tf": st.booleans(),
}
OF_WORDS = {
    "token_pattern": st.sampled_from([r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", r"\w{1,}", r"\w\w\w"]),
    "stop_words": st.sampled_from([None, ["ab", "a"]]),
}
VECTORIZERS = st.one_of(
    st.builds(TfidfVectorizer, analyzer=st.sampled_from(["char", "char_wb"]), **COMMON),
    st.builds(TfidfVectorizer, analyzer=st.just("word"), **COMMON, **OF_WORDS),
)
GREEK_AND_TURKISH = ["ΑΣ ΑΣΑ\u0301Σ", "İstanbul İ", "", " \x1c\x85 ", "a\u2028\u2028b a\tb a \tb"]


def fitted(features, texts, linear=None, outputs=1):
    """Return a pipeline with features fitted to texts, and random coefficients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            size = features.fit_transform(texts).shape[1]
        except ValueError:  # no n-grams at all
            reject()
    rng = np.random.default_rng(0)
    linear = LogisticRegression() if linear is None else linear
    linear.n_features_in_ = size
    linear.coef_ = rng.normal(size=(outputs, size))
    linear.intercept_ = rng.normal(size=outputs)
    linear.classes_ = np.arange(max(outputs, 2))
    return make_pipeline(features, linear)


def assert_equal(pipeline, texts, method="decision_function"):
    ours, theirs = NgramModel(pipeline).answer(method, texts), getattr(pipeline, method)(texts)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=150)
@given(VECTORIZERS, TEXTS, TEXTS)
@example(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)), GREEK_AND_TURKISH, ["ΑΣ", "i"])
@example(TfidfVectorizer(analyzer="char", ngram_range=(1, 3)), GREEK_AND_TURKISH, ["a\t\tb", ""])
@example(TfidfVectorizer(ngram_range=(1, 2)), GREEK_AND_TURKISH, ["ας ασας", "i\u0307stanbul"])
def test_of_one_vectorizer(vectorizer, known, others):
    assert_equal(fitted(vectorizer, known), known + others)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(VECTORIZERS, min_size=1, max_size=3), TEXTS, TEXTS, st.sampled_from([None, 0.5, -2.0])
)
def test_of_a_union(vectorizers, known, others, weight):
    names = [(str(n), vectorizer) for n, vectorizer in enumerate(vectorizers)]
    weights = None if weight is None else {"0": weight}
    union = FeatureUnion([*names, ("without", "drop")], transformer_weights=weights)
    assert_equal(fitted(union, known), known + others, "predict_proba")


@pytest.mark.parametrize("options", [{}, {"sublinear_tf": True, "norm": "l1"}, {"use_idf": False}])
def test_of_counts_that_a_transformer_weighs(options):
    counts = make_pipeline(CountVectorizer(), TfidfTransformer(**options))
    inner = fitted(counts, ODD)
    assert_equal(make_pipeline(*(step for _, step in counts.steps), inner[-1]), ODD)


@pytest.mark.parametrize(
    ("linear", "outputs", "methods"),
    [
        (LogisticRegression(), 1, ["predict", "predict_proba", "predict_log_proba"]),
        (LogisticRegression(), 3, ["predict", "predict_proba", "decision_function"]),
        (SGDClassifier(loss="modified_huber"), 1, ["predict_proba"]),
        (RidgeClassifier(), 1, ["decision_function"]),
        (LinearSVC(), 4, ["predict", "decision_function"]),
        (Ridge(), 2, ["predict"]),
    ],
)
def test_of_every_method_of_linear_models(linear, outputs, methods):
    pipeline = fitted(TfidfVectorizer(analyzer="char"), ODD, linear, outputs)
    for method in methods:
        assert_equal(pipeline, ODD, method)


@pytest.mark.filterwarnings("ignore")  # for so few texts, some warn of their options
@pytest.mark.parametrize("linear", sorted(recognised._LINEAR, key=lambda one: one.__name__))
def test_of_every_linear_model(linear):
    texts = ["one two", "two three", "three one", "one one"] * 5
    pipeline = make_pipeline(TfidfVectorizer(), linear()).fit(texts, [0, 1, 1, 0] * 5)
    assert_equal(pipeline, texts, "predict")
    if hasattr(linear, "decision_function"):
        assert_equal(pipeline, texts)


def test_of_vocabularies_that_hold_what_no_text_has():
    vocabulary = ["one two", "two", "a  b", "", "three one two", "one two three four"]
    vectorizer = CountVectorizer(vocabulary=vocabulary, ngram_range=(1, 3))
    assert_equal(fitted(vectorizer, ODD), [*ODD, "three one two", "one two three four"])


def test_of_words_shorter_than_the_shortest_ngrams():
    vectorizer = CountVectorizer(analyzer="char_wb", ngram_range=(5, 6))
    assert_equal(fitted(vectorizer, ["a ab abc abcd", "a a ab"]), ["ab a", "abc abcde", "b"])


def test_a_score_does_not_depend_on_the_other_texts():
    texts = [f"{'word ' * (n % 7)}{n} {n % 13}{n % 11} other" for n in range(3 * TEXTS_A_STEP)]
    union = FeatureUnion([("w", TfidfVectorizer(ngram_range=(1, 2))), ("c", CountVectorizer())])
    pipeline = fitted(union, texts)
    together = NgramModel(pipeline).answer("predict_proba", texts)
    model = NgramModel(pipeline)
    alone = [model.answer("predict_proba", [text])[0] for text in reversed(texts[::20])][::-1]
    np.testing.assert_array_equal(together[::20], alone)


def test_words_that_were_forgotten_are_read_again():
    reader = Reader(str.lower, most_characters=20)
    known: dict[int, str] = {}
    for text in ("one two three", "four five six seven", "two eight") * 3:
        words = reader.read([text]).words
        if words.first_new == 0:
            known.clear()
        known.update(enumerate(words.new, words.first_new))
        assert [known[number] for number in words.numbers] == text.split()
    assert len(known) < 10


def test_forgetting_words_changes_no_score(monkeypatch):
    texts = [f"{n} {n % 7} word{n % 5}" for n in range(TEXTS_A_STEP * 2 + 3)]
    pipeline = fitted(TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3)), texts)
    kept = NgramModel(pipeline).answer("predict_proba", texts)
    monkeypatch.setattr(Reader.__init__, "__defaults__", (50,))
    np.testing.assert_array_equal(kept, NgramModel(pipeline).answer("predict_proba", texts))


def test_words_that_were_never_counted_are_not_taken_for_others():
    texts = ["one two", "three four"]
    counter = counter_of(CountVectorizer(), {"one": 0, "four": 1})
    reader = Reader(str.lower)
    _ = reader.read(texts[:1]).words  # as if counting had failed
    with pytest.raises(ValueError, match="`n_lists` must be at most 0; got 2"):
        counter.counts(reader.read(texts[1:]))


def test_tokens_never_hold_white_space_and_split_agrees_with_the_regular_expression():
    # Words are split before tokens are found: no character may be both.
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    white = set(re.findall(r"\s", everything))
    assert white == {one for one in everything if one.isspace()}
    assert white.isdisjoint(re.findall(r"\w", everything))
    assert not "".join(white).split()
