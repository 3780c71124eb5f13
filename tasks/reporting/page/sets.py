"""The evaluation sets of a page: their rows, and how they were chosen."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.records import Report, SetUse
from biasgate.tasks.reporting.tables import Table, count, numeric, shown_rows

_LICENCES = {
    "civil_comments": "Civil Comments, published by Jigsaw under CC0 1.0",
    "templates": "phrases that biasgate generated",
}
_NO_LICENCE = "not known to biasgate; ask whoever published the data"


@dataclass(frozen=True)
class SetView:
    """An evaluation set: its rows, and how they were chosen."""

    name: str
    n: str
    """Measured comments."""
    digest: str
    licence: str
    """What it is."""
    unrated: str
    """How many rows were left out, and why; empty if none were."""
    choices: tuple[tuple[str, str], ...]
    """In words."""
    files: tuple[tuple[str, str], ...]
    """The files that it was read from, with their digests."""
    counts: Table
    """The measured rows that mention each identity, after all rows."""
    left_out: str
    """A note if some identities are not listed."""
    use: str
    """How many candidates it has judged; empty if it is unknown."""
    is_spent: bool
    """Whether that is too many."""


def describe_set(report: Report, use: SetUse | None = None) -> SetView:
    """Return an evaluation set, and how often it was used."""
    evaluation_set, bias = report.evaluation_set, report.bias
    choices, subgroups = evaluation_set.choices, bias.subgroups
    source = choices.source
    shown, left_out = shown_rows(subgroups)
    n, n_toxic = bias.overall.n, bias.overall.n_positive
    numbers = [("all comments", n, n_toxic, n - n_toxic)]
    for name in shown:
        one = subgroups[name]
        numbers.append((name, one.n, one.n_positive, one.n_negative))
    return SetView(
        name=evaluation_set.name,
        n=count(n),
        digest=evaluation_set.digest,
        licence=_LICENCES.get(str(source.get("source")), _NO_LICENCE),
        unrated=choices.left_out or "",
        choices=tuple(choices.in_words()),
        files=tuple((str(name), str(one)) for name, one in source.get("files", {}).items()),
        counts=Table(
            "Measured comments that mention each identity",
            {"Identity": "name", **numeric("Comments", "Toxic", "Harmless")},
            [(name, *map(count, found)) for name, *found in numbers],
        ),
        left_out=left_out,
        use="" if use is None else use.sentence,
        is_spent=use is not None and use.spent_by is not None,
    )
