"""Evidence without rows: counts of scores, from which a verdict can be recomputed.

`evidence.counts` is an archive of `record.json`, of the counts of each model's scores
(`candidate.npz`, `champion.npz`), and of those of pairs of scores (`champion-pairs.npz`). One such
file is written for each shard; added, they are the evidence. It has no text, no id and no row.
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
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.printable import printable
from biasgate.tasks.common.untrusted import check, parse_json, read_bytes
from biasgate.tasks.evidence.file import EvidenceRecord
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.records import RestsOnCounts
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
    """A file that was counted, and how many of its rows were rated and measured.

    `n_rows` are those with a label.
    `n_counted` differs from `n_measured` where a row stands for several.
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
    """What was counted: `key` is a digest of everything that decides the counts of a shard.

    `origin` is there in the evidence of a verdict: the same as for rows.
    """

    key: str
    shards: list[Shard]
    origin: EvidenceRecord | None = None


@dataclass(frozen=True)
class Counted:
    """The counts of some shards, by role of the model."""

    record: CountedRecord
    counts: Mapping[str, ScoreCounts]
    pairs: Mapping[str, ScoreCounts]
    """By rival: of pairs of the candidate's and its scores."""

    def __add__(self, other: Counted) -> Counted:
        """Add the counts of other shards; see `refuse_sum`."""
        self.refuse_sum(other)
        ours, theirs = self.record, other.record
        try:
            counts = {role: own + other.counts[role] for role, own in self.counts.items()}
            pairs = {role: own + other.pairs[role] for role, own in self.pairs.items()}
        except ValueError as error:
            names = [shown(counted.record.shards[0].name) for counted in (self, other)]
            msg = f"counts of {names[0]} and of {names[1]} do not add up: {error}"
            raise InputError(msg) from error
        shards = sorted(
            [*ours.shards, *theirs.shards], key=lambda shard: (shard.name, shard.sha256)
        )
        return Counted(replace(ours, shards=shards), counts, pairs)

    def refuse_sum(self, other: Counted) -> None:
        """Refuse counts that do not add up."""
        ours, theirs = self.record, other.record
        names = [shown(counted.record.shards[0].name) for counted in (self, other)]
        same = self.counts.keys() == other.counts.keys() and self.names == other.names
        if ours.key != theirs.key or not same:
            msg = (
                f"counts must be of the same set, with the same options; those of {names[0]} and "
                f"of {names[1]} are not. Count files must agree in `name`, columns, `bits`, "
                "models, and thresholds of labels and identities."
            )
            raise InputError(msg)
        known = {shard.sha256: shard.name for shard in ours.shards}
        for shard in theirs.shards:
            if shard.sha256 in known:
                msg = (
                    f"a shard must be counted once; {shown(known[shard.sha256])} and "
                    f"{shown(shard.name)} have the same content."
                )
                raise InputError(msg)

    @staticmethod
    def sum(parts: Iterable[Counted]) -> Counted:
        """Add the counts of several shards; there must be at least one."""
        return reduce(Counted.__add__, parts)

    def to_bytes(self) -> bytes:
        """Return the archive; the same counts give the same bytes."""
        file = io.BytesIO()
        record = json.dumps(plain(self.record), sort_keys=True).encode()
        parts = {_RECORD: record}
        parts |= {role + _NPZ: counts.to_bytes() for role, counts in self.counts.items()}
        parts |= {role + _PAIRS: counts.to_bytes() for role, counts in self.pairs.items()}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in parts.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return file.getvalue()

    @classmethod
    def of_bytes(cls, data: bytes, what: str) -> Counted:
        """Read an archive that anybody may have written.

        Raises
        ------
        InputError
            If it is something else, or larger than any real one, or contradicts itself.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                known = {member.filename: member for member in archive.infolist()}
                _require_members(known, len(archive.infolist()), what)
                record = check(parse_json(archive.read(known[_RECORD]), what), CountedRecord, what)
                counts, pairs = (
                    {
                        role: ScoreCounts.from_bytes(archive.read(known[role + ending]))
                        for role in _ROLES
                        if role + ending in known
                    }
                    for ending in (_NPZ, _PAIRS)
                )
            found = cls(record, counts, pairs)
            found.refuse_contradictions(what)
        except InputError:
            raise
        except Exception as error:
            # Whoever wrote the archive decides what zipfile and others raise.
            told = printable(str(error) or type(error).__name__)[:_SHOWN]
            msg = f"{what} must be counts of scores as biasgate writes them; {told}"
            raise InputError(msg) from error
        return found

    def refuse_contradictions(self, what: str) -> None:
        """Refuse counts that are not of the shards that the record names."""
        shards = {shard.sha256 for shard in self.record.shards}
        n_counted = sum(shard.n_counted for shard in self.record.shards)
        of_record = (
            CANDIDATE in self.counts
            and len(shards) == len(self.record.shards) > 0
            and all(map(_is_possible, self.record.shards))
            and all(
                count.shards == shards and count.n == n_counted and count.names == self.names
                for count in (*self.counts.values(), *self.pairs.values())
            )
            and self.pairs.keys() == self.counts.keys() - {CANDIDATE}
            and all(map(_has_scores, self.counts.values()))
        )
        if not of_record:
            msg = f"{what} must have the counts of the shards that it names; it has others."
            raise InputError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """The identities."""
        return self.counts[CANDIDATE].names


def _has_scores(counts: ScoreCounts) -> bool:
    """Return whether the scores may be those of a file, which must be below 2^53 in size."""
    return bool(max(abs(counts.least[0]), abs(counts.most[-1])) < LARGEST_WHOLE)


def _is_possible(shard: Shard) -> bool:
    """Return whether a shard can have this name, this digest and so many rows."""
    parts = shard.n_rated, shard.n_measured
    return (
        re.fullmatch(r"[0-9a-f]{64}", shard.sha256) is not None
        and len(shard.name) <= _LONGEST_NAME
        and shard.n_rows <= _MOST_ROWS
        and 0 <= shard.n_unlabelled <= _MOST_ROWS
        and all(0 <= n <= shard.n_rows for n in parts)
        and min(shard.n_measured, shard.n_counted) > 0
    )


def _require_members(known: Mapping[str, zipfile.ZipInfo], n_members: int, what: str) -> None:
    if len(known) < n_members:
        msg = f"{what} must hold each file once in its archive; a file is repeated."
        raise InputError(msg)
    if sum(member.file_size for member in known.values()) > MOST_BYTES:
        msg = f"{what} must unpack to at most {MOST_BYTES:,} bytes; it has more."
        raise InputError(msg)


def read_counted(path: Path) -> Counted:
    """Read a file of counts."""
    what = f"file {path}"
    return Counted.of_bytes(read_bytes(path, what, MOST_BYTES), what)


def shown(name: str) -> str:
    """Return the name of a shard for a message."""
    return repr(printable(name))


@dataclass(frozen=True)
class CountedEvidence:
    """Counts of one candidate on one set, in a file; asked like `EvidenceFile`."""

    path: Path
    is_complete = True
    is_sample = True
    dominant = ()  # not told by counts

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
        """By role."""
        return self.counted.counts

    @property
    def roles(self) -> list[str]:
        """The models with scores."""
        return list(self.counts)

    @property
    def identities(self) -> list[str]:
        """The measured identities."""
        return list(self.counted.names)

    @property
    def n_missing(self) -> dict[str, int]:
        """Nothing: a row without a score is refused when it is counted."""
        return {}

    @property
    def background(self) -> Background:
        """What identities are compared with."""
        return self.record.choices.background

    @property
    def not_told(self) -> list[str]:
        """What the counts do not tell."""
        found = [NO_ROWS, NO_MEMBERS, *([IN_PAIRS, NO_PAIRS] if len(self.roles) > 1 else [])]
        return [*found, *([NO_CHANGES] if "champion" in self.roles else [])]

    def told(self, *, categories: bool) -> RestsOnCounts:
        """Return what a verdict says of the counts: what they are of, and what they do not tell.

        `categories`: whether its policy has any.
        """
        own = self.counts[CANDIDATE]
        ends = filter(None, own.brackets(background=self.background).values())
        return RestsOnCounts(
            n_shards=len(self.counted.record.shards),
            bits=own.bits,
            widest=max((high - low for low, high in ends), default=0.0),
            not_told=[*self.not_told, *([NO_CATEGORIES] if categories else [])],
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
        """Measure the numbers that rules need; small identities are judged alone."""
        del sharing
        calibrated = needs_calibration(rules)
        groups = replace(small or SmallGroups(), hierarchy=None)
        return {
            key: replace(
                self._measured(key[1], thresholds, calibrated=calibrated), small_groups=groups
            )
            for key in dict.fromkeys(keys)
        }

    def measure_set(self, confidence: float) -> Evidence:
        """Measure all rows."""
        return self._measured(confidence, {})

    def without(self, identities: Iterable[str], confidence: float) -> Evidence | None:
        """Measure with power means that leave identities out; None if nothing changes."""
        groups = self.record.power_mean_groups or self.identities
        left_out = set(identities)
        kept = [name for name in groups if name not in left_out]
        if len(kept) == len(groups) or not kept:
            return None
        return self._measured(confidence, {}, kept)

    def missing(self, confidence: float) -> NoReturn:
        """Refuse the question: no row lacks a score."""
        del confidence
        msg = "`max_missing` must not be set for counts: a row without a score is not counted."
        raise InputError(msg)

    def truncated(self, confidence: float) -> None:
        """Return nothing: which comments were truncated is unknown."""

    def changes(self, rival: str, at: Mapping[str, float]) -> None:
        """Return nothing: which comments change their decision only rows tell."""

    def losses(
        self,
        rival: str,
        alpha: float,
        thresholds: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> Losses:
        """Return what is shown to be worse than a rival's, whatever the models have in common.

        Counts do not tell whose comments a loss of several identities comes from.
        """
        given = thresholds.get(GIVEN, {})
        both = {role: given[role] for role in (CANDIDATE, rival) if role in given}
        at = {GIVEN: both} if len(both) == 2 else {}
        metrics = [*SUBGROUP_METRICS, *(list_threshold_metrics() if at else ())]
        looked_at = {}
        for name, own in zip(self.identities, self.counts[CANDIDATE].subgroups, strict=True):
            n = dict(zip(("positive", "negative"), own.sum(axis=-1).tolist(), strict=True))
            looked_at[name] = [
                metric
                for metric in metrics
                if min(n[of] for of in METRICS[metric].classes[0]) >= LEAST_COMPARED
            ]
        level = bonferroni_level(sum(map(len, looked_at.values())), alpha)
        table = self._with_differences(BiasTable({}, {}), rival, level, at)
        return replace(Losses.from_table(table, rival, looked_at, level), by_rows=False)

    def _measured(
        self,
        confidence: float,
        thresholds: Mapping[str, Mapping[str, float]],
        groups: Sequence[str] | None = None,
        *,
        calibrated: bool = False,
    ) -> Evidence:
        own = self.counts[CANDIDATE]
        shared = None
        if self.background == "no_identity":
            others = (own.everyone - own.anyone).sum(axis=-1).tolist()
            shared = dict(zip(("positive", "negative"), others, strict=True))
        table = own.report(confidence=confidence, **self._options(groups))
        for name, at in thresholds.items():
            gaps = own.rate_gaps(
                threshold=at[CANDIDATE],
                threshold_range=self._span(name, CANDIDATE, confidence),
                confidence=confidence,
                background=self.background,
                name=name,
            )
            table = table.add_numbers(gaps)
        if calibrated:
            table = table.add_numbers(self._calibration_gaps(CANDIDATE, confidence))
        for role in self.roles[1:]:
            table = self._with_differences(
                table, role, confidence, thresholds, groups, calibrated=calibrated
            )
        return Evidence(table, background=shared)

    def _calibration_gaps(self, role: str, confidence: float) -> dict[Key, MetricValue]:
        gaps = self.counts[role].calibration_gaps(confidence=confidence, background=self.background)
        return {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}

    def _with_differences(
        self,
        table: BiasTable,
        rival: str,
        confidence: float,
        thresholds: Mapping[str, Mapping[str, float]],
        groups: Sequence[str] | None = None,
        *,
        calibrated: bool = False,
    ) -> BiasTable:
        """Return a table with the differences from a rival.

        How both models' calibration errors are related is unknown: these bounds are as wide as they
        can be.
        """
        own, other, pairs = self.counts[CANDIDATE], self.counts[rival], self.counted.pairs[rival]
        compared = own.compare(other, pairs, confidence=confidence, **self._options(groups))
        table = table.add_numbers(compared, rival)
        for name, at in thresholds.items():
            if rival in at:
                spans = [self._span(name, role, confidence) for role in (CANDIDATE, rival)]
                changes = own.compare_rate_gaps(
                    other,
                    pairs,
                    thresholds=(at[CANDIDATE], at[rival]),
                    threshold_ranges=(spans[0], spans[1]),
                    confidence=confidence,
                    background=self.background,
                    name=name,
                )
                table = table.add_numbers(changes, rival)
        if calibrated:
            metric, its = METRICS[CALIBRATION_GAP], self._calibration_gaps(rival, confidence)
            gaps = self._calibration_gaps(CANDIDATE, confidence)
            apart = {
                key: bound_difference(gap, its[key], metric, confidence)
                for key, gap in gaps.items()
            }
            table = table.add_numbers(apart, rival)
        return table

    def _span(self, name: str, role: str, confidence: float) -> tuple[float, float] | None:
        """Return the uncertainty of a threshold that is estimated."""
        if name != EQUAL_ERRORS:
            return None
        return self.counts[role].equal_error_range(confidence=confidence)

    def _options(self, groups: Sequence[str] | None) -> dict[str, Any]:
        chosen = groups or self.record.power_mean_groups
        return {"power_mean_groups": chosen, "background": self.background}
