"""The page: what holds and what does not, with every line as CSV beside it."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from benchmarks.coverage.campaign import SECTIONS, Found, Section, result_of
from benchmarks.coverage.held import ALPHA, LEAST, MANY_ERRORS, MOST, WIDEST, Case, Held

FOLDER = Path(__file__).parent.parent.parent / "docs" / "evidence"
COLUMNS = ("covered", "below", "above", "passed", "width", "ratio", "missing", "draws")

TITLES = {
    "cells": "one AUC",
    "spreads": "one AUC of classes that are spread unequally",
    "tiny": "power means and final score with a tiny group",
    "differing": "final score of groups that differ",
    "paired": "difference of two models on the same rows",
    "power": "the same: how often a model is shown not to be worse by .02",
    "weighted": "weighted rows",
    "crossing": "clusters that hold rows of all groups",
    "nested": "clusters of one group each",
    "few": "positives in a few of 200 clusters",
    "large": "large clusters, of 120 rows on average",
    "models": "difference of two models, in clusters",
    "many": "one AUC in many clusters",
    "rates": "gap of an error rate, in clusters",
    "shared": "the same, where subgroup and background are in the same clusters",
    "calibrated": "gaps of calibration",
}

PAGE = """# Can the intervals be trusted?

An interval of 95 % should hold the true value in 95 of 100 samples, and a floor exactly at the
true value should pass in at most 5 of 100. Here samples are drawn from populations whose true
values are known.

## What holds

{claims}

- *Lines*: cases times numbers; *miss*: those that miss a requirement, which are named below.
- *Covered*: the least and the mean share of samples in which the interval holds the truth.
- *Floor passes*: the mean and the largest share of samples in which a floor exactly at the truth
  passes with bounds at 90 %. For a gap of an error rate it is a ceiling. For the power of two
  equal models it is no error: the floor is at -.02, and the more pass the better.
- *Width*: the median and the largest mean width, over that of an interval from the estimates' own
  standard deviation, which nobody knows. It is counted where a class has {many} errors or more.

Allowing for two Monte Carlo errors, intervals should hold the truth in at least {least:.0%} of
samples and a floor should pass in at most {alpha:.0%}. With {many} errors or more in both classes,
coverage should be at most {most:.0%} and the width at most {widest}.

## What to know before relying on them

- **The width goes with the AUC.** With 50 positives and 4,200 negatives an interval is .146 wide
  at an AUC of .7, .096 at .9 and .075 at .95. What the numbers of one model can prove, those of a
  weaker one cannot. `biasgate policy explain` says it for a set.
- **If the smaller class has few errors, intervals are too wide rather than too narrow.** The
  price is power. Only more data helps: shorter intervals miss the truth where toxic comments are
  spread more widely than harmless ones.
- **Near an AUC of 1, errors are not equally likely on both sides.** An interval that misses the
  true value is more often too high (*above*) than too low.
- **Weights can hide what a sample has not seen.** Where rows that stand for 50 others are so
  rare that a class has one or none of them, no interval can know: the lines *1 of 50 low scores*.
- **A floor passes too often where clusters are large and unequal, hold both compared classes,
  and have strong effects.** A cluster whose harmless *and* toxic comments all score high lowers
  an AUC, and so does one in which all score low: few clusters, the extreme ones, decide. A
  sample often has too few of them to show how large the error is, and no interval can know. More
  clusters help, more rows of the same clusters do not.
- **Standard errors are those of others where these exist**: of R's pROC for independent rows, one
  model or two, to 1e-12; of Obuchowski (1997) for clusters of equal size. For unequal ones they
  are up to 1 / sqrt(1 - the share of the largest) times as large. A test compares them.
- **With few clusters intervals are rather too wide**, and near an AUC of 1 always; with fewer than
  20 in a compared class there is none. Gaps of rare errors are up to 3 times too wide while fewer
  than ten clusters have one, and pass a ceiling too often where clusters are very unequal.

The tables of power means, final scores, differences and weighted rows were drawn before degrees of
freedom that come from fourth powers left out what is no uncertainty, and not since: 12 of the
weighted cases, drawn again with 200 samples, have intervals .95 to 1.02 times as wide. Error rates
of a subgroup and a background in the same clusters, and AUCs in 500 clusters or more, have cases in
`benchmarks.coverage` (`shared` and `many`) that were not drawn to the end yet.

## Lines that miss a requirement

{faults}

## How the samples are drawn

Scores are normal within each class; *tied* ones are rounded to about 20 values. *Spread* is the
standard deviation of the positives; that of the negatives is 1. *A fifth missed*: 20 % of the
positives score 4 standard deviations lower. *Tiny*: five groups of 400 harmless rows, of which
four have 60 toxic ones. *Differing*: three groups whose scores are shifted, and rows of none. The
scores of two models are correlated within a class. Weighted rows are drawn by unequal chances, and
weighted with one over the chance.

Scores in clusters have a normal effect of their cluster; *correlation* is that of two rows of one
cluster. *Unequal* clusters have lognormal sizes with standard deviation 1: in the effective number
of clusters, 50 count as about 20. *Nested*: a cluster mentions one subgroup only. For error rates
each cluster has a chance of its own from a beta law, and the background four times the rows, in
clusters of its own (*nested*) or in the same (*crossing*). For calibration each row has a chance of
its own, and log-odds of scores are *sharpness* times those of the chance.

<!-- not run: draws samples for some hours; the slow tests draw fewer -->
```sh
python -m benchmarks.coverage
```

writes this page and the tables. It keeps the result of each case in
benchmarks/results/coverage.json, so it can be interrupted and resumed. Each case has its own seed,
the checksum of its parameters: the figures can be reproduced. With 2,000 samples one Monte Carlo
error is .5 points at 5 %.
"""


def write_page(found: Found) -> None:
    """Write the page and the tables of the sections that have been drawn."""
    drawn = [section for section in SECTIONS if _is_drawn(found, section)]
    for section in drawn:
        _write_table(found, section)
    page = PAGE.format(
        claims="\n".join(_claims(found, drawn)),
        faults="\n".join(_faults(found, drawn)),
        many=MANY_ERRORS,
        least=LEAST,
        alpha=ALPHA,
        most=MOST,
        widest=WIDEST,
    )
    (FOLDER / "coverage.md").write_text(page, encoding="utf-8")
    print(f"written: {FOLDER / 'coverage.md'}, with {len(drawn)} of {len(SECTIONS)} tables")


def _is_drawn(found: Found, section: Section) -> bool:
    try:
        return bool(list(_lines(found, section)))
    except KeyError:
        return False


def _lines(found: Found, section: Section) -> Iterator[tuple[Case, str, Held]]:
    for case in section.cases:
        for name, held in result_of(found, section, case).items():
            yield case, name, held


def _write_table(found: Found, section: Section) -> None:
    (FOLDER / "coverage").mkdir(exist_ok=True)
    path = FOLDER / "coverage" / f"{section.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*section.head, *COLUMNS])
        for case, name, held in _lines(found, section):
            named = [name] if "number" in section.head else []
            writer.writerow([*case.described(), *named, *map(_rounded, _numbers(held))])


def _numbers(held: Held) -> list[float]:
    return [getattr(held, column) for column in COLUMNS]


def _rounded(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.4g}"


def _claims(found: Found, sections: list[Section]) -> Iterator[str]:
    yield "| table | lines | miss | covered | floor passes | width | samples |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for section in sections:
        lines = [line for line in _lines(found, section) if line[2].missing <= 0.5]
        held = [of_line for _, _, of_line in lines]
        covered, passed = [one.covered for one in held], [one.passed for one in held]
        wide = [one.ratio for case, _, one in lines if case.errors >= MANY_ERRORS]
        wide = sorted(ratio for ratio in wide if not math.isnan(ratio))
        missed = "" if section.name == "power" else sum(_misses(*line) != "" for line in lines)
        cells = [
            f"[{TITLES[section.name]}](coverage/{section.name}.csv)",
            f"{len(list(_lines(found, section)))}",
            f"{missed}",
            f"{min(covered):.1%}, {sum(covered) / len(covered):.1%}",
            f"{sum(passed) / len(passed):.1%}, {max(passed):.1%}",
            f"{wide[len(wide) // 2]:.2f}, {wide[-1]:.2f}" if wide else "",
            f"{section.draws:,}",
        ]
        yield f"| {' | '.join(cells)} |"


def _misses(case: Case, _name: str, held: Held) -> str:
    return ", ".join(held.faults(case.errors))


def _faults(found: Found, sections: list[Section]) -> Iterator[str]:
    yield "| table | line | what it misses |"
    yield "| --- | --- | --- |"
    for section in sections:
        for case, name, held in _lines(found, section):
            if section.name != "power" and (missed := _misses(case, name, held)):
                line = ", ".join([*case.described(), name])
                yield f"| {section.name} | {line} | {missed} |"
