"""Train baseline, control and every method against bias on several splits, and compare them.

    python docs/reproduce/mitigation_experiment.py docs/reproduce/mitigation/planted.yaml

prints the tables of docs/evidence/mitigation.md. The file is an evaluation file with a section
`experiment`: `splits` (10), and the optional sources `pairs` and `clean`. Each split leaves out
30 % of the training set by a hash of the texts; thresholds are chosen on a half, and the other half
is the general test set.
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
from over_splits import OverSplits, compute_recovery

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
MIN_ROWS = 10  # of each class of an identity
PARTS = 20  # of a set: the jackknife over rows leaves each out once
ROWS_A_STEP = 5_000
# A training may choose rows by a hash of seed and text, as splits do: its seeds must differ.
SEEDS = 1_000


@dataclass(frozen=True)
class Scored:
    """Rows with scores; `parts` are the rows' parts in the jackknife."""

    y_true: np.ndarray
    y_score: np.ndarray
    masks: Mapping[str, np.ndarray]
    parts: np.ndarray | None = None

    def without(self, part: int) -> Scored:
        """Return all rows without those of a part."""
        kept = self.parts != part
        masks = {name: mask[kept] for name, mask in self.masks.items()}
        return Scored(self.y_true[kept], self.y_score[kept], masks)


@dataclass
class Numbers:
    """Numbers of a method on a split, by number and set."""

    values: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, list[float]] = field(default_factory=dict)
    identities: dict[tuple[str, str, str], float] = field(default_factory=dict)


Trial = dict[str, Numbers]


class Experiment:
    """An evaluation file, its sets frozen in a store."""

    def __init__(self, path: Path, store: Path) -> None:
        content = yaml.safe_load(path.read_text("utf-8"))
        settings = content.pop("experiment", {})
        self.splits, pairs = settings.get("splits", 10), settings.get("pairs", [])
        clean = settings.get("clean")
        self.store = store
        evaluation = _read_content(content, path)
        sources = [*pairs, *([clean] if clean else [])]
        if sources:
            sources = _read_content(content | {"evaluation_sets": sources}, path).evaluation_sets
        self.candidate = choose_candidate(evaluation.candidates, None)
        self.mitigation = evaluation.mitigation or Mitigation()
        self.sets = freeze_sets(
            get_training_source(self.candidate),
            evaluation.evaluation_sets,
            self.mitigation,
            lambda source: self._freeze_set(source).folder,
        )
        refuse_unfit_sets(self.sets, self.mitigation)
        folders = [self._freeze_set(source) for source in sources]
        self.pairs = folders[: len(pairs)]
        self.clean = folders[-1] if clean else None

    def _freeze_set(self, source: SourceSettings) -> SetFolder:
        return SetFolder(source, str(freeze_source(source, self.store).folder))

    def run_trial(self, seed: int) -> Trial:
        """Train and measure every method on a split."""
        mitigation, sets = self.mitigation, self.sets
        whole = load_rows(sets.training, mitigation)
        place = np.array([hash_to_fraction(f"{seed}\n{text}") for text in whole.texts])
        train = whole.select_rows(place >= TEST_SHARE)
        test = whole.select_rows(place < TEST_SHARE / 2)
        tune = whole.select_rows((place >= TEST_SHARE / 2) & (place < TEST_SHARE))
        pool = sets.pool and load_rows(sets.pool, mitigation, whole=False)
        trial = {BASELINE: self._measure_training(train.table, seed, test, tune)}
        if self.clean is not None:
            trial[CLEAN] = self._measure_training(self._select_clean(train), seed, test, tune)
        for method in mitigation.list_methods():
            try:
                table, _ = change_rows(method, train, pool, seed)
                trial[method.called] = self._measure_training(table, seed, test, tune)
            except MethodUndoneError as error:
                print(f"split {seed}: {method.called}: {error}")
        return trial

    def _select_clean(self, train: TrainingRows) -> pa.Table:
        table = read_table(self.clean)
        ids = set(train.table["id"].to_pylist())
        kept = table.filter(pa.array([row_id in ids for row_id in table["id"].to_pylist()]))
        if kept.num_rows != train.n:
            raise SystemExit("`clean` must have the ids of the training set")
        return kept

    def _measure_training(
        self, table: pa.Table, seed: int, test: TrainingRows, tune: TrainingRows
    ) -> Numbers:
        with own_folder(self.store / "work", ".trial-") as folder:
            rows = freeze_rows(
                [table], folder / "rows", name="rows", split="all", source={"source": "mitigated"}
            )
            scorer = train_scorer(set_seed(self.candidate, SEEDS + seed), rows, folder / "model")
            return Scores.from_scorer(self, scorer, test, tune).measure_numbers()


class InMemory(TfidfScorer):
    """A pipeline that was just fitted, since files would take longer than fitting."""

    def __init__(self, candidate: Tfidf, rows: EvaluationSet, folder: Path) -> None:
        self.files, self.digest = folder, ""
        self._predict = candidate._fit_pipeline(rows).predict_proba  # noqa: SLF001


def set_seed(candidate: CandidateSettings, seed: int) -> CandidateSettings:
    """Return the candidate with the seed of its training, if its training draws."""
    if not isinstance(candidate, Transformer):
        return candidate
    options = (candidate.fine_tuning or FineTuning()).model_copy(update={"seed": seed})
    return candidate.model_copy(update={"fine_tuning": options})


def train_scorer(candidate: CandidateSettings, rows: EvaluationSet, folder: Path) -> Scorer:
    """Train, and return a scorer of the model in the folder."""
    if isinstance(candidate, Tfidf):
        folder.mkdir()
        write_training_rows(rows, folder)
        return InMemory(candidate, rows, folder)
    if not isinstance(candidate, Transformer):
        raise SystemExit("a candidate must be of kind tfidf or transformer")
    candidate.fit(rows, folder, lambda *_: None)
    return TransformerScorer(candidate.pin_version("models:/fitted/1"), folder)


def score_table(scorer: Scorer, table: pa.Table) -> np.ndarray:
    """Score all rows of a table."""
    batches = table.select(list(scorer.columns)).to_batches(ROWS_A_STEP)
    parts = [scorer.score(batch) for batch in batches if batch.num_rows]
    scores = [part if isinstance(part, np.ndarray) else part.scores for part in parts]
    joined = np.concatenate([np.empty(0), *scores])
    if np.isnan(joined).any():
        raise SystemExit("the candidate must score every comment; it refused some")
    return joined


@dataclass(frozen=True)
class Scores:
    """All rows with the scores of a model."""

    test: Scored
    tuned: Scored
    sets: Mapping[str, Scored]
    pairs: Sequence[np.ndarray]

    @classmethod
    def from_scorer(
        cls, experiment: Experiment, scorer: Scorer, test: TrainingRows, tune: TrainingRows
    ) -> Scores:
        """Score every set; a set that the model has learned is refused."""
        mitigation, sets = experiment.mitigation, experiment.sets

        def score_rows(rows: TrainingRows) -> Scored:
            return Scored(rows.labels, score_table(scorer, rows.table), rows.masks)

        for folder in (*sets.evaluated, *experiment.pairs):
            experiment.candidate.refuse_unfit(folder.load(), scorer.files)
        evaluated = {}
        for folder in sets.evaluated:
            rows = load_rows(folder, mitigation, whole=False)
            evaluated[folder.source.name] = replace(score_rows(rows), parts=divide_rows(rows.table))
        pairs = []
        for folder in experiment.pairs:
            table = read_table(folder)
            order = np.argsort([str(row_id) for row_id in table["id"].to_pylist()])
            pairs.append(score_table(scorer, table)[order])
        return cls(score_rows(test), score_rows(tune), evaluated, pairs)

    def measure_numbers(self) -> Numbers:
        """Measure, at the threshold of equal errors of the tuning rows."""
        threshold = equal_error_rate(self.tuned.y_true, self.tuned.y_score).threshold
        if threshold is None:
            raise SystemExit("tuning rows must have both classes")
        numbers = Numbers()
        for key, value in measure_overall(replace(self.test, masks={}), threshold).items():
            numbers.values[f"{key}/general"] = value
        for name, rows in self.sets.items():
            _add_numbers(numbers, name, rows, threshold)
        if self.pairs:
            first, second = self.pairs
            numbers.values["mean_absolute_gap/pairs"] = float(np.abs(second - first).mean())
        return numbers


def _add_numbers(numbers: Numbers, name: str, rows: Scored, threshold: float) -> None:
    toxic = rows.y_true
    masks = {
        identity: mask
        for identity, mask in rows.masks.items()
        if min((mask & toxic).sum(), (mask & ~toxic).sum()) >= MIN_ROWS
    }
    rows = replace(rows, masks=masks)
    for key, value in measure_overall(rows, threshold).items():
        numbers.values[f"{key}/{name}"] = value
        numbers.left_out[f"{key}/{name}"] = []
    for part in range(0 if rows.parts is None else int(rows.parts.max()) + 1):
        for key, value in measure_overall(rows.without(part), threshold).items():
            numbers.left_out[f"{key}/{name}"].append(value)
    for identity, mask in masks.items():
        for metric in SUBGROUP_METRICS:
            value = getattr(bias_metrics, metric)(toxic, rows.y_score, mask)
            numbers.identities[name, identity, metric] = _to_float(value)
        errors = error_rates(toxic[mask], rows.y_score[mask], threshold=threshold)
        for metric in RATES:
            numbers.identities[name, identity, metric] = _to_float(errors.rate(metric))


def measure_overall(rows: Scored, threshold: float) -> dict[str, float]:
    """Return AUC and error rates, with identities also the equality differences."""
    arrays = rows.y_true, rows.y_score
    errors = error_rates(*arrays, threshold=threshold)
    numbers = {"auc": roc_auc(*arrays)} | {name: errors.rate(name) for name in RATES}
    if rows.masks:
        numbers |= {
            "fped": fped(*arrays, rows.masks, threshold=threshold).value,
            "fned": fned(*arrays, rows.masks, threshold=threshold).value,
            "pinned": pinned_auc_equality_difference(*arrays, rows.masks).value,
        }
    return {name: _to_float(number) for name, number in numbers.items()}


def divide_rows(table: pa.Table) -> np.ndarray | None:
    """Divide rows into at most `PARTS` parts, whole clusters by a hash; None for a single part."""
    clusters = table["cluster" if "cluster" in table.column_names else "id"].to_pylist()
    order = sorted(set(map(str, clusters)), key=hash_to_fraction)
    part = {cluster: index % PARTS for index, cluster in enumerate(order)}
    return np.array([part[str(cluster)] for cluster in clusters]) if len(order) > 1 else None


def _to_float(number: Any) -> float:
    return math.nan if number.value is None else float(number.value)


def _read_content(content: Mapping[str, Any], path: Path) -> Any:
    """Read the content of an evaluation file; paths are relative to its folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=path.parent) as file:
        yaml.safe_dump(dict(content), file)
        file.flush()
        return read_evaluation(Path(file.name))


def over_splits(trials: Sequence[Trial], method: str, key: str) -> OverSplits:
    """Return a number of a method on every split."""
    rows = [trial[method].left_out.get(key) for trial in trials]
    left_out = np.array(rows) if all(rows) else None
    return OverSplits(np.array([trial[method].values[key] for trial in trials]), left_out)


def iter_tables(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield the tables: means, differences, and the recovered share of a planted bias."""
    methods = [name for name in trials[0] if all(name in trial for trial in trials)]
    keys = [
        key
        for key in trials[0][BASELINE].values
        if key.startswith((*SUMS, "auc", "mean")) or key.endswith("/general")
    ]
    numbers = {
        (method, key): over_splits(trials, method, key) for method in methods for key in keys
    }
    yield _format_table(
        "mean", methods, keys, lambda method, key: numbers[method, key].interval(TEST_SHARE)
    )
    for rival in [BASELINE, *(method for method in methods if method == "random")]:
        yield _format_table(
            f"minus {rival}",
            [method for method in methods if method not in {rival, BASELINE}],
            keys,
            lambda method, key, rival=rival: (numbers[method, key] - numbers[rival, key]).interval(
                TEST_SHARE
            ),
        )
    if CLEAN in methods:
        yield _format_table(
            "recovered",
            [method for method in methods if method not in {BASELINE, CLEAN}],
            [key for key in keys if key.startswith(SUMS)],
            lambda method, key: compute_recovery(
                numbers[BASELINE, key], numbers[method, key], numbers[CLEAN, key], TEST_SHARE
            ),
        )


def _format_table(title: str, methods: Sequence[str], keys: Sequence[str], cell: Any) -> str:
    lines = [[title, *keys], ["---"] * (1 + len(keys))]
    lines += [[method, *(str(cell(method, key)) for key in keys)] for method in methods]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def compute_harm(metric: str, before: float, after: float) -> float:
    """Return the deterioration of a number: above 0 is worse, for any metric."""
    if metric in AEGS:
        return abs(after) - abs(before)
    return before - after if metric in AUCS else after - before


def write_costs(trials: Sequence[Trial], path: Path) -> None:
    """Write every number of every identity before and after each method, worst change first.

    Intervals are only over splits: they hold for these comments, not for others.
    """
    rows = []
    for method in trials[0]:
        if method == BASELINE or not all(method in trial for trial in trials):
            continue
        for place in trials[0][method].identities:
            before, after = (
                np.array([trial[name].identities[place] for trial in trials])
                for name in (BASELINE, method)
            )
            harms = [compute_harm(place[2], *pair) for pair in zip(before, after, strict=True)]
            change = OverSplits(np.array(harms)).interval(TEST_SHARE)
            means = float(before.mean()), float(after.mean())
            rows.append((method, *place, *means, change.value, change.low, change.high))
    rows.sort(key=lambda row: -np.nan_to_num(row[6]))
    head = ["method", "set", "identity", "metric", "before", "after", "worse_by"]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*head, "low_over_splits", "high_over_splits"], *rows])


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
        n_splits = options.splits or experiment.splits
        trials = [experiment.run_trial(seed) for seed in range(n_splits)]
    print(*iter_tables(trials), sep="\n\n")
    write_costs(trials, options.costs)
    print(f"\nEvery identity before and after: {options.costs}")


if __name__ == "__main__":
    main()
