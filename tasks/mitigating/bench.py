"""One model of an experiment: trained on a table, and scored and measured on every set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bias_metrics import equal_error_rate
from biasgate.tasks.common.errors import CandidateError, InputError, without_quotes
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.mitigating.measuring import (
    ScoredRows,
    general_numbers,
    pair_numbers,
    parts_of,
    set_numbers,
)
from biasgate.tasks.mitigating.methods.method import Adjustment, Tuning
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import Sets, rows_of, table_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scorer import Scorer

_ROWS_A_STEP = 5_000


@dataclass(frozen=True)
class Bench:
    """What every method is trained with and measured on."""

    candidate: CandidateSettings
    mitigation: Mitigation
    sets: Sets
    test: TrainingRows
    tuning: TrainingRows
    gaps: TrainingRows | None
    folder: Path

    def trained(self, table: pa.Table, name: str) -> Scored:
        """Train on a table, and score all sets."""
        with own_folder(self.folder, f".{name}-") as folder:
            source = {"source": "mitigated"}
            rows = freeze_rows([table], folder / "rows", name=f"{name}", split="all", source=source)
            fit = partial(self.candidate.fit_to_score, rows, folder / "model")
            with without_quotes(fit, f"training of method {name!r}", CandidateError) as scorer:
                return self._scored(scorer)

    def _scored(self, scorer: Scorer) -> Scored:
        tuned = () if self.sets.tune_on is None else (self.sets.tune_on,)
        frozen = [one.load() for one in (*self.sets.evaluated, *self.sets.pairs, *tuned)]
        for one in frozen:
            scorer.check(one)
        shown = [rows_of(one, self.mitigation, whole=False) for one in self.sets.evaluated]
        pairs = [table_of(one) for one in self.sets.pairs]
        return Scored(
            [one.source.name for one in self.sets.evaluated],
            _with_scores(self.test, scorer),
            _with_scores(self.tuning, scorer),
            None if self.gaps is None else _with_scores(self.gaps, scorer),
            [
                replace(_with_scores(one, scorer), parts=parts_of(_clusters(one.table)))
                for one in shown
            ],
            _paired(pairs, [scores_of(scorer, one) for one in pairs]),
        )


@dataclass(frozen=True)
class Scored:
    """The scores of one model, with a threshold: by default that of equal errors when tuning."""

    names: list[str]
    test: ScoredRows
    tuned: ScoredRows
    gaps: ScoredRows | None
    sets: list[ScoredRows]
    pairs: list[npt.NDArray[np.floating]]
    threshold: float | None = None

    def tuning(self) -> Tuning:
        """Return the rows that methods may look at."""
        rows = self.tuned if self.gaps is None else self.gaps
        general = self.tuned.y_true, self.tuned.y_score
        return Tuning(rows.y_true, rows.y_score, rows.masks, general)

    def adjusted(self, how: Adjustment) -> Scored:
        """Return the scores as a method uses them."""
        return replace(
            self,
            test=_moved(self.test, how),
            tuned=_moved(self.tuned, how),
            gaps=None if self.gaps is None else _moved(self.gaps, how),
            sets=[_moved(one, how) for one in self.sets],
            pairs=[how.applied(one) for one in self.pairs],
            threshold=how.threshold,
        )

    def numbers(self) -> dict[str, Any]:
        """Measure."""
        threshold = self.threshold
        if threshold is None:
            threshold = equal_error_rate(self.tuned.y_true, self.tuned.y_score).threshold
        if threshold is None:
            msg = "tuning rows must have both classes, to choose a threshold."
            raise InputError(msg)
        return {
            "threshold": threshold,
            "general": general_numbers(self.test, threshold),
            "sets": {
                name: set_numbers(rows, threshold)
                for name, rows in zip(self.names, self.sets, strict=True)
            },
            "pairs": pair_numbers(*self.pairs) if self.pairs else None,
        }


def _clusters(table: pa.Table) -> list[str]:
    """Return the cluster of each row; a row is one of its own where the set has none."""
    name = "cluster" if "cluster" in table.column_names else "id"
    return [str(one) for one in table[name].to_pylist()]


def _moved(rows: ScoredRows, how: Adjustment) -> ScoredRows:
    return replace(rows, y_score=how.applied(rows.y_score))


def _with_scores(rows: TrainingRows, scorer: Scorer) -> ScoredRows:
    return ScoredRows(rows.labels, scores_of(scorer, rows.table), rows.masks)


def scores_of(scorer: Scorer, table: pa.Table) -> npt.NDArray[np.floating]:
    """Score all rows of a table."""
    parts = [
        without_quotes(partial(scorer.score, batch), "scoring", CandidateError)
        for batch in table.select(list(scorer.columns)).to_batches(_ROWS_A_STEP)
        if batch.num_rows
    ]
    if not all(isinstance(one, np.ndarray) for one in parts):
        msg = "candidates of experiments must score every comment; one refused some."
        raise InputError(msg)
    return np.concatenate([np.empty(0), *parts])


def _paired(
    tables: list[pa.Table], scores: list[npt.NDArray[np.floating]]
) -> list[npt.NDArray[np.floating]]:
    """Return the scores of both sets in the order of the first one's ids."""
    if not tables:
        return []
    names = [table["id"].to_pylist() for table in tables]
    at: Mapping[str, int] = {one: row for row, one in enumerate(names[1])}
    if set(names[0]) != set(names[1]):
        msg = "both sets of `pairs` must have the same ids; they differ."
        raise InputError(msg)
    return [scores[0], scores[1][[at[one] for one in names[0]]]]
