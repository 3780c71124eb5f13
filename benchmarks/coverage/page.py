"""The two pages: tables of what was drawn, and which lines miss a requirement."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.coverage.campaign import SECTIONS, Found, Section, result_of
from benchmarks.coverage.held import ALPHA, LEAST, MANY_ERRORS, MOST, WIDEST, Held

FOLDER = Path(__file__).parent.parent.parent / "docs" / "evidence"
COLUMNS = ["covered", "below", "above", "floor passes", "mean width", "relative", "none"]

REQUIRED = f"""Allowing for two Monte Carlo errors, intervals of 95 % should hold the truth in at
least {LEAST:.0%} of samples, and a floor exactly at the truth should pass with bounds at 90 % in
at most {ALPHA:.0%}. If both classes have {MANY_ERRORS} errors or more, coverage should be at
most {MOST:.0%} and the mean width at most {WIDEST} times that of an interval from the estimates'
own standard deviation (*relative*). *Below* and *above*: the interval is entirely on that side
of the truth. *None*: share of samples without an interval; the other columns leave them out."""

COMMAND = """<!-- not run: draws samples for some hours; the slow tests draw fewer -->
```sh
python -m benchmarks.coverage
```

writes this page. It keeps the result of each case in benchmarks/results/coverage.json, so it can
be interrupted and resumed. Each case has its own seed, the checksum of its parameters: the
figures can be reproduced. 2,000 samples each; one Monte Carlo error is .5 points at 5 %."""

INDEPENDENT = """# Can the intervals be trusted?

An interval of 95 % should hold the true value in 95 of 100 samples, and a floor exactly at the true
value should pass in at most 5 of 100. This page shows how often that happens, on samples from
populations whose true values are known. Scores are normal within each class; *tied* scores are
rounded to about 20 values. Rows are independent here: for comments of one thread or phrases of one
template see [clustered-coverage.md](clustered-coverage.md).

{command}

{required}

{faults}

What to know before relying on them:

- **The width goes with the AUC.** With 50 positives and 4,200 negatives an interval is .146 wide
  at an AUC of .7, .096 at .9 and .075 at .95 (first table). What the numbers of one model can
  prove, those of a weaker one cannot. `biasgate policy explain` says it for a set.
- **If the smaller class has few errors, intervals are too wide rather than too narrow.** The
  price is power, as the last table shows. Only more data helps: shorter intervals miss the truth
  where toxic comments are spread more widely than harmless ones.
- **Near an AUC of 1, errors are not equally likely on both sides.** An interval that misses the
  true value is more often too high (*above*) than too low.
- **Weights can hide what a sample has not seen.** Where rows that stand for 50 others are so
  rare that a class has one or none of them, no interval can know. The lines *1 of 50 low scores*
  with 400 rows show it.

## One AUC

{cells}

## One AUC of classes that are spread unequally

*Spread* is the standard deviation of the positives; that of the negatives is 1. *A fifth missed*:
20 % of the positives score 4 standard deviations lower than the others.

{spreads}

## Power means and final score with a tiny group

Five groups of 400 harmless rows; four have 60 toxic ones, the tiny one has fewer.

{tiny}

## Final score of groups that differ

Three groups whose scores are shifted, and rows of none; the sizes are those of each group.

{differing}

## Difference of two models on the same rows

The scores of two models are correlated within a class. *Floor passes* is how often the first is
shown not to be worse by more than it is: where it is worse by .02, a false claim.

{paired}

## How often a model is shown not to be worse by .02

*Floor passes* is the power: both models are equally good, and the floor is at -.02.

{power}

## Weighted rows

Rows are drawn by unequal chances, and weighted with one over the chance. With *clusters* scores
have an effect of their cluster; two rows of one cluster correlate at .3.

{weighted}
"""

CLUSTERED = """# Do intervals hold where rows come in clusters?

Comments of one thread, or phrases of one template, are alike. With `clusters` intervals allow
for that, and this page shows how often they hold the true value (they should in 95 of 100
samples), and how often a floor exactly at the truth passes (at most 5 of 100 should). Scores
have a normal effect of their cluster. *Correlation* is that of two rows of one cluster.
*Unequal* clusters have lognormal sizes with standard deviation 1: in the effective number of
clusters, 50 count as about 20. *Nested*: a cluster mentions one subgroup only. *Positives in
10*: the subgroup's positives come from 10 of the 200 clusters.

{command}

{required}

An interval needs 20 clusters with rows of each compared class; otherwise there is *none*, with
the reason.

{faults}

What to know before relying on them:

- With few clusters intervals are rather too wide, and near an AUC of 1 always.
- **A floor passes too often where clusters are large and unequal, hold both compared classes,
  and have strong effects.** A cluster whose harmless *and* toxic comments all score high lowers
  an AUC, and so does one in which all score low: few clusters, the extreme ones, decide. A
  sample often has too few of them to show how large the error is, and no interval can know. See
  the lines of 120 rows per cluster. More clusters help, more rows of the same clusters do not.

## Clusters that hold rows of all groups

{crossing}

## Clusters of one group each

{nested}

## Positives in a few clusters

{few}

## Large clusters

120 rows per cluster on average, not 20.

{large}

## Differences of two models

Two equally good models whose scores correlate.

{models}
"""

PAGES = {
    "coverage.md": (
        INDEPENDENT,
        ("cells", "spreads", "tiny", "differing", "paired", "power", "weighted"),
    ),
    "clustered-coverage.md": (CLUSTERED, ("crossing", "nested", "few", "large", "models")),
}


def write_pages(found: Found) -> None:
    """Write each page whose cases have all been drawn."""
    sections = {one.name: one for one in SECTIONS}
    for file, (text, names) in PAGES.items():
        own = [sections[name] for name in names]
        try:
            tables = {one.name: _table(found, one) for one in own}
        except KeyError as error:
            print(f"{file} is not written: {error} has not been drawn")
            continue
        told = {"command": COMMAND, "required": REQUIRED, "faults": _faults(found, own)}
        (FOLDER / file).write_text(text.format(**tables, **told), encoding="utf-8")
        print(f"written: {FOLDER / file}")


def _table(found: Found, section: Section) -> str:
    rows = []
    for case in section.cases:
        known = result_of(found, section, case)
        for name, one in known.items():
            named = [name] if "number" in section.head else []
            rows.append([*case.described(), *named, *_told(one)])
    lines = [[*section.head, *COLUMNS], ["---"] * (len(section.head) + len(COLUMNS)), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _told(one: Held) -> list[str]:
    if one.missing == 1:
        return [""] * (len(COLUMNS) - 1) + ["100%"]
    shares = [f"{share:.1%}" for share in (one.covered, one.below, one.above, one.passed)]
    return [*shares, f"{one.width:.4f}", f"{one.ratio:.2f}", f"{one.missing:.0%}"]


def _faults(found: Found, sections: Iterable[Section]) -> str:
    lines, n = [], 0
    for section in sections:
        if section.name == "power":
            continue
        for case in section.cases:
            for name, one in result_of(found, section, case).items():
                n += 1
                faults = ", ".join(one.faults(case.errors))
                if faults:
                    lines.append(f"| {', '.join([*case.described(), name])} | {faults} |")
    if not lines:
        return f"All {n} lines do."
    head = [f"{len(lines)} of {n} lines miss one of these:", "", "| line | what it misses |"]
    return "\n".join([*head, "| --- | --- |", *lines])
