"""One split of an experiment: all methods on the same rows, measured on the same sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bias_metrics import equal_error_rate
from biasgate.tasks.common.errors import CandidateError, InputError, without_quotes
from biasgate.tasks.common.files import json_digest, write_json
from biasgate.tasks.common.own_folders import own_folder
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.data.hashed_parts import uniform_hash
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.measuring import (
    ScoredRows,
    general_numbers,
    pair_numbers,
    set_numbers,
)
from biasgate.tasks.mitigating.methods.method import (
    Adjustment,
    Method,
    MethodUndoneError,
    RowMethod,
    ScoreMethod,
    Tuning,
)
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.source import changed
from biasgate.tasks.scoring.candidate import CandidateSettings, Scorer
from biasgate.tasks.scoring.training_rows import REPEATED_TEXTS

BASELINE, CLEAN = "baseline", "clean"
FOLDER = "trials"
_VERSION = 2
_ROWS_A_STEP = 5_000


@dataclass(frozen=True)
class SetFolder:
    """A frozen set, and how it is measured."""

    source: SourceSettings
    folder: str

    def load(self) -> EvaluationSet:
        """Open the frozen set."""
        return EvaluationSet.load(Path(self.folder))


@dataclass(frozen=True)
class Sets:
    """The frozen sets of an experiment.

    Attributes
    ----------
    training : SetFolder
        Split by each seed.
    evaluated : tuple of SetFolder
        Sets with identities.
    pool, tune_on, clean : SetFolder or None
        As in `Mitigation`.
    pairs : tuple of SetFolder
        The original and the swapped set, or nothing.
    """

    training: SetFolder
    evaluated: tuple[SetFolder, ...]
    pool: SetFolder | None = None
    tune_on: SetFolder | None = None
    clean: SetFolder | None = None
    pairs: tuple[SetFolder, ...] = ()

    def each(self) -> Iterator[SetFolder]:
        """Yield all sets."""
        others = (self.pool, self.tune_on, self.clean)
        yield from (self.training, *self.evaluated, *filter(None, others), *self.pairs)


@task(name="run trial", task_run_name="trial {seed}")
def run_trial(
    candidate: CandidateSettings,
    mitigation: Mitigation,
    sets: Sets,
    seed: int,
    output: str,
    store: str,
) -> dict[str, Any]:
    """Train and measure every method on one split; keep the numbers. Safe to retry.

    Numbers that an earlier run kept for the same inputs are returned as they are.
    """
    path = Path(output) / FOLDER / f"{seed}.json"
    key = trial_key(candidate, mitigation, sets, seed)
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if kept.get("key") == key:
            say(f"split {seed}: kept from an earlier run", aside=True)
            return kept
    say(f"split {seed}: training and measuring")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"key": key} | trial(candidate, mitigation, sets, seed, Path(store) / "work")
    write_json(path, found)
    return found


@task(name="check sets")
def check_sets(sets: Sets) -> None:
    """Refuse evaluation sets that share texts with the rows to tune on. Only reads.

    Rows of the training set and of the pool are refused when a trained model is checked.
    """
    if sets.tune_on is None:
        return
    tuned = set(table_of(sets.tune_on)["text"].to_pylist())
    for one in sets.evaluated:
        texts = table_of(one)["text"].to_pylist()
        shared = sum(text in tuned for text in texts)
        if shared > REPEATED_TEXTS * len(texts):
            msg = (
                f"`tune_on` must have other comments than evaluation set {one.source.name!r}; "
                f"{shared:,} of its {len(texts):,} are in {sets.tune_on.source.name!r}. A "
                "threshold must not be judged on the comments it was chosen on."
            )
            raise InputError(msg)


def trial_key(candidate: CandidateSettings, mitigation: Mitigation, sets: Sets, seed: int) -> str:
    """Return a digest of everything that decides the numbers of one split."""
    options = candidate.model_dump(mode="json", exclude={"train_on", "name"})
    keys = {"methods", "only", "edges", "test_share"}
    methods = [one.model_dump(mode="json") for one in mitigation.chosen()]
    chosen = mitigation.model_dump(mode="json", include=keys) | {"methods": methods}
    digests = [
        [one.load().digest, one.source.label_threshold, one.source.identity_threshold]
        for one in sets.each()
    ]
    roles = [sets.pool is None, sets.tune_on is None, sets.clean is None]
    return json_digest([_VERSION, options, chosen, digests, roles, seed])


def trial(
    candidate: CandidateSettings, mitigation: Mitigation, sets: Sets, seed: int, folder: Path
) -> dict[str, Any]:
    """Return the numbers of every method on one split.

    Returns
    -------
    dict
        `methods`: numbers by name; `undone`: why a method could do nothing; `said`: what each
        did, in words; `n_train`, `n_tuning` and `n_test`.
    """
    whole = rows_of(sets.training, mitigation)
    whole.require_classes()
    train, tune, test = split(whole, seed, mitigation.test_share)
    for part, what in ((train, "training"), (tune, "tuning"), (test, "test")):
        _require_classes(part, what, seed)
    gaps = None if sets.tune_on is None else rows_of(sets.tune_on, mitigation, whole=False)
    bench = _Bench(candidate, mitigation, sets, test, tune, gaps, folder)
    pool = None if sets.pool is None else rows_of(sets.pool, mitigation, whole=False)
    methods, undone, said = {}, {}, {}
    base = bench.trained(train.table, BASELINE)
    methods[BASELINE] = base.numbers()
    if sets.clean is not None:
        methods[CLEAN] = bench.trained(_clean(train, sets.clean), CLEAN).numbers()
    for method in mitigation.chosen():
        try:
            found, told = _one(method, bench, base, train, pool, seed)
        except MethodUndoneError as error:
            undone[method.called] = str(error)
            continue
        methods[method.called], said[method.called] = found.numbers(), list(told)
    return {
        "seed": seed,
        "n_train": train.n,
        "n_tuning": tune.n,
        "n_test": test.n,
        "methods": methods,
        "undone": undone,
        "said": said,
    }


def _one(
    method: Method,
    bench: _Bench,
    base: _Scored,
    train: TrainingRows,
    pool: TrainingRows | None,
    seed: int,
) -> tuple[_Scored, Sequence[str]]:
    if isinstance(method, RowMethod):
        table, change = changed(method, train, pool, seed)
        return bench.trained(table, method.called), change.sentences
    if not isinstance(method, ScoreMethod):
        msg = f"method {method.called} must be a RowMethod or a ScoreMethod; tell its author."
        raise InputError(msg)
    adjustment = method.adjust(base.tuning())
    return base.adjusted(adjustment), adjustment.sentences


def split(
    rows: TrainingRows, seed: int, test_share: float
) -> tuple[TrainingRows, TrainingRows, TrainingRows]:
    """Split rows by a hash of their texts, so that a repeated text is in one part only.

    Parameters
    ----------
    rows : TrainingRows
        All rows.
    seed : int
        Of the split.
    test_share : float
        Share that is left out of the training; thresholds are chosen on half of it.

    Returns
    -------
    tuple of TrainingRows
        The rows to train, to tune and to test on.
    """
    place = np.array([uniform_hash(f"{seed}\n{text}") for text in rows.texts])
    train = rows.of_part(place >= test_share)
    half = test_share / 2
    left = (place >= half) & (place < test_share)
    return train, rows.of_part(left), rows.of_part(place < half)


@dataclass(frozen=True)
class _Bench:
    """What every method is trained with and measured on."""

    candidate: CandidateSettings
    mitigation: Mitigation
    sets: Sets
    test: TrainingRows
    tuning: TrainingRows
    gaps: TrainingRows | None
    folder: Path

    def trained(self, table: pa.Table, name: str) -> _Scored:
        """Train on a table, and score all sets."""
        with own_folder(self.folder, f".{name}-") as folder:
            source = {"source": "mitigated"}
            rows = freeze_rows([table], folder / "rows", name=f"{name}", split="all", source=source)
            fit = partial(self.candidate.fit_to_score, rows, folder / "model")
            with without_quotes(fit, f"training of method {name!r}", CandidateError) as scorer:
                return self._scored(scorer)

    def _scored(self, scorer: Scorer) -> _Scored:
        tuned = () if self.sets.tune_on is None else (self.sets.tune_on,)
        frozen = [one.load() for one in (*self.sets.evaluated, *self.sets.pairs, *tuned)]
        for one in frozen:
            scorer.check(one)
        shown = [rows_of(one, self.mitigation, whole=False) for one in self.sets.evaluated]
        pairs = [table_of(one) for one in self.sets.pairs]
        return _Scored(
            [one.source.name for one in self.sets.evaluated],
            _with_scores(self.test, scorer),
            _with_scores(self.tuning, scorer),
            None if self.gaps is None else _with_scores(self.gaps, scorer),
            [_with_scores(one, scorer) for one in shown],
            _paired(pairs, [scores_of(scorer, one) for one in pairs]),
        )


@dataclass(frozen=True)
class _Scored:
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

    def adjusted(self, how: Adjustment) -> _Scored:
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


def rows_of(one: SetFolder, mitigation: Mitigation, *, whole: bool = True) -> TrainingRows:
    """Return the rows of a set; only a training set is limited to some identities."""
    return TrainingRows.of(
        one.source, table_of(one), mitigation.edges, mitigation.only if whole else None
    )


def table_of(one: SetFolder) -> pa.Table:
    """Read a frozen set into memory."""
    frozen = one.load()
    return pa.table(dict(zip(frozen.columns, frozen.each_column(frozen.columns), strict=True)))


def _clean(train: TrainingRows, clean: SetFolder) -> pa.Table:
    """Return the rows of the clean set that a split trains on."""
    table = table_of(clean)
    wanted = set(train.table["id"].to_pylist())
    kept = np.array([one in wanted for one in table["id"].to_pylist()], dtype=bool)
    if int(kept.sum()) != train.n:
        msg = (
            f"`clean` must have the ids of the training set {train.name!r}; of the "
            f"{train.n:,} rows of a split it has {int(kept.sum()):,}."
        )
        raise InputError(msg)
    return table.filter(pa.array(kept))


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


def _require_classes(part: TrainingRows, what: str, seed: int) -> None:
    if part.n == 0 or part.labels.all() or not part.labels.any():
        msg = (
            f"the {what} rows of split {seed} must have both classes; of {part.n:,} rows of "
            f"{part.name!r}, {int(part.labels.sum()):,} are toxic. Give more rows, or another "
            "`test_share`."
        )
        raise InputError(msg)
