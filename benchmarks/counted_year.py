"""A year of nights that are kept as counts: its store, its trend, its drift, and all nights pooled.

One night of rows of 24 identities is made and counted; then one in which harmless mentions of an
identity score higher. From the counts of these two, those of each night of a year are drawn: how
many rows fall into a bin is a Poisson number around that of the night that was counted, of the
first one until `CHANGED` and of the other from then on. Each night is written to a store, read
again, compared with all nights before it, and added to them.

Verified is that an alarm names what changed, that the pooled numbers lie where the nights' do, that
nights add up to the same bytes in the opposite order, and that no night is added twice.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks._made_scores import MODELS, SHARES, made_scores
from benchmarks._measurement import Measurement
from bias_metrics import Drift, Rows, ScoreCounts, data_drift, metric_drift
from bias_metrics.binned.bins import refuse_impossible

NIGHTS, CHANGED, ROWS, SEED = 365, 200, 10_000_000, 20190513
BITS, BATCH = 10, 500_000
OVERRATED = tuple(SHARES)[12]
T = TypeVar("T")


def measure(rows: int | None = None) -> Measurement:
    """Draw the year, and look at each night as it comes."""
    n, seconds = rows or ROWS, dict.fromkeys(("count", "draw", "write", "read", "add"), 0.0)
    seconds |= dict.fromkeys(("report", "drift"), 0.0)

    def timed(stage: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        found = work()
        seconds[stage] += time.process_time() - began
        return found

    rng = np.random.default_rng(SEED)
    before, after = (timed("count", lambda of=of: counted(rng, n, of)) for of in (None, OVERRATED))
    total: ScoreCounts | None = None
    alarms: dict[int, set[tuple[str, str]]] = {}
    trend: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"night-{at:03d}.counts" for at in range(NIGHTS)]
        for at, path in enumerate(paths):
            around = before if at < CHANGED else after
            night = timed("draw", lambda at=at, around=around: drawn(rng, around, str(at)))
            path.write_bytes(timed("write", night.to_bytes))
            night = timed("read", lambda path=path: ScoreCounts.from_bytes(path.read_bytes()))
            shown = timed("report", night.report).subgroups[OVERRATED].bpsn_auc
            trend.append((shown.value or 0.0, shown.low or 0.0, shown.high or 0.0))
            if total is not None:
                alarms[at] = timed("drift", lambda night=night, total=total: named(total, night))
                night = timed("add", lambda night=night, total=total: total + night)
            total = night
        assert total is not None
        first = ScoreCounts.from_bytes(paths[0].read_bytes())
        assert refuses(total, first), "a night is added twice"
        again = ScoreCounts.sum(ScoreCounts.from_bytes(one.read_bytes()) for one in paths[::-1])
        assert again.to_bytes() == total.to_bytes(), "nights add up in one order only"
        stored = sum(path.stat().st_size for path in paths)
    value, low, high = np.array(trend).T
    truth = [
        around.report().subgroups[OVERRATED].bpsn_auc.value or 0.0 for around in (before, after)
    ]
    true = np.where(np.arange(NIGHTS) < CHANGED, *truth)
    early = [at for at, found in alarms.items() if at < CHANGED and found]
    late = [
        at for at, found in alarms.items() if at >= CHANGED and ("bpsn_auc", OVERRATED) in found
    ]
    pooled, one = (of.report().subgroups[OVERRATED].bpsn_auc for of in (total, before))
    at_first = seconds.pop("count")
    brackets = [
        (high - low) / (cell.std_error or 1.0)
        for name, bias in before.report().subgroups.items()
        for metric, cell in bias.by_metric().items()
        for low, high in [before.brackets()[name][metric] or (0.0, 0.0)]
    ]
    assert value.min() <= (pooled.value or 0.0) <= value.max()
    return Measurement(
        inputs={"nights": NIGHTS, "rows a night": n, "changed": CHANGED, "bits": BITS, "seed": SEED}
        | {"identities": len(SHARES)},
        figures={
            "rows of the year, million": total.n / 1e6,
            "store: MB": stored / 1e6,
            "store: MB a night": stored / NIGHTS / 1e6,
            "pooled: MB": len(total.to_bytes()) / 1e6,
            **{f"CPU seconds a night: {stage}": of / NIGHTS for stage, of in seconds.items()},
            "CPU seconds: count two nights": at_first,
            "trend: share of nights whose 95 % interval holds the truth": float(
                ((low <= true) & (true <= high)).mean()
            ),
            "trend: the truth before": truth[0],
            "trend: the truth after": truth[1],
            "drift: nights with a wrong alarm": len(early),
            "drift: nights until the alarm": min(late, default=NIGHTS) - CHANGED + 1,
            "drift: nights with the alarm": len(late),
            "pooled: its value": pooled.value or 0.0,
            "pooled: standard error / that of a night": (pooled.std_error or 0.0)
            / (one.std_error or 1.0),
            "widest bracket / standard error of a night": max(brackets),
        },
    )


def counted(rng: np.random.Generator, n: int, overrated: str | None) -> ScoreCounts:
    """Make and count a night, a batch at a time."""
    total: ScoreCounts | None = None
    for begin in range(0, n, BATCH):
        columns = made_scores(rng, min(BATCH, n - begin), overrated=overrated)
        rows = Rows(columns["toxicity"] >= 0.5, {name: columns[name] >= 0.5 for name in SHARES})
        scores = columns[MODELS["candidate"]]
        part = ScoreCounts.of(rows, scores, shard=f"{overrated} {begin}", bits=BITS)
        total = part if total is None else total + part
    assert total is not None
    return total


def drawn(rng: np.random.Generator, around: ScoreCounts, name: str) -> ScoreCounts:
    """Draw the counts of a night around those of another.

    Those of each subgroup, and of rows in none, are independent. As many as before are in several.
    """
    subgroups = rng.poisson(around.subgroups)
    sums = subgroups.sum(axis=0)
    mentions = np.maximum(around.subgroups.sum(axis=0), 1)
    several = rng.binomial(sums, np.maximum(1 - around.anyone / mentions, 0))
    anyone = np.maximum(sums - several, subgroups.max(axis=0))
    everyone = anyone + rng.poisson(around.everyone - around.anyone)
    kept = everyone.any(axis=0)
    night = replace(
        around,
        shards=frozenset([name]),
        bins=around.bins[kept],
        least=around.least[kept],
        most=around.most[kept],
        everyone=everyone[:, kept],
        anyone=anyone[:, kept],
        subgroups=subgroups[..., kept],
    )
    refuse_impossible(night)
    return night


def named(before: ScoreCounts, night: ScoreCounts) -> set[tuple[str, str]]:
    """Return what the alarms of metrics and of data name; each may be wrong on 1 % of nights."""
    found: list[Drift] = [metric_drift(before, night), data_drift(before, night)]
    return {(change.metric, change.group) for drift in found for change in drift.drifted}


def refuses(total: ScoreCounts, night: ScoreCounts) -> bool:
    """Say whether a night is refused because it is there already."""
    try:
        total.refuse_sum(night)
    except ValueError as error:
        return "must be counted once" in str(error)
    return False
