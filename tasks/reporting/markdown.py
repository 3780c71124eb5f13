"""Verdicts as Markdown, for the notes on MLflow's runs and for Prefect's pages."""

from __future__ import annotations

from collections.abc import Iterable

from biasgate.tasks.common.markdown import as_text
from biasgate.tasks.records import Summary
from biasgate.tasks.reporting.story import VerdictStory
from biasgate.tasks.reporting.tables import Table, numeric

# Few enough lines for an MLflow tag, which truncates longer text.
_LINES = 20


def verdict_markdown(story: VerdictStory) -> str:
    """Return a verdict: the outcome, then the checks that did not pass, and its exceptions."""
    head = f"**{as_text(story.word.text)}** by policy {as_text(story.policy)}. {story.counted}."
    lines = _listed(check.sentence for check in story.unmet)
    lines += [f"- {as_text(text)}" for text in story.exceptions]
    return "\n\n".join([f"{head} {story.bounds}", *story.basis, "\n".join(lines)]).strip()


def summary_markdown(summary: Summary) -> str:
    """Return a summary: a table of verdicts, what was decided, the checks that did not pass."""
    said = list(map(VerdictStory.of_verdict, summary.verdicts))
    table = Table(
        "Verdicts",
        {"candidate": "name", "set": "name", "verdict": "words", **numeric("checks not passed")},
        [(one.candidate, one.evaluation_set, one.word.text, str(len(one.unmet))) for one in said],
    )
    unmet = [
        line
        for story in said
        for line in _listed(f"{story.about}: {check.sentence}" for check in story.unmet)
    ]
    spent = [use.sentence for use in summary.sets if use.spent_by is not None]
    decided = [f"- {as_text(sentence)}" for sentence in (*summary.sentences, *spent)]
    return "\n".join(
        [*table.markdown(as_text, as_text), "", *decided, *([""] if unmet else []), *unmet]
    )


def _listed(all_sentences: Iterable[str]) -> list[str]:
    sentences = list(all_sentences)
    lines = [f"- {as_text(sentence)}" for sentence in sentences[:_LINES]]
    more = len(sentences) - len(lines)
    return [*lines, f"- and {more} more in verdict.json"] if more > 0 else lines
