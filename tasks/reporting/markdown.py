"""Summaries of candidates as Markdown, for MLflow's notes, Prefect's pages and pull requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.results import Results


def format_candidates(
    candidates: Sequence[CandidateStory],
    name: Callable[[str], str] = escape_markdown,
    words: Callable[[str], str] = escape_markdown,
) -> Iterator[str]:
    """Yield lines of Markdown on the candidates, escaping names and words by these functions."""
    for candidate in candidates:
        yield f"**{words(candidate.word.text)}**: {name(candidate.name)}"
        yield ""
        yield from (f"- {words(text)}" for text in candidate.sentences)
        yield ""


def format_results(results: Results) -> str:
    """Return the summaries, the identities that moved, and the sets that were used too often."""
    remarks = []
    if (summary := results.summary) is not None:
        spent = (use.sentence for use in summary.sets if use.spent_by is not None)
        remarks = [f"- {escape_markdown(sentence)}" for sentence in (*summary.moved, *spent)]
    return "\n".join([*format_candidates(results.candidates), *remarks]).strip()
