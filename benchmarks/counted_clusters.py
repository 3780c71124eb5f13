"""Counts of rows in clusters, against all rows in memory.

The rows of `counted_rows`, with scores that are alike within a cluster. The largest cluster has
about 1 / sqrt(number of clusters) of all rows. DuckDB sorts them by cluster.
Up to 2 million rows every interval must hold that of `compare_bias`, and may be little wider.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks._made_scores import MODELS
from benchmarks._measurement import Measurement
from benchmarks.counted_rows import SEED, SHARD, alone, by_command, write
from bias_metrics import BiasComparison, compare_bias
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.evidence.counted import FILE, CountedEvidence

MOST_EXACT = 2_000_000
Ends = dict[str, list[tuple[Any, Any]]]


def measure(rows: int | None = None) -> Measurement:
    """Count rows of 20,000 clusters for every 200,000, at most 400,000 clusters."""
    n = rows or 200_000
    n_clusters = min(n // 10, 400_000)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as name:
        folder = Path(name)
        alone(write, folder, n, n_clusters)
        found = by_command(folder)
        wider: dict[str, float] = {}
        if n <= MOST_EXACT:
            exact, own = alone(by_ranks, folder), alone(by_counts, folder)
            found |= {f"exact, {what}": exact[what] for what in ("seconds", "peak")}
            ratios = [
                ratio
                for name, ends in exact["ends"].items()
                for ratio in compared(own["ends"][name], ends)
            ]
            wider = {
                "intervals": float(len(ratios)),
                "counts / exact, median": float(np.median(ratios)),
                "counts / exact, most": max(ratios),
            }
    return Measurement(
        inputs={"rows": n, "clusters": n_clusters, "shard": SHARD, "seed": SEED},
        figures={**found, **wider},
        packages=("numpy", "duckdb", "pyarrow", "prefect"),
    )


def by_ranks(folder: Path) -> dict[str, Any]:
    """Rank all rows."""
    table = pq.read_table(folder / "shards")
    masks = {name: table[name].to_numpy() >= 0.5 for name in IDENTITIES}
    scores = [table[name].to_numpy() for name in MODELS.values()]
    y_true, threads = table["toxicity"].to_numpy() >= 0.5, table["thread"].to_numpy()
    return {"ends": ends_of(compare_bias(y_true, *scores, masks, clusters=threads))}


def by_counts(folder: Path) -> dict[str, Any]:
    """Read what was counted."""
    counts = CountedEvidence(folder / "out" / FILE).counts
    return {"ends": ends_of(counts["candidate"].compare(counts["champion"]))}


def ends_of(comparison: BiasComparison) -> Ends:
    """Return the intervals of each identity's numbers under both models, and of the differences."""
    found: Ends = {}
    for name, differences in comparison.subgroups.items():
        reports = (one.subgroups[name] for one in (comparison.first, comparison.second))
        cells: list[Any] = [cell for of in reports for cell in of.by_metric().values()]
        found[name] = [(one.low, one.high) for one in (*cells, *differences.values())]
    return found


def compared(own: list[tuple[Any, Any]], exact: list[tuple[Any, Any]]) -> list[float]:
    """Return how much wider intervals are; refuse one that does not hold the exact one."""
    ratios = []
    for (low, high), (from_, to) in zip(own, exact, strict=True):
        told = f"{low} to {high} does not hold {from_} to {to}"
        assert (low is None) == (from_ is None), told
        if from_ is not None:
            assert low - 1e-12 <= from_ <= to <= high + 1e-12, told
            ratios.append((high - low) / (to - from_))
    return ratios
