"""The frozen sets of a mitigation, and their rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.methods.row_methods import require_pool, require_pool_identities
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.settings import Mitigation


@dataclass(frozen=True)
class SetFolder:
    """A frozen set with its source, which has the thresholds of labels and identities."""

    source: SourceSettings
    folder: str

    def load(self) -> EvaluationSet:
        """Open the frozen set."""
        return EvaluationSet.load(Path(self.folder))


@dataclass(frozen=True)
class MitigationSets:
    """The frozen sets of a mitigation."""

    training: SetFolder
    evaluated: tuple[SetFolder, ...]
    """The evaluation sets."""
    pool: SetFolder | None = None
    """The pool of `Mitigation`."""


def freeze_sets(
    training: SourceSettings,
    evaluated: Sequence[SourceSettings],
    mitigation: Mitigation,
    freeze: Callable[[SourceSettings], str],
) -> MitigationSets:
    """Freeze all sets, so that an invalid set is refused before any training.

    `freeze`: freezes the set of a source, and returns its folder.
    """

    def frozen(source: SourceSettings) -> SetFolder:
        return SetFolder(source, freeze(source))

    return MitigationSets(
        training=frozen(training),
        evaluated=tuple(map(frozen, evaluated)),
        pool=None if mitigation.pool is None else frozen(mitigation.pool),
    )


@task(name="check sets")
def check_sets(sets: MitigationSets, mitigation: Mitigation) -> None:
    """Refuse training rows and pools that the methods cannot work with. Safe to retry: only reads.

    Training rows that are also evaluated are refused later, by the check of the trained model.
    """
    refuse_unfit_sets(sets, mitigation)


def refuse_unfit_sets(sets: MitigationSets, mitigation: Mitigation) -> None:
    """Refuse training rows and pools that the methods cannot work with."""
    rows = load_rows(sets.training, mitigation)
    rows.require_classes()
    rows.require_mentions()
    for method in mitigation.list_methods():
        if method.needs_pool and sets.pool is not None:
            pool = require_pool(load_rows(sets.pool, mitigation, whole=False), method.called)
            require_pool_identities(pool, rows)
            break


def load_rows(folder: SetFolder, mitigation: Mitigation, *, whole: bool = True) -> TrainingRows:
    """Return the rows of a set.

    `whole`: True for a training set, which is limited to the identities in `only`. A pool has all
    its identities.
    """
    return TrainingRows.from_table(
        folder.source, read_table(folder), mitigation.only if whole else None
    )


def read_table(folder: SetFolder) -> pa.Table:
    """Read a frozen set into memory."""
    frozen = folder.load()
    return pa.table(dict(zip(frozen.columns, frozen.iter_columns(frozen.columns), strict=True)))
