"""Numbers of reports and comparisons, made up for the gate."""

from datetime import date

from bias_metrics.gate.rules import SUBGROUP_METRICS

TODAY = date(2026, 11, 21)
GAPS = ("positive_aeg", "negative_aeg")


def cell(value, low=None, high=None, **more):
    """A metric of a report."""
    reason = {} if low is not None else {"reason": "no interval"}
    return {"value": value, "std_error": 0.01, "low": low, "high": high} | reason | more


def change(first, second, low, high, *, gap=False):
    """A metric of a comparison; of a gap the bounds are those of its size."""
    ends = {"size_low": low, "size_high": high} if gap else {"low": low, "high": high}
    return {"first": first, "second": second, "value": first - second} | ends


def content(of, *, n_positive=100, n=200, groups=("muslim",)):
    """A report or comparison in which every metric has one value."""
    counts = {"n": n, "n_positive": n_positive, "n_negative": n - n_positive}
    cells = counts | dict.fromkeys(SUBGROUP_METRICS, of)
    return {
        "overall": {"n": 1000, "n_positive": 500, "auc": of},
        "subgroups": dict.fromkeys(groups, cells),
        "power_mean": {"groups": list(groups)}
        | dict.fromkeys(("subgroup_auc", "bpsn_auc", "bnsp_auc"), of),
        "final_score": of,
    }
