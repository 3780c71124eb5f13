"""Numbers of reports and comparisons, made up for the gate."""

from datetime import date

from bias_metrics import Difference, MetricValue
from bias_metrics.gate import Evidence
from bias_metrics.gate.rules import SUBGROUP_METRICS
from bias_metrics.table import BiasTable, Key, RowCounts

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


def evidence_of(report, champion=None, reference=None, **more):
    """Evidence with the numbers of contents in the shape of `to_dict()`."""
    rivals = {"champion": champion, "reference": reference}
    contents = {None: report} | {name: one for name, one in rivals.items() if one is not None}
    numbers, thresholds = {}, {}
    for rival, found in contents.items():
        numbers |= {key: number(one, rival) for key, one in cells_of(found, rival)}
        for name, at in found.get("thresholds", {}).items():
            ends = at.get("thresholds") or [at.get("threshold", 0.5)]
            thresholds[name, rival] = ends[-1]
    return Evidence(
        BiasTable(
            numbers,
            {name: counted(rows) for name, rows in rows_of(report)},
            covered=tuple(report.get("power_mean", {}).get("groups", ())),
            categories=tuple(report.get("categories", ())),
            thresholds=thresholds,
        ),
        **more,
    )


def rows_of(report):
    yield None, report["overall"]
    for part in ("subgroups", "categories"):
        yield from report.get(part, {}).items()


def counted(rows):
    n_negative = rows["n"] - rows["n_positive"]
    return RowCounts(rows["n_positive"], n_negative, rows.get("effective"))


def cells_of(found, rival):
    """Yield each cell with its key."""
    whole = found.get("overall", {}) | {"final_score": found.get("final_score")}
    for metric, one in (whole | found.get("power_mean", {})).items():
        yield Key(metric, against=rival), one
    places = [(None, found), (None, found.get("calibration", {}))]
    for threshold, place in [*places, *found.get("thresholds", {}).items()]:
        for part in ("subgroups", "categories"):
            for group, cells in place.get(part, {}).items():
                for metric, one in cells.items():
                    yield Key(metric, group, threshold, rival), one


def number(one, rival):
    """Return a cell as the library has it."""
    if not isinstance(one, dict) or "value" not in one:
        return MetricValue(None, "no number")
    kind = MetricValue if rival is None else Difference
    known = {name: one[name] for name in kind.__dataclass_fields__ if name in one}
    if rival is not None:
        known = {"first": one["value"], "second": None} | known
    return kind(**known)
