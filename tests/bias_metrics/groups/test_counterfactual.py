"""The same sentence with another identity term."""

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import MetricValue, counterfactual_gaps, paired_gaps

# Two whole sentences, one without `tall`, one with `gay` alone.
SENTENCE = ["am", "am", "am", "hate", "hate", "hate", "be", "be", "alone"]
TERM = ["gay", "old", "tall", "gay", "old", "tall", "gay", "old", "gay"]
SCORE = [6 / 8, 3 / 8, 1 / 8, 7 / 8, 7 / 8, 4 / 8, 2 / 8, 5 / 8, 8 / 8]
GAPS = {
    "gay": [6 / 8 - (3 / 8 + 1 / 8) / 2, 7 / 8 - (7 / 8 + 4 / 8) / 2, 2 / 8 - 5 / 8],
    "old": [3 / 8 - (6 / 8 + 1 / 8) / 2, 7 / 8 - (7 / 8 + 4 / 8) / 2, 5 / 8 - 2 / 8],
    "tall": [1 / 8 - (6 / 8 + 3 / 8) / 2, 4 / 8 - 7 / 8],
}


@st.composite
def some_sentences(draw):
    """Rows of up to 6 sentences and 4 terms, each pair at most once, with many ties."""
    pairs = st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c", "d"]))
    places = draw(st.lists(pairs, unique=True, max_size=24))
    scores = draw(st.lists(st.integers(0, 4), min_size=len(places), max_size=len(places)))
    sentence, term = (list(column) for column in zip(*places, strict=True)) if places else ([], [])
    return sentence, np.array(term, dtype=np.str_), [score / 8 for score in scores]


def naive_gaps(sentence, term, score):
    """For each term its gaps and its wins, by a double loop over the rows."""
    gaps, wins = {name: [] for name in term}, {name: [] for name in term}
    for i in range(len(sentence)):
        others = [score[j] for j in range(len(sentence)) if sentence[j] == sentence[i] and j != i]
        if others:
            gaps[term[i]].append(score[i] - sum(others) / len(others))
            tied = 1 + others.count(score[i])
            wins[term[i]].append(1 / tied if score[i] >= max(others) else 0.0)
    return gaps, wins


@pytest.mark.parametrize("term", GAPS)
def test_gaps_of_nine_rows_are_those_counted_by_hand(term):
    gap = counterfactual_gaps(SENTENCE, TERM, SCORE).terms[term]
    gaps = GAPS[term]
    assert gap.n == len(gaps)
    assert gap.mean_gap.value == pytest.approx(sum(gaps) / len(gaps), abs=1e-15)
    size = sum(abs(one) for one in gaps) / len(gaps)
    assert gap.mean_absolute_gap.value == pytest.approx(size, abs=1e-15)
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    assert gap.std_error.value == pytest.approx(error, abs=1e-15)


def test_terms_that_share_the_highest_score_share_the_sentence():
    found = counterfactual_gaps(SENTENCE, TERM, SCORE)
    assert found.terms["gay"].share_highest == MetricValue((1 + 1 / 2 + 0) / 3)
    assert found.terms["old"].share_highest == MetricValue((0 + 1 / 2 + 1) / 3)
    assert found.terms["tall"].share_highest == MetricValue(0.0)


def test_a_sentence_with_one_term_is_counted_and_not_compared():
    found = counterfactual_gaps(SENTENCE, TERM, SCORE)
    assert (found.n_sentences, found.n_alone) == (3, 1)
    lonely = counterfactual_gaps([1], ["gay"], [0.5])
    assert (lonely.n_sentences, lonely.n_alone) == (0, 1)
    assert lonely.terms["gay"].n == 0
    nothing = MetricValue(None, "no sentences to compare")
    for name in ("mean_gap", "std_error", "mean_absolute_gap", "share_highest"):
        assert getattr(lonely.terms["gay"], name) == nothing


def test_one_sentence_gives_a_gap_without_an_error():
    gap = counterfactual_gaps([1, 1], ["gay", "old"], [0.75, 0.5]).terms["gay"]
    assert gap.mean_gap == MetricValue(0.25)
    assert gap.std_error == MetricValue(None, "fewer than 2 sentences to compare")


def test_a_term_that_scores_higher_than_the_others_has_a_positive_gap():
    found = counterfactual_gaps([1, 1, 2, 2], ["gay", "tall"] * 2, [0.9, 0.1, 0.8, 0.1]).terms
    assert found["gay"].mean_gap.value > 0 > found["tall"].mean_gap.value
    assert found["gay"].share_highest == MetricValue(1.0)


@given(rows=some_sentences())
def test_gaps_equal_a_double_loop_over_the_rows(rows):
    found = counterfactual_gaps(*rows)
    gaps, wins = naive_gaps(*rows)
    assert list(found.terms) == sorted(gaps)
    for name, gap in found.terms.items():
        assert gap.n == len(gaps[name])
        if gaps[name]:
            assert gap.mean_gap.value == pytest.approx(statistics.fmean(gaps[name]), abs=1e-12)
            sizes = [abs(one) for one in gaps[name]]
            assert gap.mean_absolute_gap.value == pytest.approx(statistics.fmean(sizes), abs=1e-12)
            assert gap.share_highest.value == pytest.approx(statistics.fmean(wins[name]), abs=1e-12)
        if len(gaps[name]) > 1:
            error = statistics.stdev(gaps[name]) / math.sqrt(len(gaps[name]))
            assert gap.std_error.value == pytest.approx(error, abs=1e-12)


@given(rows=some_sentences())
def test_every_sentence_has_one_winner_and_gaps_that_cancel(rows):
    sentence, _, _ = rows
    found = counterfactual_gaps(*rows)
    defined = [gap for gap in found.terms.values() if gap.n]
    assert sum(gap.n * gap.share_highest.value for gap in defined) == pytest.approx(
        found.n_sentences, abs=1e-9
    )
    assert sum(gap.n * gap.mean_gap.value for gap in defined) == pytest.approx(0, abs=1e-9)
    assert found.n_sentences + found.n_alone == len(set(sentence))


@given(rows=some_sentences(), shift=st.integers(-4, 4), scale=st.sampled_from([0.5, 2.0, 10.0]))
def test_gaps_do_not_move_with_the_scores_and_grow_with_them(rows, shift, scale):
    sentence, term, score = rows
    one = counterfactual_gaps(sentence, term, score).to_dict()["terms"]
    other = counterfactual_gaps(sentence, term, [shift + scale * s for s in score]).to_dict()
    for name, gap in one.items():
        for key in ("mean_gap", "std_error", "mean_absolute_gap"):
            value = gap[key]["value"]
            expected = None if value is None else pytest.approx(scale * value, abs=1e-9)
            assert other["terms"][name][key]["value"] == expected
        assert other["terms"][name]["share_highest"] == gap["share_highest"]


def test_a_shift_of_a_whole_sentence_changes_no_gap():
    raised = [s + (0.25 if frame == "am" else 0) for s, frame in zip(SCORE, SENTENCE, strict=True)]
    assert counterfactual_gaps(SENTENCE, TERM, raised) == counterfactual_gaps(SENTENCE, TERM, SCORE)


def test_scores_that_are_all_equal_give_no_gap_without_rounding():
    found = counterfactual_gaps([1, 1, 1, 2, 2, 2], list("abcabc"), [0.1] * 6)
    for gap in found.terms.values():
        assert gap.mean_gap == gap.mean_absolute_gap == gap.std_error == MetricValue(0.0)
        assert gap.share_highest.value == pytest.approx(1 / 3)


def test_the_error_over_sentences_covers_the_true_gap_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        frame = rng.normal(0, 5, 40)  # shared by both terms, hence no part of the error
        scores = np.concatenate([frame + 0.3 + rng.normal(0, 1, 40), frame + rng.normal(0, 1, 40)])
        terms = np.repeat(["gay", "old"], 40)
        gap = counterfactual_gaps(np.tile(np.arange(40), 2), terms, scores).terms["gay"]
        covered += abs(gap.mean_gap.value - 0.3) < 1.96 * gap.std_error.value
    # A normal interval of 40 sentences covers 94.3 %; 400 trials have an error of 1.2 %.
    assert 0.943 - 4 * 0.012 < covered / 400 < 0.943 + 4 * 0.012


def test_sentences_may_be_numbers_strings_or_objects_that_are_strings():
    expected = counterfactual_gaps(SENTENCE, TERM, SCORE)
    number = {name: i for i, name in enumerate(dict.fromkeys(SENTENCE))}
    assert counterfactual_gaps([number[s] for s in SENTENCE], TERM, SCORE) == expected
    objects = np.array(SENTENCE, dtype=object), np.array(TERM, dtype=object)
    assert counterfactual_gaps(*objects, SCORE) == expected


def test_no_rows_have_no_terms():
    found = counterfactual_gaps([], [], [])
    assert found.to_dict() == {"n_sentences": 0, "n_alone": 0, "terms": {}}


def test_gaps_pass_through_strict_json_unchanged():
    plain = counterfactual_gaps(SENTENCE, TERM, SCORE).to_dict()
    assert list(plain["terms"]["gay"]) == [
        *("n", "mean_gap", "std_error", "mean_absolute_gap", "share_highest"),
    ]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_a_term_twice_in_a_sentence_is_refused_with_its_row():
    found = r"got 'gay' again in sentence '7' \(row 2\)"
    message = rf"^`term` must occur at most once in each sentence; {found}"
    with pytest.raises(ValueError, match=message):
        counterfactual_gaps([7, 7, 7], ["gay", "old", "gay"], [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("sentence", "term", "error", "message"),
    [
        ([1, 2], ["a", "b", "c"], ValueError, r"^`sentence` must have shape \(3,\) like `y_score`"),
        (
            [1, 1, 2],
            [["a"]],
            ValueError,
            r"^`term` must have shape \(3,\) .* got shape \(1, 1\)\.$",
        ),
        ([0.5, 1, 2], list("abc"), TypeError, r"^`sentence` must be whole numbers or strings; got"),
        ([1, 1, 2], [1, 2, 3], TypeError, r"^`term` must be strings; got dtype int64\.$"),
        ([1, 1, 2], ["a", None, "c"], TypeError, r"^`term` must be strings; got dtype object\.$"),
    ],
)
def test_wrong_ids_are_refused(sentence, term, error, message):
    with pytest.raises(error, match=message):
        counterfactual_gaps(sentence, term, [0.1, 0.2, 0.3])


def test_gaps_of_four_pairs_are_those_counted_by_hand():
    gaps = paired_gaps([1 / 8, 4 / 8, 6 / 8, 2 / 8], [5 / 8, 4 / 8, 4 / 8, 3 / 8])
    moves = [4 / 8, 0, -2 / 8, 1 / 8]
    assert (gaps.n, gaps.n_higher, gaps.n_lower, gaps.n_equal) == (4, 2, 1, 1)
    assert gaps.mean_gap == MetricValue(sum(moves) / 4)
    assert gaps.mean_absolute_gap == MetricValue((4 + 0 + 2 + 1) / 8 / 4)
    error = statistics.stdev(moves) / math.sqrt(4)
    assert gaps.std_error.value == pytest.approx(error, abs=1e-15)


scores = st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=2, max_size=30)


@given(pairs=scores)
def test_exchanging_the_versions_negates_the_mean_gap_and_nothing_else(pairs):
    one, other = np.array(pairs).T / 8
    there, back = paired_gaps(one, other), paired_gaps(other, one)
    assert back.mean_gap.value == -there.mean_gap.value
    assert back.mean_absolute_gap == there.mean_absolute_gap
    assert back.std_error.value == pytest.approx(there.std_error.value, abs=1e-15)
    assert (back.n_higher, back.n_lower, back.n_equal) == (
        *(there.n_lower, there.n_higher, there.n_equal),
    )


@given(pairs=scores)
def test_pairs_are_sentences_of_two_terms(pairs):
    one, other = np.array(pairs).T / 8
    n = one.size
    gap = counterfactual_gaps(
        np.tile(np.arange(n), 2), np.repeat(["original", "swapped"], n), [*one, *other]
    ).terms["swapped"]
    pair = paired_gaps(one, other)
    assert (pair.n, pair.mean_gap, pair.std_error, pair.mean_absolute_gap) == (
        *(gap.n, gap.mean_gap, gap.std_error, gap.mean_absolute_gap),
    )
    assert (pair.n_higher + pair.n_equal / 2) / n == pytest.approx(gap.share_highest.value)


def test_no_pairs_have_no_gap_and_one_has_no_error():
    nothing = paired_gaps([], [])
    assert nothing.mean_gap == nothing.std_error == MetricValue(None, "no pairs")
    assert paired_gaps([0.5], [0.75]).std_error == MetricValue(None, "fewer than 2 pairs")


def test_paired_gaps_pass_through_strict_json_unchanged():
    plain = paired_gaps([0.5, 0.25], [0.75, 0.25]).to_dict()
    assert plain["n"] == 2
    assert plain["mean_gap"] == {"value": 0.125}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_both_versions_must_have_as_many_scores():
    message = r"^`swapped` must have 2 rows like `original`; got 1\.$"
    with pytest.raises(ValueError, match=message):
        paired_gaps([0.1, 0.2], [0.1])


def test_a_score_too_large_to_be_squared_is_refused_with_its_row():
    message = r"^`original` must be within 1e\+100 of 0; got -1e\+200 \(row 1\)\.$"
    with pytest.raises(ValueError, match=message):
        paired_gaps([0.1, -1e200], [0.1, 0.2])
