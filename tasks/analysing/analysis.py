"""The base class of analyses: what each kind gets and returns.

To add a kind, subclass `Analysis`: in a module beside this one, named in `KINDS` of
`biasgate.tasks.analysing.catalogue`; or in another package, by the entry point `biasgate.analyses`.
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
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.join import places, recoded

Row = dict[str, Any]


@dataclass(frozen=True)
class MeasuredRows:
    """The measured rows of one set, with the scores of one candidate.

    All arrays have shape (n,) for the n measured rows, in the same order.
    """

    evidence: EvidenceFile
    """The rows and scores."""
    frozen: EvaluationSet
    """All rows of the set."""
    source: SourceSettings
    """The measuring choices."""

    @cached_property
    def y_true(self) -> npt.NDArray[np.bool_]:
        """Whether each comment is toxic."""
        return self.evidence.measured.labels

    @cached_property
    def y_score(self) -> npt.NDArray[np.floating]:
        """Score of each comment."""
        return self.evidence.measured.y_score

    @cached_property
    def clusters(self) -> npt.NDArray[np.intp] | None:
        """Cluster of each comment as a number; None without clusters."""
        found = self.evidence.measured.clusters
        return None if found is None else recoded(found)

    @cached_property
    def masks(self) -> PackedMasks:
        """Which comments mention each identity."""
        return self.evidence.measured.members

    @cached_property
    def measured(self) -> npt.NDArray[np.intp]:
        """Which rows of the set are measured, by number; one that stands for several repeatedly."""
        return places(self.evidence.ids(), self.frozen.column("id"))

    @cached_property
    def groups(self) -> list[str]:
        """The identities that the power means include."""
        chosen = self.evidence.record.power_mean_groups
        return list(self.masks) if chosen is None else list(chosen)

    @property
    def background(self) -> Background:
        """What an identity's rows are compared with."""
        return self.evidence.background

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the measured rows of one column of the frozen set; null becomes NaN."""
        return np.asarray(np.asarray(self.frozen.column(name).to_numpy())[self.measured])


def group_record(table: BiasTable, group: str) -> dict[str, Any]:
    """Return the number of rows of a group and its numbers by metric, as plain values."""
    rows, numbers = table.counts[group], table.subgroups[group]
    return {"n": rows.n, **rows.to_dict(), **plain(numbers)}


@dataclass(frozen=True)
class Findings:
    """The findings of an analysis."""

    result: dict[str, Any]
    """JSON-ready values for `report.json`, limited in number."""
    sentences: tuple[str, ...]
    """The same in words, for the terminal and the model card. They never quote a comment."""
    table: list[Row]
    """All records, for a CSV file; the keys are the columns."""
    warnings: tuple[str, ...] = ()
    """Sentences that stand among the warnings of the report, before all analyses."""


class Analysis(Settings):
    """One analysis of an evaluation file; each kind adds its own options."""

    kind: str
    """Name of the analysis; its results are stored under it."""
    sets: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Evaluation sets to analyse. Default: all."""

    @property
    def needs_champion(self) -> bool:
        """Whether it compares with the champion's scores."""
        return False

    def is_for(self, evaluation_set: str) -> bool:
        """Whether the analysis applies to this set."""
        return self.sets is None or evaluation_set in self.sets

    def objection(self, source: SourceSettings) -> str | None:
        """Return what the options of a set lack for this analysis; None if they lack nothing.

        It is asked before any work, so that only what no file can change belongs here.
        """
        if source.is_weighted and source.weight_kind == "probability":
            return "no sampling weights; it has `weight`"
        return None

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set that cannot be analysed, before anything is trained or scored."""

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Return the findings."""
        raise NotImplementedError

    def refuse(self, frozen: EvaluationSet, rule: str, found: str) -> NoReturn:
        """Raise the error for a set that cannot be analysed.

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
