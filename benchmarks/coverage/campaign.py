"""Draw every case, and save each result, so that an interrupted campaign can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.coverage import (
    aggregates,
    calibrated,
    cells,
    clustered,
    differences,
    rare,
    rates,
    weighted,
)
from benchmarks.coverage.case import Case, Coverage

RESULTS = Path(__file__).parent.parent / "results" / "coverage.json"
Results = dict[str, dict[str, Coverage]]
"""Coverage by case and number."""


@dataclass(frozen=True)
class Section:
    """Cases of a table; `head` names the parts of their descriptions."""

    name: str
    title: str
    head: Sequence[str]
    cases: Sequence[Case]
    draws: int = 2_000
    """Samples per case."""

    def get_key(self, case: Case) -> str:
        """Return the key of a case in the results."""
        return f"{self.draws} x {case!r}"


SECTIONS = (
    Section("cells", "single AUC", cells.HEAD, cells.CELLS),
    Section(
        "spreads", "single AUC of classes that are spread unequally", cells.HEAD, cells.SPREADS
    ),
    Section(
        "tiny",
        "power means and final score with a tiny group",
        aggregates.TINY_HEAD,
        aggregates.TINY,
    ),
    Section(
        "differing", "final score of groups that differ", aggregates.HEAD, aggregates.DIFFERING
    ),
    Section(
        "paired", "difference of two models on the same rows", differences.HEAD, differences.PAIRED
    ),
    Section(
        "power",
        "the same: how often a model is non-inferior within .02",
        differences.HEAD,
        differences.POWER,
    ),
    Section("weighted", "weighted rows", weighted.HEAD, weighted.WEIGHTED),
    Section(
        "crossing", "clusters that hold rows of all groups", clustered.HEAD, clustered.CROSSING
    ),
    Section("nested", "clusters of a single group", clustered.HEAD, clustered.NESTED),
    Section(
        "apart",
        "the same, with a model not equally good for all groups",
        clustered.HEAD,
        clustered.APART,
    ),
    Section("few", "positives in a few of 200 clusters", clustered.HEAD, clustered.FEW),
    Section("large", "large clusters, of 120 rows on average", clustered.HEAD, clustered.LARGE),
    Section(
        "models", "difference of two models, in clusters", clustered.HEAD, clustered.TWO_MODELS
    ),
    Section("many", "single AUC in clusters", clustered.HEAD[:-1], clustered.MANY),
    Section(
        "wide",
        "the same, with widths near the limit and more samples",
        clustered.HEAD[:-1],
        clustered.WIDE,
        20_000,
    ),
    Section("rates", "gap of an error rate, in clusters", rates.HEAD, rates.RATES),
    Section(
        "shared",
        "the same, with subgroup and background in the same clusters",
        rates.HEAD,
        rates.SHARED,
    ),
    Section(
        "rare",
        "single AUC if few threads or rows decide: all samples, and samples without a warning",
        rare.HEAD,
        rare.RARE,
    ),
    Section("calibrated", "gaps of calibration", calibrated.HEAD, calibrated.CALIBRATED),
)


def draw_cases(sections: Iterable[Section], *, workers: int, fresh: bool = False) -> Results:
    """Draw the cases without a result; return all results.

    Results are saved in benchmarks/results/coverage.json after each case; `fresh` draws the given
    sections again.
    """
    wanted = {
        section.get_key(case): (case, section.draws)
        for section in sections
        for case in section.cases
    }
    results = {key: result for key, result in load().items() if not (fresh and key in wanted)}
    missing = {key: case for key, case in wanted.items() if key not in results}
    with ProcessPoolExecutor(workers) as pool:
        started = {
            pool.submit(case.measure_coverage, draws): key for key, (case, draws) in missing.items()
        }
        for n_done, future in enumerate(as_completed(started), 1):
            results[started[future]] = future.result()
            save(results)
            print(f"{n_done} of {len(missing)}: {started[future]}", flush=True)
    return results


def load() -> Results:
    """Return the saved results."""
    if not RESULTS.exists():
        return {}
    return {
        key: {
            name: Coverage(**{k: math.nan if v is None else v for k, v in saved.items()})
            for name, saved in numbers.items()
        }
        for key, numbers in json.loads(RESULTS.read_text(encoding="utf-8")).items()
    }


def save(results: Results) -> None:
    """Save the results, with a line for each case."""
    lines = []
    for key in sorted(results):
        numbers = {
            name: {k: None if math.isnan(v) else v for k, v in asdict(coverage).items()}
            for name, coverage in results[key].items()
        }
        lines.append(f"{json.dumps(key)}: {json.dumps(numbers, allow_nan=False)}")
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
