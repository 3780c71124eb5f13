"""What the trainings of an experiment show together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bias_metrics import MetricValue
from bias_metrics.mitigation.repeated import paired_over_splits, pareto_front, recovered_share
from biasgate.tasks.mitigating.measuring import RATES, SUMS, harm
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.trials import BASELINE, CLEAN

Trials = Sequence[dict[str, Any]]
_COSTS_TOLD = 3


def outcome_of(trials: Trials, mitigation: Mitigation, name: str) -> dict[str, Any]:
    """Compare every method with the baseline and with the control, over all splits.

    Parameters
    ----------
    trials : sequence of dict
        The numbers of each split.
    mitigation : Mitigation
        The settings.
    name : str
        Name of the experiment.

    Returns
    -------
    dict
        JSON-ready content of `experiment.json`.
    """
    share = mitigation.test_share
    methods = _done(trials)
    numbers = {method: _numbers(trials, method) for method in methods}
    controls = [one.called for one in mitigation.chosen() if one.kind == "random"]
    against = [BASELINE, *(one for one in controls if one in methods)]
    content: dict[str, Any] = {
        "name": name,
        "n_splits": len(trials),
        "test_share": share,
        "rows": {key: [one[key] for one in trials] for key in ("n_train", "n_tuning", "n_test")},
        "methods": methods,
        "undone": _undone(trials),
        "said": {one: trials[0]["said"].get(one, []) for one in methods},
        "means": {
            method: {key: _mean(values, share) for key, values in found.items()}
            for method, found in numbers.items()
        },
        "differences": [
            {
                "method": method,
                "against": other,
                "number": key,
                **_difference(numbers[other][key], values, share),
            }
            for other in against
            for method in methods
            if method not in {other, BASELINE}
            for key, values in numbers[method].items()
        ],
        "costs": _costs(trials, methods, share),
        "pareto": _pareto(numbers, share),
    }
    if CLEAN in methods:
        content["recovered"] = _recovered(numbers, share)
    content["sentences"] = _sentences(content)
    return content


def _done(trials: Trials) -> list[str]:
    """Return the methods that could be done on every split, baseline first."""
    return [name for name in trials[0]["methods"] if all(name in one["methods"] for one in trials)]


def _undone(trials: Trials) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in trials:
        for method, reason in one["undone"].items():
            told = found.setdefault(method, {"n_splits": 0, "reason": reason})
            told["n_splits"] += 1
    return found


def _numbers(trials: Trials, method: str) -> dict[str, list[float | None]]:
    """Return the numbers of a method, each over all splits, under names as in `fped/phrases`."""
    found: dict[str, list[float | None]] = {}
    for one in trials:
        numbers = one["methods"][method]
        flat = {f"{key}/general": value for key, value in numbers["general"].items()}
        for name, of_set in numbers["sets"].items():
            flat |= {f"{key}/{name}": value for key, value in of_set["overall"].items()}
        flat |= {f"{key}/pairs": value for key, value in (numbers["pairs"] or {}).items()}
        for key, value in flat.items():
            found.setdefault(key, []).append(value)
    return found


def _defined(*rows: Sequence[float | None]) -> list[np.ndarray] | None:
    if any(value is None for values in rows for value in values):
        return None
    return [np.array(values, dtype=float) for values in rows]


def _mean(values: Sequence[float | None], share: float) -> dict[str, Any]:
    known = _defined(values)
    if known is None:
        return {"value": None, "reason": "undefined for a split"}
    found = paired_over_splits(np.zeros(len(values)), known[0], test_share=share)
    return found.to_dict(interval=True)


def _difference(
    first: Sequence[float | None], second: Sequence[float | None], share: float
) -> dict[str, Any]:
    known = _defined(first, second)
    if known is None:
        return {"value": None, "reason": "undefined for a split"}
    return paired_over_splits(*known, test_share=share).to_dict(interval=True)


def _costs(trials: Trials, methods: Sequence[str], share: float) -> list[dict[str, Any]]:
    """Return every identity's numbers before and after each method; what got worse most first."""
    found = []
    for method in methods:
        if method in {BASELINE, CLEAN}:
            continue
        for name, of_set in trials[0]["methods"][method]["sets"].items():
            for identity, cells in of_set["identities"].items():
                for metric in cells:
                    place = name, identity, metric
                    found.append(_cost(trials, method, place, share))
    return sorted(found, key=lambda one: -(one["worse_by"]["value"] or 0.0))


def _cost(trials: Trials, method: str, at: tuple[str, str, str], share: float) -> dict[str, Any]:
    name, identity, metric = at
    before, after = (
        [one["methods"][which]["sets"][name]["identities"][identity][metric] for one in trials]
        for which in (BASELINE, method)
    )
    known = _defined(before, after)
    entry: dict[str, Any] = {
        "method": method,
        "set": name,
        "identity": identity,
        "metric": metric,
        "before": None,
        "after": None,
        "worse_by": {"value": None, "reason": "undefined for a split"},
    }
    if known is None:
        return entry
    worse = [harm(metric, one, other) for one, other in zip(*known, strict=True)]
    found = paired_over_splits(np.zeros(len(worse)), worse, test_share=share)
    return entry | {
        "before": float(known[0].mean()),
        "after": float(known[1].mean()),
        "worse_by": found.to_dict(interval=True),
    }


def _sets(numbers: dict[str, dict[str, list[float | None]]]) -> list[str]:
    return [key.partition("/")[2] for key in numbers[BASELINE] if key.startswith("fped/")]


def _pareto(
    numbers: dict[str, dict[str, list[float | None]]], share: float
) -> dict[str, dict[str, Any]]:
    """Return general AUC against FPED + FNED of each set, and who is on the front."""
    found = {}
    for name in _sets(numbers):
        points: dict[str, dict[str, Any]] = {}
        for method, of_method in numbers.items():
            bias = _defined(of_method[f"fped/{name}"], of_method[f"fned/{name}"])
            quality = _defined(of_method["auc/general"])
            if method != CLEAN and bias is not None and quality is not None:
                points[method] = {
                    "quality": _mean(quality[0].tolist(), share),
                    "bias": _mean((bias[0] + bias[1]).tolist(), share),
                }
        front = pareto_front(
            {one: point["quality"]["value"] for one, point in points.items()},
            {one: point["bias"]["value"] for one, point in points.items()},
        )
        found[name] = {"points": points, "front": front}
    return found


def _recovered(
    numbers: dict[str, dict[str, list[float | None]]], share: float
) -> list[dict[str, Any]]:
    """Return how much of a planted bias each method removes, by sum and set."""
    found = []
    for name in _sets(numbers):
        for key in (f"{one}/{name}" for one in SUMS):
            for method in numbers:
                known = _defined(numbers[BASELINE][key], numbers[method][key], numbers[CLEAN][key])
                if method in {BASELINE, CLEAN} or known is None:
                    continue
                value: MetricValue = recovered_share(*known, test_share=share)
                found.append({"method": method, "number": key, **value.to_dict(interval=True)})
    return found


def _sentences(content: dict[str, Any]) -> list[str]:
    """List what became worse, what each method did, and the identity that each harms most."""
    against = {
        (one["method"], one["number"]): one
        for one in content["differences"]
        if one["against"] == BASELINE
    }
    worse, told = [], []
    n_splits = content["n_splits"]
    for (method, number), one in against.items():
        metric = number.partition("/")[0]
        low, high = one.get("low"), one.get("high")
        errors = RATES if number.endswith("/general") else ()
        if low is None or high is None or metric not in {"auc", *SUMS, *errors}:
            continue
        shown = high < 0 if metric == "auc" else low > 0
        if shown and method != CLEAN:
            worse.append(f"{method} makes {number} worse by {_told(one)}")
    for name in content["pareto"]:
        for method in content["methods"]:
            if method in {BASELINE, CLEAN}:
                continue
            parts = [f"{key} {_told(against[method, f'{key}/{name}'])}" for key in SUMS]
            parts.append(f"general AUC {_told(against[method, 'auc/general'])}")
            told.append(f"{method} on {name}, against the baseline: {', '.join(parts)}.")
    first = (
        f"Worse: {'; '.join(worse)}."
        if worse
        else "No method is shown to make a sum of differences, an AUC or an error rate worse."
    )
    if n_splits == 1:
        first = "One split tells nothing about the spread of trainings: no number has an interval."
    costs = [
        f"Worst for a group: {one['method']} changes {one['metric']} of {one['identity']} on "
        f"{one['set']} from {one['before']:.3f} to {one['after']:.3f}, worse by "
        f"{_told(one['worse_by'])}."
        for one in content["costs"][:_COSTS_TOLD]
        if one["before"] is not None
    ]
    undone = [
        f"{method} could not be done on {one['n_splits']} of {n_splits} splits: {one['reason']}"
        for method, one in content["undone"].items()
    ]
    return [first, *undone, *told, *costs]


def _told(value: dict[str, Any]) -> str:
    if value["value"] is None:
        return "undefined"
    if value.get("low") is None:
        return f"{value['value']:+.3f}"
    return f"{value['value']:+.3f} [{value['low']:+.3f}, {value['high']:+.3f}]"
