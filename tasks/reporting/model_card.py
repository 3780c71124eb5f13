"""The model card of an evaluated version (Mitchell et al. 2019), as Markdown.

Facts that only the model's owner knows (intended use, contact) come from `model_card:` in the
evaluation file; the card marks the ones that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bias_metrics import BiasReport, MetricValue
from bias_metrics.metrics import SUBGROUP_METRICS
from bias_metrics.report import worst_first
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.markdown import as_text, table_row, without_html
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.signature import takes_verdict
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.outcomes import exceptions_in_words, word_of_verdict
from biasgate.tasks.records import (
    EvaluationSetRecord,
    ModelRecord,
    Report,
    Verdict,
    metric_cells,
)
from biasgate.tasks.records.numbers import final_score_name
from biasgate.tasks.reporting.headline import (
    analysis_sentences,
    nights_sentences,
    year_sentences,
)
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.store import Workplace

FILE = "model_card.md"
MISSING = "**To be filled in by the owner** (`model_card: {}` in the evaluation file)."
# Most identities, and most failed rules, in a card: if there are more, the worst.
_LINES = 60
_DESCRIPTION = 5000  # most characters in MLflow's registry
_WITHOUT_EVIDENCE = frozenset({"category", "blind", "not_measured"})
_CUT = "\n\n_Cut here; the whole card is `model_card.md` among the run's artifacts._"
CAVEATS = (
    "A pass is not proof of fairness: the metrics agree with raters who are biased themselves.",
    "Only the factors listed are measured: nothing is said of {unmeasured}.",
    "Compare numbers only with cards of the same data digest and the same choices.",
    "This card is no evidence: anybody may edit it. `biasgate verify` checks the verdict itself.",
)


class About(Settings):
    """Facts that only the owner knows."""

    details: str | None = None
    intended_use: str | None = None
    out_of_scope: str | None = None
    ethical_considerations: str | None = None
    contact: str | None = None
    """Sections of the card, in Markdown. HTML in them is shown as text."""


def model_card(report: Report, verdict: Verdict, about: About, promote: str = "newer") -> str:
    """Return the card of one candidate on one set.

    Parameters
    ----------
    report, verdict : mapping
        As in `report.json` and `verdict.json`.
    about : About
        Facts from the owner.

    Returns
    -------
    str
        Markdown with the sections of Mitchell et al. (2019), section 4. It quotes no comment.
    """
    candidate = report.candidate
    sections = {
        f"Model card: {candidate.name}": _details(candidate, about),
        "Intended use": [
            _said(about, "intended_use"),
            "",
            f"Out of scope: {_said(about, 'out_of_scope')}",
        ],
        "Verdict": list(_verdict(verdict, promote)),
        "Factors": list(_factors(report.bias)),
        "Metrics": list(_metrics(report.bias)),
        **_analyses(report),
        "Groups without evidence": list(_without_evidence(report.bias, verdict)),
        "Evaluation data": list(_data(report.evaluation_set)),
        "Ethical considerations": [_said(about, "ethical_considerations")],
        "Caveats": [f"- {one}" for one in (*_caveats(report), *report.warnings)],
    }
    parts = []
    for number, (title, lines) in enumerate(sections.items()):
        parts.append("\n".join([f"{'##' if number else '#'} {title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _analyses(report: Report) -> dict[str, list[str]]:
    """Return the section of further analyses, if there are any."""
    lines = [f"- {as_text(sentence)}" for sentence in analysis_sentences(report)]
    return {"Further analyses": lines} if lines else {}


def _caveats(report: Report) -> list[str]:
    measured = "intersections" in (report.analyses or {})
    left = "dialect or irony" if measured else "dialect, irony or intersections"
    return [one.format(unmeasured=left) for one in CAVEATS]


def _details(candidate: ModelRecord, about: About) -> list[str]:
    known = {"model": candidate.model, "kind": candidate.kind}
    lines = [f"- {key}: `{_code(text)}`" for key, text in known.items() if text is not None]
    lines.append(f"- digest of all that decides its scores: `{candidate.digest}`")
    lines.append(f"- contact: {' '.join(_said(about, 'contact').split())}")
    return [_said(about, "details"), "", *lines]


def _said(about: About, key: str) -> str:
    """Return what the owner says, in Markdown without HTML."""
    found: str | None = getattr(about, key)
    return MISSING.format(key) if found is None else without_html(found)


def _verdict(verdict: Verdict, promote: str) -> Iterator[str]:
    policy = verdict.policy
    word = as_text(word_of_verdict(verdict).text)
    yield f"**{word}** by policy `{_code(policy.name)}`, on {verdict.decided_on}."
    champion = verdict.champion
    if champion:
        yield f"Compared with `{_code(champion.model or champion.name)}`."
    yield from nights_sentences(verdict)
    yield from year_sentences(verdict)
    yield ""
    unmet = [one for one in verdict.results if one.outcome not in {"pass", "skipped"}]
    for one in unmet[:_LINES]:
        waived = f" Waived by {one.waived_by}." if one.waived_by else ""
        warns = " (only warns)" if one.action == "warn" else ""
        yield f"- {as_text(one.outcome + warns)}: {as_text(one.sentence + waived)}"
    if len(unmet) > _LINES:
        yield f"- and {len(unmet) - _LINES:,} more in `verdict.json`"
    exceptions = exceptions_in_words([verdict], _LINES)
    for text in exceptions:
        yield f"- {as_text(text)}"
    if not unmet and not exceptions:
        yield "All checks passed, of every identity on its own comments."
    yield ""
    yield f"{as_text(verdict.bounds.sentence)}"
    yield f"What replaces a champion: `promote: {promote}`."
    yield f"Objective: {as_text(_objective(verdict))}."


def _objective(verdict: Verdict) -> str:
    """Return the objective, which ranks versions that pass, beside the champion's."""
    objective = verdict.objective
    if verdict.champion:
        return f"compared with the champion's, {objective.comparison}"
    value = "undefined" if objective.value is None else f"{objective.value:.4f}"
    return f"{objective.name} is {value}; there was no champion to compare with"


def _factors(bias: BiasReport) -> Iterator[str]:
    known = list(bias.subgroups)
    names = ", ".join(as_text(name) for name in known[:_LINES]) or "none"
    more = f" and {len(known) - _LINES:,} more" if len(known) > _LINES else ""
    yield f"Identities that comments mention: {names}{more}."
    others = "mention none of them" if bias.background == "no_identity" else "do not mention it"
    yield f"Each is compared with the comments that {others}."


def _metrics(bias: BiasReport) -> Iterator[str]:
    yield f"Overall AUC {_number(bias.overall.auc)}; {final_score_name(bias)}"
    yield (
        f"{_number(bias.final_score)}. Brackets are 95 % intervals; each holds for its number, "
        "not for all together."
    )
    yield ""
    yield "| identity | n | toxic | " + " | ".join(SUBGROUP_METRICS) + " |"
    yield "|---|--:|--:|" + "--:|" * len(SUBGROUP_METRICS)
    subgroups = bias.subgroups
    shown = list(subgroups) if len(subgroups) <= _LINES else worst_first(subgroups)[:_LINES]
    for name in shown:
        cells = subgroups[name]
        numbers = [_number(metric_cells(cells)[one]) for one in SUBGROUP_METRICS]
        yield table_row([as_text(name), str(cells.n), str(cells.n_positive), *numbers])
    if len(shown) < len(subgroups):
        yield ""
        yield (
            f"These are the worst {len(shown)} of {len(subgroups):,} identities; all are in "
            "`bias_metrics.csv`."
        )


def _without_evidence(bias: BiasReport, verdict: Verdict) -> Iterator[str]:
    """Yield the groups with undefined numbers or too few rows for a rule."""
    found: dict[str, list[str]] = {}
    for name, cells in bias.subgroups.items():
        numbers = metric_cells(cells)
        undefined = [metric for metric in SUBGROUP_METRICS if numbers[metric].value is None]
        if undefined:
            found.setdefault(name, []).append(f"undefined: {', '.join(undefined)}")
    for one in verdict.results:
        if one.outcome == "insufficient" and one.group:
            found.setdefault(one.group, []).append(f"undecided: {one.rule} {one.kind}")
    for entry in verdict.exceptions:
        if entry.group is not None and entry.why in _WITHOUT_EVIDENCE:
            found.setdefault(entry.group, []).append(entry.sentence)
    for name, reasons in list(found.items())[:_LINES]:
        yield f"- {as_text(name)}: {as_text('; '.join(dict.fromkeys(reasons)))}"
    if len(found) > _LINES:
        yield f"- and {len(found) - _LINES:,} more in `verdict.json`"
    if not found:
        yield "None."


def _data(evaluation_set: EvaluationSetRecord) -> Iterator[str]:
    yield f"- set: {as_text(evaluation_set.name)}"
    yield f"- digest: `{evaluation_set.digest}`"
    for key, value in evaluation_set.choices.to_dict().items():
        if key != "source" and value is not None:
            yield f"- {key}: {as_text(str(value))}"


def _number(cell: MetricValue) -> str:
    if cell.value is None:
        return "-"
    interval = f" [{cell.low:.3f}, {cell.high:.3f}]" if cell.low is not None else ""
    return f"{cell.value:.3f}{interval}"


def _code(text: str) -> str:
    return text.replace("`", "'")


def shortened(card: str, length: int = _DESCRIPTION) -> str:
    """Return a card short enough for MLflow's registry, cut at the end of a line."""
    if len(card) <= length:
        return card
    return card[: length - len(_CUT)].rpartition("\n")[0] + _CUT


@task(name="write model card", task_run_name="write model card of {measured.folder!m}")
def write_model_card(measured: Measured, verdict: Verdict, about: About, promote: str) -> None:
    """Write `model_card.md`. Safe to retry."""
    card = model_card(measured.report, verdict, about, promote)
    with whole_file(Path(measured.folder) / FILE) as temporary:
        temporary.write_text(card, "utf-8")


@task(name="describe version", task_run_name="describe {candidate.name}")
def describe_version(
    candidate: CandidateSettings,
    measured: list[Measured],
    registered_model: str | None,
    policy: Policy,
    workplace: Workplace,
) -> None:
    """Set a version's cards, one per set, as its description, if it gets this verdict.

    Safe to retry.
    """
    gateway = workplace.gateway
    version = gateway.resolve(candidate.uri) if candidate.uri else None
    if version is not None and takes_verdict(version, registered_model, policy):
        cards = [(Path(one.folder) / FILE).read_text("utf-8") for one in measured]
        gateway.describe_version(version, shortened("\n\n".join(cards)))
