"""The evidence of a verdict: one file from which anyone can recompute it.

`evidence.parquet` holds every labelled row: its id, its label, its identities and slices, its
cluster, and the scores of the candidate and its rivals, NaN if a model has none. If it is known, a
column says whose text the candidate truncated. If identities of some rows were not rated, a column
says which rows are rated: only these are measured, and the others count in error rates over all
rows. It holds no text. Its metadata name the sets and scores that it was created from.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bias_metrics import equal_error_range, marked_rows
from bias_metrics.gate import Evidence, EvidenceKey, Losses, Rule, SmallGroups, needs_calibration
from bias_metrics.metrics import EQUAL_ERRORS
from bias_metrics.parts import DominantUnits, PackedMasks, find_dominant_units
from bias_metrics.report import Measurement
from bias_metrics.rows import Background
from bias_metrics.thresholds import ChangedDecisions, MarkedRows
from biasgate.tasks.common.arrow_arrays import as_numpy, give_back_memory
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest
from biasgate.tasks.common.untrusted import check, parse_json
from biasgate.tasks.data.evaluation_set import CLUSTER, IDENTITY, SLICE
from biasgate.tasks.evidence.bounds import require_short, require_size
from biasgate.tasks.evidence.categories import with_categories
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import COLUMNS, Rows
from biasgate.tasks.records import Bound, Choices
from biasgate.tasks.records.record import Record
from biasgate.tasks.scoring.outcomes import TRUNCATED

FILE = "evidence.parquet"
RIVALS = ("champion", "reference")
RECORD = b"biasgate"
SCORE = "score/"
RATED = "rated"
_IDS = "id"
# Steps that measure identities at once share what is read and ranked.
_READING = threading.RLock()


@dataclass(frozen=True, kw_only=True)
class EvidenceRecord(Record):
    """The origin of the evidence; `scores` and `bound` are by role."""

    set_digest: str
    choices: Choices
    power_mean_groups: list[str] | None
    scores: dict[str, str]
    bound: dict[str, Bound]


@dataclass(frozen=True)
class EvidenceFile:
    """The rows of one candidate on one set, in an `evidence.parquet`; read when asked for."""

    path: Path
    with_unrated: bool = False
    """Whether rows count whose identities nobody rated."""

    def __reduce__(self) -> tuple[type[EvidenceFile], tuple[Path, bool]]:
        """Keep the path alone: another process reads the rows itself."""
        return EvidenceFile, (self.path, self.with_unrated)

    @property
    def labelled(self) -> EvidenceFile:
        """The same file with all labelled rows, also those whose identities nobody rated."""
        return EvidenceFile(self.path, with_unrated=True)

    def release(self) -> None:
        """Let go of what was read and ranked: Prefect keeps what a task returned.

        It is read again when asked for.
        """
        with _READING:
            for name in vars(self).keys() - {"path", "with_unrated"}:
                del self.__dict__[name]
        give_back_memory()

    @property
    def folder(self) -> Path:
        """The folder of the file, which is the candidate's on a set."""
        return self.path.parent

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return file_digest(self.path)

    @cached_property
    def record(self) -> EvidenceRecord:
        """The origin of the rows."""
        known = pq.read_schema(self.path).metadata or {}
        if RECORD not in known:
            msg = f"evidence must name its origin in its metadata; {self.path.name} does not."
            raise InputError(msg)
        what = f"the origin of the evidence in {self.path.name}"
        return check(parse_json(known[RECORD], what), EvidenceRecord, what)

    def require_size(self, n_rows: int | None = None) -> None:
        """Refuse evidence that is larger than any real one, or than the report says, unread."""
        with pq.ParquetFile(self.path) as file:
            require_size(file, self.path.name, n_rows)

    @cached_property
    def _table(self) -> pa.Table:
        """The rows that the candidate has a score for."""
        return self._every if self._scored is None else self._every.filter(pa.array(self._scored))

    @cached_property
    def _scored(self) -> npt.NDArray[np.bool_] | None:
        """Which rows the candidate has a score for; None if it has one for all."""
        name = SCORE + "candidate"
        if name not in self._every.column_names:
            return None
        missing = np.isnan(as_numpy(self._every[name]))
        return ~missing if missing.any() else None

    def missing(self, confidence: float) -> MarkedRows:
        """Return how many rows the candidate has no score for."""
        return self._marked(np.isnan(as_numpy(self._every[SCORE + "candidate"])), confidence)

    def truncated(self, confidence: float) -> MarkedRows | None:
        """Return of how many rows the candidate truncated the text; None if that is unknown."""
        if TRUNCATED not in self._every.column_names:
            return None
        return self._marked(as_numpy(self._every[TRUNCATED]), confidence)

    def _marked(self, marked: npt.NDArray[np.bool_], confidence: float) -> MarkedRows:
        rows = self._every
        names = [name for name in rows.column_names if name.startswith(IDENTITY)]
        masks = ((name.removeprefix(IDENTITY), as_numpy(rows[name])) for name in names)
        return marked_rows(
            marked,
            PackedMasks.from_masks(masks, rows.num_rows),
            confidence=confidence,
            clusters=as_numpy(rows[CLUSTER]) if CLUSTER in rows.column_names else None,
            background=self.background,
        )

    @property
    def is_complete(self) -> bool:
        """Whether the candidate has a score for every row."""
        return self._scored is None

    @property
    def n_missing(self) -> dict[str, int]:
        """For how many rows champion and reference have no score, where there are any."""
        found = {role: int(np.isnan(self.scores(role)).sum()) for role in self.roles}
        return {role: n for role, n in found.items() if n}

    @cached_property
    def _every(self) -> pa.Table:
        with pq.ParquetFile(self.path) as file:  # `pq.read_table` imports pandas
            require_size(file, self.path.name)
            names = [name for name in file.schema_arrow.names if name != _IDS]
        # A dictionary holds a text once, however many rows have it.
        texts = [CLUSTER] if CLUSTER in names else None
        with pq.ParquetFile(self.path, read_dictionary=texts) as file:
            return require_short(self._counted(file.read(names)), self.path.name)

    def _counted(self, rows: pa.Table) -> pa.Table:
        """Return the rows that count."""
        if self.with_unrated or RATED not in pq.read_schema(self.path).names:
            return rows
        with pq.ParquetFile(self.path) as file:
            return rows.filter(file.read([RATED])[RATED])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column, apart from the ids."""
        return as_numpy(self._table[name])

    def columns(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns with a prefix, by the rest of their names."""
        names = [
            column_name
            for column_name in self._table.column_names
            if column_name.startswith(prefix)
        ]
        return {name.removeprefix(prefix): self.column(name) for name in names}

    @property
    def roles(self) -> list[str]:
        """The models with scores: `candidate`, and `champion` and `reference` if given."""
        return [
            column_name.removeprefix(SCORE)
            for column_name in self._table.column_names
            if column_name.startswith(SCORE)
        ]

    def scores(self, role: str) -> npt.NDArray[Any]:
        """Return one model's scores."""
        return self.column(SCORE + role)

    def measure(
        self,
        keys: Iterable[EvidenceKey],
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
        rules: Sequence[Rule] = (),
        *,
        small: SmallGroups | None = None,
        sharing: int = 1,
    ) -> dict[EvidenceKey, Evidence]:
        """Measure the numbers that rules need, by slice and two-sided confidence.

        `rules` say whether calibration is measured, and what is a small group. `sharing`
        candidates share alpha in the confidences; small groups, which block if they are shown to be
        worse, keep all of it.
        """
        found: dict[EvidenceKey, Evidence] = {}
        categories: Mapping[str, Sequence[str]] = {}
        for slice_, confidence in keys:
            if small is not None and small.hierarchy is not None and self.is_sample:
                categories = small.hierarchy.group_identities(self.identities)
            calibrated = needs_calibration(rules)
            measuring = self._measuring(slice_, thresholds, calibrated, categories)
            one = measuring.evidence(confidence)
            if small is not None and not self.is_sample:
                one = replace(one, small_groups=replace(small, hierarchy=None))
            elif small is not None:
                one = replace(one, small_groups=small)
                own = [rule for rule in rules if (rule.slice, rule.level) == (slice_, confidence)]
                whole = confidence if sharing == 1 else 1 - (1 - confidence) * sharing
                one = with_categories(measuring, one, confidence, small, own, whole)
            found[slice_, confidence] = one
        for slice_ in {slice_ for slice_, _ in found if slice_ is not None}:
            del self._known[slice_]  # nobody asks for a slice again
        return found

    @property
    def identities(self) -> list[str]:
        """The measured identities."""
        return list(self._members)

    def measure_set(self, confidence: float) -> Evidence:
        """Measure all rows."""
        return self._measuring(None, {}).evidence(confidence)

    def ids(self) -> pa.ChunkedArray:
        """Return the ids of these rows."""
        with pq.ParquetFile(self.path) as file:
            found = self._counted(file.read([_IDS]))[_IDS]
        return found if self._scored is None else found.filter(pa.array(self._scored))

    @property
    def measured(self) -> Rows:
        """The rows of the evaluated set; read once."""
        with _READING:
            return self._measured

    @cached_property
    def _measured(self) -> Rows:
        return self._chosen(None)

    @property
    def dominant(self) -> list[DominantUnits]:
        """The clusters and rows that numbers depend on heavily."""
        return find_dominant_units(self.measured.checked(self.background))

    @property
    def measurement(self) -> Measurement:
        """The candidate on these rows, ranked once."""
        with _READING:
            return self._measurement

    @cached_property
    def _measurement(self) -> Measurement:
        rows = self._measured
        return Measurement(rows.checked(self.background), rows.y_score)

    def without(self, identities: Collection[str], confidence: float) -> Evidence | None:
        """Measure all rows with power means that leave identities out; None if nothing changes."""
        groups = self.record.power_mean_groups or self.identities
        kept = [name for name in groups if name not in identities]
        if len(kept) == len(groups) or not kept:
            return None
        return self._measuring(None, {}).evidence(confidence, groups=kept)

    def measure_with(self, confidence: float, categories: Mapping[str, Sequence[str]]) -> Evidence:
        """Measure all rows, and identities joined into categories as well."""
        return self._measuring(None, {}, categories=categories).evidence(confidence, joined=True)

    def _measuring(
        self,
        slice_: str | None,
        thresholds: Mapping[str, Mapping[str, float]],
        calibrated: bool = False,  # noqa: FBT001, FBT002
        categories: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> Measuring:
        """Return some rows, which keep what is measured of them."""
        with _READING:
            if slice_ not in self._known:
                self._known[slice_] = self._measuring_rows(self._chosen(self._rows_of(slice_)), {})
            known = self._known[slice_]
        asked: dict[str, Any] = {"thresholds": thresholds, "calibrated": calibrated}
        return replace(known, **asked, categories=categories)

    @cached_property
    def _known(self) -> dict[str | None, Measuring]:
        return {}

    def _measuring_rows(
        self,
        rows: Rows,
        thresholds: Mapping[str, Mapping[str, float]],
    ) -> Measuring:
        return Measuring(
            rows=rows,
            power_mean_groups=self.record.power_mean_groups,
            background=self.background,
            is_sample=self.is_sample,
            thresholds=thresholds,
            span=self._span,
        )

    def _span(self, name: str, role: str, confidence: float) -> tuple[float, float] | None:
        """Return the uncertainty of a threshold that is estimated from all rows."""
        if name != EQUAL_ERRORS:
            return None
        if (role, confidence) not in self._spans:
            self._spans[role, confidence] = self._equal_error_range(role, confidence)
        return self._spans[role, confidence]

    @cached_property
    def _spans(self) -> dict[tuple[str, float], tuple[float, float]]:
        return {}

    def _equal_error_range(self, role: str, confidence: float) -> tuple[float, float]:
        labels, scores, clusters = self.column("label"), self.scores(role), self._clusters
        known = ~np.isnan(scores)
        within = None if clusters is None else clusters[known]
        options: dict[str, Any] = {"confidence": confidence, "clusters": within}
        return equal_error_range(labels[known], scores[known], **options)

    def losses(
        self,
        rival: str,
        alpha: float,
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> Losses:
        """Return what is shown to be worse than a rival's on all rows, see `Measuring.losses`."""
        return self._measuring(None, thresholds).losses(rival, alpha)

    def changes(self, rival: str, at: Mapping[str, float]) -> ChangedDecisions | None:
        """Count the decisions that differ from a rival's; None if rows have weights."""
        if self.measured.weights is not None:
            return None
        return self._measuring(None, {}).changes(rival, at)

    @property
    def is_sample(self) -> bool:
        """Whether verdicts are about more rows than these."""
        return self.record.choices.population != "these_rows"

    @property
    def _clusters(self) -> npt.NDArray[Any] | None:
        return self.column(CLUSTER) if CLUSTER in self._table.column_names else None

    @property
    def background(self) -> Background:
        """What identities are compared with."""
        return self.record.choices.background

    @cached_property
    def _members(self) -> PackedMasks:
        return self._masks(IDENTITY)

    def _masks(self, prefix: str) -> PackedMasks:
        names = [
            column_name
            for column_name in self._table.column_names
            if column_name.startswith(prefix)
        ]
        masks = ((name.removeprefix(prefix), self.column(name)) for name in names)  # one at a time
        return PackedMasks.from_masks(masks, self._table.num_rows)

    def _chosen(self, rows: npt.NDArray[np.bool_] | None) -> Rows:
        """Return some rows; None for all."""
        there = self._table.column_names
        found = Rows(
            **{field: self.column(name) for field, name in COLUMNS.items() if name in there},
            members=self._members,
            scores=self.columns(SCORE),
        )
        return found if rows is None else found.within(rows)

    def _rows_of(self, slice_: str | None) -> npt.NDArray[np.bool_] | None:
        if slice_ is None:
            return None
        slices = self.columns(SLICE)
        if slice_ not in slices:
            known = ", ".join(slices) or "none"
            msg = f"a rule's `slice` must be one of the set's; got {slice_!r} (known: {known})."
            raise InputError(msg)
        return np.asarray(slices[slice_], dtype=np.bool_)


def evidence_at(path: Path) -> EvidenceFile:
    """Return the evidence in a folder of results, or in a file."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        msg = f"{path} must be an evidence.parquet, or a results folder that holds it."
        raise InputError(msg)
    return EvidenceFile(file)
