"""Comparison of two evaluated candidates: losses, and identities that differ."""

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
class CandidateComparison(Record):
    """Two candidates on one set."""

    evaluation_set: str
    first: str
    second: str
    """The candidates. Differences are the first minus the second."""
    paired: bool
    """True if both scored the same rows, so that differences have intervals."""
    reason: str | None
    """The reason if they are not paired."""
    comparison: ReadTable
    """The differences; if not paired, without intervals."""
    worsened: list[Loss]
    """The significant losses of the first, by simultaneous 95 % bounds; the largest first."""
    left_out: list[str]
    """Identities of only one of the candidates."""
    changed: dict[str, dict[str, CountedShare]] | None = None
    """The changed decisions by identity, each candidate at its threshold in use."""

    @property
    def rows(self) -> list[GridRow]:
        """The differences by identity; identities with significant differences or losses first."""
        worse = {(loss.group, loss.metric) for loss in self.worsened}
        rows = [
            GridRow(
                name,
                tuple(
                    build_difference(
                        cells[metric], "fail" if (name, metric) in worse else "plain", CONFIDENCE
                    )
                    for metric in SUBGROUP_METRICS
                ),
            )
            for name, cells in self.comparison.subgroups.items()
        ]
        return sorted(
            rows, key=lambda row: not any(cell.differs or cell.mark for cell in row.cells)
        )

    @property
    def differing_groups(self) -> list[str]:
        """The identities with a significant difference, after Holm's adjustment for all."""
        differing = {row.name for row in self.rows if any(cell.differs for cell in row.cells)}
        return [name for name in self.comparison.subgroups if name in differing]


def compare_published(
    first: Sequence[Published], second: Sequence[Published], names: tuple[str, str]
) -> list[CandidateComparison]:
    """Compare candidates on every set that both sides have.

    If a side has several candidates, candidates of the same name are compared. `names` of the sides
    distinguish candidates of the same name.

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
            ", ".join(" on ".join(reversed(published.names)) for published in side)
            for side in (first, second)
        )
        given = "; ".join(f"{name} has {texts}" for name, texts in zip(names, sides, strict=True))
        msg = (
            "`biasgate compare` must be given two candidates on the same set, or two folders with "
            f"candidates of the same names; {given}. Name one of each: DIR/SET/CANDIDATE."
        )
        raise InputError(msg)
    return [_compare_pair(published, other, names) for published, other in pairs]


def describe_missing_candidate(
    named: str, other: str, folder: Path, each: Sequence[Published], store: str = ""
) -> str:
    """Return an error for a folder without the candidate `named`, to compare with `other`."""
    candidates = ", ".join(dict.fromkeys(published.names[1] for published in each))
    text = f"{named!r} must be a candidate in {folder}; it has {candidates}."
    judged = [published for published in each if published.verdict.champion is not None]
    if not judged:
        return text
    match = next((published for published in judged if published.names[1] == other), judged[0])
    version = get_champion_uri(match.verdict)
    if version is None:
        return f"{text} Their champion is not a candidate there; report.html compares them with it."
    own = match.verdict.candidate.model or str(match.folder)
    command = format_command("compare", own, version, *format_store_option(store))
    return f"{text} The champion of that evaluation was {version}: `{command}` compares with it."


def _compare_pair(
    published: Published, other: Published, sides: tuple[str, str]
) -> CandidateComparison:
    names = [published.names[1], other.names[1]]
    if names[0] == names[1]:
        names = [f"{name} of {side}" for name, side in zip(names, sides, strict=True)]
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
        counts = {name: n for name, n in first.counts.items() if name in second.counts}
        comparison = replace(first, numbers=numbers, counts=counts)
    else:
        table = measurer.measure(CONFIDENCE).table.select_rival(RIVAL)
        assert table is not None  # noqa: S101 - the measurer has the rival
        comparison = table
        worsened = list(measurer.find_losses(RIVAL, ALPHA).cells)
        changed = _count_changes(measurer, published, other)
    return CandidateComparison(
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
    """Return both candidates on the same rows.

    Raises
    ------
    NotSameRowsError
        If they have no common rows, with the reason.
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


def _subtract(cell: Estimate, other: Estimate, reason: str) -> Difference:
    first, second = cell.value, other.value
    if first is None or second is None:
        return Difference(first, second, None, reason=cell.reason or other.reason or reason)
    return Difference(first, second, first - second, reason=reason)
