"""What the trainings of an experiment show together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bias_metrics.mitigation.repeated import pareto_front
from biasgate.tasks.mitigating.measuring import RATES, SUMS, harm
from biasgate.tasks.mitigating.over_splits import (
    UNDEFINED,
    OverSplits,
    Trials,
    difference_of,
    mean_of,
    numbers_of,
    recovered_of,
)
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.trials import BASELINE, CLEAN

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
    numbers = {method: numbers_of(trials, method) for method in methods}
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
            method: {key: mean_of(values, share) for key, values in found.items()}
            for method, found in numbers.items()
        },
        "differences": [
            {
                "method": method,
                "against": other,
                "number": key,
                **difference_of(numbers[other][key], values, share),
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
    entry: dict[str, Any] = {
        "method": method,
        "set": name,
        "identity": identity,
        "metric": metric,
        "before": None,
        "after": None,
        "worse_by": dict(UNDEFINED),
    }
    if None in (*before, *after):
        return entry
    worse: list[float | None] = [
        harm(metric, one, other) for one, other in zip(before, after, strict=True)
    ]
    change = mean_of(OverSplits(worse, []), share)
    if len(set(worse)) == 1 and worse[0]:
        # A rate of few comments may be the same on a few splits, which does not make it certain.
        change |= {"low": None, "high": None}
    return entry | {
        "before": sum(before) / len(before),
        "after": sum(after) / len(after),
        "worse_by": change,
    }


def _sets(numbers: dict[str, dict[str, OverSplits]]) -> list[str]:
    return [key.partition("/")[2] for key in numbers[BASELINE] if key.startswith("fped/")]


def _pareto(numbers: dict[str, dict[str, OverSplits]], share: float) -> dict[str, dict[str, Any]]:
    """Return general AUC against FPED + FNED of each set, and who is on the front."""
    found = {}
    for name in _sets(numbers):
        points: dict[str, dict[str, Any]] = {}
        for method, of_method in numbers.items():
            bias = of_method[f"fped/{name}"] + of_method[f"fned/{name}"]
            quality = of_method["auc/general"]
            if method != CLEAN and bias.defined and quality.defined:
                points[method] = {"quality": mean_of(quality, share), "bias": mean_of(bias, share)}
        front = pareto_front(
            {one: point["quality"]["value"] for one, point in points.items()},
            {one: point["bias"]["value"] for one, point in points.items()},
        )
        found[name] = {"points": points, "front": front}
    return found


def _recovered(numbers: dict[str, dict[str, OverSplits]], share: float) -> list[dict[str, Any]]:
    """Return how much of a planted bias each method removes, by sum and set."""
    found = []
    for key in (f"{one}/{name}" for name in _sets(numbers) for one in SUMS):
        for method in numbers:
            if method in {BASELINE, CLEAN}:
                continue
            base, mitigated, clean = (numbers[one][key] for one in (BASELINE, method, CLEAN))
            if base.defined and mitigated.defined and clean.defined:
                value = recovered_of(base, mitigated, clean, share)
                found.append({"method": method, "number": key, **value})
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
    groups = {
        one["method"]: one
        for one in reversed(content["costs"])
        if (one["worse_by"].get("low") or 0.0) > 0
    }
    if groups:
        first += (
            " Worst for a group, each the largest of many numbers, intervals over splits alone: "
        )
        first += "; ".join(
            f"{method} makes {one['metric']} of {one['identity']} on {one['set']} worse by "
            f"{_told(one['worse_by'])}"
            for method, one in reversed(groups.items())
        )
        first += "."
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
