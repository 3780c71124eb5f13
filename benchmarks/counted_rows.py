"""Counts of scores, shard by shard, against exact ranks, an SQL engine and even thresholds.

Generated rows of 24 identities with the scores of a candidate and its champion, in shards of a
million in the layout of Civil Comments. Each contender runs in its own process with its own peak
memory, and computes the overall AUC and five numbers per identity for both models:

- counts: shards are counted one after the other, added and compared
- command: `biasgate evaluate` and `biasgate verify`; memory is that of all their processes
- exact: `evaluate_bias` of all rows at once, up to 10 million; `compare_bias`, up to 2 million
- duckdb: SQL on the shards, with two threads; from 2 to 10 million rows only for one model and the
  first three identities
- thresholds: histograms of 10,000 even thresholds, as in TensorFlow Model Analysis

The brackets of counts must contain the exact numbers, bounds of differences must contain those of
the paired comparison, and DuckDB's numbers must be exact.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks._commands import run_command, sum_file_sizes
from benchmarks._measurement import Measurement, measure_own_peak
from bias_metrics import BiasTable, Key, ScoreCounts, compare_bias, evaluate_bias
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import count_scores
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.evidence.counted import FILE, Counted

ROWS, SHARD, SEED = 10_000_000, 1_000_000, 20190513
MOST_EXACT, MOST_COMPARED = 10_000_000, 2_000_000
THRESHOLDS = 10_000
MODELS = {"candidate": "new", "champion": "old"}
"""The columns of the models' scores."""
SHARES = dict(zip(IDENTITIES, np.geomspace(0.001, 0.03, len(IDENTITIES)).tolist(), strict=True))
"""Share of the rows that mention an identity."""
Numbers = dict[str | None, list[float]]


def measure(rows: int | None = None) -> Measurement:
    """Run the contenders one after the other."""
    n = rows or ROWS
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as name:
        folder = Path(name)
        _run_alone(write_shards, folder, n)
        contenders = {"counts": measure_by_counts, "thresholds": measure_by_thresholds}
        if n <= MOST_EXACT:
            contenders |= {"exact": measure_by_ranks, "duckdb": measure_by_sql}
        results = {name: _run_alone(contender, folder) for name, contender in contenders.items()}
        command = measure_command(folder)
        n_bytes = sum_file_sizes(folder / "shards")
    own = results["counts"]
    exactness: dict[str, float] = {}
    if "exact" in results:
        exact = results["exact"]
        exactness = {
            f"{name}: farthest from exact": compute_distance(result["numbers"], exact["numbers"])
            for name, result in results.items()
        }
        distance = exactness["duckdb: farthest from exact"]
        assert distance <= 1e-12, f"duckdb and evaluate_bias differ by {distance}"
        require_numbers_inside(own["brackets"], exact["numbers"])
        if n <= MOST_COMPARED:
            ratios = compare_bounds(own["differences"], exact["differences"])
            prefix = "counts: intervals of differences / paired"
            exactness[f"{prefix}, median"] = float(np.median(ratios))
            exactness[f"{prefix}, most"] = max(ratios)
    return Measurement(
        inputs={"rows": n, "shard": SHARD, "identities": len(IDENTITIES), "seed": SEED},
        figures={
            "shards: MB": n_bytes / 1e6,
            **{f"{name}: seconds": result["wall"] for name, result in results.items()},
            **{f"{name}: seconds of CPU": result["seconds"] for name, result in results.items()},
            **{f"{name}: peak GiB": result["peak"] for name, result in results.items()},
            **({"duckdb: queries": results["duckdb"]["queries"]} if "duckdb" in results else {}),
            **{f"counts: {name}": own[name] for name in ("kB", "widest bracket")},
            "counts: widest bracket / standard error": own["relative"],
            **exactness,
            **{f"counts: seconds of CPU, {stage}": time for stage, time in own["stages"].items()},
            **{f"command: {name}": value for name, value in command.items()},
            **{
                f"{name} / counts": result["seconds"] / own["seconds"]
                for name, result in results.items()
            },
        },
        packages=("numpy", "duckdb", "pyarrow", "prefect"),
    )


def _run_alone(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return the result of a function in its own process, with its CPU time and peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure_call, work, *arguments).result()


def _measure_call(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    began, clock = time.process_time(), time.perf_counter()
    result = work(*arguments)
    seconds, wall = time.process_time() - began, time.perf_counter() - clock
    return result | {"seconds": seconds, "wall": wall, "peak": measure_own_peak()}


def write_shards(folder: Path, n: int) -> dict[str, Any]:
    """Write the shards and the count file."""
    rng = np.random.default_rng(SEED)
    (folder / "shards").mkdir()
    for begin in range(0, n, SHARD):
        columns = generate_scores(rng, min(SHARD, n - begin))
        path = folder / f"shards/part-{begin // SHARD:03d}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=SHARD // 4)
    content = {
        "name": "chats",
        "source": "shards",
        "path": "shards/*.parquet",
        "label": "toxicity",
        "identities": list(IDENTITIES),
        **{role: {"name": name, "score": name} for role, name in MODELS.items()},
        "policy": "no-worse",
    }
    (folder / "chats.yaml").write_text(yaml.safe_dump(content))
    return {}


def generate_scores(rng: np.random.Generator, n: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of generated rows, with independent identities.

    Most scores are near 0, as is usual for classifiers of rare classes.
    """
    is_toxic = rng.random(n) < 0.08
    logits = rng.normal(-6 + 4 * is_toxic, 1.8)
    columns = {"toxicity": np.where(is_toxic, 0.8, 0.1)}
    for name, share in SHARES.items():
        is_mentioned = rng.random(n) < share
        columns[name] = is_mentioned.astype(np.float64)
        logits += 0.1 * is_mentioned
    for name in MODELS.values():
        columns[name] = 1 / (1 + np.exp(-logits - rng.normal(0, 0.8, n)))
    return columns


def iter_shards(folder: Path) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Read labels, scores of both models and identities, by shard."""
    for path in sorted((folder / "shards").iterdir()):
        table = pq.ParquetFile(path).read()
        masks = {name: table[name].to_numpy() >= 0.5 for name in IDENTITIES}
        scores = {role: table[name].to_numpy() for role, name in MODELS.items()}
        yield table["toxicity"].to_numpy() >= 0.5, scores, masks


def measure_by_counts(folder: Path) -> dict[str, Any]:
    """Count shard by shard, and add."""
    settings, _ = read_count_file(folder / "chats.yaml")
    stages = dict.fromkeys(("count", "as bytes", "add", "compare"), 0.0)

    def time_stage(name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = work()
        stages[name] += time.process_time() - began
        return result

    total: Counted | None = None
    for path in map(Path, settings.list_shards()):
        part = time_stage("count", lambda path=path: count_scores(settings, path))
        part = time_stage(
            "as bytes", lambda part=part: Counted.from_bytes(part.to_bytes(), "shard")
        )
        if total is not None:
            part = time_stage("add", lambda part=part, total=total: total + part)
        total = part
    assert total is not None
    first, second = total.counts.values()
    comparison = time_stage("compare", lambda: first.compare(second, total.pairs["champion"]))
    models = dict(zip(MODELS, map(describe_counts, (first, second)), strict=True))
    return {
        "numbers": {role: model["numbers"] for role, model in models.items()},
        "brackets": {role: model["brackets"] for role, model in models.items()},
        "differences": list_bounds(comparison),
        "kB": len(total.to_bytes()) / 1e3,
        "widest bracket": max(model["widest"] for model in models.values()),
        "relative": max(model["relative"] for model in models.values()),
        "stages": stages,
    }


def describe_counts(counts: ScoreCounts) -> dict[str, Any]:
    """Return the numbers of a model, and the widths of their brackets."""
    report, all_brackets = counts.report(), counts.brackets()
    cells = report.subgroups
    brackets: dict[str | None, Any] = {
        name: [all_brackets[Key(metric, name)] for metric in metrics]
        for name, metrics in cells.items()
    }
    widths = {name: [high - low for low, high in ends] for name, ends in brackets.items()}
    relative = [
        width / cell.std_error  # type: ignore[operator]
        for name, metrics in cells.items()
        for width, cell in zip(widths[name], metrics.values(), strict=True)
    ]
    return {
        "numbers": list_numbers(report),
        "brackets": brackets | {None: [all_brackets[Key("auc")]]},
        "widest": max(map(max, widths.values())),
        "relative": max(relative),
    }


def measure_by_ranks(folder: Path) -> dict[str, Any]:
    """Rank all rows."""
    parts = list(iter_shards(folder))
    y_true = np.concatenate([part[0] for part in parts])
    scores = {role: np.concatenate([part[1][role] for part in parts]) for role in MODELS}
    masks = {name: np.concatenate([part[2][name] for part in parts]) for name in IDENTITIES}
    del parts
    numbers = {
        role: list_numbers(evaluate_bias(y_true, y_score, masks, intervals="cells"))
        for role, y_score in scores.items()
    }
    if y_true.size > MOST_COMPARED:
        return {"numbers": numbers}
    differences = list_bounds(compare_bias(y_true, *scores.values(), masks))
    return {"numbers": numbers, "differences": differences}


def list_numbers(report: BiasTable) -> Numbers:
    """Return the overall AUC and the five numbers per identity."""
    cells = {
        name: [float(cell) for cell in bias.values()] for name, bias in report.subgroups.items()
    }
    return {**cells, None: [float(report.overall.auc)]}


def list_bounds(comparison: BiasTable) -> dict[str, list[tuple[float, float]]]:
    """Return the intervals of differences by identity."""
    return {
        name: [cell.ends for cell in cells.values() if cell.ends is not None]
        for name, cells in comparison.subgroups.items()
    }


def measure_by_sql(folder: Path) -> dict[str, Any]:
    """Sum pairs over distinct scores, with a tie as a half: a query per identity."""
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET enable_progress_bar = false")
    sides = [("n", "p", 0.0), ("n", "q", 0.0), ("m", "p", 0.0), ("q", "p", 0.5), ("m", "n", 0.5)]
    path, numbers = f"{folder}/shards/*.parquet", {}
    is_large = len(list((folder / "shards").iterdir())) * SHARD > MOST_COMPARED
    names, models = (IDENTITIES[:3], ["candidate"]) if is_large else (IDENTITIES, list(MODELS))
    for role in models:
        score = MODELS[role]
        overall = query_numbers(connection, path, score, "true", [("n", "p", 0.0)])
        groups = (query_numbers(connection, path, score, f"{name} >= 0.5", sides) for name in names)
        numbers[role] = {None: overall} | dict(zip(names, groups, strict=True))
    return {"numbers": numbers, "queries": (1 + len(names)) * len(models)}


def query_numbers(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    score: str,
    group: str,
    sides: list[tuple[str, str, float]],
) -> list[float]:
    """Return P(upper > lower) minus a number; p, n are the group's classes, q, m the others'."""
    y = "toxicity >= 0.5"
    counts = {
        "p": f"{y} AND {group}",
        "n": f"NOT {y} AND {group}",
        "q": f"{y} AND NOT {group}",
        "m": f"NOT {y} AND NOT {group}",
    }
    used = sorted({name for lower, upper, _ in sides for name in (lower, upper)})
    tallies = ", ".join(f"count(*) FILTER ({counts[name]}) AS {name}" for name in used)
    below = ", ".join(f"sum({name}) OVER w - {name} / 2 AS below_{name}" for name in used)
    values = ", ".join(
        f"sum({upper} * below_{lower}) / (sum({upper}) * sum({lower})) - {less}"
        for lower, upper, less in sides
    )
    query = f"""
        WITH tallied AS (
            SELECT {score}, {tallies} FROM read_parquet('{path}') GROUP BY {score}
        ),
        placed AS (SELECT *, {below} FROM tallied WINDOW w AS (ORDER BY {score}))
        SELECT {values} FROM placed
    """  # noqa: S608
    row = connection.execute(query).fetchone()
    assert row is not None
    return [float(value) for value in row]


def measure_by_thresholds(folder: Path) -> dict[str, Any]:
    """Count rows between even thresholds."""
    edges = np.linspace(0, 1, THRESHOLDS + 1)
    sums = np.zeros((2, len(IDENTITIES) + 1, 2, THRESHOLDS), dtype=np.int64)
    for y_true, scores, masks in iter_shards(folder):
        for model, score in enumerate(scores.values()):
            code = 2 * (np.searchsorted(edges, score, side="right") - 1) + ~y_true
            for place, rows in enumerate([slice(None), *map(np.flatnonzero, masks.values())]):
                tallies = np.bincount(code[rows], minlength=2 * THRESHOLDS)
                sums[model, place] += tallies.reshape(-1, 2).T
    return {"numbers": dict(zip(MODELS, map(measure_histograms, sums), strict=True))}


def measure_histograms(sums: npt.NDArray[np.int64]) -> Numbers:
    """Return the numbers of a model's histograms."""
    all_rows = sums[0]

    def auc(lower: Any, upper: Any) -> float:
        below = np.cumsum(lower) - lower / 2
        return float(upper @ below / (upper.sum() * lower.sum()))

    numbers: Numbers = {None: [auc(all_rows[1], all_rows[0])]}
    for name, (positive, negative) in zip(IDENTITIES, sums[1:], strict=True):
        others = all_rows[0] - positive, all_rows[1] - negative
        numbers[name] = [
            auc(negative, positive),
            auc(negative, others[0]),
            auc(others[1], positive),
            auc(others[0], positive) - 0.5,
            auc(others[1], negative) - 0.5,
        ]
    return numbers


def measure_command(folder: Path) -> dict[str, float]:
    """Run the command, and verify its results; memory is that of all processes together."""
    out, figures = folder / "out", {}
    for name, *arguments in (
        ("count", "evaluate", "chats.yaml", "--output", "out", "--store", "store"),
        ("verify", "verify", str(out)),
    ):
        ran = run_command(folder, *arguments, codes=(0, 3, 4))
        figures[f"{name}, seconds"] = ran.seconds
        figures[f"{name}, seconds of CPU"] = ran.states[-1].cpu
        figures[f"{name}, peak GiB"] = ran.peak
        if name == "count":
            # A stage ends when its files were last written.
            counted = max(path.stat().st_mtime for path in (out / "counts").iterdir())
            ends = [counted, (out / FILE).stat().st_mtime, ran.states[-1].time]
            seconds = np.diff([ran.states[0].time, *ends]).tolist()
            for stage, time_taken in zip(("shards", "deciding", "pages"), seconds, strict=True):
                figures[f"count, seconds: {stage}"] = time_taken
            disk = max(state.places.get("out", 0) for state in ran.states)
            figures["count, peak MB of disk"] = disk / 1e6
    figures["MB in out"] = sum_file_sizes(out) / 1e6
    return figures


def compute_distance(numbers: dict[str, Numbers], exact: dict[str, Numbers]) -> float:
    """Return the largest absolute difference."""
    return max(
        float(np.abs(np.subtract(own, exact[role][name])).max())
        for role, own_numbers in numbers.items()
        for name, own in own_numbers.items()
    )


def require_numbers_inside(brackets: dict[str, Any], exact: dict[str, Numbers]) -> None:
    """Require that each bracket contains the exact number."""
    for role, numbers in exact.items():
        for name, values in numbers.items():
            for (low, high), number in zip(brackets[role][name], values, strict=True):
                assert low - 1e-12 <= number <= high + 1e-12, f"{role}, {name}: {number}"


def compare_bounds(own: dict[str, Any], exact: dict[str, Any]) -> list[float]:
    """Require bounds of differences that contain the paired bounds; return the widths' ratios."""
    ratios = []
    for name, intervals in exact.items():
        for (low, high), (paired_low, paired_high) in zip(own[name], intervals, strict=True):
            slack = (paired_high - paired_low) / 100  # skewness is that of wide bins
            problem = f"{name}: {low} to {high}, not {paired_low} to {paired_high}"
            assert low - slack <= paired_low <= paired_high <= high + slack, problem
            ratios.append((high - low) / (paired_high - paired_low))
    return ratios
