"""Train baseline, control and every method against bias on several splits, and compare them.

    python docs/reproduce/mitigation_experiment.py docs/reproduce/mitigation/planted.yaml

prints the tables of docs/evidence/mitigation.md. The file is an evaluation file with a section
`experiment`: `splits` (10), and of `pairs` and `clean` the sources, if there are any. Each split
leaves out 30 % of the training set by a hash of the texts; thresholds are chosen on half of that,
and the other half is the general test set.
"""

from __future__ import annotations

import argparse
import csv
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from over_splits import Interval, OverSplits, recovered

import bias_metrics
from bias_metrics import (
    equal_error_rate,
    error_rates,
    fned,
    fped,
    pinned_auc_equality_difference,
    roc_auc,
)
from bias_metrics.metrics import AEGS, AUCS, SUBGROUP_METRICS
from biasgate.tasks.common.own_folders import own_folder, redirect_temporary_files
from biasgate.tasks.data.evaluation_set import EvaluationSet, freeze_rows
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.data.hashed_parts import hash_to_fraction
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.methods.method import MethodUndoneError
from biasgate.tasks.mitigating.proposing import choose_candidate, get_training_source
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import (
    SetFolder,
    freeze_sets,
    load_rows,
    read_table,
    refuse_unfit_sets,
)
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.source import change_rows
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.tfidf import Tfidf, TfidfScorer
from biasgate.tasks.scoring.kinds.transformer import FineTuning, Transformer, TransformerScorer
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training_rows import write_training_rows

BASELINE, CLEAN = "baseline", "clean"
TEST_SHARE = 0.3
SUMS = ("fped", "fned", "pinned")
RATES = ("false_positive_rate", "false_negative_rate")
MIN_ROWS = 10  # the rate of an identity with fewer comments of a class says nothing
PARTS = 20  # of a set: the jackknife over rows leaves each out once
ROWS_A_STEP = 5_000
# A training may choose rows by a hash of seed and text, as splits do: it has other seeds.
SEEDS = 1_000


@dataclass(frozen=True)
class Scored:
    """Rows with scores; `parts` says which part of the jackknife each is in, if there is one."""

    y_true: np.ndarray
    y_score: np.ndarray
    masks: Mapping[str, np.ndarray]
    parts: np.ndarray | None = None

    def without(self, part: int) -> Scored:
        """Return all rows but those of a part."""
        kept = self.parts != part
        masks = {name: mask[kept] for name, mask in self.masks.items()}
        return Scored(self.y_true[kept], self.y_score[kept], masks)


@dataclass
class Numbers:
    """What was measured of one method on one split, by number and set."""

    values: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, list[float]] = field(default_factory=dict)
    identities: dict[tuple[str, str, str], float] = field(default_factory=dict)


Trial = dict[str, Numbers]


class Experiment:
    """An evaluation file, its sets frozen in a store."""

    def __init__(self, path: Path, store: Path) -> None:
        content = yaml.safe_load(path.read_text("utf-8"))
        own = content.pop("experiment", {})
        self.splits, pairs, clean = own.get("splits", 10), own.get("pairs", []), own.get("clean")
        self.store = store
        evaluation = _read(content, path)
        more = [*pairs, *([clean] if clean else [])]
        extra = _read(content | {"evaluation_sets": more}, path).evaluation_sets if more else ()
        self.candidate = choose_candidate(evaluation.candidates, None)
        self.mitigation = evaluation.mitigation or Mitigation()
        self.sets = freeze_sets(
            get_training_source(self.candidate),
            evaluation.evaluation_sets,
            self.mitigation,
            lambda one: self._frozen(one).folder,
        )
        refuse_unfit_sets(self.sets, self.mitigation)
        folders = [self._frozen(one) for one in extra]
        self.pairs = folders[: len(pairs)]
        self.clean = folders[-1] if clean else None

    def _frozen(self, source: SourceSettings) -> SetFolder:
        return SetFolder(source, str(freeze_source(source, self.store).folder))

    def trial(self, seed: int) -> Trial:
        """Train and measure every method on one split."""
        mitigation, sets = self.mitigation, self.sets
        whole = load_rows(sets.training, mitigation)
        place = np.array([hash_to_fraction(f"{seed}\n{text}") for text in whole.texts])
        train = whole.select_rows(place >= TEST_SHARE)
        test = whole.select_rows(place < TEST_SHARE / 2)
        tune = whole.select_rows((place >= TEST_SHARE / 2) & (place < TEST_SHARE))
        pool = sets.pool and load_rows(sets.pool, mitigation, whole=False)
        found = {BASELINE: self._trained(train.table, seed, test, tune).numbers()}
        if self.clean is not None:
            found[CLEAN] = self._trained(self._clean(train), seed, test, tune).numbers()
        for method in mitigation.list_methods():
            try:
                table, _ = change_rows(method, train, pool, seed)
                found[method.called] = self._trained(table, seed, test, tune).numbers()
            except MethodUndoneError as error:
                print(f"split {seed}: {method.called}: {error}")
        return found

    def _clean(self, train: TrainingRows) -> pa.Table:
        table = read_table(self.clean)
        wanted = set(train.table["id"].to_pylist())
        kept = table.filter(pa.array([one in wanted for one in table["id"].to_pylist()]))
        if kept.num_rows != train.n:
            raise SystemExit("`clean` must have the ids of the training set")
        return kept

    def _trained(
        self, table: pa.Table, seed: int, test: TrainingRows, tune: TrainingRows
    ) -> Measured:
        with own_folder(self.store / "work", ".trial-") as folder:
            rows = freeze_rows(
                [table], folder / "rows", name="rows", split="all", source={"source": "mitigated"}
            )
            scorer = fitted(seeded(self.candidate, SEEDS + seed), rows, folder / "model")
            return Measured.of(self, scorer, test, tune)


class InMemory(TfidfScorer):
    """A pipeline that was just fitted: to write and read it takes longer than to fit it."""

    def __init__(self, candidate: Tfidf, rows: EvaluationSet, folder: Path) -> None:
        self.files, self.digest = folder, ""
        self._predict = candidate._fit_pipeline(rows).predict_proba  # noqa: SLF001


def seeded(candidate: CandidateSettings, seed: int) -> CandidateSettings:
    """Return the candidate, whose training draws by this seed if it draws at all."""
    if not isinstance(candidate, Transformer):
        return candidate
    options = (candidate.fine_tuning or FineTuning()).model_copy(update={"seed": seed})
    return candidate.model_copy(update={"fine_tuning": options})


def fitted(candidate: CandidateSettings, rows: EvaluationSet, folder: Path) -> Scorer:
    """Train, and return a scorer; the model is not kept."""
    if isinstance(candidate, Tfidf):
        folder.mkdir()
        write_training_rows(rows, folder)
        return InMemory(candidate, rows, folder)
    if not isinstance(candidate, Transformer):
        raise SystemExit("a candidate must be of kind tfidf or transformer")
    candidate.fit(rows, folder, lambda *_: None)
    return TransformerScorer(candidate.pin_version("models:/fitted/1"), folder)


def scores_of(scorer: Scorer, table: pa.Table) -> np.ndarray:
    """Score all rows of a table."""
    batches = table.select(list(scorer.columns)).to_batches(ROWS_A_STEP)
    parts = [scorer.score(batch) for batch in batches if batch.num_rows]
    scores = [part if isinstance(part, np.ndarray) else part.scores for part in parts]
    found = np.concatenate([np.empty(0), *scores])
    if np.isnan(found).any():
        raise SystemExit("the candidate must score every comment; it refused some")
    return found


@dataclass(frozen=True)
class Measured:
    """All rows with the scores of one model."""

    test: Scored
    tuned: Scored
    sets: Mapping[str, Scored]
    pairs: Sequence[np.ndarray]

    @classmethod
    def of(
        cls, experiment: Experiment, scorer: Scorer, test: TrainingRows, tune: TrainingRows
    ) -> Measured:
        """Score every set, none of which the model has learned."""
        mitigation, sets = experiment.mitigation, experiment.sets

        def scored(rows: TrainingRows) -> Scored:
            return Scored(rows.labels, scores_of(scorer, rows.table), rows.masks)

        for one in (*sets.evaluated, *experiment.pairs):
            experiment.candidate.refuse_unfit(one.load(), scorer.files)
        shown = {one.source.name: load_rows(one, mitigation, whole=False) for one in sets.evaluated}
        pairs = [read_table(one) for one in experiment.pairs]
        order = [np.argsort([str(one) for one in table["id"].to_pylist()]) for table in pairs]
        return cls(
            scored(test),
            scored(tune),
            {
                name: replace(scored(rows), parts=parts_of(rows.table))
                for name, rows in shown.items()
            },
            [scores_of(scorer, table)[at] for table, at in zip(pairs, order, strict=True)],
        )

    def numbers(self) -> Numbers:
        """Measure, at the threshold of equal errors when tuning."""
        threshold = equal_error_rate(self.tuned.y_true, self.tuned.y_score).threshold
        if threshold is None:
            raise SystemExit("tuning rows must have both classes")
        found = Numbers()
        for key, value in overall(replace(self.test, masks={}), threshold).items():
            found.values[f"{key}/general"] = value
        for name, rows in self.sets.items():
            _measure(found, name, rows, threshold)
        if self.pairs:
            first, second = self.pairs
            found.values["mean_absolute_gap/pairs"] = float(np.abs(second - first).mean())
        return found


def _measure(found: Numbers, name: str, rows: Scored, threshold: float) -> None:
    toxic = rows.y_true
    enough = {
        one: mask
        for one, mask in rows.masks.items()
        if min((mask & toxic).sum(), (mask & ~toxic).sum()) >= MIN_ROWS
    }
    rows = replace(rows, masks=enough)
    for key, value in overall(rows, threshold).items():
        found.values[f"{key}/{name}"] = value
        found.left_out[f"{key}/{name}"] = []
    for part in range(0 if rows.parts is None else int(rows.parts.max()) + 1):
        for key, value in overall(rows.without(part), threshold).items():
            found.left_out[f"{key}/{name}"].append(value)
    for one, mask in enough.items():
        for metric in SUBGROUP_METRICS:
            value = getattr(bias_metrics, metric)(toxic, rows.y_score, mask)
            found.identities[name, one, metric] = _plain(value)
        errors = error_rates(toxic[mask], rows.y_score[mask], threshold=threshold)
        for metric in RATES:
            found.identities[name, one, metric] = _plain(errors.rate(metric))


def overall(rows: Scored, threshold: float) -> dict[str, float]:
    """Return AUC, error rates and, where there are identities, the equality differences."""
    rows_of_all = rows.y_true, rows.y_score
    errors = error_rates(*rows_of_all, threshold=threshold)
    found = {"auc": roc_auc(*rows_of_all)} | {name: errors.rate(name) for name in RATES}
    if rows.masks:
        found |= {
            "fped": fped(*rows_of_all, rows.masks, threshold=threshold).value,
            "fned": fned(*rows_of_all, rows.masks, threshold=threshold).value,
            "pinned": pinned_auc_equality_difference(*rows_of_all, rows.masks).value,
        }
    return {name: _plain(one) for name, one in found.items()}


def parts_of(table: pa.Table) -> np.ndarray | None:
    """Divide rows into at most `PARTS` parts, whole clusters by a hash; None if there is one."""
    clusters = table["cluster" if "cluster" in table.column_names else "id"].to_pylist()
    order = sorted(set(map(str, clusters)), key=hash_to_fraction)
    part = {one: at % PARTS for at, one in enumerate(order)}
    return np.array([part[str(one)] for one in clusters]) if len(order) > 1 else None


def _plain(value: Any) -> float:
    return math.nan if value.value is None else float(value.value)


def _read(content: Mapping[str, Any], path: Path) -> Any:
    """Read an evaluation file whose own section was taken out; paths are relative to its folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=path.parent) as file:
        yaml.safe_dump(dict(content), file)
        file.flush()
        return read_evaluation(Path(file.name))


def over_splits(trials: Sequence[Trial], method: str, key: str) -> OverSplits:
    """Return one number of one method on every split."""
    rows = [one[method].left_out.get(key) for one in trials]
    left_out = np.array(rows) if all(rows) else None
    return OverSplits(np.array([one[method].values[key] for one in trials]), left_out)


def tables(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield the tables: means, differences, and what is recovered of a planted bias."""
    methods = [name for name in trials[0] if all(name in one for one in trials)]
    keys = [
        one
        for one in trials[0][BASELINE].values
        if one.startswith((*SUMS, "auc", "mean")) or one.endswith("/general")
    ]
    number = {(one, key): over_splits(trials, one, key) for one in methods for key in keys}
    yield _table("mean", methods, keys, lambda one, key: number[one, key].interval(TEST_SHARE))
    for other in [BASELINE, *(one for one in methods if one == "random")]:
        rest = [one for one in methods if one not in {other, BASELINE}]
        yield _table(
            f"minus {other}",
            rest,
            keys,
            lambda one, key, other=other: (number[one, key] - number[other, key]).interval(
                TEST_SHARE
            ),
        )
    if CLEAN in methods:
        sums = [key for key in keys if key.startswith(SUMS)]
        rest = [one for one in methods if one not in {BASELINE, CLEAN}]
        yield _table(
            "recovered",
            rest,
            sums,
            lambda one, key: recovered(
                number[BASELINE, key], number[one, key], number[CLEAN, key], TEST_SHARE
            ),
        )


def _table(title: str, methods: Sequence[str], keys: Sequence[str], cell: Any) -> str:
    lines = [[title, *keys], ["---"] * (1 + len(keys))]
    lines += [[one, *(str(cell(one, key)) for key in keys)] for one in methods]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def harm(metric: str, before: float, after: float) -> float:
    """Return by how much a number became worse: above 0 is worse, whatever the metric."""
    if metric in AEGS:
        return abs(after) - abs(before)
    return before - after if metric in AUCS else after - before


def write_costs(trials: Sequence[Trial], path: Path) -> None:
    """Write every number of every identity before and after each method, worst change first.

    Intervals are over splits alone: they say how sure a number is on these comments, not on others.
    """
    found = []
    for method in trials[0]:
        if method == BASELINE or not all(method in one for one in trials):
            continue
        for place in trials[0][method].identities:
            before, after = (
                np.array([one[name].identities[place] for one in trials])
                for name in (BASELINE, method)
            )
            worse = [harm(place[2], *pair) for pair in zip(before, after, strict=True)]
            change: Interval = OverSplits(np.array(worse)).interval(TEST_SHARE)
            means = float(before.mean()), float(after.mean())
            found.append((method, *place, *means, change.value, change.low, change.high))
    found.sort(key=lambda row: -np.nan_to_num(row[6]))
    head = ["method", "set", "identity", "metric", "before", "after", "worse_by"]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*head, "low_over_splits", "high_over_splits"], *found])


def main() -> None:
    """Run the experiment of a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--splits", type=int, help="replaces those of the file")
    parser.add_argument("--store", type=Path, default=Path(".biasgate"))
    parser.add_argument("--costs", type=Path, default=Path("costs.csv"))
    options = parser.parse_args()
    with redirect_temporary_files():
        experiment = Experiment(options.file.resolve(), options.store.resolve())
        trials = [experiment.trial(seed) for seed in range(options.splits or experiment.splits)]
    print(*tables(trials), sep="\n\n")
    write_costs(trials, options.costs)
    print(f"\nEvery identity before and after: {options.costs}")


if __name__ == "__main__":
    main()
