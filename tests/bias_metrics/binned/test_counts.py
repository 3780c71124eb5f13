"""Counts of scores can be added, and their bounds contain the exact numbers."""

import io
import json
import zipfile
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import Key, Rows, ScoreCounts, evaluate_bias
from bias_metrics.binned.archive import refuse_impossible
from bias_metrics.metrics import SUBGROUP_METRICS

N = 600


def draw_rows(seed=3, n=N, digits=None, positive=0.2):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < positive
    groups = {name: rng.random(n) < share for name, share in {"gay": 0.2, "muslim": 0.1}.items()}
    score = 1 / (1 + np.exp(-rng.normal(1.5 * y_true + 0.8 * groups["gay"] - 2, 1)))
    score = score if digits is None else np.round(score, digits)
    return y_true, score, groups


def count_scores(y_true, score, groups, *, shard="all", bits=12, **options):
    return ScoreCounts.from_rows(Rows(y_true, groups, **options), score, shard=shard, bits=bits)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_where_no_scores_share_a_bin_the_numbers_are_the_exact_ones(background):
    y_true, score, groups = draw_rows()
    table = count_scores(y_true, score, groups, bits=52).report(background=background)
    exact = evaluate_bias(y_true, score, groups, background=background)
    assert table.overall.auc == exact.overall.auc
    assert table.counts == exact.counts
    for name, bias in exact.subgroups.items():
        for metric, cell in bias.items():
            own = getattr(table.subgroups[name], metric)
            for part in ("value", "std_error", "low", "high"):
                assert getattr(own, part) == pytest.approx(getattr(cell, part), abs=1e-12)
    assert table.overall.final_score.value == pytest.approx(
        exact.overall.final_score.value, abs=1e-12
    )


@given(st.integers(0, 10**6), st.integers(0, 8), st.sampled_from([None, 1, 2]))
def test_every_exact_number_lies_in_its_bracket(seed, bits, digits):
    y_true, score, groups = draw_rows(seed, 60, digits)
    counts = count_scores(y_true, score, groups, bits=bits)
    brackets, exact = counts.brackets(), evaluate_bias(y_true, score, groups)
    values = counts.report()
    assert brackets.keys() == exact.keys()
    for key, cell in exact.items():
        if cell.value is None:
            assert brackets[key] is None
            continue
        low, high = brackets[key]
        assert low - 1e-12 <= cell.value <= high + 1e-12
        assert low - 1e-12 <= values[key].value <= high + 1e-12


def test_brackets_narrow_by_half_with_each_bit():
    y_true, score, groups = draw_rows(n=20_000)
    widths = []
    for bits in (6, 8, 10):
        low, high = count_scores(y_true, score, groups, bits=bits).brackets()[
            Key("bpsn_auc", "gay")
        ]
        widths.append(high - low)
    assert widths[0] > 3 * widths[1] > 9 * widths[2] > 0


def test_two_scores_are_exact_at_any_width_of_bins():
    y_true, score, groups = draw_rows()
    score = np.where(score > 0.2, 0.75, 0.25)
    counts = count_scores(y_true, score, groups, bits=0)
    exact = evaluate_bias(y_true, score, groups)
    for key, (low, high) in counts.brackets().items():
        assert low == high == pytest.approx(exact[key].value, abs=1e-12)


@given(
    st.integers(0, 10**6),
    st.integers(0, 8),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["outside_subgroup", "no_identity"]),
)
def test_intervals_hold_those_of_the_exact_scores(seed, bits, digits, background):
    y_true, score, groups = draw_rows(seed, 3_000, digits, positive=0.5)
    options = {"confidence": 0.9, "background": background}
    table = count_scores(y_true, score, groups, bits=bits).report(**options)
    exact = evaluate_bias(y_true, score, groups, **options)
    for key in [("auc",), *((metric, name) for name in groups for metric in SUBGROUP_METRICS)]:
        own, cell = table[key], exact[key]
        assert own.low <= cell.low + 1e-12
        assert own.high >= cell.high - 1e-12


def test_intervals_are_hardly_wider_than_those_of_exact_scores():
    y_true, score, groups = draw_rows(n=20_000)
    value = count_scores(y_true, score, groups).report().subgroups["gay"].bpsn_auc
    exact = evaluate_bias(y_true, score, groups).subgroups["gay"].bpsn_auc
    assert value.high - value.low == pytest.approx(exact.high - exact.low, rel=0.05)


def draw_parts(n_parts=4):
    y_true, score, groups = draw_rows(digits=2)
    which = np.random.default_rng(0).integers(0, n_parts, N)
    return [
        count_scores(
            y_true[which == part],
            score[which == part],
            {name: mask[which == part] for name, mask in groups.items()},
            shard=f"part {part}",
            bits=5,
        )
        for part in range(n_parts)
    ]


def test_shards_add_up_to_the_counts_of_all_rows_in_any_order():
    whole = count_scores(*draw_rows(digits=2), bits=5)
    for order in permutations(draw_parts()):
        added = ScoreCounts.add_all(order)
        assert added.shards == {f"part {part}" for part in range(4)}
        for name in ("bins", "least", "most", "everyone", "anyone", "subgroups"):
            assert np.array_equal(getattr(added, name), getattr(whole, name))
    assert added.report() == whole.report()


def test_frequencies_count_as_repeated_rows():
    y_true, score, groups = draw_rows()
    times = np.random.default_rng(1).integers(0, 4, N)
    once = {name: np.repeat(mask, times) for name, mask in groups.items()}
    repeated = count_scores(np.repeat(y_true, times), np.repeat(score, times), once)
    weighted = count_scores(y_true, score, groups, sample_weight=times, weight_kind="frequency")
    assert weighted.to_bytes() == repeated.to_bytes()


@given(st.lists(st.floats(-1e300, 1e300), min_size=1), st.floats(-1e300, 1e300))
def test_flagged_rows_are_between_the_counts(scores, threshold):
    mask = np.arange(len(scores)) % 2 == 0
    counts = count_scores(mask, np.array(scores), {"gay": ~mask}, bits=1)
    flagged = np.array(scores) >= threshold
    low, high = counts.count_flagged(threshold)[None]["positive"]
    assert low <= (flagged & mask).sum() <= high
    low, high = counts.count_flagged(threshold)["gay"]["negative"]
    assert low <= (flagged & ~mask).sum() <= high


def test_a_threshold_between_bins_flags_an_exact_number():
    y_true, score, groups = draw_rows()
    low, high = count_scores(y_true, score, groups).count_flagged(0.5)[None]["positive"]
    assert low == high == ((score >= 0.5) & y_true).sum() > 0


def test_a_number_without_rows_is_undefined_with_its_reason():
    counts = count_scores([0, 1, 0], [0.1, 0.2, 0.3], {"gay": [1, 0, 0]})
    table = counts.report()
    assert table.subgroups["gay"].subgroup_auc.reason == "no subgroup positives"
    assert counts.brackets()[Key("subgroup_auc", "gay")] is None
    assert table.overall.final_score.value is None


def test_aggregates_reach_from_those_of_the_lower_ends_to_those_of_the_upper():
    table = count_scores(*draw_rows()).report()
    final, bias = table.overall.final_score, table.subgroups
    for end in ("low", "high"):
        means = [
            np.mean([getattr(getattr(number, metric), end) ** -5 for number in bias.values()])
            ** (-1 / 5)
            for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc")
        ]
        expected = (getattr(table.overall.auc, end) + sum(means)) / 4
        assert getattr(final, end) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 10**6))
def test_intervals_of_aggregates_are_wider_than_those_that_know_who_is_in_several_subgroups(seed):
    y_true, score, groups = draw_rows(seed, 3_000)
    overall = count_scores(y_true, score, groups).report().overall
    for metric, cell in evaluate_bias(y_true, score, groups).overall.items():
        own = overall[metric]
        assert own.high - own.low > 0.98 * (cell.high - cell.low)


def test_an_aggregate_of_a_number_without_interval_has_none():
    y_true, score, groups = draw_rows()
    groups["one"] = np.zeros(N, dtype=bool)
    groups["one"][[np.flatnonzero(y_true)[0], *np.flatnonzero(~y_true)[:5]]] = True
    value = count_scores(y_true, score, groups).report().overall.final_score
    assert value.low is None
    assert value.reason == "a number that it rests on has no interval"


def test_no_subgroups_are_needed_for_the_overall_auc():
    y_true, score, _ = draw_rows()
    table = count_scores(y_true, score, {}, bits=52).report()
    assert table.overall.auc == evaluate_bias(y_true, score, {}).overall.auc


def test_a_shard_is_not_counted_twice():
    first, second, *_ = draw_parts()
    with pytest.raises(ValueError, match=r"shard 'part 0' must be counted once; it is in both"):
        _ = first + second + first


def test_a_shard_that_is_missing_or_foreign_is_named():
    first, second, *_ = draw_parts()
    (first + second).require_shards(["part 0", "part 1"])
    with pytest.raises(ValueError, match=r"lack 1 of the shards, first 'part 1'"):
        first.require_shards(["part 0", "part 1"])
    with pytest.raises(ValueError, match=r"must not have 1 of the shards, .* 'part 1'"):
        (first + second).require_shards(["part 0"])


def test_other_bins_or_subgroups_are_not_added():
    y_true, score, groups = draw_rows()
    counts = count_scores(y_true, score, groups)
    with pytest.raises(ValueError, match=r"`bits` must be the same .*; got 12 and 11"):
        _ = counts + count_scores(y_true, score, groups, shard="b", bits=11)
    with pytest.raises(ValueError, match=r"`names` must be the same"):
        _ = counts + count_scores(y_true, score, {"gay": groups["gay"]}, shard="b")


def test_more_rows_than_can_be_counted_are_refused():
    y_true, score, groups = draw_rows()
    times = np.full(N, 1e6)
    shards = [
        count_scores(
            y_true, score, groups, shard=str(i), sample_weight=times, weight_kind="frequency"
        )
        for i in range(7)
    ]
    assert ScoreCounts.add_all(shards[:6]).n == 3_600_000_000
    with pytest.raises(ValueError, match=r"at most 4,000,000,000 rows; got 4,200,000,000"):
        ScoreCounts.add_all(shards)


def test_as_many_rows_as_can_be_counted_are_added_and_read():
    rows = Rows([0, 1], {}, sample_weight=[5e8, 5e8], weight_kind="frequency")
    counts = ScoreCounts.add_all(
        ScoreCounts.from_rows(rows, [0.2, 0.7], shard=shard) for shard in "abcd"
    )
    assert ScoreCounts.from_bytes(counts.to_bytes()).n == 4_000_000_000


def test_what_counts_cannot_hold_is_refused():
    y_true, score, groups = draw_rows()
    with pytest.raises(ValueError, match="must have no `clusters`"):
        count_scores(y_true, score, groups, clusters=np.arange(N))
    with pytest.raises(ValueError, match="must have no `sample_weight`"):
        count_scores(y_true, score, groups, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="`bits` must be from 0 to 52; got 53"):
        count_scores(y_true, score, groups, bits=53)
    with pytest.raises(ValueError, match=r"`y_score` must be finite; got nan \(row 2\)"):
        count_scores(y_true, np.where(np.arange(N) == 2, np.nan, score), groups)


def test_a_shard_without_rows_adds_nothing():
    y_true, score, groups = draw_rows()
    counts = count_scores(y_true, score, groups)
    alone = {"shard": "weightless", "sample_weight": [0], "weight_kind": "frequency"}
    for none in (
        count_scores([], [], {name: [] for name in groups}, shard="empty"),
        count_scores([1], [0.5], {name: [1] for name in groups}, **alone),
    ):
        assert (counts + none).report() == counts.report()
        assert ScoreCounts.from_bytes(none.to_bytes()).n == 0


@pytest.mark.parametrize("bits", [0, 12, 52])
def test_bytes_give_the_same_counts(bits):
    counts = count_scores(*draw_rows(), bits=bits)
    again = ScoreCounts.from_bytes(counts.to_bytes())
    assert again.report() == counts.report()
    assert (again.bits, again.shards, again.names) == (bits, {"all"}, ("gay", "muslim"))


def rewrite_archive(counts, **changes):
    """Return the bytes of counts with replaced arrays."""
    with np.load(io.BytesIO(counts.to_bytes())) as arrays:
        values = dict(arrays) | changes
    file = io.BytesIO()
    np.savez_compressed(file, **values)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("bins", lambda a: a[::-1], "`bins` must ascend"),
        ("least", lambda a: a - 1, "must lie in their bins"),
        ("most", lambda a: a - 1, "`least` must be at most `most`"),
        ("most", lambda a: a * np.nan, "`least` must be at most `most`"),
        ("most", lambda a: np.append(a[:-1], np.inf), "must be finite"),
        ("everyone", lambda a: -a, "no count may be negative"),
        ("subgroups", lambda a: -a, "no count may be negative"),
        ("subgroups", lambda a: a + 2**62, "a subgroup must be part of those in any"),
        ("everyone", lambda a: a * 0, "every bin must have a row"),
        ("everyone", lambda a: a * 10**8, "at most 4,000,000,000 rows"),
        ("subgroups", lambda a: a * 100, "a subgroup must be part of those in any"),
        ("anyone", lambda a: a * 100, "must be part of all"),
        ("anyone", lambda a: a.astype(float), "`anyone` must be int64"),
        ("subgroups", lambda a: a[:1], "`subgroups` must be int64 of shape"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(name, change, rule):
    counts = count_scores(*draw_rows(digits=1), bits=3)
    with pytest.raises(ValueError, match=rule):
        ScoreCounts.from_bytes(rewrite_archive(counts, **{name: change(getattr(counts, name))}))


def test_less_than_no_row_in_any_of_no_subgroups_is_refused():
    y_true, score, _ = draw_rows(digits=1)
    counts = count_scores(y_true, score, {})
    with pytest.raises(ValueError, match="no count may be negative"):
        ScoreCounts.from_bytes(rewrite_archive(counts, anyone=counts.anyone - 1))


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="not counts of scores"):
        ScoreCounts.from_bytes(b"nothing")
    about = np.frombuffer(json.dumps({}).encode(), dtype=np.uint8)
    with pytest.raises(ValueError, match="not counts of scores"):
        ScoreCounts.from_bytes(rewrite_archive(count_scores(*draw_rows()), about=about))


def test_what_readers_could_read_in_two_ways_is_refused():
    counts = count_scores(*draw_rows())
    file = io.BytesIO(counts.to_bytes())
    with zipfile.ZipFile(file) as archive:
        about = archive.read("about.npy").rpartition(b"\n")[2]
    twice = np.frombuffer(b'{"bits": 3, ' + about[1:], dtype=np.uint8)
    with pytest.raises(ValueError, match="`about` must be as it is written, no key twice"):
        ScoreCounts.from_bytes(rewrite_archive(counts, about=twice))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("bins.npy", b"")
    with pytest.raises(ValueError, match="no file may be in the archive twice"):
        ScoreCounts.from_bytes(file.getvalue())


def test_bytes_that_unpack_to_too_much_are_refused(monkeypatch):
    data = count_scores(*draw_rows()).to_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr("bias_metrics.binned.archive.MOST_BYTES", size - 1)
    with pytest.raises(ValueError, match=f"at most {size - 1:,} bytes; got {size:,}"):
        ScoreCounts.from_bytes(data)
    monkeypatch.setattr("bias_metrics.binned.archive.MOST_BYTES", size)
    assert ScoreCounts.from_bytes(data).n == N


def test_every_metric_of_a_subgroup_has_a_bracket():
    brackets = count_scores(*draw_rows()).brackets()
    assert {Key(metric, "gay") for metric in SUBGROUP_METRICS} < brackets.keys()


@pytest.mark.parametrize("bits", [-1, 53])
def test_bins_of_other_bits_than_a_number_has_are_refused(bits):
    rows = Rows([0, 1, 0, 1], {"gay": [1, 1, 0, 0]})
    counts = ScoreCounts.from_rows(rows, [0.1, 0.9, 0.2, 0.8], shard="a")
    with pytest.raises(ValueError, match=f"`bits` must be from 0 to 52; got {bits}"):
        refuse_impossible(replace(counts, bits=bits))
