"""Counts of scores, shard by shard, against exact ranks, an SQL engine and even thresholds.

Ten million generated rows and 24 subgroups, in shards of a million. The scores crowd near 0, as
those of classifiers of rare classes do. Each contender runs in a process of its own, so that its
peak memory is known, and computes the overall AUC and five numbers for each subgroup:

- counts: `ScoreCounts` of each shard, added; the report, and the brackets of its numbers
- exact: `evaluate_bias` of all rows at once
- duckdb: SQL on a Parquet file
- thresholds: histograms of 10,000 even thresholds, as in TensorFlow Model Analysis

What is counted must hold the exact numbers in its brackets, and DuckDB's must equal them.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._measurement import Measurement
from bias_metrics import BiasReport, Rows, ScoreCounts, evaluate_bias

ROWS, SHARD, GROUPS, SEED, BITS = 10_000_000, 1_000_000, 24, 20190513, 10
THRESHOLDS = 10_000
NAMES = [f"group {number}" for number in range(GROUPS)]
Numbers = dict[str | None, list[float]]


def measure(rows: int | None = None) -> Measurement:
    """Run the contenders one after the other."""
    n = rows or ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        alone(write, path, n)
        contenders = {
            "counts": by_counts,
            "exact": by_ranks,
            "duckdb": by_sql,
            "thresholds": by_thresholds,
        }
        found = {name: alone(contender, path) for name, contender in contenders.items()}
    exact = found["exact"]["numbers"]
    off = {name: farthest(one["numbers"], exact) for name, one in found.items()}
    assert off["duckdb"] <= 1e-12, f"DuckDB and evaluate_bias differ by {off['duckdb']}"
    own = found["counts"]
    for name, numbers in exact.items():
        for (low, high), number in zip(own["brackets"][name], numbers, strict=True):
            assert low - 1e-12 <= number <= high + 1e-12, f"{name}: {number} is not in its bracket"
    seconds = {name: one["seconds"] for name, one in found.items()}
    return Measurement(
        inputs={"rows": n, "shard": SHARD, "subgroups": GROUPS, "bits": BITS, "seed": SEED},
        figures={
            **{f"{name}: seconds of CPU": one for name, one in seconds.items()},
            **{f"{name}: peak GiB": one["peak"] for name, one in found.items()},
            **{f"{name}: farthest from exact": one for name, one in off.items()},
            "counts: kB": own["bytes"] / 1e3,
            "counts: widest bracket": own["widest"],
            "counts: widest bracket / standard error": own["relative"],
            **{f"{name} / counts": one / seconds["counts"] for name, one in seconds.items()},
        },
        packages=("numpy", "duckdb", "pyarrow"),
    )


def alone(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return what a function finds in a process of its own, with its CPU time and peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(timed, work, *arguments).result()


def timed(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run a function, and measure this process."""
    began = time.process_time()
    found = work(*arguments)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found | {"seconds": seconds, "peak": peak}


def write(path: str, n: int) -> dict[str, Any]:
    """Write labels, scores and independent subgroups, a shard for each row group."""
    rng = np.random.default_rng(SEED)
    shares = np.geomspace(0.001, 0.03, GROUPS)
    writer = None
    for begin in range(0, n, SHARD):
        size = min(SHARD, n - begin)
        y_true = rng.random(size) < 0.08
        logit = rng.normal(-6 + 4 * y_true, 2)
        columns = {"y": y_true, "score": 1 / (1 + np.exp(-logit))}
        columns |= {f"g{number}": rng.random(size) < share for number, share in enumerate(shares)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=SHARD)
    assert writer is not None
    writer.close()
    return {}


def shards_of(path: str) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Read labels, scores and subgroups, one shard at a time."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        y_true, score, *masks = (column.to_numpy() for column in table.columns)
        yield y_true, score, dict(zip(NAMES, masks, strict=True))


def by_counts(path: str) -> dict[str, Any]:
    """Count shard by shard."""
    counts = ScoreCounts.sum(
        ScoreCounts.of(Rows(y_true, masks), score, shard=str(number), bits=BITS)
        for number, (y_true, score, masks) in enumerate(shards_of(path))
    )
    report, brackets = counts.report(), counts.brackets()
    cells = {name: bias.by_metric() for name, bias in report.subgroups.items()}
    width = {
        name: [brackets[name][metric][1] - brackets[name][metric][0] for metric in of]  # type: ignore[index]
        for name, of in cells.items()
    }
    relative = [
        wide / cell.std_error  # type: ignore[operator]
        for name, of in cells.items()
        for wide, cell in zip(width[name], of.values(), strict=True)
    ]
    known = {name: [brackets[name][metric] for metric in of] for name, of in cells.items()}
    return {
        "numbers": numbers_of(report),
        "brackets": known | {None: [brackets[None]["auc"]]},
        "bytes": len(counts.to_bytes()),
        "widest": max(max(of) for of in width.values()),
        "relative": max(relative),
    }


def by_ranks(path: str) -> dict[str, Any]:
    """Rank all rows."""
    parts = list(shards_of(path))
    y_true, score = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    masks = {name: np.concatenate([part[2][name] for part in parts]) for name in NAMES}
    del parts
    return {"numbers": numbers_of(evaluate_bias(y_true, score, masks, intervals="cells"))}


def numbers_of(report: BiasReport) -> Numbers:
    """Return the overall AUC and the five numbers of each subgroup."""
    cells = {
        name: [float(cell) for cell in bias.by_metric().values()]
        for name, bias in report.subgroups.items()
    }
    return {**cells, None: [float(report.overall.auc)]}


def by_sql(path: str) -> dict[str, Any]:
    """Sum pairs over distinct scores, with a tie as one half: one query for each subgroup."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET enable_progress_bar = false")
    overall = sql_sums(connection, path, "true", [("n", "p", 0.0)])
    sides = [("n", "p", 0.0), ("n", "q", 0.0), ("m", "p", 0.0), ("q", "p", 0.5), ("m", "n", 0.5)]
    groups = (sql_sums(connection, path, f"g{number}", sides) for number in range(GROUPS))
    return {"numbers": {None: overall} | dict(zip(NAMES, groups, strict=True))}


def sql_sums(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    group: str,
    sides: list[tuple[str, str, float]],
) -> list[float]:
    """Return P(upper > lower) minus a number; p, n are the group's classes, q, m the others'."""
    counts = {
        "p": f"y AND {group}",
        "n": f"NOT y AND {group}",
        "q": f"y AND NOT {group}",
        "m": f"NOT y AND NOT {group}",
    }
    used = sorted({name for lower, upper, _ in sides for name in (lower, upper)})
    tallies = ", ".join(f"count(*) FILTER ({counts[name]}) AS {name}" for name in used)
    below = ", ".join(f"sum({name}) OVER w - {name} / 2 AS below_{name}" for name in used)
    values = ", ".join(
        f"sum({upper} * below_{lower}) / (sum({upper}) * sum({lower})) - {less}"
        for lower, upper, less in sides
    )
    query = f"""
        WITH tallied AS (SELECT score, {tallies} FROM read_parquet('{path}') GROUP BY score),
        placed AS (SELECT *, {below} FROM tallied WINDOW w AS (ORDER BY score))
        SELECT {values} FROM placed
    """  # noqa: S608
    row = connection.execute(query).fetchone()
    assert row is not None
    return [float(value) for value in row]


def by_thresholds(path: str) -> dict[str, Any]:
    """Count rows between even thresholds."""
    edges = np.linspace(0, 1, THRESHOLDS + 1)
    sums = np.zeros((GROUPS + 1, 2, THRESHOLDS), dtype=np.int64)
    for y_true, score, masks in shards_of(path):
        code = 2 * (np.searchsorted(edges, score, side="right") - 1) + ~y_true
        for place, which in enumerate([slice(None), *map(np.flatnonzero, masks.values())]):
            tallies = np.bincount(code[which], minlength=2 * THRESHOLDS)
            sums[place] += tallies.reshape(-1, 2).T
    everyone = sums[0]

    def auc(lower: Any, upper: Any) -> float:
        below = np.cumsum(lower) - lower / 2
        return float(upper @ below / (upper.sum() * lower.sum()))

    found: Numbers = {None: [auc(everyone[1], everyone[0])]}
    for name, (positive, negative) in zip(NAMES, sums[1:], strict=True):
        others = everyone[0] - positive, everyone[1] - negative
        found[name] = [
            auc(negative, positive),
            auc(negative, others[0]),
            auc(others[1], positive),
            auc(others[0], positive) - 0.5,
            auc(others[1], negative) - 0.5,
        ]
    return {"numbers": found}


def farthest(numbers: Numbers, exact: Numbers) -> float:
    """Return the largest absolute difference."""
    return max(float(np.abs(np.subtract(numbers[name], exact[name])).max()) for name in exact)
