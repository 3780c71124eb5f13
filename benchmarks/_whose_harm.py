"""Attribution of a planted loss: significant losses in the cells of other identities.

The rows are the 42,870 identity-rated test comments of Civil Comments. Champion and candidate have
the normal scores of toxic-bert's ranks with independent noise, so that their scores have a
correlation of .9. The candidate scores the harmless (BPSN) or toxic (BNSP) comments of the planted
identities higher or lower. Other identities can only lose through comments that they share with
these.

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

from benchmarks.gate_sizes.populations import GAY, load_rows
from bias_metrics.gate.losses import ALPHA, Losses
from bias_metrics.metrics import AUCS
from bias_metrics.parts import PackedMasks
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.rows import EvidenceRows

BACKGROUNDS = "outside_subgroup", "no_identity"
# Noise of each model for scores of variance 1, so that the two have a correlation of .9.
_NOISE = math.sqrt(1 / 0.9 - 1)


@dataclass(frozen=True)
class Shift:
    """Upward shifts of the toxic and the harmless comments of an identity."""

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


def simulate_losses(plant: str, background: str, rng: np.random.Generator) -> Losses:
    """Return the significant losses in a sample of two models."""
    labels, members, scores = load_rows()
    champion, candidate = (scores + _NOISE * rng.standard_normal(labels.size) for _ in range(2))
    for shift in PLANTS[plant]:
        candidate += members[shift.group] * np.where(labels, shift.toxic, shift.harmless)
    measurer = RowMeasurer(
        rows=EvidenceRows(
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
    return measurer.find_losses("champion", ALPHA)


@dataclass(frozen=True)
class LossCounts:
    """Numbers of cells with a significant loss in a sample."""

    planted: int
    """Cells of the planted identities."""
    others: int
    """Cells of other identities."""
    own: int
    """Cells of other identities with a loss that is attributed to them."""
    largest: float
    """The largest loss of an AUC."""

    @classmethod
    def from_losses(cls, plant: str, losses: Losses) -> LossCounts:
        """Count the cells, and find the largest loss."""
        groups = {shift.group for shift in PLANTS[plant]}
        others = [cell for cell in losses.cells if cell.group not in groups]
        return cls(
            len(losses.cells) - len(others),
            len(others),
            sum(not cell.without for cell in others),
            max((cell.worse_by for cell in losses.cells if cell.metric in AUCS), default=0.0),
        )


def iter_table(draws: int) -> Iterator[str]:
    """Yield the lines of the table as they are computed."""
    yield (
        "| planted | background | largest loss of an AUC | cells of it | of others | in samples "
        "| taken for their own | in samples |\n|---|---|--:|--:|--:|--:|--:|--:|"
    )
    for plant in PLANTS:
        for background in BACKGROUNDS:
            rng = np.random.default_rng(zlib.crc32(plant.encode()))
            samples = [
                LossCounts.from_losses(plant, simulate_losses(plant, background, rng))
                for _ in range(draws)
            ]
            means = (
                mean(getattr(counts, field) for counts in samples)
                for field in ("planted", "others", "own")
            )
            planted, others, own = (f"{number:.1f}" for number in means)
            n_with_others = sum(counts.others > 0 for counts in samples)
            n_with_own = sum(counts.own > 0 for counts in samples)
            largest = mean(counts.largest for counts in samples)
            yield (
                f"| {plant} | `{background}` | {largest:.3f} | {planted} | {others} "
                f"| {n_with_others} of {draws} | {own} | {n_with_own} of {draws} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    for line in iter_table(parser.parse_args().draws):
        print(line, flush=True)
