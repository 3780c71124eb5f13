"""Evidence without rows: counts of scores, from which a verdict can be recomputed.

`evidence.counts` is an archive of `record.json`, the counts of each model's scores
(`candidate.npz`, `champion.npz`), and the counts of pairs of scores (`champion-pairs.npz`). Each
shard is counted into such a file, and the sum of these files is the evidence. It contains neither
texts nor ids nor rows.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from bias_metrics import BiasTable, Key, MetricValue, ScoreCounts
from bias_metrics.binned import bound_difference
from bias_metrics.families import bonferroni_level
from bias_metrics.gate import (
    LEAST_COMPARED,
    Evidence,
    EvidenceKey,
    Losses,
    Rule,
    SmallGroups,
    needs_calibration,
)
from bias_metrics.metrics import (
    CALIBRATION_GAP,
    EQUAL_ERRORS,
    GIVEN,
    METRICS,
    SUBGROUP_METRICS,
    list_threshold_metrics,
)
from bias_metrics.parts import LARGEST_WHOLE
from bias_metrics.rows import Background
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.untrusted import check_document, parse_json, read_bytes
from biasgate.tasks.evidence.file import EvidenceRecord
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.records import CountBasis
from biasgate.tasks.records.record import Record

FILE = "evidence.counts"
NO_ROWS = "Counts do not include rows, clusters, slices or calibration curves."
NO_MEMBERS = (
    "Counts do not record which comments mention several identities: bounds on power means and the "
    "final score are wider than needed, and losses are not attributed to identities."
)
IN_PAIRS = (
    "The relation between two models' errors is known only by wide bins of scores: bounds on "
    "differences hold for any relation within a bin."
)
NO_PAIRS = (
    "The relation between two models' power means and final scores is unknown: bounds on the "
    "differences assume the worst case."
)
NO_CHANGES = (
    "Counts do not record which decisions differ from the champion's: changed decisions are not "
    "counted."
)
NO_CATEGORIES = "Identities with too few comments are not judged in their category."
_RECORD, _NPZ, _PAIRS = "record.json", ".npz", "-pairs.npz"
MOST_BYTES = 2**30
_SHOWN = 200
_LONGEST_NAME = 1024  # of an object in a store
_MOST_ROWS = 10**12  # of a shard
_ROLES = (CANDIDATE, "champion", "reference")


@dataclass(frozen=True, kw_only=True)
class Shard(Record):
    """A counted file, with its numbers of rated and measured rows.

    `n_rows` is the number of rows with a label. `n_counted` is the number of measured rows after
    repetition by frequency weights.
    """

    name: str
    sha256: str
    n_rows: int
    n_unlabelled: int = 0
    n_rated: int
    n_measured: int
    n_counted: int


@dataclass(frozen=True, kw_only=True)
class CountedRecord(Record):
    """The origin of the counts: `key` is a digest of everything that affects a shard's counts.

    Only the evidence of a verdict has an `origin`, in the same form as for rows.
    """

    key: str
    shards: list[Shard]
    origin: EvidenceRecord | None = None


@dataclass(frozen=True)
class Counted:
    """The counts of one or more shards."""

    record: CountedRecord
    counts: Mapping[str, ScoreCounts]
    """Counts of scores by role of the model."""
    pairs: Mapping[str, ScoreCounts]
    """Counts of pairs of scores, the candidate's and the rival's, by rival."""

    def __add__(self, other: Counted) -> Counted:
        """Add the counts of other shards; see `refuse_sum`."""
        self.refuse_sum(other)
        ours, theirs = self.record, other.record
        try:
            counts = {role: count + other.counts[role] for role, count in self.counts.items()}
            pairs = {role: count + other.pairs[role] for role, count in self.pairs.items()}
        except ValueError as error:
            names = [quote_name(counted.record.shards[0].name) for counted in (self, other)]
            msg = f"counts of {names[0]} and of {names[1]} do not add up: {error}"
            raise InputError(msg) from error
        shards = sorted(
            [*ours.shards, *theirs.shards], key=lambda shard: (shard.name, shard.sha256)
        )
        return Counted(replace(ours, shards=shards), counts, pairs)

    def refuse_sum(self, other: Counted) -> None:
        """Refuse counts with other options or models, and shards that are already counted."""
        ours, theirs = self.record, other.record
        names = [quote_name(counted.record.shards[0].name) for counted in (self, other)]
        has_same_keys = self.counts.keys() == other.counts.keys() and self.names == other.names
        if ours.key != theirs.key or not has_same_keys:
            msg = (
                f"counts must be of the same set, with the same options; those of {names[0]} and "
                f"of {names[1]} are not. Count files must agree in `name`, columns, `bits`, "
                "models, and thresholds of labels and identities."
            )
            raise InputError(msg)
        names_by_digest = {shard.sha256: shard.name for shard in ours.shards}
        for shard in theirs.shards:
            if shard.sha256 in names_by_digest:
                counted_name = names_by_digest[shard.sha256]
                msg = (
                    f"a shard must be counted once; {quote_name(counted_name)} and "
                    f"{quote_name(shard.name)} have the same content."
                )
                raise InputError(msg)

    @staticmethod
    def sum(parts: Iterable[Counted]) -> Counted:
        """Return the sum of the counts of at least one shard."""
        return reduce(Counted.__add__, parts)

    def to_bytes(self) -> bytes:
        """Serialize the counts as an archive; equal counts give equal bytes."""
        file = io.BytesIO()
        record = json.dumps(convert_to_plain(self.record), sort_keys=True).encode()
        parts = {_RECORD: record}
        parts |= {role + _NPZ: counts.to_bytes() for role, counts in self.counts.items()}
        parts |= {role + _PAIRS: counts.to_bytes() for role, counts in self.pairs.items()}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in parts.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> Counted:
        """Read an archive from an untrusted source; `source` names it in errors.

        Raises
        ------
        InputError
            If the archive has another form, is too large, or is inconsistent.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {member.filename: member for member in archive.infolist()}
                _require_members(members, len(archive.infolist()), source)
                content = parse_json(archive.read(members[_RECORD]), source)
                record = check_document(content, CountedRecord, source)
                counts, pairs = (
                    {
                        role: ScoreCounts.from_bytes(archive.read(members[role + ending]))
                        for role in _ROLES
                        if role + ending in members
                    }
                    for ending in (_NPZ, _PAIRS)
                )
            counted = cls(record, counts, pairs)
            counted.refuse_contradictions(source)
        except InputError:
            raise
        except Exception as error:
            # A malformed archive can make zipfile and numpy raise any exception.
            reason = escape_invisible(str(error) or type(error).__name__)[:_SHOWN]
            msg = f"{source} must be counts of scores as biasgate writes them; {reason}"
            raise InputError(msg) from error
        return counted

    def refuse_contradictions(self, source: str) -> None:
        """Refuse counts that do not match the shards of the record."""
        shards = {shard.sha256 for shard in self.record.shards}
        n_counted = sum(shard.n_counted for shard in self.record.shards)
        is_consistent = (
            CANDIDATE in self.counts
            and len(shards) == len(self.record.shards) > 0
            and all(map(_is_valid_shard, self.record.shards))
            and all(
                count.shards == shards and count.n == n_counted and count.names == self.names
                for count in (*self.counts.values(), *self.pairs.values())
            )
            and self.pairs.keys() == self.counts.keys() - {CANDIDATE}
            and all(map(_has_valid_scores, self.counts.values()))
        )
        if not is_consistent:
            msg = f"{source} must have the counts of the shards that it names; it has others."
            raise InputError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the identities."""
        return self.counts[CANDIDATE].names


def _has_valid_scores(counts: ScoreCounts) -> bool:
    """Return True if all scores are below 2^53 in size, the limit for files of scores."""
    return bool(max(abs(counts.least[0]), abs(counts.most[-1])) < LARGEST_WHOLE)


def _is_valid_shard(shard: Shard) -> bool:
    """Return True if the name, the digest and the row counts of a shard are possible."""
    return (
        re.fullmatch(r"[0-9a-f]{64}", shard.sha256) is not None
        and len(shard.name) <= _LONGEST_NAME
        and shard.n_rows <= _MOST_ROWS
        and 0 <= shard.n_unlabelled <= _MOST_ROWS
        and all(0 <= n <= shard.n_rows for n in (shard.n_rated, shard.n_measured))
        and min(shard.n_measured, shard.n_counted) > 0
    )


def _require_members(members: Mapping[str, zipfile.ZipInfo], n_members: int, source: str) -> None:
    if len(members) < n_members:
        msg = f"{source} must hold each file once in its archive; a file is repeated."
        raise InputError(msg)
    if sum(member.file_size for member in members.values()) > MOST_BYTES:
        msg = f"{source} must unpack to at most {MOST_BYTES:,} bytes; it has more."
        raise InputError(msg)


def read_counted(path: Path) -> Counted:
    """Read a file of counts."""
    source = f"file {path}"
    return Counted.from_bytes(read_bytes(path, source, MOST_BYTES), source)


def quote_name(name: str) -> str:
    """Quote the name of a shard for a message."""
    return repr(escape_invisible(name))


@dataclass(frozen=True)
class CountedEvidence:
    """Counts of a candidate on a set, in a file; the interface is that of `EvidenceFile`."""

    path: Path
    is_complete = True
    is_sample = True
    dominant = ()  # unknown, since counts do not include rows

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return file_digest(self.path)

    @cached_property
    def counted(self) -> Counted:
        """The counts."""
        return read_counted(self.path)

    @property
    def record(self) -> EvidenceRecord:
        """The origin of the counts."""
        origin = self.counted.record.origin
        if origin is None:
            msg = f"file {self.path} must be the evidence of a verdict; it has counts of a shard."
            raise InputError(msg)
        return origin

    @property
    def counts(self) -> Mapping[str, ScoreCounts]:
        """Counts of scores by role."""
        return self.counted.counts

    @property
    def roles(self) -> list[str]:
        """Roles of the models with scores."""
        return list(self.counts)

    @property
    def identities(self) -> list[str]:
        """Names of the measured identities."""
        return list(self.counted.names)

    @property
    def n_missing(self) -> dict[str, int]:
        """Empty, since shards with rows without a score are refused."""
        return {}

    @property
    def background(self) -> Background:
        """The rows that identities are compared with."""
        return self.record.choices.background

    @property
    def limitations(self) -> list[str]:
        """Limitations of counts compared with rows, as sentences."""
        limitations = [NO_ROWS, NO_MEMBERS]
        if len(self.roles) > 1:
            limitations += [IN_PAIRS, NO_PAIRS]
        if "champion" in self.roles:
            limitations.append(NO_CHANGES)
        return limitations

    def describe(self, *, has_categories: bool) -> CountBasis:
        """Return the origin, precision and limitations of the counts, for a verdict.

        Parameters
        ----------
        has_categories : bool
            True if the policy has categories, which counts cannot measure.
        """
        candidate = self.counts[CANDIDATE]
        brackets = filter(None, candidate.brackets(background=self.background).values())
        return CountBasis(
            n_shards=len(self.counted.record.shards),
            bits=candidate.bits,
            widest=max((high - low for low, high in brackets), default=0.0),
            not_told=[*self.limitations, *([NO_CATEGORIES] if has_categories else [])],
        )

    def measure(
        self,
        keys: Iterable[EvidenceKey],
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
        rules: Sequence[Rule] = (),
        *,
        small: SmallGroups | None = None,
        sharing: int = 1,
    ) -> dict[EvidenceKey, Evidence]:
        """Measure the numbers that rules need; small identities are not joined in categories."""
        del sharing
        calibrated = needs_calibration(rules)
        groups = replace(small or SmallGroups(), hierarchy=None)
        return {
            key: replace(
                self._measure_rows(key[1], thresholds, calibrated=calibrated), small_groups=groups
            )
            for key in dict.fromkeys(keys)
        }

    def measure_set(self, confidence: float) -> Evidence:
        """Measure all rows."""
        return self._measure_rows(confidence, {})

    def measure_without(self, identities: Iterable[str], confidence: float) -> Evidence | None:
        """Measure with power means over the other identities; None if these stay the same."""
        groups = self.record.power_mean_groups or self.identities
        excluded = set(identities)
        kept = [name for name in groups if name not in excluded]
        if len(kept) == len(groups) or not kept:
            return None
        return self._measure_rows(confidence, {}, kept)

    def measure_missing(self, confidence: float) -> NoReturn:
        """Refuse a limit on missing scores, since shards with such rows are refused."""
        del confidence
        msg = "`max_missing` must not be set for counts: a row without a score is not counted."
        raise InputError(msg)

    def measure_truncated(self, confidence: float) -> None:
        """Return None, since counts do not record truncated comments."""

    def count_changes(self, rival: str, at: Mapping[str, float]) -> None:
        """Return None, since counting changed decisions requires rows."""

    def find_losses(
        self,
        rival: str,
        alpha: float,
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> Losses:
        """List the significant losses against a rival, for any dependence of the two models.

        The losses are not attributed to identities, since that requires rows.
        """
        given = thresholds.get(GIVEN, {})
        pair = {role: given[role] for role in (CANDIDATE, rival) if role in given}
        pair_thresholds = {GIVEN: pair} if len(pair) == 2 else {}
        metrics = [*SUBGROUP_METRICS, *(list_threshold_metrics() if pair_thresholds else ())]
        metrics_by_group = {}
        for name, counts in zip(self.identities, self.counts[CANDIDATE].subgroups, strict=True):
            n = dict(zip(("positive", "negative"), counts.sum(axis=-1).tolist(), strict=True))
            metrics_by_group[name] = [
                metric
                for metric in metrics
                if min(n[label] for label in METRICS[metric].classes[0]) >= LEAST_COMPARED
            ]
        level = bonferroni_level(sum(map(len, metrics_by_group.values())), alpha)
        table = self._add_differences(BiasTable({}, {}), rival, level, pair_thresholds)
        return replace(Losses.from_table(table, rival, metrics_by_group, level), by_rows=False)

    def _measure_rows(
        self,
        confidence: float,
        thresholds: Mapping[str, Mapping[str, float]],
        groups: Sequence[str] | None = None,
        *,
        calibrated: bool = False,
    ) -> Evidence:
        candidate = self.counts[CANDIDATE]
        shared_background = None
        if self.background == "no_identity":
            n_rows = (candidate.everyone - candidate.anyone).sum(axis=-1).tolist()
            shared_background = dict(zip(("positive", "negative"), n_rows, strict=True))
        table = candidate.report(confidence=confidence, **self._options(groups))
        for name, by_role in thresholds.items():
            gaps = candidate.rate_gaps(
                threshold=by_role[CANDIDATE],
                threshold_range=self._find_span(name, CANDIDATE, confidence),
                confidence=confidence,
                background=self.background,
                name=name,
            )
            table = table.add_numbers(gaps)
        if calibrated:
            table = table.add_numbers(self._calibration_gaps(CANDIDATE, confidence))
        for role in self.roles[1:]:
            table = self._add_differences(
                table, role, confidence, thresholds, groups, calibrated=calibrated
            )
        return Evidence(table, background=shared_background)

    def _calibration_gaps(self, role: str, confidence: float) -> dict[Key, MetricValue]:
        gaps = self.counts[role].calibration_gaps(confidence=confidence, background=self.background)
        return {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}

    def _add_differences(
        self,
        table: BiasTable,
        rival: str,
        confidence: float,
        thresholds: Mapping[str, Mapping[str, float]],
        groups: Sequence[str] | None = None,
        *,
        calibrated: bool = False,
    ) -> BiasTable:
        """Add the differences from a rival to a table.

        The dependence of the two models' calibration errors is unknown, so these bounds assume the
        worst case.
        """
        candidate, other = self.counts[CANDIDATE], self.counts[rival]
        pairs = self.counted.pairs[rival]
        differences = candidate.compare(
            other, pairs, confidence=confidence, **self._options(groups)
        )
        table = table.add_numbers(differences, rival)
        for name, by_role in thresholds.items():
            if rival in by_role:
                spans = [self._find_span(name, role, confidence) for role in (CANDIDATE, rival)]
                changes = candidate.compare_rate_gaps(
                    other,
                    pairs,
                    thresholds=(by_role[CANDIDATE], by_role[rival]),
                    threshold_ranges=(spans[0], spans[1]),
                    confidence=confidence,
                    background=self.background,
                    name=name,
                )
                table = table.add_numbers(changes, rival)
        if calibrated:
            metric = METRICS[CALIBRATION_GAP]
            candidate_gaps = self._calibration_gaps(CANDIDATE, confidence)
            rival_gaps = self._calibration_gaps(rival, confidence)
            gap_changes = {
                key: bound_difference(gap, rival_gaps[key], metric, confidence)
                for key, gap in candidate_gaps.items()
            }
            table = table.add_numbers(gap_changes, rival)
        return table

    def _find_span(self, name: str, role: str, confidence: float) -> tuple[float, float] | None:
        """Return the confidence interval of an estimated threshold; None if it is given."""
        if name != EQUAL_ERRORS:
            return None
        return self.counts[role].equal_error_range(confidence=confidence)

    def _options(self, groups: Sequence[str] | None) -> dict[str, Any]:
        return {
            "power_mean_groups": groups or self.record.power_mean_groups,
            "background": self.background,
        }
