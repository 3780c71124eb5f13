"""Whose harm is it: cells of other identities that are shown to be worse with a planted loss.

The rows are the 42,870 identity-rated test comments of Civil Comments. Champion and candidate have
the normal scores of toxic-bert's, each with noise of its own, so that their scores have a
correlation of .9. The candidate scores the harmless (BPSN) or toxic (BNSP) comments of the planted
identities higher, or lower; so no other identity has a loss of its own.

    BIASGATE_REAL_DATA=FOLDER python -m benchmarks._whose_harm --draws 20
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean

import numpy as np

from benchmarks.gate_sizes.populations import GAY, real_rows
from bias_metrics._core.packed import PackedMasks
from bias_metrics.gate.losses import ALPHA, Losses
from bias_metrics.metrics import AUCS
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import Rows

BACKGROUNDS = "outside_subgroup", "no_identity"
# Noise of each model beside scores of variance 1, so that the two have a correlation of .9.
_NOISE = math.sqrt(1 / 0.9 - 1)


@dataclass(frozen=True)
class Shift:
    """How far the toxic and harmless comments of an identity are moved upwards."""

    group: str
    toxic: float = 0.0
    harmless: float = 0.0


PLANTS = {
    "none": (),
    "muslim BPSN": (Shift("muslim", harmless=0.75),),
    "muslim BNSP": (Shift("muslim", toxic=-0.75),),
    "white BPSN": (Shift("white", harmless=0.27),),
    "gay BNSP": (Shift(GAY, toxic=-0.7),),
    "muslim BPSN and gay BNSP": (Shift("muslim", harmless=0.75), Shift(GAY, toxic=-0.7)),
}


def losses(plant: str, background: str, rng: np.random.Generator) -> Losses:
    """Return what one sample of two models shows to be worse."""
    labels, members, scores = real_rows()
    champion, candidate = (scores + _NOISE * rng.standard_normal(labels.size) for _ in range(2))
    for shift in PLANTS[plant]:
        candidate += members[shift.group] * np.where(labels, shift.toxic, shift.harmless)
    measuring = Measuring(
        rows=Rows(
            labels=labels,
            members=PackedMasks.from_masks(members.items(), labels.size),
            clusters=None,
            weights=None,
            scores={"candidate": candidate, "champion": champion},
        ),
        power_mean_groups=None,
        background=background,
        is_sample=True,
        thresholds={},
        span=lambda *_: None,
    )
    return measuring.losses("champion", ALPHA)


@dataclass(frozen=True)
class Counted:
    """Cells of one sample: of the planted identities, of others, and of others taken as own.

    `largest` is the largest loss of an AUC.
    """

    planted: int
    others: int
    own: int
    largest: float

    @classmethod
    def of(cls, plant: str, found: Losses) -> Counted:
        """Count the cells, and find the largest loss."""
        groups = {shift.group for shift in PLANTS[plant]}
        others = [cell for cell in found.cells if cell.group not in groups]
        return cls(
            len(found.cells) - len(others),
            len(others),
            sum(not cell.without for cell in others),
            max((x.worse_by for x in found.cells if x.metric in AUCS), default=0.0),
        )


def rows(draws: int) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield (
        "| planted | background | largest loss of an AUC | cells of it | of others | in samples "
        "| taken for their own | in samples |\n|---|---|--:|--:|--:|--:|--:|--:|"
    )
    for plant in PLANTS:
        for background in BACKGROUNDS:
            rng = np.random.default_rng(zlib.crc32(plant.encode()))
            each = [Counted.of(plant, losses(plant, background, rng)) for _ in range(draws)]
            means = (mean(getattr(one, of) for one in each) for of in ("planted", "others", "own"))
            planted, others, own = (f"{number:.1f}" for number in means)
            shown = sum(one.others > 0 for one in each)
            wrong = sum(one.own > 0 for one in each)
            yield (
                f"| {plant} | `{background}` | {mean(one.largest for one in each):.3f} | {planted} "
                f"| {others} | {shown} of {draws} | {own} | {wrong} of {draws} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    for line in rows(parser.parse_args().draws):
        print(line, flush=True)
