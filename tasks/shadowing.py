"""Shadow files: two models, and comments without labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, model_validator

from bias_metrics import LabelSample, ThresholdTransfer, sample_to_label, transfer_threshold
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import whole_file, write_json
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.data import reading
from biasgate.tasks.data.evaluation_set import IDENTITY, EvaluationSet
from biasgate.tasks.data.freezing import check_source, freeze
from biasgate.tasks.data.table import TableSource
from biasgate.tasks.evidence.choose import cluster_codes
from biasgate.tasks.evidence.join import joined_scores
from biasgate.tasks.reporting.report import as_cell
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import Candidate
from biasgate.tasks.scoring.scored import check_set, score_rows
from biasgate.tasks.scoring.sending import agree_to_send, plan_sending
from biasgate.tasks.store import Workplace


class Comments(TableSource):
    """Comments without labels, from a table; options as for `source: table`."""

    def _label_columns(self) -> list[str]:
        return []

    def _labels(self, chunk: reading.Chunk, ids: pa.Array) -> dict[str, pa.Array]:
        """Return 0 for every row: nothing reads it."""
        del chunk
        return {"label": pa.array(np.zeros(len(ids)))}


class ShadowFile(Settings):
    """The content of a shadow file."""

    name: Name
    """Name of the comparison."""
    comments: Comments
    """The site's own comments."""
    before: Candidate
    after: Candidate
    """The model in use, with its `threshold`, and its successor. Without a threshold of its own,
    the successor gets the one at which it flags as many comments."""
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """To how much the difference in accuracy should be known from the labels."""
    n_alike: Annotated[int, Field(ge=1)] = 50
    """Comments to label where both flag, and where neither does."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Which comments are drawn."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.before.threshold is None:
            msg = "`before` must have the `threshold` that it is used with"
            raise ValueError(msg)
        if self.before.name == self.after.name:
            msg = "names of `before` and `after` must differ"
            raise ValueError(msg)
        for candidate in (self.before, self.after):
            if candidate.training() is not None:
                msg = f"candidate {candidate.name} must exist already; it is trained here"
                raise ValueError(msg)
        if self.comments.is_weighted:
            msg = "`comments` must have no `weight`: every comment counts once"
            raise ValueError(msg)
        return self


def read_shadow(path: Path) -> ShadowFile:
    """Read a shadow file, and check everything that can be checked now."""
    found = read_settings(path.resolve(), ShadowFile)
    check_source(found.comments)
    for candidate in (found.before, found.after):
        candidate.check()
        candidate.check_signed()
        candidate.require_text(found.comments)
    return found


REPORT, SAMPLE, SCORES = "shadow.json", "sample.csv", "scores.csv"
_TOLD = 5


@dataclass(frozen=True)
class Shadow:
    """What two models do on the same comments."""

    flags: ThresholdTransfer
    """Thresholds, flags and flips, overall and by identity."""
    sample: LabelSample
    """Comments to label."""
    n_rows: int
    n_compared: int
    """Comments, and those for which both models have a score."""

    def sentences(self) -> list[str]:
        """Return the findings in words."""
        overall, flags = self.flags.overall, self.flags
        n_apart = overall.n_gained + overall.n_lost
        found = [
            f"{self.n_compared:,} of {self.n_rows:,} comments have a score of both models.",
            (
                f"Flagged before at {flags.before:.4g}: {overall.n_before:,}; after at "
                f"{flags.after:.4g}: {overall.n_after:,}. The models agree on "
                f"{1 - n_apart / overall.n:.1%}: {overall.n_gained:,} comments are flagged that "
                f"were not, {overall.n_lost:,} no longer are."
            ),
        ]
        known = {
            name: one
            for name, one in flags.subgroups.items()
            if one.change.value is not None and one.change.low is not None
        }
        most = sorted(known, key=lambda name: -(known[name].change.value or 0.0))[:_TOLD]
        for name in most:
            one = known[name]
            found.append(
                f"{name}: {one.n_before:,} of {one.n:,} flagged before, {one.n_after:,} after "
                f"({one.change.value:+.3f} [{one.change.low:+.3f}, {one.change.high:+.3f}]); "
                f"{one.n_gained:,} gained, {one.n_lost:,} lost."
            )
        n_labels = sum(stratum.n_sampled for stratum in self.sample.strata)
        found.append(
            f"Label the {n_labels:,} comments in {SAMPLE} to know the difference in accuracy to "
            f"{self.sample.margin:g}, at {self.sample.confidence:.0%} confidence."
        )
        return found


def shadow(settings: ShadowFile, workplace: Workplace, output: Path, *, yes: bool) -> Shadow:
    """Compare two models on comments without labels; write a report, scores, a sample to label.

    Kept scores are reused, as in an evaluation.

    `output`: folder for `shadow.json`, `scores.csv` and `sample.csv`, which have ids and no texts.
    `yes`: send comments to services that have a price or limits without asking.
    """
    say(f"freezing {settings.comments.name}")
    rows = freeze(settings.comments, workplace.store)
    models = (settings.before, settings.after)
    for model in models:
        with model.opened(workplace) as scorer:
            check_set(scorer, rows, model)
    agree_to_send(plan_sending(models, [str(rows.folder)], workplace), yes=yes)
    before, after = (_scores(model, rows, workplace) for model in models)
    both = ~np.isnan(before) & ~np.isnan(after)
    if not both.any():
        msg = f"no comment of {settings.comments.name!r} has a score of both models."
        raise InputError(msg)
    found = _compared(settings, rows, before[both], after[both], both)
    content: dict[str, Any] = {
        "name": settings.name,
        "before": settings.before.identity(),
        "after": settings.after.identity(),
        "n_rows": found.n_rows,
        "n_compared": found.n_compared,
        "flags": found.flags.to_dict(),
        "sample": found.sample.to_dict(),
        "sentences": found.sentences(),
    }
    write_json(output / REPORT, content)
    _write_scores(rows, before, after, output / SCORES)
    _write_sample(found, rows, before[both], after[both], both, output / SAMPLE)
    return found


def _scores(
    candidate: CandidateSettings, rows: EvaluationSet, workplace: Workplace
) -> npt.NDArray[np.floating]:
    with candidate.opened(workplace) as scorer:
        return joined_scores(rows, score_rows(scorer, rows, candidate, workplace.scores))


def _compared(
    settings: ShadowFile,
    rows: EvaluationSet,
    before: npt.NDArray[np.floating],
    after: npt.NDArray[np.floating],
    both: npt.NDArray[np.bool_],
) -> Shadow:
    threshold = settings.before.threshold
    assert threshold is not None  # noqa: S101 - a file without it is refused
    mask_of = partial(_mask, rows, settings.comments.identity_threshold, both)
    codes = cluster_codes(rows)
    flags = transfer_threshold(
        before,
        after,
        {name: mask_of(name) for name in rows.identities},
        threshold=threshold,
        threshold_after=settings.after.threshold,
        clusters=None if codes is None else codes[both],
    )
    sample = sample_to_label(
        before >= flags.before,
        after >= flags.after,
        margin=settings.margin,
        rng=np.random.default_rng(settings.seed),
        n_alike=settings.n_alike,
    )
    return Shadow(flags, sample, rows.n_rows, int(both.sum()))


def _mask(
    rows: EvaluationSet, threshold: float, both: npt.NDArray[np.bool_], name: str
) -> npt.NDArray[np.bool_]:
    return np.asarray(rows.column(IDENTITY + name).to_numpy() >= threshold)[both]


def _write_scores(
    rows: EvaluationSet,
    before: npt.NDArray[np.floating],
    after: npt.NDArray[np.floating],
    path: Path,
) -> None:
    """Write the scores of all comments; a missing one is an empty cell."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "before", "after"])
        for name, *scores in zip(rows.column("id").to_pylist(), before, after, strict=True):
            cells = ["" if np.isnan(score) else repr(float(score)) for score in scores]
            writer.writerow([as_cell(name), *cells])


def _write_sample(
    found: Shadow,
    rows: EvaluationSet,
    before: npt.NDArray[np.floating],
    after: npt.NDArray[np.floating],
    both: npt.NDArray[np.bool_],
    path: Path,
) -> None:
    """Write the ids to label, with weights and scores, in an order that tells nothing."""
    ids = np.asarray(rows.column("id").to_pandas(), dtype=object)[both]
    names = _strata(before >= found.flags.before, after >= found.flags.after)
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["id", "weight", "stratum", "before", "after"])
        for at, weight in zip(found.sample.sampled, found.sample.weights, strict=True):
            numbers = (
                repr(float(weight)),
                names[at],
                repr(float(before[at])),
                repr(float(after[at])),
            )
            writer.writerow([as_cell(ids[at]), *numbers])


def _strata(before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]) -> Sequence[str]:
    names = np.array([["neither", "only_after"], ["only_before", "both"]])
    found: list[str] = names[before.astype(int), after.astype(int)].tolist()
    return found
