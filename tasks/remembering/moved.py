"""What changed by more than chance over the nights: the data, an unchanged model, and numbers."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from bias_metrics import Drift, data_drift, metric_drift
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.folders import Folder
from biasgate.tasks.data.evaluation_set import CLUSTER, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.evidence.join import places, write_evidence
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.records.trend import Drifted, Night, Remembered
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.store import Workplace

ALPHA = 0.01
"""The chance that any number is wrongly said to have moved."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Moved:
    """The number of an identity that moved most since the first night that is known."""

    candidate: str
    evaluation_set: str
    group: str
    metric: str
    values: tuple[float, ...]
    """In each night, the oldest first."""
    since: int
    """The first night from which on the move is shown in every night."""
    n_more: int = 0
    """How many other numbers of the identity moved, too."""

    @property
    def is_worse(self) -> bool:
        """Whether it got worse; a gap does if its size grows."""
        first, last = self.values[0], self.values[-1]
        return abs(last) > abs(first) if METRICS[self.metric].is_gap else last < first

    @property
    def texts(self) -> list[str]:
        """The values as texts."""
        return [f"{value:{'+' if METRICS[self.metric].is_gap else ''}.3f}" for value in self.values]

    @property
    def bars(self) -> str:
        """The values as bars, between the lowest and the highest."""
        low, width = min(self.values), max(self.values) - min(self.values) or 1.0
        return "".join(
            _BARS[round((value - low) / width * (len(_BARS) - 1))] for value in self.values
        )

    @property
    def sentence(self) -> str:
        """What happened."""
        more = f" (and {self.n_more:,} more of its numbers)" if self.n_more else ""
        return (
            f"{self.group} got {'worse' if self.is_worse else 'better'} with {self.candidate} on "
            f"{self.evaluation_set}: {METRICS[self.metric].title} {self.texts[0]} -> "
            f"{self.texts[-1]} in {len(self.values):,} nights, "
            f"shown since night {self.since}{more}."
        )


def moved(nights: Sequence[Night], alpha: float = ALPHA) -> list[Moved]:
    """Return the identities that moved until the last night, those that got worse first.

    The first known night of a candidate on a set is compared with each later one, also if the
    candidate was trained again. Intervals count as independent: where nights share comments, a
    move is shown later than it could be. The bounds of all comparisons hold together.
    """
    measured = [night for night in nights if night.models]
    tonight = measured[-1].models if measured else []
    series = [found for remembered in tonight for found in _series(remembered, measured)]
    n = sum(len(values) - 1 for *_, values in series)
    if not n:
        return []
    reach = NormalDist().inv_cdf(1 - alpha / (2 * n)) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    of_groups: dict[tuple[str, str, str], list[tuple[float, Moved]]] = {}
    for one, metric, group, values in series:
        (_, first), *later = values
        sizes = [(night, _size(first, value)) for night, value in reversed(later)]
        way = math.copysign(1.0, sizes[0][1])  # a move back ends what is shown
        since = list(itertools.takewhile(partial(_is_shown, way, reach), sizes))
        if since:
            numbers = tuple(value[0] for _, value in values)
            place = one.candidate, one.evaluation_set, group
            number = Moved(*place, metric, numbers, since[-1][0])
            of_groups.setdefault(place, []).append((abs(sizes[0][1]), number))
    largest = []
    for numbers_of_group in of_groups.values():
        _, most = max(numbers_of_group, key=lambda pair: pair[0])
        largest.append(replace(most, n_more=len(numbers_of_group) - 1))
    return sorted(largest, key=lambda one: (not one.is_worse, -abs(one.values[-1] - one.values[0])))


def _is_shown(way: float, reach: float, size: tuple[int, float]) -> bool:
    return size[1] * way > reach


_Known = tuple[float, float, float]


def _series(
    remembered: Remembered, measured: Sequence[Night]
) -> Iterator[tuple[Remembered, str, str, list[tuple[int, _Known]]]]:
    """Yield the numbers with intervals of a candidate's identities, by night."""
    place = remembered.candidate, remembered.evaluation_set, remembered.digests.options
    same = [
        (night.number, other)
        for night in measured
        for other in night.models
        if (other.candidate, other.evaluation_set, other.digests.options) == place
    ]
    for key in remembered.numbers:
        metric, _, group = key.partition("/")
        if metric not in SUBGROUP_METRICS:
            continue
        values = []
        for number, other in same:
            value, low, high = other.numbers.get(key, [None] * 3)
            if value is not None and low is not None and high is not None:
                values.append((number, (value, low, high)))
        if len(values) > 1 and values[-1][0] == measured[-1].number:
            yield remembered, metric, group, values


def _size(first: _Known, later: _Known) -> float:
    """Return a change in units of the half width of its interval (MOVER)."""
    if later[0] < first[0]:
        width = math.hypot(first[0] - first[1], later[2] - later[0])
    else:
        width = math.hypot(first[2] - first[0], later[0] - later[1])
    return (later[0] - first[0]) / width if width else 0.0


_SEED = 20
_FIRST = "no earlier night of this model on this set, with the same options"
_SAME = "the same rows as in the nights before"
_GONE = "the store no longer has the rows and scores of the nights before"
Bools = npt.NDArray[np.bool_]
Column = npt.NDArray[Any] | dict[str, Bools]


@dataclass(frozen=True)
class _Rows:
    """Measured rows in memory; the columns have the names that the library gives them."""

    id: npt.NDArray[np.str_]
    y_true: Bools
    y_score: npt.NDArray[np.floating]
    subgroups: dict[str, Bools]
    length: npt.NDArray[np.floating] | None
    sample_weight: npt.NDArray[np.floating] | None
    clusters: npt.NDArray[np.str_] | None

    @classmethod
    def of(cls, rows: EvaluationSet, evidence: EvidenceFile) -> _Rows:
        """Read them."""
        known = evidence.measured
        measured = places(evidence.ids(), rows.column("id"))
        length = pc.utf8_length(rows.column("text")).to_numpy() if rows.has_text else None

        def names(column: str) -> npt.NDArray[np.str_]:
            return np.asarray(rows.column(column).to_numpy()[measured]).astype(str)

        return cls(
            id=names("id"),
            y_true=known.labels,
            y_score=known.y_score,
            subgroups=dict(known.members),
            length=None if length is None else length[measured].astype(np.float64),
            sample_weight=known.weights,
            clusters=None if known.clusters is None else names(CLUSTER),
        )

    @classmethod
    def joined(cls, parts: Sequence[tuple[_Rows, Bools]]) -> _Rows:
        """Return the chosen rows of several nights."""

        def column(name: str) -> Any:
            if getattr(parts[0][0], name) is None:
                return None
            return np.concatenate([getattr(rows, name)[chosen] for rows, chosen in parts])

        subgroups = {
            name: np.concatenate([rows.subgroups[name][chosen] for rows, chosen in parts])
            for name in parts[0][0].subgroups
        }
        others = {
            field.name: column(field.name) for field in fields(cls) if field.name != "subgroups"
        }
        return cls(subgroups=subgroups, **others)

    def among(self, identities: Sequence[str]) -> _Rows:
        """Return the rows with some identities alone."""
        return replace(self, subgroups={name: self.subgroups[name] for name in identities})

    def without(self, left_out: str) -> dict[str, Column]:
        """Return the columns that there are, except one."""
        columns = vars(self).items()
        return {name: of for name, of in columns if of is not None and name != left_out}


@dataclass(frozen=True)
class Compared:
    """One model on one set tonight, and the earlier nights with other rows."""

    measured: Measured
    """Tonight."""
    earlier: tuple[Remembered, ...]
    """Of the same model on the same set, the newest first; each set of rows once. If there is none,
    of any model: with those the data can be compared."""
    why_not: str | None
    """Why the model cannot be compared."""

    @classmethod
    def of(cls, measured: Measured, tonight: Remembered, before: Sequence[Night]) -> Compared:
        """Find the nights to compare with: of the same model, with the same options."""
        if reason := _unsuitable(measured.source):
            return cls(measured, (), reason)
        on_set = [
            model
            for night in reversed(before)
            for model in night.models
            if model.evaluation_set == tonight.evaluation_set
            and model.digests.options == tonight.digests.options
        ]
        same = [
            remembered
            for remembered in on_set
            if remembered.model == tonight.model
            and remembered.digests.model == tonight.digests.model
        ]
        earlier = _each_once(same, tonight)
        if earlier:
            return cls(measured, earlier, None)
        return cls(measured, _each_once(on_set, tonight), _SAME if same else _FIRST)


def _each_once(nights: Sequence[Remembered], tonight: Remembered) -> tuple[Remembered, ...]:
    """Return each set of rows once, as it was first; nothing if all rows are those of tonight."""
    first = {night.digests.data: night for night in reversed(nights)}
    if {*first} == {tonight.digests.data}:
        return ()
    return tuple(night for night in nights if first[night.digests.data] is night)


def _unsuitable(source: SourceSettings) -> str | None:
    if source.weight_kind == "frequency":
        return "a set whose rows stand for several comments each"
    if source.population == "these_rows":
        return "phrases, which are no sample of comments"
    return None


def find_drift(compared: Sequence[Compared], workplace: Workplace, alpha: float) -> list[Drifted]:
    """Test each model, and the data of each set once; together they err with the chance `alpha`."""
    models = [one for one in compared if one.why_not is None]
    with_nights = [one for one in compared if one.why_not is not None and one.earlier]
    sets = {model.measured.source.name: model for model in reversed([*models, *with_nights])}
    each = alpha / max(len(sets) + len(models), 1)
    found = []
    for one in compared:
        name, candidate = one.measured.source.name, one.measured.candidate.name
        if one.why_not is not None:
            found.append(_untested(name, candidate, one.why_not))
        if one.why_not is not None and sets.get(name) is not one:
            continue
        nights = _before_and_now(one, workplace)
        if nights is None:
            found += [_untested(name, candidate, _GONE)] if one.why_not is None else []
            continue
        before, now = nights
        if sets.get(name) is one:
            drift = data_drift(
                before.without("y_score"), now.without("y_score"), rng=_rng(), alpha=each
            )
            found.append(_told(name, None, drift))
        if one.why_not is None:
            drift = metric_drift(
                before.without("length"),
                now.without("length"),
                rng=_rng(),
                alpha=each,
                background=one.measured.source.background,
            )
            found.append(_told(name, candidate, drift))
    return found


def _before_and_now(compared: Compared, workplace: Workplace) -> tuple[_Rows, _Rows] | None:
    """Return the rows of earlier nights and of tonight; None if the store has none of the former.

    Only identities that both have are compared.
    """
    before = _rows_of_nights(compared, workplace)
    if before is None:
        return None
    rows = EvaluationSet.load(Path(compared.measured.rows))
    now = _Rows.of(rows, EvidenceFile(Path(compared.measured.folder) / FILE))
    shared = sorted(before.subgroups.keys() & now.subgroups.keys())
    return before.among(shared), now.among(shared)


def _rng() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def _rows_of_nights(compared: Compared, workplace: Workplace) -> _Rows | None:
    """Return the rows of the nights that the store still has; each id as it was last."""
    nights: list[tuple[_Rows, Bools]] = []
    known: set[Any] = set()
    for earlier in compared.earlier:
        loaded = _load(earlier, compared.measured, workplace)
        if loaded is None:
            continue
        ids = loaded.id.tolist()
        new = np.array([row not in known for row in ids], dtype=np.bool_)
        known.update(ids)
        if new.any():
            nights.append((loaded, new))
    return _Rows.joined(nights) if nights else None


def _load(earlier: Remembered, measured: Measured, workplace: Workplace) -> _Rows | None:
    data = earlier.digests.data
    folder = workplace.store / "sets" / Path(earlier.rows).name
    try:
        rows = EvaluationSet.load(folder)
    except (InputError, OSError):
        return None
    place = Folder(workplace.scores).child(data[:16], earlier.scored_by[:16])
    scored = ScoredSet.load(place.url)
    if rows.digest != data or scored is None:
        return None
    with tempfile.TemporaryDirectory() as temporary:
        evidence = write_evidence(rows, scored, {}, measured.source, Path(temporary) / FILE)
        return _Rows.of(rows, evidence)


def _untested(name: str, candidate: str | None, why_not: str) -> Drifted:
    return Drifted(
        candidate=candidate,
        evaluation_set=name,
        n_before=0,
        n_now=0,
        n_shared=0,
        alarms=[],
        why_not=why_not,
    )


def _told(name: str, candidate: str | None, drift: Drift) -> Drifted:
    return Drifted(
        candidate=candidate,
        evaluation_set=name,
        n_before=drift.n_before,
        n_now=drift.n_now,
        n_shared=drift.n_shared,
        alarms=list(drift.drifted),
        why_not=None,
    )
