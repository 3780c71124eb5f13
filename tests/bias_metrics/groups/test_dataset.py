"""Dataset bias: counts by identity, term frequencies, toxicity by length."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import MetricValue, identity_counts, term_frequencies, toxicity_by_length

Y_TRUE = [1, 1, 1, 0, 0, 0, 0, 0]
MENTIONS = {"gay": [1, 1, 0, 1, 0, 0, 0, 0], "daughter": [0, 0, 0, 0, 0, 1, 1, 0]}
LENGTHS = [19, 20, 59, 60, 10, 59, 200, 500]

# Borkan et al. (2019), Table 5: comments, percentage toxic.
TABLE_5 = {
    "male": (44484, 15.03),
    "female": (53429, 13.68),
    "transgender": (2499, 21.29),
    "other_gender": (10, 30.0),
    "heterosexual": (1291, 22.77),
    "homosexual_gay_or_lesbian": (10997, 28.38),
    "bisexual": (287, 21.6),
    "other_sexual_orientation": (10, 30.0),
    "christian": (40423, 9.09),
    "jewish": (7651, 16.21),
    "muslim": (21006, 22.76),
    "hindu": (580, 10.52),
    "buddhist": (588, 11.73),
    "atheist": (1412, 13.1),
    "other_religion": (325, 14.46),
    "black": (14901, 31.39),
    "white": (25082, 28.06),
    "asian": (4578, 12.36),
    "latino": (2004, 19.36),
    "other_race_or_ethnicity": (508, 18.7),
    "physical_disability": (82, 7.32),
    "intellectual_or_learning_disability": (93, 6.45),
    "psychiatric_or_mental_illness": (4889, 21.07),
    "other_disability": (5, 20.0),
}
ALL_COMMENTS, ALL_PERCENT = 1_804_875, 8.0

# Dixon et al. (2018), Table 1: percentage of toxic comments and of all comments.
TABLE_1 = {
    "atheist": (0.09, 0.10),
    "queer": (0.30, 0.06),
    "gay": (3, 0.50),
    "transgender": (0.04, 0.02),
    "lesbian": (0.10, 0.04),
    "homosexual": (0.80, 0.20),
    "feminist": (0.05, 0.05),
    "black": (0.70, 0.60),
    "white": (0.90, 0.70),
    "heterosexual": (0.02, 0.03),
    "islam": (0.10, 0.08),
    "muslim": (0.20, 0.10),
    "bisexual": (0.01, 0.03),
}
PERCENT_TOXIC = 9.6  # of their general test set, section 4

# Dixon et al. (2018), Figure 1: percentage toxic by characters, from 20 to 4,859.
EDGES = (20, 60, 180, 540, 1620, 4860)
FIGURE_1 = {
    "ALL": (17, 12, 7, 5, 5),
    "gay": (88, 77, 51, 30, 19),
    "queer": (75, 83, 45, 56, 0),
    "homosexual": (78, 72, 43, 16, 15),
    "black": (50, 30, 12, 8, 4),
    "white": (20, 24, 16, 12, 2),
    "atheist": (0, 20, 9, 6, 0),
    "lesbian": (33, 50, 42, 21, 0),
    "feminist": (0, 20, 25, 0, 0),
    "islam": (50, 43, 12, 12, 0),
    "muslim": (0, 25, 21, 12, 17),
}


def rows_with(n_toxic, n_other, total_toxic, total):
    """Mask of rows of which the first `total_toxic` are toxic."""
    mask = np.zeros(total, dtype=bool)
    mask[:n_toxic] = True
    mask[total_toxic : total_toxic + n_other] = True
    return mask


def test_counts_and_percentages_of_eight_rows_are_those_counted_by_hand():
    counts = identity_counts(Y_TRUE, MENTIONS)
    assert (counts.overall.n, counts.overall.n_positive) == (8, 3)
    assert counts.overall.percent_toxic == MetricValue(100 * 3 / 8)
    gay, daughter = counts.identities["gay"], counts.identities["daughter"]
    assert (gay.n, gay.n_positive, gay.percent_toxic.value) == (3, 2, 100 * 2 / 3)
    assert (daughter.n, daughter.n_positive, daughter.percent_toxic.value) == (2, 0, 0)


def test_shares_of_a_term_among_eight_rows_are_those_counted_by_hand():
    found = term_frequencies(Y_TRUE, MENTIONS).terms
    gay, daughter = found["gay"], found["daughter"]
    assert gay.share_of_toxic == MetricValue(2 / 3)
    assert gay.share_of_all == MetricValue(3 / 8)
    assert gay.ratio.value == pytest.approx((2 / 3) / (3 / 8), abs=1e-15)
    assert (daughter.share_of_toxic, daughter.ratio) == (MetricValue(0.0), MetricValue(0.0))
    assert daughter.share_of_all == MetricValue(2 / 8)


def test_buckets_of_eight_lengths_are_those_counted_by_hand():
    buckets = toxicity_by_length(Y_TRUE, LENGTHS, MENTIONS, edges=[20, 60]).buckets
    assert [(bucket.start, bucket.stop) for bucket in buckets] == [(0, 20), (20, 60), (60, None)]
    assert [(b.overall.n, b.overall.n_positive) for b in buckets] == [(2, 1), (3, 2), (3, 0)]
    assert [(b.terms["gay"].n, b.terms["gay"].n_positive) for b in buckets] == [
        (1, 1),
        (1, 1),
        (1, 0),
    ]
    assert buckets[1].overall.percent_toxic == MetricValue(100 * 2 / 3)
    assert buckets[0].terms["daughter"].percent_toxic == MetricValue(None, "no rows")


def test_without_edges_there_is_one_bucket_of_all_rows():
    [bucket] = toxicity_by_length(Y_TRUE, LENGTHS, MENTIONS, edges=[]).buckets
    counts = identity_counts(Y_TRUE, MENTIONS)
    assert (bucket.overall, bucket.terms) == (counts.overall, counts.identities)


def test_percentages_of_table_5_are_printed_from_whole_counts():
    n_toxic = {name: round(n * percent / 100) for name, (n, percent) in TABLE_5.items()}
    all_toxic = round(ALL_COMMENTS * ALL_PERCENT / 100)
    labels = np.arange(ALL_COMMENTS) < all_toxic
    masks = {
        name: rows_with(n_toxic[name], n - n_toxic[name], all_toxic, ALL_COMMENTS)
        for name, (n, _) in TABLE_5.items()
    }
    counts = identity_counts(labels, masks)
    assert round(counts.overall.percent_toxic.value, 1) == ALL_PERCENT
    for name, (n, percent) in TABLE_5.items():
        rows = counts.identities[name]
        assert (rows.n, round(rows.percent_toxic.value, 2)) == (n, percent), name


@pytest.fixture(scope="module")
def rows_of_table_1():
    """A million rows, 9.6 % toxic, with every term as often as Table 1 says."""
    n, n_toxic = 1_000_000, round(1_000_000 * PERCENT_TOXIC / 100)
    masks = {}
    for term, (of_toxic, of_all) in TABLE_1.items():
        toxic = round(n_toxic * of_toxic / 100)
        masks[term] = rows_with(toxic, round(n * of_all / 100) - toxic, n_toxic, n)
    return np.arange(n) < n_toxic, masks


@pytest.mark.parametrize("term", TABLE_1)
def test_frequencies_of_table_1_are_shares_of_toxic_and_of_all_comments(term, rows_of_table_1):
    labels, masks = rows_of_table_1
    found = term_frequencies(labels, {term: masks[term]}).terms[term]
    of_toxic, of_all = TABLE_1[term]
    assert round(100 * found.share_of_toxic.value, 2) == of_toxic
    assert round(100 * found.share_of_all.value, 2) == of_all
    assert found.ratio.value == pytest.approx(of_toxic / of_all, rel=0.06)  # whole rows


@pytest.mark.parametrize("term", sorted(FIGURE_1.keys() & TABLE_1.keys()))
def test_table_1_and_figure_1_of_one_paper_agree(term, rows_of_table_1):
    # Over all lengths a term is toxic as often as in some bucket at most, in some at least.
    labels, masks = rows_of_table_1
    percent = identity_counts(labels, {term: masks[term]}).identities[term].percent_toxic.value
    assert min(FIGURE_1[term]) <= percent <= max(FIGURE_1[term])


@pytest.mark.parametrize("term", FIGURE_1)
def test_percentages_of_figure_1_are_shares_of_the_rows_of_a_bucket(term):
    lengths = np.repeat(EDGES[:-1], 100) + np.tile(np.arange(100) % 40, 5)
    labels = np.concatenate([np.arange(100) < percent for percent in FIGURE_1[term]])
    mentions = {term: np.ones(500, dtype=bool)}
    buckets = toxicity_by_length(labels, lengths, mentions, edges=EDGES).buckets
    assert [bucket.overall.n for bucket in buckets] == [0, *[100] * 5, 0]
    measured = tuple(bucket.terms[term].percent_toxic.value for bucket in buckets[1:-1])
    assert measured == FIGURE_1[term]


@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.booleans()), max_size=30),
    edges=st.lists(st.integers(1, 12), unique=True).map(sorted),
)
def test_descriptions_equal_a_plain_loop_over_the_rows(rows, edges):
    labels, lengths, mask = zip(*rows, strict=True) if rows else ([], [], [])
    buckets = toxicity_by_length(labels, lengths, {"t": mask}, edges=edges).buckets
    for bucket in buckets:
        inside = [r for r in rows if bucket.start <= r[1] and r[1] < (bucket.stop or 99)]
        with_term = [r for r in inside if r[2]]
        assert (bucket.overall.n, bucket.overall.n_positive) == (
            len(inside),
            sum(r[0] for r in inside),
        )
        assert (bucket.terms["t"].n, bucket.terms["t"].n_positive) == (
            len(with_term),
            sum(r[0] for r in with_term),
        )
    assert sum(bucket.overall.n for bucket in buckets) == len(rows)
    counts = identity_counts(labels, {"t": mask})
    assert counts.identities["t"].n == sum(bucket.terms["t"].n for bucket in buckets)


@given(rows=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_the_ratio_is_the_toxicity_of_the_term_over_that_of_all(rows):
    labels, mask = (np.array(column) for column in zip(*rows, strict=True))
    found = term_frequencies(labels, {"t": mask}).terms["t"]
    counts = identity_counts(labels, {"t": mask})
    of_term, of_all = counts.identities["t"].percent_toxic, counts.overall.percent_toxic
    if found.ratio.value is None:
        assert not labels.any() or not mask.any()
    else:
        assert found.ratio.value == pytest.approx(of_term.value / of_all.value, rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "mask", "reasons"),
    [
        ([0, 0], [1, 0], ("no toxic rows", None, "no toxic rows")),
        ([0, 1], [0, 0], (None, None, "no rows with the term")),
        ([0, 0], [0, 0], ("no toxic rows", None, "no toxic rows and no rows with the term")),
        ([], [], ("no toxic rows", "no rows", "no toxic rows and no rows with the term")),
        ([0, 1], [0, 1], (None, None, None)),
    ],
)
def test_a_share_of_nothing_is_undefined_and_says_of_what(labels, mask, reasons):
    found = term_frequencies(labels, {"t": mask}).terms["t"]
    shares = (found.share_of_toxic, found.share_of_all, found.ratio)
    assert tuple(share.reason for share in shares) == reasons
    assert [share.value is None for share in shares] == [reason is not None for reason in reasons]


def test_an_identity_without_rows_has_no_percentage():
    rows = identity_counts([0, 1], {"hindu": [0, 0]}).identities["hindu"]
    assert (rows.n, rows.percent_toxic) == (0, MetricValue(None, "no rows"))


@pytest.mark.parametrize(
    "described",
    [
        identity_counts(Y_TRUE, MENTIONS),
        term_frequencies(Y_TRUE, MENTIONS),
        toxicity_by_length(Y_TRUE, LENGTHS, MENTIONS, edges=[20, 60]),
    ],
    ids=["identity_counts", "term_frequencies", "toxicity_by_length"],
)
def test_descriptions_pass_through_strict_json_unchanged(described):
    plain = described.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_plain_values_hold_counts_beside_every_share():
    plain = term_frequencies(Y_TRUE, MENTIONS).to_dict()
    assert plain["overall"] == {"n": 8, "n_positive": 3, "percent_toxic": {"value": 37.5}}
    assert list(plain["terms"]["gay"]) == [
        *("n", "n_positive"),
        *("share_of_toxic", "share_of_all", "ratio"),
    ]
    bucket = toxicity_by_length(Y_TRUE, LENGTHS, {}, edges=[20]).to_dict()["buckets"][1]
    assert (bucket["start"], bucket["stop"], bucket["overall"]["n"]) == (20, None, 6)


@pytest.mark.parametrize("edges", [[0, 10], [20, 20], [60, 20], [10.5], [-3]])
def test_edges_that_do_not_ascend_are_refused(edges):
    message = r"^`edges` must be whole numbers that ascend from at least 1; got \[.*\]\.$"
    with pytest.raises(ValueError, match=message):
        toxicity_by_length(Y_TRUE, LENGTHS, MENTIONS, edges=edges)


@pytest.mark.parametrize(("wrong", "shown"), [(-1, "-1"), (1.5, r"1\.5")])
def test_a_length_that_is_no_count_of_characters_is_refused_with_its_row(wrong, shown):
    message = rf"^`lengths` must be whole numbers of at least 0; got {shown} \(row 2\)\.$"
    with pytest.raises(ValueError, match=message):
        toxicity_by_length([0, 1, 1], [1, 2, wrong], {}, edges=[10])


@pytest.mark.parametrize("describe", [term_frequencies, identity_counts])
def test_masks_must_have_the_rows_of_the_labels(describe):
    with pytest.raises(ValueError, match=r"\['gay'\]` must have 2 rows like `y_true`; got 1\.$"):
        describe([0, 1], {"gay": [1]})


def test_mentions_that_are_no_mapping_are_refused_under_their_own_name():
    with pytest.raises(TypeError, match=r"^`mentions` must map a name to a boolean array"):
        term_frequencies([0, 1], [[0, 1]])
