"""What changed between nights: the numbers, the alarm, and which rows are exchanged."""

from itertools import permutations

import numpy as np
import pytest

from bias_metrics import data_drift, evaluate_bias, metric_drift
from bias_metrics.drift.nights import Exchange, Night, Union, numbers_of, p_values

N = 600


def drawn(seed, ids, *, shift=0.0, **options):
    """Rows of one night: a model that overrates harmless mentions of `gay` by `shift`."""
    rng, n = np.random.default_rng(seed), len(ids)
    toxic, gay, old = rng.random(n) < 0.4, rng.random(n) < 0.3, rng.random(n) < 0.2
    score = (toxic + rng.normal(0, 0.7, n) + shift * (gay & ~toxic)).round(2)
    masks = {"gay": gay, "old": old}
    return {"id": np.asarray(ids), "y_true": toxic, "y_score": score, "subgroups": masks} | options


def part(night, which):
    return {
        key: {name: mask[which] for name, mask in values.items()}
        if key == "subgroups"
        else values[which]
        for key, values in night.items()
    }


def without_scores(night, **options):
    return {key: values for key, values in night.items() if key != "y_score"} | options


def found(before, now, *, of=metric_drift, **options):
    return of(before, now, rng=np.random.default_rng(0), **options)


def by_name(drift):
    return {(one.metric, one.group): one for one in drift.changes}


FIRST, SECOND = drawn(1, range(N)), drawn(2, range(N, 2 * N))


def values_of(night, **options):
    arguments = {key: values for key, values in night.items() if key != "id"}
    report = evaluate_bias(**arguments, **options)
    values = {("auc", "overall"): report.overall.auc.value}
    for name, one in report.subgroups.items():
        for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg"):
            values[metric, name] = getattr(one, metric).value
    return values


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_change_is_that_of_two_evaluations(background, weighted):
    nights = FIRST, SECOND
    if weighted:
        weights = np.random.default_rng(3).integers(0, 3, (2, N)).astype(float)
        nights = [
            night | {"sample_weight": one} for night, one in zip(nights, weights, strict=True)
        ]
    old, new = (values_of(one, background=background) for one in nights)
    drift = found(*nights, background=background)
    counted = [np.count_nonzero(one.get("sample_weight", np.ones(N))) for one in nights]
    assert [drift.n_before, drift.n_now] == counted
    changes = by_name(drift)
    assert changes.keys() == old.keys()
    for name, one in changes.items():
        assert (one.before, one.now) == pytest.approx((old[name], new[name]))
        assert one.change == pytest.approx(new[name] - old[name])


def test_the_interval_of_a_change_is_that_of_two_independent_nights():
    reports = [
        evaluate_bias(n["y_true"], n["y_score"], n["subgroups"]).subgroups["gay"].bpsn_auc
        for n in (FIRST, SECOND)
    ]
    both = np.hypot(*(one.std_error for one in reports))
    change = by_name(found(FIRST, SECOND))["bpsn_auc", "gay"]
    assert (change.high - change.low) / (2 * 1.96) == pytest.approx(both, rel=0.01)


def test_a_model_that_overrates_one_subgroup_raises_the_alarm_for_it():
    drift = found(FIRST, drawn(2, range(N, 2 * N), shift=1.5))
    names = {(one.metric, one.group) for one in drift.drifted}
    assert {("bpsn_auc", "gay"), ("negative_aeg", "gay")} <= names
    assert ("subgroup_auc", "old") not in names
    assert all(one.p_value <= drift.alpha == 0.01 for one in drift.drifted)


def test_nights_of_one_source_raise_none_and_end_early():
    drift = found(FIRST, SECOND)
    assert drift.drifted == ()
    assert drift.n_deals < 1000
    assert (drift.n_before, drift.n_now, drift.n_shared, drift.n_changed) == (N, N, 0, 0)


def test_the_same_rows_differ_in_nothing():
    order = np.random.default_rng(0).permutation(N)
    drift = found(FIRST, part(FIRST, order))
    assert drift.n_shared == N
    assert {(one.change, one.low, one.high) for one in drift.changes} == {(0.0, 0.0, 0.0)}
    assert {one.p_value for one in drift.changes} == {1.0}
    assert drift.n_deals == 0  # nothing is left to chance


def test_shared_rows_make_the_interval_narrower():
    longer = {
        key: np.concatenate([values, SECOND[key]])
        for key, values in FIRST.items()
        if key != "subgroups"
    }
    longer["subgroups"] = {
        name: np.concatenate([mask, SECOND["subgroups"][name]])
        for name, mask in FIRST["subgroups"].items()
    }
    apart = by_name(found(FIRST, longer | {"id": longer["id"] + 9 * N}))["auc", "overall"]
    paired = by_name(found(FIRST, longer))["auc", "overall"]
    assert paired.change == apart.change
    assert paired.high - paired.low < 0.7 * (apart.high - apart.low)


def test_a_relabelled_night_is_compared_row_by_row():
    changed = FIRST["y_true"].copy()
    wrong = np.flatnonzero(FIRST["subgroups"]["gay"] & ~changed)
    changed[wrong] = True
    drift = found(without_scores(FIRST), without_scores(FIRST) | {"y_true": changed}, of=data_drift)
    assert (drift.n_shared, drift.n_changed) == (N, len(wrong))
    assert {(one.metric, one.group) for one in drift.drifted} >= {("toxic_share", "gay")}


def test_the_numbers_of_the_data_are_shares_and_means():
    length = np.arange(N) % 50
    nights = [without_scores(one, length=length) for one in (FIRST, SECOND)]
    changes = by_name(found(*nights, of=data_drift))
    gay, toxic = FIRST["subgroups"]["gay"], FIRST["y_true"]
    assert changes["share", "gay"].before == pytest.approx(gay.mean())
    assert changes["toxic_share", "gay"].before == pytest.approx(toxic[gay].mean())
    assert changes["toxic_share", "overall"].before == pytest.approx(toxic.mean())
    assert changes["length", "overall"].now == pytest.approx(length.mean())


@pytest.mark.parametrize("metric", ["share", "toxic_share", "length"])
def test_drift_of_the_data_is_found(metric):
    rng = np.random.default_rng(5)
    options = {
        "share": {"subgroups": {"gay": rng.random(N) < 0.5, "old": SECOND["subgroups"]["old"]}},
        "toxic_share": {"y_true": rng.random(N) < 0.6},
        "length": {"length": rng.integers(100, 300, N)},
    }
    first = without_scores(FIRST, length=rng.integers(100, 200, N))
    second = without_scores(SECOND, length=rng.integers(100, 200, N)) | options[metric]
    assert metric in {one.metric for one in found(first, second, of=data_drift).drifted}


def test_a_number_with_few_rows_is_not_judged_and_says_so():
    few = np.zeros(N, dtype=bool)
    few[:6] = True
    nights = [one | {"subgroups": {"rare": few}} for one in (FIRST, SECOND)]
    changes = by_name(found(*nights))
    assert changes["bpsn_auc", "rare"].p_value is None
    assert changes["bpsn_auc", "rare"].reason == "too few rows differ between the nights"
    assert changes["auc", "overall"].p_value is not None


def test_an_empty_class_has_a_reason():
    nights = [one | {"subgroups": {"nobody": np.zeros(N, dtype=bool)}} for one in (FIRST, SECOND)]
    change = by_name(found(*nights))["bpsn_auc", "nobody"]
    assert (change.now, change.change, change.reason) == (None, None, "no rows in a class")
    data = by_name(found(*map(without_scores, nights), of=data_drift))
    assert data["toxic_share", "nobody"].reason == "no rows in a class"


@pytest.mark.parametrize("seed", range(5))
def test_rounding_errors_of_weights_are_no_drift(seed):
    rng = np.random.default_rng(seed)
    nights = [
        without_scores(one, sample_weight=rng.uniform(0.2, 5, N), y_score=one["y_true"] + 0.0)
        for one in (FIRST, SECOND)
    ]
    assert {one.p_value for one in found(*nights).changes if one.metric == "auc"} == {1.0}
    assert found(*nights).drifted == ()


def test_without_anything_to_judge_there_is_no_deal():
    small, other = (part(one, slice(8)) | {"subgroups": {}} for one in (FIRST, SECOND))
    drift = found(small, other)
    assert [one.p_value for one in drift.changes] == [None]
    assert drift.n_deals == 0
    assert drift.drifted == ()


def test_a_cluster_keeps_together():
    clusters = np.arange(N) // 3
    nights = FIRST | {"clusters": clusters}, SECOND | {"clusters": clusters + 1000}
    union = Union.of(*(Night.of(one, "night") for one in nights))
    assert len(np.unique(union.unit)) == 2 * N / 3
    change, alone = (by_name(found(*pair))["auc", "overall"] for pair in (nights, (FIRST, SECOND)))
    assert change.change == alone.change
    assert (change.low, change.high) != (alone.low, alone.high)


def test_a_cluster_of_both_nights_is_one_unit_whose_parts_are_exchanged():
    clusters = np.arange(N) // 3
    nights = FIRST | {"clusters": clusters}, SECOND | {"clusters": clusters}
    union = Union.of(*(Night.of(one, "night") for one in nights))
    [number, *_] = numbers_of(union.rows, "outside_subgroup").values()
    exchange = Exchange.of(union, number.influence[:, None])
    assert exchange.role.size == 0
    assert len(exchange.swapped) == N / 3
    assert exchange.moving == 1.0
    assert found(*nights).drifted == ()


def test_a_row_that_moved_to_another_cluster_joins_both():
    clusters = np.repeat(np.arange(N // 6), 6)
    moved = clusters.copy()
    moved[0] = clusters[-1]
    nights = [FIRST | {"clusters": one} for one in (clusters, moved)]
    union = Union.of(*(Night.of(one, "night") for one in nights))
    assert union.n_changed == 1
    assert union.unit[0] == union.unit[-1] == union.unit[N - 1]


def test_the_deals_have_the_spread_that_they_are_divided_by():
    longer = drawn(7, range(N // 2, 2 * N))
    for key in ("y_true", "y_score"):
        longer[key][: N // 4] = FIRST[key][N // 2 : 3 * N // 4]
    for name, mask in longer["subgroups"].items():
        mask[: N // 4] = FIRST["subgroups"][name][N // 2 : 3 * N // 4]
    union = Union.of(Night.of(FIRST, "before"), Night.of(longer, "now"))
    assert (union.n_shared, union.n_changed) == (N // 2, pytest.approx(N // 4, abs=9))
    numbers = numbers_of(union.rows, "no_identity").values()
    influence = np.stack([one.influence for one in numbers], axis=1)
    exchange = Exchange.of(union, influence)
    assert len(np.unique(exchange.role)) == 3
    deals = exchange.deals(np.random.default_rng(0))
    spread = np.std([next(deals) for _ in range(1500)], axis=0)
    assert spread == pytest.approx(1.0, abs=0.08)


def test_the_spread_of_six_rows_is_that_of_all_their_deals():
    nights = (Night.of(part(one, slice(3)), "night") for one in (FIRST, SECOND))
    exchange = Exchange.of(Union.of(*nights), np.array([[0.3], [-1.2], [0.4], [2.0], [-0.7], [0]]))
    deals = [roles @ exchange.influence for roles in map(np.array, permutations(exchange.role))]
    assert exchange.std_error == pytest.approx(np.std(deals, axis=0))


def test_a_change_is_measured_from_the_mean_of_all_deals_in_their_spread():
    """Two clusters of both nights, of other sizes in each; three rows of one, and two of the other.

    Each cluster of both nights keeps its parts or exchanges them; the other rows are dealt anew.
    """
    clusters = ([7, 7, 7, 8, 0, 1, 2], [7, 8, 8, 3, 4])
    ids = range(7), range(7, 12)
    nights = [
        drawn(3, one) | {"clusters": np.array(of)} for one, of in zip(ids, clusters, strict=True)
    ]
    union = Union.of(*(Night.of(one, "night") for one in nights))
    influence = np.random.default_rng(5).normal(size=12)
    exchange = Exchange.of(union, influence[:, None])
    roles = np.repeat([-1 / 7, 1 / 5], [7, 5])
    unit, alone = np.concatenate(clusters), np.array([4, 5, 6, 10, 11])

    def dealt(swapped, dealt_roles):
        own = roles.copy()
        for one in swapped:
            own[unit == one] = np.where(own[unit == one] < 0, 1 / 5, -1 / 7)
        own[alone] = dealt_roles
        return own @ influence

    swaps = [[], [7], [8], [7, 8]]
    deals = [dealt(one, of) for one in swaps for of in permutations(roles[alone])]
    expected = (roles @ influence - np.mean(deals)) / np.std(deals)
    assert exchange.observed()[0] == pytest.approx(expected)
    drawn_deals = exchange.deals(np.random.default_rng(0))
    possible = (np.array(deals) - np.mean(deals)) / np.std(deals)
    for _ in range(50):
        [deal] = next(drawn_deals)
        assert np.abs(possible - deal).min() < 1e-9


def test_a_p_value_counts_the_deals_that_differ_as_much_anywhere():
    union = Union.of(Night.of(FIRST, "before"), Night.of(SECOND, "now"))
    numbers = numbers_of(union.rows, "no_identity").values()
    influence = np.stack([one.influence for one in numbers], axis=1)
    exchange, judged = Exchange.of(union, influence), np.ones(influence.shape[1], dtype=bool)
    p, n_deals = p_values(exchange, judged, 0.01, np.random.default_rng(4))
    deals, sizes = exchange.deals(np.random.default_rng(4)), np.abs(exchange.observed())
    largest = np.array([np.abs(next(deals)).max() for _ in range(n_deals)])
    counts = [(largest >= size * (1 - 1e-9)).sum() for size in sizes]
    assert p == pytest.approx((np.array(counts) + 1) / (n_deals + 1))
    assert min(counts) == 10


def test_a_result_is_plain_values():
    drift = found(FIRST, SECOND)
    assert drift.to_dict()["changes"][0] == drift.rows()[0]
    assert drift.rows()[0]["metric"] == "auc"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": np.zeros(N)}, r"`now\['id'\]` must be different for each row"),
        ({"id": np.arange(N).astype(str)}, "`id` must be of one type"),
        ({"id": np.arange(N - 1)}, "must have 600 rows"),
        ({"word": 1}, "'word' is missing or not one of them"),
        ({"subgroups": {"gay": FIRST["subgroups"]["gay"]}}, r"only one has subgroups\['old'\]"),
        ({"y_score": None}, "`now` must have rows with `y_score`"),
        ({"length": np.arange(N)}, "only one has length"),
        ({"clusters": np.arange(3)}, "`clusters` must have 600 rows"),
    ],
)
def test_wrong_rows_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        found(FIRST, SECOND | change)


def test_a_missing_key_is_named():
    with pytest.raises(ValueError, match="'y_true' is missing or not one of them"):
        found(FIRST, {key: values for key, values in SECOND.items() if key != "y_true"})


def test_scores_are_not_of_the_data():
    with pytest.raises(ValueError, match="`before` must have rows without `y_score`"):
        found(FIRST, SECOND, of=data_drift)


def test_an_unknown_background_is_refused():
    with pytest.raises(ValueError, match="`background` must be one of outside_subgroup, no_ident"):
        found(FIRST, SECOND, background="all")


@pytest.mark.parametrize("alpha", [0, 1, float("nan")])
def test_the_chance_of_a_wrong_alarm_is_between_0_and_1(alpha):
    with pytest.raises(ValueError, match="`alpha` must be above 0 and below 1"):
        found(FIRST, SECOND, alpha=alpha)
