"""The result of a benchmark, and a timer for contenders that run in turns."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Measurement:
    """Inputs and figures of a benchmark, and packages with an effect on them."""

    inputs: dict[str, Any]
    figures: dict[str, float]
    packages: tuple[str, ...] = ("numpy",)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures with machine, versions and inputs."""
        versions = {"python": platform.python_version()}
        versions |= {package: version(package) for package in self.packages}
        return {
            "machine": describe_machine(),
            "versions": versions,
            "inputs": self.inputs,
            "figures": self.figures,
        }


def describe_machine() -> dict[str, Any]:
    """Return the processor, the vector extensions in use by numpy, cores, system and load.

    Times of numpy's sorts depend on the extensions, and other work on the cores changes ratios.
    """
    processor, table = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if table.exists():
        lines = table.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    return {
        "processor": processor,
        "vector extensions": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "load in the last minute": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def time_contenders(
    contenders: Mapping[Any, Callable[[], object]],
    rounds: int,
    repeats: Mapping[Any, int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[Any, list[float]], dict[Any, Any]]:
    """Return each contender's seconds in each round, and its last result.

    The seconds are the shortest of its `repeats`, by default 1. Each round begins with a different
    contender, because the previous contender changes the time by a few percent.

    `clock`: `time.process_time` for contenders that use one core each, so that other work on the
    machine is not counted.
    """
    seconds: dict[Any, list[float]] = {name: [] for name in contenders}
    results: dict[Any, Any] = {}
    names = list(contenders)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times = []
            for _ in range((repeats or {}).get(name, 1)):
                start = clock()
                results[name] = contenders[name]()
                times.append(clock() - start)
            seconds[name].append(min(times))
    return seconds, results


def compute_median_ratio(times: list[float], rivals: list[float]) -> float:
    """Return the median over the rounds of a time divided by the rival's time in that round."""
    return median(own / rival for own, rival in zip(times, rivals, strict=True))


def measure_own_peak() -> float:
    """Return the largest resident memory of this process so far, in GiB."""
    import resource  # noqa: PLC0415 - not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
