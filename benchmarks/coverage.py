"""Whether intervals cover the true value as often as they should.

`python -m benchmarks.coverage` writes docs/evidence/coverage.md, which takes some minutes on two
cores. The slow tests draw the same samples and check them.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks._coverage import (
    ALPHA,
    Coverage,
    NonInferiority,
    cover_cell,
    cover_difference,
    cover_final_score,
    show_not_worse,
)
from benchmarks._populations import MARGIN, cell_cases, non_inferiority_cases, paired_cases
from benchmarks._spreads import CASES as SPREADS
from benchmarks._spreads import SpreadCase, SpreadCoverage, cover_spread, spread_rows

FILE = Path(__file__).parent.parent / "docs" / "evidence" / "coverage.md"
CELLS = list(cell_cases(4_000, 4_000))
FINAL_SCORES = list(cell_cases(1_000, 500))
# Correlation of the two models, and how much worse the first one is.
DIFFERENCES = list(paired_cases(1_000, 600, [(0.9, 0.0), (0.5, MARGIN)]))
CLAIMS = list(non_inferiority_cases(2_000))

TEXT = """# Can the intervals be trusted?

An interval of 95 % should hold the true value in 95 of 100 samples, and a model that is worse by
the margin should be called *not worse* in at most 5 of 100. This page shows how often that happens,
on samples from populations whose true values are known. Scores are normal within each class; *tied*
scores are rounded to about 20 values. The scores of two models are correlated within a class.

<!-- not run: draws samples for some minutes; the slow tests draw the same ones -->
```sh
python -m benchmarks.coverage
```

writes this page. Each case has its own seed, the checksum of its parameters, so the figures can be
reproduced. The last column says how many samples were drawn. The tests marked `slow` draw the same
samples. Allowing for two Monte Carlo errors, they require a coverage of 93 to 97 % where both
classes have 500 rows and 25 errors or more, at least 93 % otherwise, and at most {alpha:.0%} false
claims. {failures}

What to know before relying on them:

- **If the smaller class has few errors, intervals of cells and differences are too wide rather
  than too narrow.** They cover up to {most:.1%}. The price is power, as the last table shows. Only
  more data helps: shorter intervals miss the truth where toxic comments are spread more widely
  than harmless ones.
- **Near an AUC of 1, errors are not equally likely on both sides.** If both classes of a cell are
  large, an interval that misses the true value is more often too high (*above*) than too low.
  Intervals of differences are widened on one side for that. Without this, claims of "not worse"
  would be false in up to 7 of 100 samples where the better model is at .97. The worst case in
  large cells is now {worst:.1%}; one Monte Carlo error is {error:.1%}.
- Rows are independent here, and scores are normal. If your rows are clustered (comments of one
  thread or template), pass `clusters`: see
  [clustered-coverage.md](clustered-coverage.md).
- Final scores are computed over three different subgroups, and the sizes are those of each group.

## One AUC

{cells}

## One AUC of classes that are spread unequally

*Spread* is the standard deviation of the positives; that of the negatives is 1. *A fifth missed*:
20 % of the positives score 4 standard deviations lower than the others. *Floor passes*: how often a
floor exactly at the truth passes with bounds at 90 %. *Width* is relative to that of an interval
from the true standard error. 2,000 samples each.

{spreads}

## Final score

{finals}

## Difference of two models on the same rows

{differences}

## How often a model is shown not to be worse by .02

*False claims*: how often `not_worse_by` holds although the first model is worse by exactly the
margin. *Power*: how often it holds when the two models are equally good. It uses a 90 % interval,
as the gate does.

{claims}
"""


def main() -> None:
    """Draw every case and write the page."""
    with ProcessPoolExecutor() as pool:
        cells, finals, differences = (
            list(pool.map(cover, cases))
            for cover, cases in (
                (cover_cell, CELLS),
                (cover_final_score, FINAL_SCORES),
                (cover_difference, DIFFERENCES),
            )
        )
        claims = list(pool.map(show_not_worse, CLAIMS))
        spreads = list(zip(SPREADS, pool.map(cover_spread, SPREADS), strict=True))
    FILE.write_text(page(cells, finals, differences, claims, spreads), encoding="utf-8")
    print(f"written to {FILE}")


def page(
    cells: list[Coverage],
    finals: list[Coverage],
    differences: list[Coverage],
    claims: list[NonInferiority],
    spreads: list[tuple[SpreadCase, SpreadCoverage]],
) -> str:
    """Return the page with its tables."""
    found = [*cells, *finals, *differences, *claims]
    failed = sum(not one.as_demanded for one in found)
    worst = max(claims, key=lambda one: one.in_error if min(sizes_of(one)) >= 500 else 0)
    return TEXT.format(
        alpha=ALPHA,
        failures=f"Cases that fail this: {failed} of {len(found)}.",
        most=max(one.covered for one in cells + differences if not one.case.large),
        worst=worst.in_error,
        error=(ALPHA * (1 - ALPHA) / worst.case.replicates) ** 0.5,
        cells=coverage_table(cells),
        spreads=_table(SPREAD_HEAD, spread_rows(spreads)),
        finals=coverage_table(finals),
        differences=coverage_table(differences, paired=True),
        claims=claims_table(claims),
    )


def sizes_of(found: Coverage | NonInferiority) -> tuple[int, int]:
    """Return the rows of each class."""
    return found.case.n_positive, found.case.n_negative


def coverage_table(found: Iterable[Coverage], *, paired: bool = False) -> str:
    """Return one line for each case."""
    extra = ["correlation", "first is worse by"] if paired else []
    rows = []
    for one in found:
        case = one.case
        kind = [f"{case.correlation:g}", f"{case.drop:g}"] if paired else []
        shares = [f"{share:.1%}" for share in (one.covered, one.below, one.above)]
        rows.append([*_described(one), *kind, *shares, f"{one.width:.4f}", f"{case.replicates:,}"])
    return _table([*HEAD, *extra, "covered", "below", "above", "mean width", "draws"], rows)


def claims_table(found: Iterable[NonInferiority]) -> str:
    """Return one line for each case."""
    rows = [
        [
            *_described(one),
            f"{one.case.correlation:g}",
            f"{one.in_error:.1%}",
            f"{one.power:.1%}",
            f"{one.case.replicates:,}",
        ]
        for one in found
    ]
    return _table([*HEAD, "correlation", "false claims", "power", "draws"], rows)


SPREAD_HEAD = ["AUC", "positives", "negatives", "spread", "covered", "floor passes", "width"]
HEAD = ["AUC", "positives", "negatives", "scores"]


def _described(found: Coverage | NonInferiority) -> list[str]:
    case = found.case
    sizes = [f"{size:,}" for size in sizes_of(found)]
    return [f"{case.auc:g}", *sizes, "tied" if case.tied else "distinct"]


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
