"""What is said about candidates as Markdown: MLflow's notes, Prefect's pages, pull requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.results import Results


def format_candidates(
    lines: Sequence[CandidateStory],
    name: Callable[[str], str] = escape_markdown,
    words: Callable[[str], str] = escape_markdown,
) -> Iterator[str]:
    """Yield the lines of Markdown on each candidate, with names and words escaped in this way."""
    for line in lines:
        yield f"**{words(line.word.text)}**: {name(line.name)}"
        yield ""
        yield from (f"- {words(text)}" for text in line.told)
        yield ""


def format_results(results: Results) -> str:
    """Return what people read first of results, who moved, and which sets have judged too many."""
    remarks = []
    if (summary := results.summary) is not None:
        spent = (use.sentence for use in summary.sets if use.spent_by is not None)
        remarks = [f"- {escape_markdown(sentence)}" for sentence in (*summary.moved, *spent)]
    return "\n".join([*format_candidates(results.lines), *remarks]).strip()
