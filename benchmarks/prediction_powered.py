"""Whether prediction-powered intervals hold, and what terms are worth.

`python -m benchmarks.prediction_powered` writes the tables that docs/evidence/intervals.md sums up,
which takes an hour on two cores. The slow tests draw some of the same samples and check them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks._prediction_powered import Held, PoweredCase, claim, hold

FOLDER = Path(__file__).parent.parent / "docs" / "evidence" / "prediction-powered"
MARGIN = 0.02
_GOOD = (0.85, 0.01)
CASES = [
    PoweredCase(0.7, 20, *_GOOD),
    PoweredCase(0.9, 10, *_GOOD),
    PoweredCase(0.9, 20, *_GOOD),
    PoweredCase(0.97, 20, *_GOOD),
    PoweredCase(0.99, 20, *_GOOD),
    PoweredCase(0.9, 20, 0.1, 0.1),
    PoweredCase(0.8, 20, 0.85, 0.02, dependence=1.0),
    PoweredCase(0.9, 20, *_GOOD, n_clusters=200),
    PoweredCase(0.9, 50, *_GOOD, replicates=1_000),
    PoweredCase(0.99, 50, *_GOOD, replicates=1_000),
    PoweredCase(0.8, 50, 0.85, 0.02, dependence=1.0, replicates=1_000),
    PoweredCase(0.95, 50, 0.7, 0.05, dependence=-1.0, replicates=1_000),
    PoweredCase(0.9, 50, *_GOOD, prevalence=0.03, replicates=400),
]
CLAIMS = [
    PoweredCase(0.9, 20, *_GOOD, drop=MARGIN, replicates=1_000),
    PoweredCase(0.8, 20, 0.85, 0.02, dependence=1.0, drop=MARGIN, replicates=1_000),
    PoweredCase(0.9, 20, *_GOOD, n_clusters=200, drop=MARGIN, replicates=1_000),
]


def main() -> None:
    """Draw every case and write the tables."""
    with ProcessPoolExecutor() as pool:
        cells = dict(zip(CASES, pool.map(hold, CASES), strict=True))
        claims = dict(zip(CLAIMS, pool.map(partial(claim, margin=MARGIN), CLAIMS), strict=True))
    FOLDER.mkdir(exist_ok=True)
    _write(
        "one-model.csv",
        ["case", "number", "covered", "passes", "gain", "stated", "width", "samples"],
        (_line(case, name, one) for case, of in cells.items() for name, one in of.items()),
    )
    _write(
        "two-models.csv",
        ["case", "number", "covered", "false claims", "samples"],
        (
            [str(case), name, f"{one.covered:.1%}", f"{one.passed:.1%}", f"{one.n}"]
            for case, found in claims.items()
            for name, one in found.items()
        ),
    )
    every = [one for found in (*cells.values(), *claims.values()) for one in found.values()]
    print(f"{sum(one.holds for one in every)} of {len(every)} lines hold; written to {FOLDER}")


def _line(case: PoweredCase, name: str, one: Held) -> list[str]:
    shares = [f"{share:.1%}" for share in (one.covered, one.passed)]
    stated = "" if math.isnan(one.claimed) else f"{one.claimed:.2f}"
    return [str(case), name, *shares, f"{one.gain:.2f}", stated, f"{one.width:.2f}", f"{one.n}"]


def _write(name: str, header: list[str], rows: Iterable[list[str]]) -> None:
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
