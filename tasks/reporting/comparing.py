"""Two candidates that were evaluated, compared: which identities differ, and what got worse."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bias_metrics import MetricValue
from bias_metrics.gate import ALPHA, Loss
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.beside import RIVAL, NotSameRowsError, beside
from biasgate.tasks.records import metric_cells
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.verdict import champion_of
from biasgate.tasks.reporting.page.grids import GridRow, difference
from biasgate.tasks.reporting.results import Published


@dataclass(frozen=True, kw_only=True)
class Compared(Record):
    """Two candidates on one set."""

    evaluation_set: str
    """The set."""
    first: str
    second: str
    """The candidates. Differences are those of the first minus the second."""
    paired: bool
    """Whether both scored the same rows, so that differences have intervals."""
    reason: str | None
    """Why not."""
    comparison: dict[str, Any]
    """As `BiasComparison.to_dict()`; if not paired, without intervals."""
    worsened: list[Loss]
    """What is shown to be worse in the first, with all bounds at 95 % together; most first."""
    left_out: list[str]
    """Identities that only one of the two has."""

    @property
    def rows(self) -> list[GridRow]:
        """The differences by identity; those that are shown to differ, or to be worse, first."""
        worse = {(loss.group, loss.metric) for loss in self.worsened}
        rows = [
            GridRow(
                name,
                tuple(
                    difference(cells[of], "fail" if (name, of) in worse else "plain", ALPHA)
                    for of in SUBGROUP_METRICS
                ),
            )
            for name, cells in self.comparison["subgroups"].items()
        ]
        return sorted(rows, key=lambda row: not any(one.differs or one.mark for one in row.cells))

    @property
    def different(self) -> list[str]:
        """The identities of which a number is shown to differ, after Holm's adjustment for all."""
        subgroups = self.comparison["subgroups"]
        of_rows = {row.name: row.cells for row in self.rows}
        return [name for name in subgroups if any(cell.differs for cell in of_rows[name])]


def compare_published(
    first: Sequence[Published], second: Sequence[Published], names: tuple[str, str]
) -> list[Compared]:
    """Compare candidates on every set that both sides have.

    Where a side has several candidates, those of the same name are compared. `names` are what the
    sides were called, to tell candidates of one name apart.

    Raises
    ------
    InputError
        If nothing can be compared.
    """
    several = any(len({one.names[1] for one in side}) > 1 for side in (first, second))
    pairs = [
        (one, other)
        for one in first
        for other in second
        if one.names[0] == other.names[0] and (not several or one.names[1] == other.names[1])
    ]
    if not pairs:
        sides = (", ".join(" on ".join(reversed(one.names)) for one in x) for x in (first, second))
        told = "; ".join(f"{name} has {held}" for name, held in zip(names, sides, strict=True))
        msg = (
            "`biasgate compare` must be given two candidates on the same set, or two folders with "
            f"candidates of the same names; {told}. Name one of each: DIR/SET/CANDIDATE."
        )
        raise InputError(msg)
    return [_compare(one, other, names) for one, other in pairs]


def no_candidate(named: str, other: str, folder: Path, each: Sequence[Published]) -> str:
    """Say that a folder has no candidate `named`, to compare with `other`, and what to do."""
    known = ", ".join(dict.fromkeys(one.names[1] for one in each))
    text = f"{named!r} must be a candidate in {folder}; it has {known}."
    judged = [one for one in each if one.verdict.champion is not None]
    if not judged:
        return text
    one = next((one for one in judged if one.names[1] == other), judged[0])
    version = champion_of(one.verdict)
    if version is None:
        return (
            f"{text} They were judged against a champion that is no candidate there; report.html "
            "has the differences under *Beside the champion*."
        )
    own = one.verdict.candidate.model or str(one.folder)
    command = shlex.join(["biasgate", "compare", own, version])
    return f"{text} The champion of that evaluation was {version}: `{command}` compares with it."


def _compare(one: Published, other: Published, sides: tuple[str, str]) -> Compared:
    names = one.names[1], other.names[1]
    if names[0] == names[1]:
        names = tuple(f"{name} of {side}" for name, side in zip(names, sides, strict=True))  # type: ignore[assignment]
    subgroups = [x.report.bias.subgroups for x in (one, other)]
    left_out = sorted(subgroups[0].keys() ^ subgroups[1].keys())
    comparison, found, reason = _paired(one, other)
    return Compared(
        evaluation_set=one.names[0],
        first=names[0],
        second=names[1],
        paired=reason is None,
        reason=reason,
        comparison=comparison,
        worsened=found,
        left_out=left_out,
    )


def _paired(one: Published, other: Published) -> tuple[dict[str, Any], list[Loss], str | None]:
    """Return the differences, what got worse, and why they are not paired."""
    first, second = one.evidence, other.evidence
    if first is None or second is None:
        lacking = one if first is None else other
        return _unpaired(one, other, f"{lacking.folder} has no evidence.parquet")
    try:
        measuring = beside(first, second)
    except NotSameRowsError as error:
        return _unpaired(one, other, f"they did not score the same rows: {error}")
    compared = measuring.evidence(CONFIDENCE).champion
    assert compared is not None  # noqa: S101 - it has the second's scores
    return dict(compared), list(measuring.losses(RIVAL, ALPHA).cells), None


def _unpaired(
    one: Published, other: Published, reason: str
) -> tuple[dict[str, Any], list[Loss], str]:
    first, second = one.report.bias, other.report.bias
    shared = [name for name in first.subgroups if name in second.subgroups]
    comparison = {
        "confidence": CONFIDENCE,
        "overall": {
            "n": first.overall.n,
            "n_positive": first.overall.n_positive,
            "auc": _difference(first.overall.auc, second.overall.auc, reason),
        },
        "subgroups": {
            name: {
                metric: _difference(
                    metric_cells(first.subgroups[name])[metric],
                    metric_cells(second.subgroups[name])[metric],
                    reason,
                )
                for metric in SUBGROUP_METRICS
            }
            for name in shared
        },
        "final_score": _difference(first.final_score, second.final_score, reason),
    }
    return comparison, [], reason


def _difference(one: MetricValue, other: MetricValue, reason: str) -> Mapping[str, Any]:
    first, second = one.value, other.value
    known = first is not None and second is not None
    lack = one.reason or other.reason or reason
    return {
        "first": first,
        "second": second,
        "value": first - second if first is not None and second is not None else None,
        "low": None,
        "high": None,
        "reason": reason if known else lack,
    }
