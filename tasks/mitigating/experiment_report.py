"""The files of an experiment: JSON, CSV of what it costs, a page with tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bias_metrics.plot import per_term_scatter
from biasgate.tasks.analysing.analyse import write_rows
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.identity_names import metric_name
from biasgate.tasks.mitigating.diagnosis import log_results
from biasgate.tasks.mitigating.outcome import outcome_of
from biasgate.tasks.mitigating.page import Row, Section, write_page
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.trials import BASELINE, CLEAN
from biasgate.tasks.store import Workplace

REPORT, PAGE, COSTS = "experiment.json", "experiment.html", "costs.csv"
_FIGURES = {
    "fped": (3, "false positive rate", 0.0),
    "fned": (4, "false negative rate", 0.0),
    "pinned": (5, "pinned AUC", 0.5),
}
_WORST_SHOWN = 60
_INTERVALS = (
    "Intervals are over splits and over measured rows: variances are added. Those of splits allow "
    "for shared rows (delete-d jackknife). Those of the rows of an evaluation set are measured by "
    "leaving out a part at a time, whole clusters together (delete-a-group jackknife)."
)


@task(name="compare methods")
def compare_methods(
    trials: list[dict[str, Any]],
    mitigation: Mitigation,
    name: str,
    output: str,
    workplace: Workplace,
) -> dict[str, Any]:
    """Write `experiment.json`, `costs.csv` and `experiment.html`, and log them. Safe to retry."""
    content = outcome_of(trials, mitigation, name)
    folder = Path(output)
    write_json(folder / REPORT, content)
    write_rows([_flat(one) for one in content["costs"]], folder / COSTS)
    title = f"Experiment: {name}"
    write_page(folder / PAGE, title, content["sentences"], sections(content, trials))
    metrics = {
        f"{metric_name(method)}/{key.replace('/', ' of ')}": value["value"]
        for method, found in content["means"].items()
        for key, value in found.items()
        if value["value"] is not None
    }
    log_results(workplace, name, f"experiment {name}", trials[0]["key"], metrics, folder)
    say(f"wrote {folder / PAGE}", aside=True)
    return content


def _flat(cost: Row) -> Row:
    """Return one line of the CSV; its columns say that the interval is over splits alone."""
    worse = cost["worse_by"]
    plain = {key: value for key, value in cost.items() if key != "worse_by"}
    bounds = {f"{key}_over_splits": worse.get(key) for key in ("low", "high")}
    return plain | {"worse_by": worse["value"]} | bounds


def sections(content: dict[str, Any], trials: Sequence[dict[str, Any]]) -> list[Section]:
    """Return the tables and figures of an experiment as parts of a page."""
    means, methods = content["means"], content["methods"]
    sets = list(content["pareto"])
    aucs = [f"auc/{name}" for name in ("general", *sets)]
    found = [
        Section(
            "AUC",
            f"Mean over {content['n_splits']} splits. After Dixon et al. (2018), Table 4. "
            + _INTERVALS,
            [{"method": one} | {key: means[one][key] for key in aucs} for one in methods],
        )
    ]
    for name in sets:
        keys = [f"{one}/{name}" for one in _FIGURES]
        found.append(
            Section(
                f"Equality differences on {name}",
                "Sums over identities, mean of one model. After Dixon et al. (2018), Table 5, "
                "which sums over models, too.",
                [{"method": one} | {key: means[one][key] for key in keys} for one in methods],
            )
        )
    found += [
        Section(
            f"Differences from {other}",
            "On the same splits. " + _INTERVALS,
            _differences(content, other, [aucs[0], *(f"{k}/{s}" for s in sets for k in _FIGURES)]),
        )
        for other in dict.fromkeys(one["against"] for one in content["differences"])
    ]
    found.append(_pareto_section(content))
    for name in sets:
        found.append(_figures(trials, methods, name))
    if "recovered" in content:
        about = "Share of the planted bias that is gone: 1 all of it, 0 none, below 0 it grew."
        rows = [
            {"method": one["method"], "number": one["number"], "recovered": one}
            for one in content["recovered"]
        ]
        found.append(Section("How much of the planted bias each method removes", about, rows))
    rows = [
        {key: value for key, value in one.items() if key != "worse_by"}
        | {"worse by": one["worse_by"]}
        for one in content["costs"][:_WORST_SHOWN]
    ]
    about = (
        f"Every number of every identity, what got worse most first; all are in {COSTS}. Intervals "
        "are over splits alone: they say how sure a number is on these comments, not on others. "
        "They are not adjusted for their number: some look worse by chance."
    )
    found.append(Section("What it costs", about, rows))
    return found


def _differences(content: dict[str, Any], other: str, keys: Sequence[str]) -> list[Row]:
    known = {
        (one["method"], one["number"]): one
        for one in content["differences"]
        if one["against"] == other
    }
    return [
        {"method": method} | {key: known[method, key] for key in keys}
        for method in content["methods"]
        if (method, keys[0]) in known
    ]


def _pareto_section(content: dict[str, Any]) -> Section:
    pictures, rows = [], []
    for name, one in content["pareto"].items():
        pictures.append((f"Bias on {name} against general AUC", pareto_figure(one, name)))
        rows += [
            {
                "set": name,
                "method": method,
                "general AUC": point["quality"],
                "FPED + FNED": point["bias"],
                "not beaten in both": method in one["front"],
            }
            for method, point in one["points"].items()
        ]
    about = "Right is better, low is better. A line joins the methods that none beats in both."
    return Section("Bias against quality", about, rows, pictures)


def pareto_figure(content: dict[str, Any], name: str) -> Any:
    """Draw bias against quality of all methods, with intervals where there are any."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    points = content["points"]
    for method, point in points.items():
        at = point["quality"]["value"], point["bias"]["value"]
        reach = [_reach(point["quality"]), _reach(point["bias"])]
        axes.errorbar(*at, xerr=reach[0], yerr=reach[1], fmt="o", capsize=2, elinewidth=0.7)
        axes.annotate(method, at, xytext=(5, 5), textcoords="offset points", fontsize=9)
    ends = [(points[one]["quality"], points[one]["bias"]) for one in content["front"]]
    front = sorted((quality["value"], bias["value"]) for quality, bias in ends)
    axes.plot(*zip(*front, strict=True), color="grey", linewidth=0.8, zorder=0)
    axes.set_xlabel("AUC on the general test rows")
    axes.set_ylabel(f"FPED + FNED on {name}")
    return figure


def _reach(value: Row) -> list[list[float]] | None:
    """Return how far an interval reaches below and above its value."""
    if value.get("low") is None:
        return None
    return [[value["value"] - value["low"]], [value["high"] - value["value"]]]


def _figures(trials: Sequence[dict[str, Any]], methods: Sequence[str], name: str) -> Section:
    """Draw each method beside the baseline, after Dixon's Figures 3 to 5."""
    pictures = []
    for key, (number, title, lowest) in _FIGURES.items():
        for method in methods:
            if method in {BASELINE, CLEAN}:
                continue
            runs = {
                one: [trial["methods"][one]["sets"][name]["sums"][key] for trial in trials]
                for one in (BASELINE, method)
            }
            figure = per_term_scatter(runs, metric=title, lowest=lowest)
            figure.suptitle(f"Figure {number}: {title} on {name}, {method}", fontsize=11)
            pictures.append((f"{title} by identity, baseline and {method}", figure))
    about = "One point for each split and identity. After Dixon et al. (2018), Figures 3 to 5."
    return Section(f"Each identity on {name}", about, (), pictures)
