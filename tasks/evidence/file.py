"""The evidence of a verdict: one file from which anyone can recompute it.

`evidence.parquet` has a row for every labelled row of the set. Its columns are the id, the label,
the identities and slices, the cluster, and the scores of the candidate and its rivals. A missing
score is NaN. Two columns are optional: a mark for truncated texts, and a mark for rated rows. Only
rated rows are measured; the others count in error rates over all rows. The file does not contain
texts. Its metadata record the digests of the set and of the scores.
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
from biasgate.tasks.common.arrow_arrays import convert_column, release_memory
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest
from biasgate.tasks.common.untrusted import check_document, parse_json
from biasgate.tasks.data.evaluation_set import CLUSTER, IDENTITY, SLICE
from biasgate.tasks.evidence.bounds import require_short_names, require_size
from biasgate.tasks.evidence.categories import add_categories
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.rows import CANDIDATE, COLUMNS, EvidenceRows
from biasgate.tasks.records import Bound, Choices
from biasgate.tasks.records.record import Record
from biasgate.tasks.scoring.outcomes import TRUNCATED

FILE = "evidence.parquet"
RIVALS = ("champion", "reference")
RECORD = b"biasgate"
SCORE = "score/"
RATED = "rated"
_IDS = "id"
_CANDIDATE_SCORE = SCORE + CANDIDATE
# Tasks that measure identities in parallel share the rows and their ranks.
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
    """The rows of a candidate on a set, in an `evidence.parquet`; read on first use."""

    path: Path
    with_unrated: bool = False
    """True to include the rows whose identities were not rated."""

    def __reduce__(self) -> tuple[type[EvidenceFile], tuple[Path, bool]]:
        """Pickle only the path; another process reads the rows itself."""
        return EvidenceFile, (self.path, self.with_unrated)

    @property
    def labelled(self) -> EvidenceFile:
        """The same file with all labelled rows, rated or not."""
        return EvidenceFile(self.path, with_unrated=True)

    def release(self) -> None:
        """Free the memory of the rows and their ranks, which are read again on the next use.

        Prefect keeps the results of tasks, and with them the rows of their evidence.
        """
        with _READING:
            for name in vars(self).keys() - {"path", "with_unrated"}:
                del self.__dict__[name]
        release_memory()

    @property
    def folder(self) -> Path:
        """The folder of the file, with the results of the candidate on the set."""
        return self.path.parent

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return file_digest(self.path)

    @cached_property
    def record(self) -> EvidenceRecord:
        """The origin of the rows."""
        metadata = pq.read_schema(self.path).metadata or {}
        if RECORD not in metadata:
            msg = f"evidence must name its origin in its metadata; {self.path.name} does not."
            raise InputError(msg)
        source = f"the origin of the evidence in {self.path.name}"
        return check_document(parse_json(metadata[RECORD], source), EvidenceRecord, source)

    def require_size(self, n_rows: int | None = None) -> None:
        """Refuse evidence that is too large, or has another number of rows, before reading it."""
        with pq.ParquetFile(self.path) as file:
            require_size(file, self.path.name, n_rows)

    @cached_property
    def _table(self) -> pa.Table:
        """The rows with a score of the candidate."""
        if self._has_score is None:
            return self._all_rows
        return self._all_rows.filter(pa.array(self._has_score))

    @cached_property
    def _has_score(self) -> npt.NDArray[np.bool_] | None:
        """Mask of the rows with a score of the candidate; None if all rows have a score."""
        if _CANDIDATE_SCORE not in self._all_rows.column_names:
            return None
        missing = np.isnan(convert_column(self._all_rows[_CANDIDATE_SCORE]))
        return ~missing if missing.any() else None

    def measure_missing(self, confidence: float) -> MarkedRows:
        """Measure the shares of rows without a score of the candidate."""
        return self._measure_marked(
            np.isnan(convert_column(self._all_rows[_CANDIDATE_SCORE])), confidence
        )

    def measure_truncated(self, confidence: float) -> MarkedRows | None:
        """Measure the shares of rows with a truncated text; None if they are unknown."""
        if TRUNCATED not in self._all_rows.column_names:
            return None
        return self._measure_marked(convert_column(self._all_rows[TRUNCATED]), confidence)

    def _measure_marked(self, marked: npt.NDArray[np.bool_], confidence: float) -> MarkedRows:
        rows = self._all_rows
        names = [name for name in rows.column_names if name.startswith(IDENTITY)]
        masks = ((name.removeprefix(IDENTITY), convert_column(rows[name])) for name in names)
        return marked_rows(
            marked,
            PackedMasks.from_masks(masks, rows.num_rows),
            confidence=confidence,
            clusters=convert_column(rows[CLUSTER]) if CLUSTER in rows.column_names else None,
            background=self.background,
        )

    @property
    def is_complete(self) -> bool:
        """True if every row has a score of the candidate."""
        return self._has_score is None

    @property
    def n_missing(self) -> dict[str, int]:
        """Number of rows without a score of the champion or the reference, if above 0."""
        n_by_role = {role: int(np.isnan(self.scores(role)).sum()) for role in self.roles}
        return {role: n for role, n in n_by_role.items() if n}

    @cached_property
    def _all_rows(self) -> pa.Table:
        with pq.ParquetFile(self.path) as file:  # `pq.read_table` imports pandas
            require_size(file, self.path.name)
            names = [name for name in file.schema_arrow.names if name != _IDS]
        # A dictionary stores each distinct text once.
        texts = [CLUSTER] if CLUSTER in names else None
        with pq.ParquetFile(self.path, read_dictionary=texts) as file:
            return require_short_names(self._drop_unrated(file.read(names)), self.path.name)

    def _drop_unrated(self, rows: pa.Table) -> pa.Table:
        """Drop the rows that were not rated, unless `with_unrated` is set."""
        if self.with_unrated or RATED not in pq.read_schema(self.path).names:
            return rows
        with pq.ParquetFile(self.path) as file:
            return rows.filter(file.read([RATED])[RATED])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column, except for the ids."""
        return convert_column(self._table[name])

    def columns(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns with a prefix, by the rest of their names."""
        return {name: self.column(prefix + name) for name in self._list_suffixes(prefix)}

    def _list_suffixes(self, prefix: str) -> list[str]:
        """List the columns with a prefix, by the rest of their names."""
        names = self._table.column_names
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    @property
    def roles(self) -> list[str]:
        """The models with scores: `candidate`, and `champion` and `reference` if given."""
        return self._list_suffixes(SCORE)

    def scores(self, role: str) -> npt.NDArray[Any]:
        """Return the scores of a model."""
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

        Parameters
        ----------
        keys : iterable of EvidenceKey
            Slice and two-sided confidence of each set of measurements.
        thresholds : mapping
            By name and role, for rules on error rates.
        rules : sequence of Rule
            They decide if calibration is measured, and which groups are small.
        small : SmallGroups, optional
            Categories, and groups that are not measured. Default: no group is joined.
        sharing : int
            Number of candidates that share alpha in the confidences. Small groups, which block if
            they are significantly worse, are tested at the full alpha.

        Returns
        -------
        dict of EvidenceKey to Evidence
            Measurements by key.
        """
        measurements: dict[EvidenceKey, Evidence] = {}
        categories: Mapping[str, Sequence[str]] = {}
        for slice_, confidence in keys:
            if small is not None and small.hierarchy is not None and self.is_sample:
                categories = small.hierarchy.group_identities(self.identities)
            calibrated = needs_calibration(rules)
            measurer = self._select_measurer(slice_, thresholds, calibrated, categories)
            evidence = measurer.measure(confidence)
            if small is not None and not self.is_sample:
                evidence = replace(evidence, small_groups=replace(small, hierarchy=None))
            elif small is not None:
                evidence = replace(evidence, small_groups=small)
                key_rules = [
                    rule for rule in rules if (rule.slice, rule.level) == (slice_, confidence)
                ]
                unshared = confidence if sharing == 1 else 1 - (1 - confidence) * sharing
                evidence = add_categories(
                    measurer, evidence, confidence, small, key_rules, unshared
                )
            measurements[slice_, confidence] = evidence
        for slice_ in {slice_ for slice_, _ in measurements if slice_ is not None}:
            del self._measurers[slice_]  # frees memory, since each slice is measured only once
        return measurements

    @property
    def identities(self) -> list[str]:
        """Names of the measured identities."""
        return list(self._members)

    def measure_set(self, confidence: float) -> Evidence:
        """Measure all rows."""
        return self._select_measurer(None, {}).measure(confidence)

    def ids(self) -> pa.ChunkedArray:
        """Return the ids of the measured rows."""
        with pq.ParquetFile(self.path) as file:
            ids = self._drop_unrated(file.read([_IDS]))[_IDS]
        return ids if self._has_score is None else ids.filter(pa.array(self._has_score))

    @property
    def rows(self) -> EvidenceRows:
        """The measured rows as arrays; read once."""
        with _READING:
            return self._arrays

    @cached_property
    def _arrays(self) -> EvidenceRows:
        return self._select_rows(None)

    @property
    def dominant(self) -> list[DominantUnits]:
        """Clusters and rows of large weight with a strong influence on the numbers."""
        return find_dominant_units(self.rows.check_rows(self.background))

    @property
    def measurement(self) -> Measurement:
        """The candidate on these rows, ranked once."""
        with _READING:
            return self._measurement

    @cached_property
    def _measurement(self) -> Measurement:
        rows = self._arrays
        return Measurement(rows.check_rows(self.background), rows.y_score)

    def measure_without(self, identities: Collection[str], confidence: float) -> Evidence | None:
        """Measure with power means over the other identities; None if these stay the same."""
        groups = self.record.power_mean_groups or self.identities
        kept = [name for name in groups if name not in identities]
        if len(kept) == len(groups) or not kept:
            return None
        return self._select_measurer(None, {}).measure(confidence, groups=kept)

    def measure_with(self, confidence: float, categories: Mapping[str, Sequence[str]]) -> Evidence:
        """Measure all rows, with categories of identities in addition to the identities."""
        return self._select_measurer(None, {}, categories=categories).measure(
            confidence, joined=True
        )

    def _select_measurer(
        self,
        slice_: str | None,
        thresholds: Mapping[str, Mapping[str, float]],
        calibrated: bool = False,  # noqa: FBT001, FBT002
        categories: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> RowMeasurer:
        """Return the rows of a slice, or all rows, with their cache of measurements."""
        with _READING:
            if slice_ not in self._measurers:
                self._measurers[slice_] = RowMeasurer(
                    rows=self._select_rows(self._find_slice(slice_)),
                    power_mean_groups=self.record.power_mean_groups,
                    background=self.background,
                    is_sample=self.is_sample,
                    thresholds={},
                    span=self._find_span,
                )
            measurer = self._measurers[slice_]
        return replace(
            measurer, thresholds=thresholds, calibrated=calibrated, categories=categories
        )

    @cached_property
    def _measurers(self) -> dict[str | None, RowMeasurer]:
        return {}

    def _find_span(self, name: str, role: str, confidence: float) -> tuple[float, float] | None:
        """Return the confidence interval of a threshold estimated from all rows, or None."""
        if name != EQUAL_ERRORS:
            return None
        if (role, confidence) not in self._spans:
            scores, clusters = self.scores(role), self._clusters
            has_score = ~np.isnan(scores)
            self._spans[role, confidence] = equal_error_range(
                self.column("label")[has_score],
                scores[has_score],
                confidence=confidence,
                clusters=None if clusters is None else clusters[has_score],
            )
        return self._spans[role, confidence]

    @cached_property
    def _spans(self) -> dict[tuple[str, float], tuple[float, float]]:
        return {}

    def find_losses(
        self,
        rival: str,
        alpha: float,
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> Losses:
        """List the significant losses against a rival on all rows; see `Measuring.find_losses`."""
        return self._select_measurer(None, thresholds).find_losses(rival, alpha)

    def count_changes(self, rival: str, at: Mapping[str, float]) -> ChangedDecisions | None:
        """Count the decisions that differ from a rival's; None if rows have weights."""
        if self.rows.weights is not None:
            return None
        return self._select_measurer(None, {}).count_changes(rival, at)

    @property
    def is_sample(self) -> bool:
        """True if the rows are a sample; False if the verdict is about exactly these rows."""
        return self.record.choices.population != "these_rows"

    @property
    def _clusters(self) -> npt.NDArray[Any] | None:
        return self.column(CLUSTER) if CLUSTER in self._table.column_names else None

    @property
    def background(self) -> Background:
        """The rows that identities are compared with."""
        return self.record.choices.background

    @cached_property
    def _members(self) -> PackedMasks:
        # A generator, so that a single mask is unpacked at a time.
        masks = ((name, self.column(IDENTITY + name)) for name in self._list_suffixes(IDENTITY))
        return PackedMasks.from_masks(masks, self._table.num_rows)

    def _select_rows(self, mask: npt.NDArray[np.bool_] | None) -> EvidenceRows:
        """Return the rows of a mask as arrays; all rows for None."""
        names = self._table.column_names
        rows = EvidenceRows(
            **{field: self.column(name) for field, name in COLUMNS.items() if name in names},
            members=self._members,
            scores=self.columns(SCORE),
        )
        return rows if mask is None else rows.select_rows(mask)

    def _find_slice(self, slice_: str | None) -> npt.NDArray[np.bool_] | None:
        """Return the mask of a slice; None for all rows."""
        if slice_ is None:
            return None
        slices = self.columns(SLICE)
        if slice_ not in slices:
            known = ", ".join(slices) or "none"
            msg = f"a rule's `slice` must be one of the set's; got {slice_!r} (known: {known})."
            raise InputError(msg)
        return np.asarray(slices[slice_], dtype=np.bool_)


def open_evidence(path: Path) -> EvidenceFile:
    """Open the evidence in a folder of results, or in a file."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        msg = f"{path} must be an evidence.parquet, or a results folder that holds it."
        raise InputError(msg)
    return EvidenceFile(file)
