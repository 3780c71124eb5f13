"""Counts of scores, shard by shard, against exact ranks, an SQL engine and even thresholds.

Generated rows of 24 identities with the scores of a candidate and its champion, in shards of a
million in the layout of Civil Comments. Each contender runs in a process of its own, so that its
peak memory is known, and computes the overall AUC and five numbers of each identity for both
models:

- counts: shards are counted one after the other, added and compared
- command: `biasgate evaluate` and `biasgate verify`; memory is that of all their processes
- exact: `evaluate_bias` of all rows at once, up to 10 million; `compare_bias`, up to 2 million
- duckdb: SQL on the shards, with two threads; from 2 to 10 million rows for one model and the first
  three identities alone
- scikit-learn: `roc_auc_score` by masks; up to 2 million rows
- thresholds: histograms of 10,000 even thresholds, as in TensorFlow Model Analysis

What is counted must hold the exact numbers in its brackets, bounds of differences those of the
paired comparison, and DuckDB's and scikit-learn's numbers must be the exact ones.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from sklearn.metrics import roc_auc_score

from benchmarks._made_scores import MODELS, generate_scores
from benchmarks._measurement import Measurement
from bias_metrics import BiasTable, Key, ScoreCounts, compare_bias, evaluate_bias
from biasgate.tasks.counting.settings import read_count_file
from biasgate.tasks.counting.shards import count_scores
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.evidence.counted import FILE, Counted

ROWS, SHARD, SEED = 10_000_000, 1_000_000, 20190513
MOST_EXACT, MOST_MASKED = 10_000_000, 2_000_000
THRESHOLDS = 10_000
Numbers = dict[str | None, list[float]]


def measure(rows: int | None = None) -> Measurement:
    """Run the contenders one after the other."""
    n = rows or ROWS
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as name:
        folder = Path(name)
        made = alone(write, folder, n)
        contenders: dict[str, Callable[[Path], dict[str, Any]]] = {
            "counts": by_counts,
            "thresholds": by_thresholds,
        }
        contenders |= {"exact": by_ranks, "duckdb": by_sql} if n <= MOST_EXACT else {}
        contenders |= {"scikit-learn": by_masks} if n <= MOST_MASKED else {}
        found = {name: alone(contender, folder) for name, contender in contenders.items()}
        command = by_command(folder)
    own = found["counts"]
    off: dict[str, float] = {}
    wider: dict[str, float] = {}
    if "exact" in found:
        exact = found["exact"]
        off = {name: farthest(one["numbers"], exact["numbers"]) for name, one in found.items()}
        for name in {"duckdb", "scikit-learn"} & set(found):
            assert off[name] <= 1e-12, f"{name} and evaluate_bias differ by {off[name]}"
        refuse_beyond(own["brackets"], exact["numbers"])
        if n <= MOST_MASKED:
            ratios = [
                (high - low) / (to - from_)
                for name, of_name in exact["differences"].items()
                for (low, high), (from_, to) in zip(own["differences"][name], of_name, strict=True)
            ]
            wider["counts: intervals of differences / paired, median"] = float(np.median(ratios))
            wider["counts: intervals of differences / paired, most"] = max(ratios)
            refuse_narrow(own["differences"], exact["differences"])
    return Measurement(
        inputs={"rows": n, "shard": SHARD, "identities": len(IDENTITIES), "seed": SEED},
        figures={
            "shards: MB": made["bytes"] / 1e6,
            **{f"{name}: seconds": one["wall"] for name, one in found.items()},
            **{f"{name}: seconds of CPU": one["seconds"] for name, one in found.items()},
            **{f"{name}: peak GiB": one["peak"] for name, one in found.items()},
            **({"duckdb: queries": found["duckdb"]["queries"]} if "duckdb" in found else {}),
            **{f"{name}: farthest from exact": one for name, one in off.items()},
            **{f"counts: {name}": own[name] for name in ("kB", "widest bracket")},
            "counts: widest bracket / standard error": own["relative"],
            **wider,
            **{f"counts: seconds of CPU, {name}": one for name, one in own["stages"].items()},
            **{f"command: {name}": one for name, one in command.items()},
            **{f"{name} / counts": one["seconds"] / own["seconds"] for name, one in found.items()},
        },
        packages=("numpy", "duckdb", "pyarrow", "scikit-learn", "prefect"),
    )


def alone(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return what a function finds in a process of its own, with its CPU time and peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(timed, work, *arguments).result()


def timed(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run a function, and measure this process."""
    began, clock = time.process_time(), time.perf_counter()
    found = work(*arguments)
    seconds, wall = time.process_time() - began, time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found | {"seconds": seconds, "wall": wall, "peak": peak}


def write(folder: Path, n: int) -> dict[str, Any]:
    """Write the shards and the count file."""
    rng = np.random.default_rng(SEED)
    (folder / "shards").mkdir()
    for begin in range(0, n, SHARD):
        size = min(SHARD, n - begin)
        columns = generate_scores(rng, size)
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
    return {"bytes": size_of(folder / "shards")}


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def shards_of(folder: Path) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Read labels, scores of both models and identities, one shard at a time."""
    for path in sorted((folder / "shards").iterdir()):
        table = pq.ParquetFile(path).read()
        masks = {name: table[name].to_numpy() >= 0.5 for name in IDENTITIES}
        scores = {role: table[name].to_numpy() for role, name in MODELS.items()}
        yield table["toxicity"].to_numpy() >= 0.5, scores, masks


def by_counts(folder: Path) -> dict[str, Any]:
    """Count shard by shard, and add."""
    settings, _ = read_count_file(folder / "chats.yaml")
    stages = dict.fromkeys(("count", "as bytes", "add", "compare"), 0.0)

    def staged(name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        found = work()
        stages[name] += time.process_time() - began
        return found

    total: Counted | None = None
    for path in map(Path, settings.list_shards()):
        part = staged("count", lambda path=path: count_scores(settings, path))
        part = staged("as bytes", lambda part=part: Counted.from_bytes(part.to_bytes(), "shard"))
        if total is not None:
            part = staged("add", lambda part=part, total=total: total + part)
        total = part
    assert total is not None
    first, second = total.counts.values()
    comparison = staged("compare", lambda: first.compare(second, total.pairs["champion"]))
    of_models = [described(one) for one in (first, second)]
    return {
        "numbers": dict(zip(MODELS, (one["numbers"] for one in of_models), strict=True)),
        "brackets": dict(zip(MODELS, (one["brackets"] for one in of_models), strict=True)),
        "differences": ends_of(comparison),
        "kB": len(total.to_bytes()) / 1e3,
        "widest bracket": max(one["widest"] for one in of_models),
        "relative": max(one["relative"] for one in of_models),
        "stages": stages,
    }


def described(counts: ScoreCounts) -> dict[str, Any]:
    """Return the numbers of one model, and how wide their brackets are."""
    report, brackets = counts.report(), counts.brackets()
    cells = report.subgroups
    known = {name: [brackets[Key(metric, name)] for metric in of] for name, of in cells.items()}
    width = {name: [high - low for low, high in of] for name, of in known.items()}  # type: ignore[misc]
    relative = [
        wide / cell.std_error  # type: ignore[operator]
        for name, of in cells.items()
        for wide, cell in zip(width[name], of.values(), strict=True)
    ]
    return {
        "numbers": numbers_of(report),
        "brackets": known | {None: [brackets[Key("auc")]]},
        "widest": max(max(of) for of in width.values()),
        "relative": max(relative),
    }


def by_ranks(folder: Path) -> dict[str, Any]:
    """Rank all rows."""
    parts = list(shards_of(folder))
    y_true = np.concatenate([part[0] for part in parts])
    scores = {role: np.concatenate([part[1][role] for part in parts]) for role in MODELS}
    masks = {name: np.concatenate([part[2][name] for part in parts]) for name in IDENTITIES}
    del parts
    numbers = {
        role: numbers_of(evaluate_bias(y_true, of, masks, intervals="cells"))
        for role, of in scores.items()
    }
    if y_true.size > MOST_MASKED:
        return {"numbers": numbers}
    differences = ends_of(compare_bias(y_true, *scores.values(), masks))
    return {"numbers": numbers, "differences": differences}


def numbers_of(report: BiasTable) -> Numbers:
    """Return the overall AUC and the five numbers of each identity."""
    cells = {
        name: [float(cell) for cell in bias.values()] for name, bias in report.subgroups.items()
    }
    return {**cells, None: [float(report.overall.auc)]}


def ends_of(comparison: BiasTable) -> dict[str, list[tuple[float, float]]]:
    """Return the interval of each identity's differences."""
    return {
        name: [cell.ends for cell in cells.values() if cell.ends is not None]
        for name, cells in comparison.subgroups.items()
    }


def by_sql(folder: Path) -> dict[str, Any]:
    """Sum pairs over distinct scores, with a tie as one half: one query for each identity."""
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET enable_progress_bar = false")
    sides = [("n", "p", 0.0), ("n", "q", 0.0), ("m", "p", 0.0), ("q", "p", 0.5), ("m", "n", 0.5)]
    path, found = f"{folder}/shards/*.parquet", {}
    few = len(list((folder / "shards").iterdir())) * SHARD > MOST_MASKED
    names, models = (IDENTITIES[:3], ["candidate"]) if few else (IDENTITIES, list(MODELS))
    for role in models:
        score = MODELS[role]
        overall = sql_sums(connection, path, score, "true", [("n", "p", 0.0)])
        groups = (sql_sums(connection, path, score, f"{name} >= 0.5", sides) for name in names)
        found[role] = {None: overall} | dict(zip(names, groups, strict=True))
    return {"numbers": found, "queries": (1 + len(names)) * len(models)}


def sql_sums(
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


def by_masks(folder: Path) -> dict[str, Any]:
    """Rank the rows that each number compares."""
    parts = list(shards_of(folder))
    y_true = np.concatenate([part[0] for part in parts])
    found = {}
    for role in MODELS:
        score = np.concatenate([part[1][role] for part in parts])
        numbers: Numbers = {None: [roc_auc_score(y_true, score)]}
        for name in IDENTITIES:
            own = np.concatenate([part[2][name] for part in parts])
            rows = (own, own != y_true, own == y_true)  # of the subgroup, BPSN and BNSP
            aucs = [float(roc_auc_score(y_true[of], score[of])) for of in rows]
            gaps = [float(roc_auc_score(own[of], score[of])) - 0.5 for of in (y_true, ~y_true)]
            numbers[name] = aucs + gaps
        found[role] = numbers
    return {"numbers": found}


def by_thresholds(folder: Path) -> dict[str, Any]:
    """Count rows between even thresholds."""
    edges = np.linspace(0, 1, THRESHOLDS + 1)
    sums = np.zeros((2, len(IDENTITIES) + 1, 2, THRESHOLDS), dtype=np.int64)
    for y_true, scores, masks in shards_of(folder):
        for model, score in enumerate(scores.values()):
            code = 2 * (np.searchsorted(edges, score, side="right") - 1) + ~y_true
            for place, which in enumerate([slice(None), *map(np.flatnonzero, masks.values())]):
                tallies = np.bincount(code[which], minlength=2 * THRESHOLDS)
                sums[model, place] += tallies.reshape(-1, 2).T
    return {"numbers": dict(zip(MODELS, map(of_histograms, sums), strict=True))}


def of_histograms(sums: Any) -> Numbers:
    """Return the numbers of one model's histograms."""
    everyone = sums[0]

    def auc(lower: Any, upper: Any) -> float:
        below = np.cumsum(lower) - lower / 2
        return float(upper @ below / (upper.sum() * lower.sum()))

    found: Numbers = {None: [auc(everyone[1], everyone[0])]}
    for name, (positive, negative) in zip(IDENTITIES, sums[1:], strict=True):
        others = everyone[0] - positive, everyone[1] - negative
        found[name] = [
            auc(negative, positive),
            auc(negative, others[0]),
            auc(others[1], positive),
            auc(others[0], positive) - 0.5,
            auc(others[1], negative) - 0.5,
        ]
    return found


def by_command(folder: Path) -> dict[str, float]:
    """Run the command, and verify what it wrote; memory is that of all processes together."""
    out, found = folder / "out", {}
    count = [
        "evaluate",
        str(folder / "chats.yaml"),
        "--output",
        str(out),
        "--store",
        f"{folder}/store",
    ]
    for name, arguments in (("count", count), ("verify", ["verify", str(out)])):
        used, clock, began = children_seconds(), time.perf_counter(), time.time()
        line = [sys.executable, "-m", "biasgate", *arguments]
        process = subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL)  # noqa: S603
        peak, disk, done = [0.0], [0.0], threading.Event()
        watchers = [
            threading.Thread(target=watch, args=(peak, done, partial(memory_of, process.pid))),
            threading.Thread(target=watch, args=(disk, done, partial(size_of, out))),
        ]
        for watcher in watchers:
            watcher.start()
        code = process.wait()
        done.set()
        for watcher in watchers:
            watcher.join()
        assert code in {0, 3, 4}, f"{name} ended with {code}"
        found[f"{name}, seconds"] = time.perf_counter() - clock
        found[f"{name}, seconds of CPU"] = children_seconds() - used
        found[f"{name}, peak GiB"] = peak[0] / 2**30
        if name == "count":
            found |= {f"count, seconds: {stage}": of for stage, of in stages_of(out, began).items()}
            found["count, peak MB of disk"] = disk[0] / 1e6
    found["MB in out"] = size_of(out) / 1e6
    return found


def stages_of(out: Path, began: float) -> dict[str, float]:
    """Return how long the stages of a count took, by when their files were last written."""
    counted = max(path.stat().st_mtime for path in (out / "counts").iterdir())
    ends = {"shards": counted, "deciding": (out / FILE).stat().st_mtime}
    ends["pages"] = time.time()
    return dict(zip(ends, np.diff([began, *ends.values()]).tolist(), strict=True))


def children_seconds() -> float:
    """Return the CPU time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch(most: list[float], done: threading.Event, measured: Callable[[], float]) -> None:
    """Keep the largest number that is measured."""
    while not done.wait(0.2):
        with suppress(psutil.Error, OSError):  # a process ended, or a file went, just now
            most[0] = max(most[0], measured())


def memory_of(pid: int) -> float:
    """Return the bytes that a process and all below it hold."""
    process = psutil.Process(pid)
    found = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            found += one.memory_info().rss
    return found


def farthest(numbers: dict[str, Numbers], exact: dict[str, Numbers]) -> float:
    """Return the largest absolute difference."""
    return max(
        float(np.abs(np.subtract(of_name, exact[role][name])).max())
        for role, of_role in numbers.items()
        for name, of_name in of_role.items()
    )


def refuse_beyond(brackets: dict[str, Any], exact: dict[str, Numbers]) -> None:
    """Refuse a bracket that does not hold the exact number."""
    for role, numbers in exact.items():
        for name, of_name in numbers.items():
            for (low, high), number in zip(brackets[role][name], of_name, strict=True):
                assert low - 1e-12 <= number <= high + 1e-12, f"{role}, {name}: {number}"


def refuse_narrow(own: dict[str, Any], exact: dict[str, Any]) -> None:
    """Refuse bounds of a difference that do not hold those of the paired comparison."""
    for name, of_name in exact.items():
        for (low, high), (from_, to) in zip(own[name], of_name, strict=True):
            slack = (to - from_) / 100  # skewness is that of wide bins
            told = f"{name}: {low} to {high}, not {from_} to {to}"
            assert low - slack <= from_ <= to <= high + slack, told
