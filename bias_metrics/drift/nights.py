"""Two nights of rows that may share some, and the numbers that may drift between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cells import WeightedPair
from bias_metrics._core.checks import BoolArray, FloatArray, check_shape
from bias_metrics._core.ranks import Floats, weighted_scores
from bias_metrics.estimate import Estimate
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS, Class, Pair
from bias_metrics.rows import Rows

KEYS = ("id", "y_true", "subgroups")
OPTIONAL = ("y_score", "length", "sample_weight", "clusters")
OVERALL = "overall"
Key = tuple[str, str]
"""A metric, and its subgroup or `overall`."""
Codes = npt.NDArray[np.intp]
_NOISE = 1e-12


@dataclass(frozen=True, eq=False)
class Night:
    """Checked rows that count, with an id each; `clusters` are their names."""

    ids: npt.NDArray[Any]
    rows: Rows
    y_score: FloatArray | None = None
    length: FloatArray | None = None
    clusters: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], name: str) -> Night:
        """Check rows; those of weight 0 are left out."""
        unknown = sorted(given.keys() - {*KEYS, *OPTIONAL}) or sorted({*KEYS} - given.keys())
        if unknown:
            keys = f"{', '.join(KEYS)} and may have {', '.join(OPTIONAL)}"
            msg = f"`{name}` must have {keys}; {unknown[0]!r} is missing or not one of them."
            raise ValueError(msg)
        weights, clusters = given.get("sample_weight"), given.get("clusters")
        rows = Rows(given["y_true"], given["subgroups"], sample_weight=weights, clusters=clusters)
        ids = np.asarray(given["id"])
        check_shape(f"{name}['id']", ids, rows.n, "y_true")
        if np.unique(ids).size != rows.n:
            msg = f"`{name}['id']` must be different for each row; one is given twice."
            raise ValueError(msg)
        numbers = {
            key: None if given.get(key) is None else rows.scores(key, given[key])
            for key in ("y_score", "length")
        }
        names = None if clusters is None else np.asarray(clusters)
        night, weights = cls(ids, rows, **numbers, clusters=names), rows.sample_weight
        return night if weights is None or weights.all() else night.taken(weights > 0)

    def taken(self, which: npt.NDArray[Any]) -> Night:
        """Return some rows."""
        others = {name: values[which] for name, values in self._optional().items()}
        return Night(self.ids[which], self.rows.within(which), **others)

    def joined(self, fresh: Night) -> Night:
        """Return these rows, and then others with the same columns."""
        mine, theirs = self.columns(), fresh.columns()
        both = {name: np.concatenate([of, theirs[name]]) for name, of in mine.items()}
        masks = {name: both.pop(f"subgroups[{name!r}]") for name in self.rows.subgroups}
        labels, weights = both.pop("y_true"), both.pop("sample_weight", None)
        rows = Rows(labels, masks, sample_weight=weights, clusters=both.get("clusters"))
        return Night(np.concatenate([self.ids, fresh.ids]), rows, **both)

    def _optional(self) -> dict[str, npt.NDArray[Any]]:
        known = {name: getattr(self, name) for name in ("y_score", "length", "clusters")}
        return {name: values for name, values in known.items() if values is not None}

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the ids, by name."""
        weights, masks = self.rows.sample_weight, self.rows.subgroups
        weighted = {} if weights is None else {"sample_weight": weights}
        named = {f"subgroups[{name!r}]": mask for name, mask in masks.items()}
        return {"y_true": self.rows.y_true, **self._optional(), **weighted, **named}

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """A weight for each row."""
        weights = self.rows.sample_weight
        return np.ones(self.rows.n) if weights is None else weights.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Union:
    """All rows of two nights, those in both once; a row whose values changed is there twice.

    First come the rows of `before`. `unit` says what is exchanged as a whole: a cluster, the two
    versions of a row, or a row. `places_now` are tonight's rows in their own order; `n_shared` ids
    are in both, of which `n_changed` have other values now.
    """

    rows: Night
    in_before: BoolArray
    in_now: BoolArray
    unit: Codes
    places_now: Codes
    n_shared: int
    n_changed: int

    @classmethod
    def of(cls, before: Night, now: Night) -> Union:
        """Find the rows that both nights have."""
        mine, theirs = before.columns(), now.columns()
        if mine.keys() != theirs.keys():
            [first, *_] = sorted(mine.keys() ^ theirs.keys())
            msg = f"`before` and `now` must have the same arguments; only one has {first}."
            raise ValueError(msg)
        kinds = [night.ids.dtype.kind in "iu" for night in (before, now)]
        if kinds[0] != kinds[1]:
            msg = "`id` must be of one type in `before` and `now`; one has numbers, one has text."
            raise ValueError(msg)
        _, old, new = np.intersect1d(before.ids, now.ids, assume_unique=True, return_indices=True)
        same = np.ones(old.size, dtype=np.bool_)
        for name, values in mine.items():
            same &= values[old] == theirs[name][new]
        fresh = np.ones(now.rows.n, dtype=np.bool_)
        fresh[new[same]] = False
        n, night = before.rows.n, before.joined(now.taken(fresh))
        in_before = np.arange(night.rows.n) < n
        in_now = ~in_before
        in_now[old[same]] = True
        places = n + np.cumsum(fresh) - 1
        places[new[same]] = old[same]
        unit = np.arange(night.rows.n)
        unit[places[new[~same]]] = old[~same]
        if night.rows.clusters is not None:
            unit = _linked(unit, night.rows.clusters)
        unit = np.unique(unit, return_inverse=True)[1]
        return cls(night, in_before, in_now, unit, places, int(old.size), int((~same).sum()))


def _linked(unit: Codes, clusters: Codes) -> Codes:
    """Return clusters, joined where a row moved from one to another."""
    parent = np.arange(int(clusters.max()) + 1)

    def root(cluster: int) -> int:
        while parent[cluster] != cluster:
            cluster = int(parent[cluster])
        return cluster

    for row in np.flatnonzero(clusters != clusters[unit]):
        parent[root(int(clusters[row]))] = root(int(clusters[unit[row]]))
    roots = np.array([root(cluster) for cluster in range(parent.size)])
    return np.asarray(roots[clusters])


def numbers_of(night: Night, background: str) -> dict[Key, Estimate]:
    """Return the metrics if the rows have scores, and else the numbers of the data.

    `n_effective` is the number of rows in the smallest class of each. The number of one part of
    the rows minus that of another is, for large parts, the mean influence of the one minus that
    of the other.
    """
    if night.y_score is None:
        return dict(_data(night))
    order = np.lexsort((night.weights, night.y_score))
    place = np.argsort(order)
    return {
        key: replace(number, influence=number.influence[place])
        for key, number in _of_ordered(night.taken(order), night.y_score[order], background)
    }


def _data(night: Night) -> Iterator[tuple[Key, Estimate]]:
    rows, everyone = night.rows, np.ones(night.rows.n, dtype=np.bool_)
    yield ("toxic_share", OVERALL), _mean(night, rows.y_true, everyone)
    if night.length is not None:
        yield ("length", OVERALL), _mean(night, night.length, everyone)
    for name, mask in rows.subgroups.items():
        yield ("share", name), _mean(night, mask, everyone)
        yield ("toxic_share", name), _mean(night, rows.y_true, mask)


def _mean(night: Night, values: npt.NDArray[Any], within: BoolArray) -> Estimate:
    """Return a mean over some rows."""
    weight = np.where(within, night.weights, 0.0)
    total = float(weight.sum())
    floats = values.astype(np.float64)
    least = int(within.sum())
    if values.dtype == np.bool_:
        positive = int(values[within].sum())
        least = min(positive, least - positive)
    if total == 0:
        return Estimate.undefined("no rows in a class", floats.size)
    value = float(weight @ floats) / total
    influence = weight * _without_noise(floats - value, float(np.abs(floats).max())) / total
    return Estimate(value, influence, n_effective=least)


def _of_ordered(
    night: Night, scores: FloatArray, background: str
) -> Iterator[tuple[Key, Estimate]]:
    """Yield the metrics of rows that are ordered by their scores."""
    masks = night.rows.subgroups
    everyone = np.ones(night.rows.n, dtype=np.bool_)
    overall = Pair("positive", "negative")
    yield ("auc", OVERALL), _pair(night, scores, overall, everyone, everyone)
    mentioned = np.zeros(night.rows.n, dtype=np.bool_)
    for mask in masks.values():
        mentioned |= mask
    for name, mask in masks.items():
        outside = ~mask if background == "outside_subgroup" else ~mentioned
        for metric in SUBGROUP_METRICS:
            pair = METRICS[metric].compares
            assert isinstance(pair, Pair)  # noqa: S101 - all of these metrics compare pairs
            number = _pair(night, scores, pair, mask, mask if pair.inside else outside)
            if number.value is not None:
                number = replace(number, value=number.value - METRICS[metric].centre)
            yield (metric, name), number


def _pair(
    night: Night, scores: FloatArray, pair: Pair, of_x: BoolArray, of_y: BoolArray
) -> Estimate:
    """Return P(x > y), or P(y > x), a tie counted as one half."""

    def places(of: BoolArray, which: Class) -> Codes:
        return np.flatnonzero(of & (night.rows.y_true == (which == "positive")))

    x, y = places(of_x, pair.x), places(of_y, pair.y)
    least = min(x.size, y.size)
    if least == 0:
        return Estimate.undefined("no rows in a class", scores.size)
    weights = night.weights
    known = WeightedPair(*(weighted_scores(scores[of], weights[of]) for of in (y, x)))
    influence, sign = np.zeros(scores.size), -1.0 if pair.flip else 1.0
    by_class = zip((y, x), (-sign, sign), known.weights, known.deviations, strict=True)
    for of, signed, weight, deviations in by_class:
        influence[of] += signed * weight * _without_noise(deviations) / float(weight.sum())
    return Estimate(known.value(flip=pair.flip), influence, n_effective=least)


def _without_noise(deviations: Floats, scale: float = 1.0) -> Floats:
    """Return 0 for deviations that are all rounding errors: they would be taken for drift."""
    return np.asarray(deviations * (np.abs(deviations).max() > _NOISE * scale))


# ---- A test that exchanges rows between two nights: if nothing changed, it is exact


Bools = npt.NDArray[np.bool_]
# How many deals must show a larger difference before the rest is left out.
ENOUGH = 10
# How fine p-values are, relative to the chance of a wrong alarm.
FINENESS = 10
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Exchange:
    """What each unit adds to the differences, as it is and as it would be after an exchange."""

    role: Floats  # (u,): Of units that are dealt: what their influence is multiplied with
    influence: Floats  # (u, k): Of the same units on each number
    # (s, k): Of units in both nights: half of how much an exchange changes each difference.
    swapped: Floats
    std_error: Floats  # (k,): Of each difference, over all deals

    @classmethod
    def of(cls, union: Union, influence: Floats) -> Exchange:
        """Add up the influences by unit, from those of the rows, shape (n, k)."""
        weights, units = union.rows.weights, int(union.unit.max()) + 1
        n_before = float(weights[union.in_before].sum())
        n_now = float(weights[union.in_now].sum())
        roles = union.in_now / n_now - union.in_before / n_before
        first = np.full(units, np.nan)
        first[union.unit] = roles
        mixed = np.zeros(units, dtype=np.bool_)
        mixed[union.unit[roles != first[union.unit]]] = True
        before = _by_unit(influence * union.in_before[:, None], union.unit, units) / n_before
        now = _by_unit(influence * union.in_now[:, None], union.unit, units) / n_now
        ratio = n_before / n_now
        half = (now - before)[mixed] - (before * ratio - now / ratio)[mixed]
        dealt = _by_unit(influence, union.unit, units)[~mixed]
        role = first[~mixed]
        dealt -= dealt.mean(axis=0) if dealt.size else 0.0
        role = role - (role.mean() if role.size else 0.0)
        swapped = half / 2
        variance = (swapped**2).sum(axis=0)
        if role.size > 1:
            variance = variance + (role @ role) * (dealt**2).sum(axis=0) / (role.size - 1)
        return cls(role, dealt, swapped, np.sqrt(variance))

    @property
    def moving(self) -> float:
        """The share of units that are not in the most frequent role."""
        units = self.role.size + len(self.swapped)
        _, counts = np.unique(self.role, return_counts=True)
        return (units - int(max(counts, default=0))) / units

    def observed(self) -> Floats:
        """Return the standardised differences, shape (k,); 0 where nothing can differ."""
        return self._standardised(self.role @ self.influence + self.swapped.sum(axis=0))

    def deals(self, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield the standardised differences of one deal after the other, without end."""
        roles, counts = np.unique(self.role, return_counts=True)
        most = int(np.argmax(counts)) if counts.size else 0
        others = np.flatnonzero(np.arange(roles.size) != most)  # the sum over all units is 0
        ends = np.cumsum(counts[others])
        change = roles - roles[most:][:1]
        parts = list(zip(change[others], ends - counts[others], ends, strict=True))
        n_moved = int(counts[others].sum())
        while True:
            difference = np.zeros(self.std_error.size)
            if self.swapped.size:
                difference = rng.choice([-1.0, 1.0], len(self.swapped)) @ self.swapped
            drawn = rng.choice(self.role.size, n_moved, replace=False, shuffle=others.size > 1)
            for by, begin, end in parts:
                moved = self.influence.take(drawn[begin:end], axis=0)
                difference = difference + by * moved.sum(axis=0)
            yield self._standardised(difference)

    def _standardised(self, differences: Floats) -> Floats:
        known = self.std_error > 0
        scale = np.where(known, self.std_error, 1.0)
        return np.where(known, differences / scale, 0.0)


def _by_unit(values: Floats, unit: npt.NDArray[np.intp], n_units: int) -> Floats:
    if n_units == len(values):  # every row is a unit of its own
        found = np.empty_like(values)
        found[unit] = values
        return found
    return np.stack([np.bincount(unit, weights=one, minlength=n_units) for one in values.T], axis=1)


def p_values(
    exchange: Exchange, judged: Bools, alpha: float, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Return the p-value of each difference, corrected for all that are judged.

    The p-value of a difference that is not judged is NaN; the others are finer than `alpha`. Also
    returns the number of deals.
    """
    found = np.full(judged.size, np.nan)
    sizes = np.abs(exchange.observed()[judged])
    if sizes.size == 0:
        return found, 0
    if sizes.max() == 0:
        found[judged] = 1.0
        return found, 0
    limits = sizes * (1 - _ROUNDING)
    larger, n_deals, most = np.zeros(sizes.size, dtype=np.intp), 0, round(FINENESS / alpha)
    for differences in islice(exchange.deals(rng), most):
        larger += np.abs(differences[judged]).max() >= limits
        n_deals += 1
        if larger.min() >= ENOUGH:
            break
    found[judged] = (larger + 1) / (n_deals + 1)
    return found, n_deals
