"""The highest value of a metric minus the lowest: its farthest pair, and its coverage."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, evaluate_bias
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS

N = 2000
R = 400
SHARES = (0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.4)


def draw_groups(rng, *, shift=0.0, gap=1.5, step=0.0, n_clusters=0, within=0.0):
    """Draw overlapping groups of 40 to 800 rows; negatives of the last groups score higher."""
    cluster = rng.integers(0, n_clusters, N) if n_clusters else np.arange(N)
    of_cluster = rng.normal(size=n_clusters or N)[cluster]
    y_true = rng.random(N) < 0.4
    groups = {f"g{i}": rng.random(N) < share for i, share in enumerate(SHARES)}
    noise = math.sqrt(within) * of_cluster + math.sqrt(1 - within) * rng.normal(size=N)
    score = gap * y_true + noise + shift * groups["g5"] * ~y_true
    score = np.round(score / step) * step if step else score
    return Rows(y_true, groups, clusters=cluster if n_clusters else None), score


def measure_spreads(rows, score, **options):
    """Return the spread of every metric."""
    table = evaluate_bias(rows, score, intervals="cells", **options)
    return {metric: table.difference(metric) for metric in SUBGROUP_METRICS}


def measure_large_sample(**options):
    """Return the true spreads, from a million rows; rows of different clusters are independent."""
    rng = np.random.default_rng(0)
    parts = [draw_groups(rng, **options | {"n_clusters": 0, "within": 0.0}) for _ in range(500)]
    y_true = np.concatenate([rows.y_true for rows, _ in parts])
    groups = {
        x: np.concatenate([rows.subgroups[x] for rows, _ in parts]) for x in parts[0][0].subgroups
    }
    score = np.concatenate([score for _, score in parts])
    subgroups = evaluate_bias(y_true, score, groups, intervals=False).subgroups
    values = {x: [getattr(number, x) for number in subgroups.values()] for x in SUBGROUP_METRICS}
    return {x: max(v.value for v in of) - min(v.value for v in of) for x, of in values.items()}


def test_it_is_the_farthest_pair_of_a_double_loop():
    rows, score = draw_groups(np.random.default_rng(4), shift=1.0)
    spreads = measure_spreads(rows, score, confidence=0.9)
    n, of_all = (
        len(rows.subgroups),
        {"positive": rows.y_true.sum(), "negative": (~rows.y_true).sum()},
    )
    alone, joint = (
        evaluate_bias(rows.y_true, score, dict(rows.subgroups), intervals="cells", confidence=at)
        for at in (0.9, 1 - 0.1 / (n * (n - 1)))
    )
    for metric in SUBGROUP_METRICS:
        assert METRICS[metric].is_gap == metric.endswith("aeg")
        lows, highs, values = [0.0], [], []
        for a in rows.subgroups:
            for b in rows.subgroups:
                if a == b:
                    continue
                tied = 0.0
                if METRICS[metric].is_gap:
                    label = metric.removesuffix("_aeg")
                    p, q = (getattr(alone.counts[x], f"n_{label}") / of_all[label] for x in (a, b))
                    tied = math.sqrt(p * q / ((1 - p) * (1 - q)))
                one, other = (getattr(joint.subgroups[x], metric) for x in (a, b))
                down, up = one.value - one.low, other.high - other.value
                reach = math.sqrt(down**2 + up**2 + 2 * tied * down * up)
                lows.append(one.value - other.value - reach)
                one, other = (getattr(alone.subgroups[x], metric) for x in (a, b))
                up, down = one.high - one.value, other.value - other.low
                reach = math.sqrt(up**2 + down**2 + 2 * tied * down * up)
                highs.append(one.value - other.value + reach)
                values.append((one.value - other.value, a, b))
        value, highest, lowest = max(values)
        one = spreads[metric]
        assert (one.highest, one.lowest) == (highest, lowest)
        assert one.value.value == pytest.approx(value, abs=1e-12)
        assert one.value.low == pytest.approx(max(lows), abs=1e-12)
        assert one.value.high == pytest.approx(min(max(highs), 1.0), abs=1e-12)


def test_aegs_of_a_group_and_all_others_are_opposite_so_their_bounds_add_up():
    rows, score = draw_groups(np.random.default_rng(4), shift=1.0)
    group = rows.subgroups["g6"]
    own = Rows(rows.y_true, {"g": group, "others": ~group})
    spread = evaluate_bias(own, score).difference("negative_aeg")
    alone = evaluate_bias(own.y_true, score, dict(own.subgroups)).subgroups
    g, others = (alone[name].negative_aeg for name in ("g", "others"))
    assert g.value == pytest.approx(-others.value, abs=1e-12)
    assert spread.value.value == pytest.approx(2 * abs(g.value))
    top, bottom = (g, others) if g.value > 0 else (others, g)
    assert spread.value.high == pytest.approx(top.high - bottom.low)


def test_bounds_of_aegs_of_groups_with_many_rows_in_common_add_up():
    rows, score = draw_groups(np.random.default_rng(4), shift=1.0)
    place = np.random.default_rng(5).random(N)
    own = Rows(rows.y_true, {"low": place < 0.7, "high": place > 0.3})
    spread = evaluate_bias(own, score).difference("positive_aeg")
    alone = evaluate_bias(own.y_true, score, dict(own.subgroups)).subgroups
    top, bottom = (alone[name].positive_aeg for name in (spread.highest, spread.lowest))
    assert spread.value.high == pytest.approx(top.high - bottom.low)


def test_a_subgroup_is_not_compared_with_itself():
    few, many = np.arange(24), np.arange(24, 624)
    y_true, score = np.arange(624) % 2 == 1, np.array([0.1, 0.4, 0.3, 0.2] * 156)
    groups = {name: np.isin(np.arange(624), own) for name, own in (("few", few), ("many", many))}
    value = evaluate_bias(Rows(y_true, groups), score).difference("subgroup_auc").value
    alone = evaluate_bias(y_true, score, groups).subgroups
    small, large = (alone[name].subgroup_auc for name in groups)
    assert value.value == small.value - large.value == 0
    reaches = [value.high - value.value for value in (small, large)]
    falls = [value.value - value.low for value in (small, large)]
    ends = [math.hypot(reaches[0], falls[1]), math.hypot(reaches[1], falls[0])]
    assert value.high == pytest.approx(max(ends))
    assert value.high < math.hypot(reaches[0], falls[0])


def test_a_record_has_the_interval_or_the_reason_why_there_is_none():
    rows, score = draw_groups(np.random.default_rng(4))
    spread = evaluate_bias(rows, score).difference("bpsn_auc")
    plain = spread.to_dict()
    assert (plain["value"]["low"], plain["value"]["high"]) == (spread.value.low, spread.value.high)
    assert (plain["lowest"], plain["highest"]) == (spread.lowest, spread.highest)


def test_many_subgroups_have_the_spread_of_a_few_at_a_time(monkeypatch):
    rows, score = draw_groups(np.random.default_rng(4), shift=1.0)
    whole = measure_spreads(rows, score)
    monkeypatch.setattr("bias_metrics.extremes._BLOCK", 2)
    assert measure_spreads(rows, score) == whole


def test_who_has_no_interval_is_named_and_left_out():
    y_true = np.arange(40) % 2 == 0
    score = np.arange(40) * 7 % 40 / 40
    one = np.zeros(40, bool)
    one[0] = True
    groups = {"a": np.arange(40) < 20, "b": np.arange(40) >= 20}
    spread = evaluate_bias(Rows(y_true, groups | {"one": one}), score).difference("bnsp_auc")
    assert spread.undefined == {"one": "fewer than 2 rows in a class"}
    assert spread.value == evaluate_bias(Rows(y_true, groups), score).difference("bnsp_auc").value
    groups = {"a": groups["a"], "one": one}
    alone = evaluate_bias(Rows(y_true, groups), score).difference("bnsp_auc")
    assert alone.value.reason == "fewer than two subgroups with an interval"
    assert (alone.lowest, alone.highest, alone.value.value) == (None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shift": 0.5},
        {"shift": 0.5, "gap": 2.7},
        {"step": 1.0},
        {"shift": 0.5, "step": 2.0},
        {"shift": 0.5, "n_clusters": 150, "within": 0.3},
    ],
    ids=["equal", "one worse", "near 1", "ties", "two values", "clusters"],
)
def test_each_end_misses_the_true_spread_in_at_most_one_of_40_samples(options):
    rng = np.random.default_rng(17)
    true = measure_large_sample(**options)
    above, below = dict.fromkeys(SUBGROUP_METRICS, 0), dict.fromkeys(SUBGROUP_METRICS, 0)
    shown = 0
    for _ in range(R):
        spreads = measure_spreads(*draw_groups(rng, **options))
        shown += spreads["bpsn_auc"].value.low > 0
        for metric, one in spreads.items():
            above[metric] += one.value.low > true[metric] + 0.002
            below[metric] += one.value.high < true[metric] - 0.002
    most = 0.025 + 2 * math.sqrt(0.025 * 0.975 / R)
    assert max(above.values()) / R <= most
    assert max(below.values()) / R <= most
    if options.get("shift") and "gap" not in options:
        assert shown / R > 0.5


@pytest.mark.slow
def test_of_two_groups_that_are_apart_the_ends_miss_about_as_often_as_asked():
    rng = np.random.default_rng(23)
    normal = NormalDist()
    true = normal.cdf(1.5 / math.sqrt(2)) - normal.cdf(0.5 / math.sqrt(2))
    above = below = 0
    for _ in range(1000):
        y_true, group = rng.random(600) < 0.4, rng.random(600) < 0.5
        score = 1.5 * y_true + rng.normal(size=600) + group * ~y_true
        spreads = measure_spreads(Rows(y_true, {"g": group, "others": ~group}), score)
        above += spreads["subgroup_auc"].value.low > true
        below += spreads["subgroup_auc"].value.high < true
    assert 2 <= above <= 22  # at Bonferroni's level for two bounds, 1.25 %: 12.5 and 2.8 errors
    assert 15 <= below <= 35  # 2.5 %: 25 and 2 errors
