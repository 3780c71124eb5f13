"""Results as the cards of hubs and consoles have them.

`huggingface`: `model-index` for the head of a model card on the Hugging Face Hub. `eval-results`:
entries for `.eval_results/NAME.yaml` there. `coop`: the model card of an integration of ROOST's
Coop, as its `types/integration.ts` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import yaml

from bias_metrics import MetricValue
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable
from biasgate.tasks.records import metric_cells
from biasgate.tasks.records.numbers import CONFIDENCE, final_score_name
from biasgate.tasks.reporting.results import Published, Results
from biasgate.tasks.wording import exceptions_in_words, word_of_verdict

Format = Literal["huggingface", "eval-results", "coop"]
_TO_FILL_IN = "To be filled in by the owner: biasgate does not know it."
_COOP_SECTIONS = {
    "trainingData": "Training Data",
    "policyAndTaxonomy": "Policy and Taxonomy",
    "annotationMethodology": "Annotation Methodology",
    "performanceBenchmarks": "Performance Benchmarks",
    "biasAndLimitations": "Bias and Limitations",
    "implementationGuidance": "Implementation Guidance",
    "relevantLinks": "Relevant Links",
}
"""The sections that Coop requires."""


def published_of_one(results: Results) -> Sequence[Published]:
    """Return what was published of the only candidate of results.

    Raises
    ------
    InputError
        If there are several.
    """
    names = list(dict.fromkeys(published.names[1] for published in results.each))
    if len(names) != 1:
        msg = (
            f"a card is about one candidate; {results.folder} has {', '.join(names) or 'none'}. "
            "Name the folder SET/CANDIDATE in it."
        )
        raise InputError(msg)
    return results.each


def huggingface_card(each: Sequence[Published], dataset: str | None = None) -> str:
    """Return `model-index` in YAML: a result for each set, with every number that has a value.

    Parameters
    ----------
    dataset : str, optional
        Id of the data set on the Hub. Default: the name of the evaluation set.
    """
    found = [
        {
            "task": {"type": "text-classification", "name": "Toxicity classification"},
            "dataset": {
                "type": dataset or published.names[0],
                "name": published.names[0],
                "args": _choices(published),
            },
            "metrics": [
                _metric(kind, name, value)
                for kind, name, value in _numbers(published)
                if value.value is not None
            ],
        }
        for published in each
    ]
    return _yaml({"model-index": [{"name": each[0].names[1], "results": found}]})


def _metric(kind: str, name: str, value: MetricValue) -> dict[str, Any]:
    found = {"type": kind, "name": name, "value": value.value}
    interval = {"confidence": CONFIDENCE, "low": value.low, "high": value.high}
    return found | ({} if value.low is None else {"args": interval})


def _numbers(one: Published) -> Iterator[tuple[str, str, MetricValue]]:
    """Yield kind, name and value of the numbers of a report: overall, then by identity."""
    bias = one.report.bias
    yield "roc_auc", "AUC", bias.overall.auc
    yield "final_score", final_score_name(bias).capitalize(), bias.final_score
    for group, cells in bias.subgroups.items():
        for metric in SUBGROUP_METRICS:
            title = f"{METRICS[metric].title} of {printable(group)}"
            yield metric, title, metric_cells(cells)[metric]


def _choices(published: Published) -> dict[str, Any]:
    known = published.report.evaluation_set.choices
    keys = ("label_threshold", "identity_threshold", "identity_rows", "background")
    said: dict[str, Any] = {"rows_digest": published.verdict.evaluation_set.digest}
    said |= {"verdict": _outcome(published), "exceptions": exceptions_in_words([published.verdict])}
    return {key: getattr(known, key) for key in keys} | {"n_rows": known.n_rows_measured} | said


def _outcome(published: Published) -> str:
    verdict = published.verdict
    return f"{word_of_verdict(verdict).text} by policy {printable(verdict.policy.name)}"


def eval_results(each: Sequence[Published], dataset: str, tasks: Mapping[str, str]) -> str:
    """Return entries for `.eval_results/NAME.yaml` of a model's repository.

    Parameters
    ----------
    dataset : str
        Id of a data set on the Hub that is registered as a benchmark.
    tasks : mapping of str to str
        The number of each task of its `eval.yaml`: `auc`, `final_score`, or METRIC/IDENTITY.

    Raises
    ------
    InputError
        If there are several sets, there is no such number, or it has no value.
    """
    if len(each) != 1:
        names = ", ".join("/".join(published.names) for published in each)
        msg = f"eval-results are of one set; name the folder of one of them: {names}."
        raise InputError(msg)
    [one] = each
    known = _by_name(one)
    entries = []
    for task, name in tasks.items():
        if name not in known:
            msg = f"`--task` must name a number of the report, such as auc; got {name!r}."
            raise InputError(msg + did_you_mean(name, list(known)))
        value = known[name]
        if value.value is None:
            msg = f"{name} must have a value; it is undefined: {value.reason}."
            raise InputError(msg)
        interval = ""
        if value.low is not None and value.high is not None:
            interval = f"{100 * CONFIDENCE:g} % interval {value.low:.4f} to {value.high:.4f}; "
        entries.append(
            {
                "dataset": {"id": dataset, "task_id": task},
                "value": value.value,
                "date": one.verdict.decided_on,
                "notes": f"{interval}{_outcome(one)}; rows {one.verdict.evaluation_set.digest}",
            }
        )
    return _yaml(entries)


def _by_name(published: Published) -> dict[str, MetricValue]:
    bias = published.report.bias
    known = {"auc": bias.overall.auc, "final_score": bias.final_score}
    for group, cells in bias.subgroups.items():
        known |= {f"{metric}/{group}": metric_cells(cells)[metric] for metric in SUBGROUP_METRICS}
    return known


def coop_card(each: Sequence[Published]) -> dict[str, Any]:
    """Return the model card of a Coop integration: two sections are measured, five the owner's."""
    first = each[0].verdict.candidate
    sections: dict[str, dict[str, Any]] = {
        key: {
            "id": key,
            "title": title,
            "fields": [_field("Owner", _TO_FILL_IN)],
        }
        for key, title in _COOP_SECTIONS.items()
    }
    for key, told in (("performanceBenchmarks", _benchmark), ("biasAndLimitations", _bias)):
        of_sets = [
            {"title": printable(published.names[0]), "fields": list(told(published))}
            for published in each
        ]
        sections[key] |= {"fields": [], "subsections": of_sets}
    version = (first.model or "").rpartition("/")[2] or first.digest[:12]
    return {
        "modelName": printable(first.name),
        "version": version,
        "releaseDate": _TO_FILL_IN,
        "sections": list(sections.values()),
    }


def _benchmark(published: Published) -> Iterator[dict[str, str]]:
    bias, choices = published.report.bias, published.report.evaluation_set.choices
    n_rows = f"{choices.n_rows_measured:,}, of which {bias.overall.n_positive:,} toxic"
    yield _field("Rows", n_rows)
    yield _field("AUC", str(bias.overall.auc))
    yield _field(final_score_name(bias).capitalize(), str(bias.final_score))
    yield _field("Brackets", f"{100 * CONFIDENCE:g} % intervals; each holds for its number alone")
    yield _field("Data digest (SHA-256)", published.verdict.evaluation_set.digest)


def _bias(published: Published) -> Iterator[dict[str, str]]:
    yield _field("Verdict", f"{_outcome(published)}, on {published.verdict.decided_on}")
    yield from (_field("Exception", line) for line in exceptions_in_words([published.verdict]))
    yield from (_field(check.word, check.sentence) for check in published.story.unmet)
    for group, cells in published.report.bias.subgroups.items():
        numbers = metric_cells(cells)
        each = "; ".join(f"{METRICS[key].title} {numbers[key]}" for key in SUBGROUP_METRICS)
        yield _field(group, f"{cells.n:,} rows; {each}")
    left = "Identities that comments mention, not who wrote them; no other identity is measured"
    yield _field("Not measured", left)


def _field(label: str, value: str) -> dict[str, str]:
    return {"label": printable(label), "value": printable(value)}


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
