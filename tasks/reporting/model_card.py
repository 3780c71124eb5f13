"""The model card of an evaluated version (Mitchell et al. 2019), as Markdown.

The owner's facts (intended use, contact) come from `model_card:` in the evaluation file; the card
marks missing facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bias_metrics import BiasTable
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.check_messages import describe_exception
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.markdown import escape_html_tags, escape_markdown
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records import EvaluationSetRecord, ModelRecord, Report, Verdict
from biasgate.tasks.records.numbers import name_final_score
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.story import IDENTITIES, Story
from biasgate.tasks.reporting.tables import Table, format_estimate, number_columns, select_rows
from biasgate.tasks.wording import list_exception_lines

FILE = "model_card.md"
MISSING = "**To be filled in by the owner** (`model_card: {}` in the evaluation file)."
# Most identities, and most failed rules, in a card: if there are more, the worst.
_LINES = 60
_DESCRIPTION = 5000  # most characters in MLflow's registry
_WITHOUT_EVIDENCE = frozenset({"category", "blind", "not_measured"})
_CUT = "\n\n_Cut here; the whole card is `model_card.md` among the run's artifacts._"
CAVEATS = (
    "A pass is not proof of fairness: the metrics compare scores with labels of biased raters.",
    "Only the listed factors are measured, not {unmeasured}.",
    "Compare numbers only between cards with the same data digest and choices.",
    "This card is not evidence: anyone can edit it. `biasgate verify` checks the verdict itself.",
)


class About(Settings):
    """Facts that only the owner knows."""

    details: str | None = None
    """What the model is and how it was made. Markdown; HTML is shown as text."""
    intended_use: str | None = None
    """What it is for."""
    out_of_scope: str | None = None
    """What it is not for."""
    ethical_considerations: str | None = None
    """What to be careful about."""
    contact: str | None = None
    """Whom to ask."""


def build_model_card(report: Report, verdict: Verdict, about: About, promote: str = "newer") -> str:
    """Return the card of a candidate on a set, without texts of comments."""
    candidate, story = report.candidate, Story.from_report(report, verdict)
    has_intersections = "intersections" in (report.analyses or {})
    unmeasured = "dialect or irony" if has_intersections else "dialect, irony or intersections"
    caveats = [f"- {text.format(unmeasured=unmeasured)}" for text in CAVEATS]
    sections = {
        f"Model card: {candidate.name}": list(_describe_verdict(story, verdict, promote)),
        "Details": _list_details(candidate, about),
        "Intended use": [
            _read_about(about, "intended_use"),
            "",
            f"Out of scope: {_read_about(about, 'out_of_scope')}",
        ],
        "Factors": list(_describe_factors(report.bias)),
        "Metrics": list(_format_metrics(report.bias)),
        **({"Further analyses": list(map(_format_item, story.analyses))} if story.analyses else {}),
        "Groups without evidence": list(_list_lacks(report.bias, verdict)),
        "Evaluation data": list(_list_data(report.evaluation_set)),
        "Ethical considerations": [_read_about(about, "ethical_considerations")],
        "Caveats": [*caveats, *map(_format_item, story.warnings)],
    }
    parts = ("\n".join([f"## {title}", "", *lines]) for title, lines in sections.items())
    return "\n\n".join(parts).removeprefix("#") + "\n"


def _format_item(sentence: str) -> str:
    return f"- {escape_markdown(sentence)}"


def _list_details(candidate: ModelRecord, about: About) -> list[str]:
    facts = {"model": candidate.model, "kind": candidate.kind}
    lines = [f"- {key}: `{_escape_code(text)}`" for key, text in facts.items() if text is not None]
    lines.append(f"- digest of all that decides its scores: `{candidate.digest}`")
    lines.append(f"- contact: {' '.join(_read_about(about, 'contact').split())}")
    return [_read_about(about, "details"), "", *lines]


def _read_about(about: About, key: str) -> str:
    """Return a fact from the owner, in Markdown without HTML."""
    text: str | None = getattr(about, key)
    return MISSING.format(key) if text is None else escape_html_tags(text)


def _describe_verdict(story: Story, verdict: Verdict, promote: str) -> Iterator[str]:
    word, policy = escape_markdown(story.word.text), _escape_code(story.policy)
    yield (
        f"**{word}** by policy `{policy}`, on {verdict.decided_on}. "
        f"{escape_markdown(story.headline)}"
    )
    if story.champion is not None:
        yield f"Compared with `{_escape_code(story.champion)}`."
    yield from story.basis
    yield ""
    unmet = [_format_item(f"{check.word}: {check.sentence}") for check in story.unmet]
    exceptions = list_exception_lines([verdict], _LINES)
    yield from _limit_lines(unmet)
    yield from map(_format_item, exceptions)
    if not unmet and not exceptions:
        yield "All checks passed, of every identity on its own comments."
    yield ""
    yield escape_markdown(story.summary)
    if identity_counts := CandidateStory.from_story(story).identity_counts:
        yield escape_markdown(f"{IDENTITIES}: {identity_counts}.")
    yield f"Promotion rule: `promote: {promote}`."
    comparison = "" if story.champion is None else ", compared with the champion's"
    yield f"Objective{comparison}: {escape_markdown(story.objective)}."


def _limit_lines(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"- and {len(lines) - _LINES:,} more in `verdict.json`"


def _describe_factors(bias: BiasTable) -> Iterator[str]:
    groups = list(bias.subgroups)
    names = ", ".join(escape_markdown(name) for name in groups[:_LINES]) or "none"
    more = f" and {len(groups) - _LINES:,} more" if len(groups) > _LINES else ""
    yield f"Identities that comments mention: {names}{more}."
    others = "mention none of them" if bias.background == "no_identity" else "do not mention it"
    yield f"Each is compared with the comments that {others}."


def _format_metrics(bias: BiasTable) -> Iterator[str]:
    auc, final = map(format_estimate, (bias.overall.auc, bias.overall.final_score))
    yield f"Overall AUC {auc}; {name_final_score(bias)} {final}."
    yield "Brackets are 95% intervals, each for its own number, not simultaneous."
    yield ""
    shown, note = select_rows(bias.subgroups, _LINES)
    rows = [
        (
            name,
            str(bias.counts[name].n),
            str(bias.counts[name].n_positive),
            *(format_estimate(bias.subgroups[name][metric]) for metric in SUBGROUP_METRICS),
        )
        for name in shown
    ]
    columns = number_columns("n", "toxic", *SUBGROUP_METRICS)
    yield from Table("Metrics", {"identity": "name", **columns}, rows).to_markdown(
        escape_markdown, escape_markdown
    )
    yield from ["", note] if note else []


def _list_lacks(bias: BiasTable, verdict: Verdict) -> Iterator[str]:
    """Yield the groups with undefined numbers or too few rows for a rule."""
    lacks: dict[str, list[str]] = {}
    for name, numbers in bias.subgroups.items():
        undefined = [metric for metric in SUBGROUP_METRICS if numbers[metric].value is None]
        if undefined:
            lacks.setdefault(name, []).append(f"undefined: {', '.join(undefined)}")
    for result in verdict.results:
        if result.outcome == "insufficient" and result.group:
            lacks.setdefault(result.group, []).append(f"undecided: {result.rule} {result.kind}")
    for entry in verdict.exceptions:
        if entry.group is not None and entry.why in _WITHOUT_EVIDENCE:
            lacks.setdefault(entry.group, []).append(describe_exception(entry))
    yield from _limit_lines(
        [
            f"- {escape_markdown(name)}: {escape_markdown('; '.join(dict.fromkeys(reasons)))}"
            for name, reasons in lacks.items()
        ]
        or ["None."]
    )


def _list_data(evaluation_set: EvaluationSetRecord) -> Iterator[str]:
    yield f"- set: {escape_markdown(evaluation_set.name)}"
    yield f"- digest: `{evaluation_set.digest}`"
    for key, value in evaluation_set.choices.to_dict().items():
        if key != "source" and value is not None:
            yield f"- {key}: {escape_markdown(str(value))}"


def _escape_code(text: str) -> str:
    return text.replace("`", "'")


def shorten_card(card: str, length: int = _DESCRIPTION) -> str:
    """Cut a card at the end of a line, so that it fits into MLflow's registry."""
    if len(card) <= length:
        return card
    return card[: length - len(_CUT)].rpartition("\n")[0] + _CUT


@task(name="write model card", task_run_name="write model card of {measured.folder!m}")
def write_model_card(measured: Measured, verdict: Verdict, about: About, promote: str) -> None:
    """Write `model_card.md`. Safe to retry."""
    card = build_model_card(measured.report, verdict, about, promote)
    with whole_file(Path(measured.folder) / FILE) as temporary:
        temporary.write_text(card, "utf-8")
