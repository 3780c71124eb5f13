"""Two candidates that were evaluated, compared: which identities differ, and what got worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bias_metrics import Difference
from bias_metrics.gate import ALPHA, Loss
from bias_metrics.metrics import GIVEN, SUBGROUP_METRICS
from bias_metrics.table import Estimate
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.common.command_lines import format_command, format_store_option
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.pairing import RIVAL, NotSameRowsError, pair_candidates
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.records.numbers import CONFIDENCE, ReadTable
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.verdict import get_champion_uri
from biasgate.tasks.reporting.page.grids import GridRow, build_difference
from biasgate.tasks.reporting.results import Published

_COMPARED = ("auc", "final_score", *SUBGROUP_METRICS)


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
    comparison: ReadTable
    """The differences; if not paired, without intervals."""
    worsened: list[Loss]
    """What is shown to be worse in the first, with all bounds at 95 % together; most first."""
    left_out: list[str]
    """Identities that only one of the two has."""
    changed: dict[str, dict[str, CountedShare]] | None = None
    """By identity, the decisions of the first that the second does not make, each at the threshold
    in use."""

    @property
    def rows(self) -> list[GridRow]:
        """The differences by identity; those that are shown to differ, or to be worse, first."""
        worse = {(loss.group, loss.metric) for loss in self.worsened}
        rows = [
            GridRow(
                name,
                tuple(
                    build_difference(
                        cells[of], "fail" if (name, of) in worse else "plain", CONFIDENCE
                    )
                    for of in SUBGROUP_METRICS
                ),
            )
            for name, cells in self.comparison.subgroups.items()
        ]
        return sorted(
            rows, key=lambda row: not any(cell.differs or cell.mark for cell in row.cells)
        )

    @property
    def different(self) -> list[str]:
        """The identities of which a number is shown to differ, after Holm's adjustment for all."""
        of_rows = {row.name: row.cells for row in self.rows}
        names = self.comparison.subgroups
        return [name for name in names if any(cell.differs for cell in of_rows[name])]


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
    several = any(len({published.names[1] for published in side}) > 1 for side in (first, second))
    pairs = [
        (published, other)
        for published in first
        for other in second
        if published.names[0] == other.names[0]
        and (not several or published.names[1] == other.names[1])
    ]
    if not pairs:
        sides = (
            ", ".join(" on ".join(reversed(published.names)) for published in x)
            for x in (first, second)
        )
        told = "; ".join(f"{name} has {held}" for name, held in zip(names, sides, strict=True))
        msg = (
            "`biasgate compare` must be given two candidates on the same set, or two folders with "
            f"candidates of the same names; {told}. Name one of each: DIR/SET/CANDIDATE."
        )
        raise InputError(msg)
    return [_compare_pair(one, other, names) for one, other in pairs]


def describe_missing_candidate(
    named: str, other: str, folder: Path, each: Sequence[Published], store: str = ""
) -> str:
    """Say that a folder has no candidate `named`, to compare with `other`, and what to do."""
    known = ", ".join(dict.fromkeys(published.names[1] for published in each))
    text = f"{named!r} must be a candidate in {folder}; it has {known}."
    judged = [published for published in each if published.verdict.champion is not None]
    if not judged:
        return text
    one = next((published for published in judged if published.names[1] == other), judged[0])
    version = get_champion_uri(one.verdict)
    if version is None:
        return f"{text} Their champion is not a candidate there; report.html compares them with it."
    own = one.verdict.candidate.model or str(one.folder)
    command = format_command("compare", own, version, *format_store_option(store))
    return f"{text} The champion of that evaluation was {version}: `{command}` compares with it."


def _compare_pair(published: Published, other: Published, sides: tuple[str, str]) -> Compared:
    names = published.names[1], other.names[1]
    if names[0] == names[1]:
        names = tuple(f"{name} of {side}" for name, side in zip(names, sides, strict=True))  # type: ignore[assignment]
    first, second = published.report.bias, other.report.bias
    reason, worsened, changed = None, [], None
    try:
        measurer = _pair_rows(published, other)
    except NotSameRowsError as error:
        reason = str(error)
        numbers = {
            key: _subtract(number, second[key], reason)
            for key, number in first.items()
            if key in second and key.threshold is None and key.metric in _COMPARED
        }
        shared = [name for name in first.counts if name in second.counts]
        comparison = replace(
            first, numbers=numbers, counts={name: first.counts[name] for name in shared}
        )
    else:
        found = measurer.measure(CONFIDENCE).table.select_rival(RIVAL)
        assert found is not None  # noqa: S101 - the other stands in for the champion
        comparison = found
        worsened = list(measurer.find_losses(RIVAL, ALPHA).cells)
        changed = _count_changes(measurer, published, other)
    return Compared(
        evaluation_set=published.names[0],
        first=names[0],
        second=names[1],
        paired=reason is None,
        reason=reason,
        comparison=comparison,
        worsened=worsened,
        changed=changed,
        left_out=sorted(first.subgroups.keys() ^ second.subgroups.keys()),
    )


def _count_changes(
    measurer: RowMeasurer, published: Published, other: Published
) -> dict[str, dict[str, CountedShare]] | None:
    own, its = (each.report.thresholds.get(GIVEN) for each in (published, other))
    if own is None or its is None or measurer.rows.weights is not None:
        return None
    at = {CANDIDATE: own.threshold, RIVAL: its.threshold}
    return measurer.count_changes(RIVAL, at).subgroups


def _pair_rows(published: Published, other: Published) -> RowMeasurer:
    """Return both on the same rows.

    Raises
    ------
    NotSameRowsError
        If they have no such rows, with why.
    """
    if published.evidence is None or other.evidence is None:
        lacking = published if published.evidence is None else other
        msg = f"{lacking.folder} has no evidence.parquet"
        raise NotSameRowsError(msg)
    try:
        return pair_candidates(published.evidence, other.evidence)
    except NotSameRowsError as error:
        msg = f"they did not score the same rows: {error}"
        raise NotSameRowsError(msg) from error


def _subtract(one: Estimate, other: Estimate, reason: str) -> Difference:
    first, second, value = one.value, other.value, None
    if first is None or second is None:
        reason = one.reason or other.reason or reason
    else:
        value = first - second
    return Difference(first, second, value, reason=reason)
