"""The base class of analyses, with the types of their input and output.

To add a kind, subclass `Analysis`. A module of this package is named in `KINDS` of
`biasgate.tasks.analysing.catalogue`; another package uses the entry point `biasgate.analyses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NoReturn

import numpy as np
import numpy.typing as npt
from pydantic import Field

from bias_metrics import BiasTable
from bias_metrics.parts import PackedMasks
from bias_metrics.rows import Background
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.join import find_positions, renumber_codes

Row = dict[str, Any]


@dataclass(frozen=True)
class MeasuredRows:
    """The measured rows of a set, with the scores of a candidate.

    All arrays have shape (n,) for the n measured rows, in the same order.
    """

    evidence: EvidenceFile
    """The evidence file, with measured rows and scores."""
    frozen: EvaluationSet
    """All rows of the set."""
    source: SourceSettings
    """The set as in the evaluation file, with its options."""

    @cached_property
    def y_true(self) -> npt.NDArray[np.bool_]:
        """True for toxic comments."""
        return self.evidence.rows.labels

    @cached_property
    def y_score(self) -> npt.NDArray[np.floating]:
        """Score of each comment."""
        return self.evidence.rows.y_score

    @cached_property
    def clusters(self) -> npt.NDArray[np.intp] | None:
        """Cluster of each comment as a number; None without clusters."""
        clusters = self.evidence.rows.clusters
        return None if clusters is None else renumber_codes(clusters)

    @cached_property
    def masks(self) -> PackedMasks:
        """Masks of the comments that mention each identity."""
        return self.evidence.rows.members

    @cached_property
    def row_numbers(self) -> npt.NDArray[np.intp]:
        """Numbers of the measured rows in the set; rows with frequency weights are repeated."""
        return find_positions(self.evidence.ids(), self.frozen.column("id"))

    @cached_property
    def groups(self) -> list[str]:
        """The identities that the power means include."""
        groups = self.evidence.record.power_mean_groups
        return list(self.masks if groups is None else groups)

    @property
    def background(self) -> Background:
        """The rows that identities are compared with."""
        return self.evidence.background

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the measured rows of a column of the frozen set; null becomes NaN."""
        return np.asarray(np.asarray(self.frozen.column(name).to_numpy())[self.row_numbers])


def build_record(table: BiasTable, group: str) -> dict[str, Any]:
    """Return a group's row counts and metric values as plain values."""
    counts = table.counts[group]
    return {"n": counts.n, **counts.to_dict(), **convert_to_plain(table.subgroups[group])}


@dataclass(frozen=True)
class Findings:
    """The findings of an analysis."""

    result: dict[str, Any]
    """JSON-serializable values for `report.json`, limited in number."""
    sentences: tuple[str, ...]
    """The findings in words, for the terminal and the model card. They never quote a comment."""
    table: list[Row]
    """All records, for a CSV file; the keys are the columns."""
    warnings: tuple[str, ...] = ()
    """Sentences for the warnings of the report, which precede all analyses."""


class Analysis(Settings):
    """One analysis of an evaluation file; each kind adds its own options."""

    kind: str
    """Name of the analysis; its results are stored under it."""
    sets: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Evaluation sets to analyse. Default: all."""

    @property
    def needs_champion(self) -> bool:
        """True if the analysis requires the champion's scores."""
        return False

    def is_for(self, evaluation_set: str) -> bool:
        """Return True if the analysis applies to this set."""
        return self.sets is None or evaluation_set in self.sets

    def objection(self, source: SourceSettings) -> str | None:
        """Return the reason why the options of a set do not allow this analysis, or None.

        The reason continues "analysis KIND: evaluation set NAME must have ...". It must not depend
        on the content of files, since the method is called before any work.
        """
        if source.is_weighted and source.weight_kind == "probability":
            return "no sampling weights; it has `weight`"
        return None

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set that cannot be analysed, before training and scoring."""

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Return the findings."""
        raise NotImplementedError

    def refuse(self, frozen: EvaluationSet, rule: str, found: str) -> NoReturn:
        """Raise the error for a set that must have `rule`, but `found`.

        Raises
        ------
        InputError
            Always.
        """
        msg = (
            f"analysis {self.kind}: evaluation set {frozen.name!r} must have {rule}; {found}. "
            "Remove the analysis, or name suitable sets with `sets`."
        )
        raise InputError(msg)
