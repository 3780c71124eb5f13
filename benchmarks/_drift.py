"""How often the alarm of drift is wrong when nothing changes, and how often it finds a change.

`python -m benchmarks._drift` prints the figures of docs/evidence/gate.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bias_metrics import Rows, ScoreCounts, data_drift, metric_drift

Night = dict[str, Any]
SHARES = {"gay": 0.06, "old": 0.04, "deaf": 0.02}
FEW = {name: share / 5 for name, share in SHARES.items()}


def night(
    rng: np.random.Generator,
    first: int,
    n: int,
    *,
    shares: dict[str, float] = SHARES,
    noise: float = 0.5,
    shift: float = 0.0,
    threads: int = 0,
) -> Night:
    """Draw a night of comments; with `threads`, comments of one thread are alike."""
    thread = np.arange(n) // threads if threads else np.arange(n)
    common = rng.normal(size=n)[thread] if threads else np.zeros(n)
    toxic = rng.normal(size=n) + common > (1.3 if not threads else 1.9)
    masks = {}
    for name, share in shares.items():
        bent = 0.7 * common + rng.normal(size=n)
        masks[name] = bent > np.quantile(bent, 1 - share) if threads else rng.random(n) < share
    score = toxic + noise * (rng.normal(size=n) + 0.6 * common) + shift * (masks["gay"] & ~toxic)
    found: Night = {"id": first + np.arange(n), "y_true": toxic, "y_score": score}
    found |= {"subgroups": masks, "length": rng.lognormal(5, 1, n)}
    return found | ({"clusters": first + thread} if threads else {})


def taken(rows: Night, which: np.ndarray) -> Night:
    """Return some rows of a night."""
    return {
        key: {name: mask[which] for name, mask in values.items()}
        if key == "subgroups"
        else values[which]
        for key, values in rows.items()
    }


def fresh(rng: np.random.Generator, **options: Any) -> tuple[Night, Night]:
    """Seven nights of 200 comments, and the eighth."""
    rows = night(rng, 0, 1600, **options)
    return taken(rows, np.arange(1400)), taken(rows, np.arange(1400, 1600))


def rolling(rng: np.random.Generator) -> tuple[Night, Night]:
    """Draw a moving window: tonight lost the oldest tenth and gained a tenth."""
    rows = night(rng, 0, 1100)
    return taken(rows, np.arange(1000)), taken(rows, np.arange(100, 1100))


def growing(rng: np.random.Generator) -> tuple[Night, Night]:
    """All comments so far: tonight has a fifth more."""
    rows = night(rng, 0, 1200)
    return taken(rows, np.arange(1000)), rows


def rescored(rng: np.random.Generator) -> tuple[Night, Night]:
    """Score the same comments twice; the service answers a little differently each time."""
    rows = night(rng, 0, 600)
    once, again = (rows["y_score"] + 0.1 * rng.normal(size=600) for _ in range(2))
    return rows | {"y_score": once}, rows | {"y_score": again}


def worse(rng: np.random.Generator) -> tuple[Night, Night]:
    """From tonight on, harmless comments that mention one identity score higher."""
    before, _ = fresh(rng)
    return before, night(rng, 9999, 200, shift=1.5)


SITUATIONS: dict[str, Callable[[np.random.Generator], tuple[Night, Night]]] = {
    "fresh comments every night": fresh,
    "identities of 1 % and less": lambda rng: fresh(rng, shares=FEW),
    "scores that separate nearly perfectly": lambda rng: fresh(rng, noise=0.15),
    "threads of four comments": lambda rng: fresh(rng, threads=4),
    "a window that moves by a tenth": rolling,
    "a set that grows by a fifth": growing,
    "the same comments, scores with noise": rescored,
}
# Counts are of nights that share no comment, whose comments are independent.
COUNTABLE = tuple(SITUATIONS)[:3]


def as_counts(rows: Night, shard: str) -> ScoreCounts:
    """Count the scores of a night."""
    return ScoreCounts.of(Rows(rows["y_true"], rows["subgroups"]), rows["y_score"], shard=shard)


def alarms(
    draw: Callable[[np.random.Generator], tuple[Night, Night]],
    n_samples: int,
    seed: int = 0,
    *,
    counted: bool = False,
) -> tuple[int, int]:
    """Return on how many nights the metrics raise an alarm, and the data."""
    rng = np.random.default_rng(seed)
    of_metrics = of_data = 0
    for _ in range(n_samples):
        nights = draw(rng)
        if counted:
            before, now = (as_counts(rows, str(at)) for at, rows in enumerate(nights))
            of_metrics += bool(metric_drift(before, now).drifted)
            of_data += bool(data_drift(before, now).drifted)
            continue
        scored = [{k: v for k, v in one.items() if k != "length"} for one in nights]
        plain = [{k: v for k, v in one.items() if k != "y_score"} for one in nights]
        of_metrics += bool(metric_drift(*scored, rng=rng).drifted)
        of_data += bool(data_drift(*plain, rng=rng).drifted)
    return of_metrics, of_data


def main(n_samples: int) -> None:
    """Print the share of nights with an alarm."""
    print(f"{n_samples:,} nights each, at a chance of 1 % for each alarm: by rows, and by counts")
    for name, draw in (*SITUATIONS.items(), ("one identity is overrated from tonight on", worse)):
        counts = alarms(draw, n_samples)
        if name in COUNTABLE or draw is worse:
            counts += alarms(draw, n_samples, counted=True)
        shown = (f"{100 * count / n_samples:.2f} %" for count in counts)
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
