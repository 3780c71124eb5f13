"""The cost of many identities: time, peak memory and threads of `biasgate evaluate`.

Random memberships in a table and a file of random scores: 24 identities as in Jigsaw's data, 500
and 5,000 as from intersections. The command runs in its own process. Its memory includes its
child processes, among them Prefect's server.

    python -m benchmarks many_identities --save                          (all sizes)
    python -m benchmarks.many_identities --rows 3000 --identities 500    (one)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks._measurement import Measurement

SIZES = (24, 500)
# The last one takes about 45 minutes and 14 GiB.
CASES = (
    *((3_000, n_identities) for n_identities in (24, 500, 5_000)),
    *((1_800_000, n_identities) for n_identities in (24, 500, 5_000)),
)
ROWS, ROWS_A_CHUNK, MIB = 3_000, 100_000, 2**20
SHARE_TOXIC = 0.2


def measure(rows: int | None = None) -> Measurement:
    """Evaluate once for each number of rows and identities; with `rows`, only at that size."""
    cases = CASES if rows is None else [(rows, n_identities) for n_identities in SIZES]
    figures: dict[str, float] = {}
    for n_rows, n_identities in cases:
        found = measure_one(n_rows, n_identities)
        of = f"{n_identities:,} identities, {n_rows:,} rows"
        figures |= {f"{key}, {of}": value for key, value in found.items()}
    return Measurement(
        inputs={"rows and identities": [list(case) for case in cases]},
        figures=figures,
        packages=("numpy", "prefect", "mlflow", "pyarrow"),
    )


def measure_one(n_rows: int, n_identities: int, limit: float | None = None) -> dict[str, float]:
    """Evaluate one generated set; a run that takes longer than `limit` seconds is killed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, n_rows, n_identities)
        return run(folder, limit)


def write_files(folder: Path, n_rows: int, n_identities: int, seed: int = 0) -> Path:
    """Write a table, scores and an evaluation file; identities have 0.2 to 5 % of the rows.

    In small sets each has at least 15 rows.
    """
    rng = np.random.default_rng(seed)
    names = [f"identity {number:04}" for number in range(n_identities)]
    shares = np.maximum(0.002 * 25 ** rng.random(n_identities), min(15 / n_rows, 1.0))
    writers: list[pq.ParquetWriter] = []
    for start in range(0, n_rows, ROWS_A_CHUNK):
        size = min(ROWS_A_CHUNK, n_rows - start)
        ids, toxic = np.arange(start, start + size), rng.random(size) < SHARE_TOXIC
        columns: dict[str, Any] = {"id": ids, "label": toxic.astype(float)}
        for name, share in zip(names, shares, strict=True):
            columns[name] = rng.random(size, dtype=np.float32) < share
        scores = {"id": ids, "prediction": rng.normal(toxic * 1.5)}
        tables = pa.table(columns), pa.table(scores)
        if not writers:
            files = "comments.parquet", "scores.parquet"
            writers = [
                pq.ParquetWriter(folder / file, table.schema)
                for file, table in zip(files, tables, strict=True)
            ]
        for writer, table in zip(writers, tables, strict=True):
            writer.write_table(table)
    for writer in writers:
        writer.close()
    content = {
        "name": "many",
        "evaluation_sets": [
            {"name": "table", "source": "table", "path": "comments.parquet", "identities": names}
        ],
        "candidates": [{"name": "random", "kind": "scores", "path": "scores.parquet"}],
    }
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def run(folder: Path, limit: float | None = None) -> dict[str, float]:
    """Run the command on the files; return seconds, exit code and peak memory and threads."""
    command = [sys.executable, "-m", "biasgate", "evaluate", str(folder / "many.yaml")]
    command += ["--output", str(folder / "out"), "--store", str(folder / "store")]
    environment = os.environ | {"PREFECT_HOME": str(folder / "prefect")}
    with (folder / "log.txt").open("wb") as log:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603
        memory, own_memory, threads, cpu = 0.0, 0.0, 0, 0.0
        while process.poll() is None:
            own, total, n_threads, spent = _taken(process.pid)
            cpu = max(cpu, spent)
            memory, own_memory = max(memory, total), max(own_memory, own)
            threads = max(threads, n_threads)
            if limit is not None and time.perf_counter() - start > limit:
                for one in psutil.Process(process.pid).children(recursive=True):
                    one.kill()
                process.kill()
            time.sleep(0.1)
        seconds = time.perf_counter() - start
    sys.stderr.write((folder / "log.txt").read_text(encoding="utf-8")[-1500:])
    return {
        "seconds": seconds,
        "CPU seconds of the process": cpu,
        "exit code": process.returncode,
        "peak MiB": memory,
        "peak MiB of the process": own_memory,
        "peak threads of the process": threads,
    }


def _taken(pid: int) -> tuple[float, float, int, float]:
    """Return MiB of a process, MiB with its children, its threads and its CPU seconds."""
    try:
        process = psutil.Process(pid)
        own, threads = process.memory_info().rss / MIB, process.num_threads()
        total, times = own, process.cpu_times()
        for one in process.children(recursive=True):
            total += one.memory_info().rss / MIB
    except psutil.Error:  # it ended just now
        return 0.0, 0.0, 0, 0.0
    return own, total, threads, times.user + times.system


def main() -> None:
    """Measure one size and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--identities", type=int, default=SIZES[0])
    parser.add_argument("--limit", type=float, help="seconds after which the run is ended")
    options = parser.parse_args()
    found = measure_one(options.rows, options.identities, options.limit)
    print(f"{options.rows:,} rows, {options.identities:,} identities")
    for key, value in found.items():
        print(f"  {key:<32} {value:,.1f}")


if __name__ == "__main__":
    main()
