"""Agreement of human identity labels with term matching."""

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import MetricValue, label_agreement

SHARES = ("precision", "recall", "f1", "kappa")


def agreement_of(both, labelled_only, matched_only, neither):
    counts = (both, labelled_only, matched_only, neither)
    labelled = np.repeat([True, True, False, False], counts)
    matched = np.repeat([True, False, True, False], counts)
    return label_agreement({"gay": labelled}, {"gay": matched}).identities["gay"]


def values(agreement):
    return [getattr(agreement, name).value for name in SHARES]


def test_agreement_of_ten_rows_is_that_counted_by_hand():
    found = agreement_of(3, 1, 2, 4)
    assert (found.n_both, found.n_labelled_only, found.n_matched_only, found.n_neither) == (
        *(3, 1, 2, 4),
    )
    assert found.precision.value == 3 / 5
    assert found.recall.value == 3 / 4
    assert found.f1.value == 2 / (5 / 3 + 4 / 3)
    observed, expected = 7 / 10, (4 * 5 + 6 * 5) / 100
    assert found.kappa.value == pytest.approx((observed - expected) / (1 - expected), abs=1e-15)


def test_shares_have_wilsons_interval_of_95_percent():
    z, p, n = NormalDist().inv_cdf(0.975), 3 / 5, 5
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    found = agreement_of(3, 1, 2, 4).precision
    assert (found.low, found.high) == pytest.approx((centre - reach, centre + reach))


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [((20, 5, 10, 15), 0.4), ((45, 15, 25, 15), 0.1304), ((25, 35, 5, 35), 0.2593)],
)
def test_textbook_tables_have_their_printed_kappa(counts, kappa):
    # The last two agree on 60 rows of 100 alike, and differ by what chance explains.
    assert round(agreement_of(*counts).kappa.value, 4) == kappa


@given(counts=st.tuples(*[st.integers(0, 40)] * 4))
def test_shares_equal_their_definitions_from_probabilities(counts):
    both, labelled_only, matched_only, neither = counts
    found, n = agreement_of(*counts), sum(counts)
    labelled, matched = both + labelled_only, both + matched_only
    assert found.precision.value == (both / matched if matched else None)
    assert found.recall.value == (both / labelled if labelled else None)
    if found.precision.value and found.recall.value:
        mean = 2 / (1 / found.precision.value + 1 / found.recall.value)
        assert found.f1.value == pytest.approx(mean, rel=1e-12)
    if found.kappa.value is None:
        assert n in (both, neither)
    else:
        expected = (labelled * matched + (n - labelled) * (n - matched)) / n**2
        kappa = ((both + neither) / n - expected) / (1 - expected)
        assert found.kappa.value == pytest.approx(kappa, abs=1e-9)


def test_shares_equal_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    labelled, matched = rng.random(500) < 0.2, rng.random(500) < 0.3
    found = label_agreement({"g": labelled}, {"g": matched}).identities["g"]
    expected = [
        metrics.precision_score(labelled, matched),
        metrics.recall_score(labelled, matched),
        metrics.f1_score(labelled, matched),
        metrics.cohen_kappa_score(labelled, matched),
    ]
    assert values(found) == pytest.approx(expected, abs=1e-12)


def test_labels_and_terms_that_always_agree_have_every_share_1():
    assert values(agreement_of(3, 0, 0, 7)) == [1, 1, 1, 1]


def test_labels_and_terms_that_never_agree_on_halves_have_kappa_minus_1():
    assert values(agreement_of(0, 5, 5, 0)) == [0, 0, 0, -1]


def test_exchanging_labels_and_terms_exchanges_precision_and_recall():
    one, other = values(agreement_of(3, 1, 2, 4)), values(agreement_of(3, 2, 1, 4))
    assert one == [other[1], other[0], *other[2:]]


@pytest.mark.parametrize(
    ("counts", "reasons"),
    [
        ((0, 2, 0, 5), ("no matched rows", None, None, None)),
        ((0, 0, 2, 5), (None, "no labelled rows", None, None)),
        (
            (0, 0, 0, 5),
            (
                *("no matched rows", "no labelled rows", "no labelled and no matched rows"),
                "both say the same of every row",
            ),
        ),
        ((5, 0, 0, 0), (None, None, None, "both say the same of every row")),
        (
            (0, 0, 0, 0),
            (
                *("no matched rows", "no labelled rows", "no labelled and no matched rows"),
                "no rows",
            ),
        ),
    ],
)
def test_a_share_of_nothing_is_undefined_and_says_of_what(counts, reasons):
    found = agreement_of(*counts)
    for name, reason in zip(SHARES, reasons, strict=True):
        share = getattr(found, name)
        assert (share.value is None, share.reason) == (reason is not None, reason)


def test_many_identities_are_compared_over_the_same_rows():
    found = label_agreement({"a": [1, 0], "b": [0, 0]}, {"b": [0, 1], "a": [1, 0]})
    assert found.n == 2
    assert list(found.identities) == ["a", "b"]
    assert found.identities["a"].f1 == MetricValue(1.0)
    assert found.identities["b"].n_matched_only == 1


def test_agreement_passes_through_strict_json_unchanged():
    plain = label_agreement({"a": [1, 0], "b": [0, 0]}, {"a": [1, 0], "b": [0, 1]}).to_dict()
    assert list(plain["identities"]["a"]) == [
        *("n_both", "n_labelled_only", "n_matched_only", "n_neither"),
        *SHARES,
    ]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_no_identities_agree_about_nothing():
    assert label_agreement({}, {}).to_dict() == {"n": 0, "identities": {}}


@pytest.mark.parametrize(
    ("labelled", "matched", "message"),
    [
        (
            *({"a": [1]}, {"a": [1], "c": [0]}),
            r"^`matched` must have the identities of `labelled`; in only one: c\.$",
        ),
        (
            *({"a": [1], "b": [0]}, {}),
            r"^`matched` must have the identities of `labelled`; in only one: a, b\.$",
        ),
        (
            *({}, {"a": [1]}),
            r"^`matched` must have the identities of `labelled`; in only one: a\.$",
        ),
        (
            *({"a": [1]}, {"a": [1, 0]}),
            r"^`matched\['a'\]` must have 1 row like `labelled\['a'\]`; got 2\.$",
        ),
        (
            *({"a": [0.3]}, {"a": [1]}),
            r"^`labelled\['a'\]` must be boolean \(or 0 and 1\); got 0\.3 \(row 0\)\.",
        ),
    ],
)
def test_identities_and_rows_must_be_the_same(labelled, matched, message):
    with pytest.raises(ValueError, match=message):
        label_agreement(labelled, matched)


@pytest.mark.parametrize("n", [20, 60, 200])
@pytest.mark.parametrize("recall", [0.5, 0.8, 0.95])
def test_the_interval_of_recall_holds_the_truth_as_often_as_it_says(n, recall):
    counts = np.arange(n + 1)
    weights = np.array([math.comb(n, int(k)) * recall**k * (1 - recall) ** (n - k) for k in counts])
    found = [agreement_of(int(k), n - int(k), 0, 1).recall for k in counts]
    held = np.array([one.low <= recall <= one.high for one in found])
    assert 0.92 < weights[held].sum() < 0.98
    assert (found[0].low, found[-1].high) == pytest.approx((0.0, 1.0), abs=1e-12)
