"""One split of an experiment: all methods on the same rows, measured on the same sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.hashed_parts import uniform_hash
from biasgate.tasks.mitigating.bench import Bench, Scored
from biasgate.tasks.mitigating.methods.catalogue import code_of_method
from biasgate.tasks.mitigating.methods.method import (
    Method,
    MethodUndoneError,
    RowMethod,
    ScoreMethod,
)
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import Sets, clean_rows, rows_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.source import changed
from biasgate.tasks.scoring.candidate import CandidateSettings

BASELINE, CLEAN = "baseline", "clean"
FOLDER = "trials"
_VERSION = 3
# More than the largest seed of a split. A training may choose rows by a hash of seed and text, as
# splits do; with one seed for both, it would choose among the rows that the split left out.
_SEEDS = 1_000


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
    found = {"key": key} | trial(candidate, mitigation, sets, seed, Path(store) / "work")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)
    return found


def trial_key(candidate: CandidateSettings, mitigation: Mitigation, sets: Sets, seed: int) -> str:
    """Return a digest of everything that decides the numbers of one split, code included."""
    options = candidate.model_dump(mode="json", exclude={"train_on", "name"})
    keys = {"methods", "only", "edges", "test_share"}
    methods = [[one.model_dump(mode="json"), code_of_method(one)] for one in mitigation.chosen()]
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
    bench = Bench(candidate.with_seed(_SEEDS + seed), mitigation, sets, test, tune, gaps, folder)
    pool = None if sets.pool is None else rows_of(sets.pool, mitigation, whole=False)
    methods, undone, said = {}, {}, {}
    base = bench.trained(train.table, BASELINE)
    methods[BASELINE] = base.numbers()
    if sets.clean is not None:
        methods[CLEAN] = bench.trained(clean_rows(train, sets.clean), CLEAN).numbers()
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
    bench: Bench,
    base: Scored,
    train: TrainingRows,
    pool: TrainingRows | None,
    seed: int,
) -> tuple[Scored, Sequence[str]]:
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


def _require_classes(part: TrainingRows, what: str, seed: int) -> None:
    if part.n == 0 or part.labels.all() or not part.labels.any():
        msg = (
            f"the {what} rows of split {seed} must have both classes; of {part.n:,} rows of "
            f"{part.name!r}, {int(part.labels.sum()):,} are toxic. Give more rows, or another "
            "`test_share`."
        )
        raise InputError(msg)
