"""Intersections of subgroups: which there are, and which have too few rows to be measured.

Memberships are packed, eight rows per byte, and an intersection is counted only if every
smaller one that it is part of has support (Agrawal and Srikant 1994), so that triples of 24
identities stay cheap on millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_mask, check_subgroups
from bias_metrics._core.counted import counted
from bias_metrics._core.index import aligned
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.tables import Row, Tabular

SEPARATOR = " & "

_Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Support(Tabular):
    """Rows of one intersection."""

    members: tuple[str, ...]
    """The subgroups it joins, in the order given."""
    n: int
    """Rows that belong to all of them."""
    n_positive: int | None = None
    n_negative: int | None = None
    """n_positive, n_negative: the same by class; None without labels."""
    reason: str | None = None
    """Why it was left out; None if it was kept."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values without those that are None."""
        optional = {
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "reason": self.reason,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        return {"members": list(self.members), "n": self.n} | given

    def rows(self) -> list[Row]:
        """Return one record."""
        return [vars(self) | {"members": ", ".join(self.members)}]


@dataclass(frozen=True, eq=False, repr=False)
class _Masks(Mapping[str, BoolArray]):
    """Masks that are computed on access: a thousand of them need not fit into memory."""

    bits: Mapping[str, _Bits]
    kept: Mapping[str, Support]
    n_rows: int

    def __getitem__(self, name: str) -> BoolArray:
        return _unpacked(_joined(self.bits, self.kept[name].members), self.n_rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


@dataclass(frozen=True, eq=False)
class Intersections(Tabular):
    """The intersections of some subgroups.

    For each order k, the intersections kept, left out and not counted add up to the number of
    ways to choose k of the subgroups.
    """

    masks: Mapping[str, BoolArray]
    """Membership of each kept intersection, computed on each access."""
    kept: dict[str, Support]
    """The same intersections with their counts."""
    left_out: dict[str, Support]
    """Those with too few rows, with counts and the reason; single subgroups too."""
    n_not_counted: dict[int, int]
    """By order: intersections that contain one of `left_out`, and so cannot have more rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the masks as JSON-ready values."""
        return {
            "kept": {name: support.to_dict() for name, support in self.kept.items()},
            "left_out": {name: support.to_dict() for name, support in self.left_out.items()},
            "n_not_counted": {str(order): n for order, n in self.n_not_counted.items()},
        }

    def rows(self) -> list[Row]:
        """Return one record per counted intersection, and whether it was kept."""
        counted = self.kept | self.left_out
        return [
            {"intersection": name, "kept": name in self.kept} | row
            for name, support in counted.items()
            for row in support.rows()
        ]


@aligned
def intersections(
    subgroups: Subgroups,
    *,
    max_order: int = 2,
    min_support: int = 1,
    y_true: npt.ArrayLike | None = None,
) -> Intersections:
    """Find the intersections of subgroups that have enough rows to be measured.

    A model can be fair to two identities and unfair to comments that mention both. The masks
    can be passed to `evaluate_bias` as further subgroups; the background of an intersection
    is all rows outside it, including those with only one of its identities. To cross
    subgroups with a slice, give the slice as one more subgroup; to measure within a slice,
    use `evaluate_slices`.

    Parameters
    ----------
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; no name may contain ` & `.
    max_order : int, default=2
        The largest number of subgroups to join; at least 2.
    min_support : int, default=1
        Rows that an intersection needs; with `y_true`, rows of each class. At least 1.
    y_true : bool array of shape (n,), optional
        True for the positive (toxic) class.

    Returns
    -------
    Intersections
        Named by their members joined with ` & `: pairs first, then by order, each in the order
        in which the subgroups were given. The subgroups themselves are not repeated. Nothing is
        dropped silently: `left_out` has those with too few rows and their counts,
        `n_not_counted` how many more contain one of these.

    Raises
    ------
    ValueError
        If a length differs, a membership or label is not 0 or 1, a name contains ` & `,
        `max_order` is below 2 or `min_support` below 1.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    Buolamwini and Gebru (2018), Gender Shades: Intersectional Accuracy Disparities in
    Commercial Gender Classification. Agrawal and Srikant (1994), Fast Algorithms for Mining
    Association Rules, section 2.1 (pruning).

    Examples
    --------
    >>> found = intersections(
    ...     {"black": [1, 1, 1, 0], "female": [1, 1, 0, 0], "jewish": [0, 0, 0, 1]}
    ... )
    >>> found.masks["black & female"]
    array([ True,  True, False, False])
    >>> found.left_out["black & jewish"].reason
    '0 rows where 1 is needed'
    """
    labels = None if y_true is None else check_mask("y_true", y_true)
    masks = check_subgroups(subgroups, None if labels is None else labels.size)
    _check_options(masks, max_order, min_support)
    bits = {name: _packed(mask) for name, mask in masks.items()}
    positive = None if labels is None else _packed(labels)
    names = list(masks)
    kept: dict[str, Support] = {}
    left_out: dict[str, Support] = {}
    n_not_counted: dict[int, int] = {}
    supported: list[tuple[int, ...]] = [()]
    for order in range(1, min(max_order, len(names)) + 1):
        candidates = _candidates(supported, order, len(names))
        supported = []
        for positions in candidates:
            members = tuple(names[position] for position in positions)
            support = _support(members, _joined(bits, members), positive, min_support)
            if support.reason is not None:
                left_out[SEPARATOR.join(members)] = support
                continue
            supported.append(positions)
            if order > 1:
                kept[SEPARATOR.join(members)] = support
        if order > 1:
            n_not_counted[order] = math.comb(len(names), order) - len(candidates)
    n_rows = next((mask.size for mask in masks.values()), 0)
    return Intersections(_Masks(bits, kept, n_rows), kept, left_out, n_not_counted)


def _check_options(names: Mapping[str, object], max_order: int, min_support: int) -> None:
    for name, value, least in (("max_order", max_order, 2), ("min_support", min_support, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            msg = f"`{name}` must be a whole number of at least {least}; got {value!r}."
            raise ValueError(msg)
    for name in names:
        if SEPARATOR in name:
            msg = f"`subgroups` must have names without {SEPARATOR!r}; got {name!r}."
            raise ValueError(msg)


def _candidates(supported: Sequence[tuple[int, ...]], order: int, n: int) -> list[tuple[int, ...]]:
    """Extend each by a later subgroup if every part of the result has support."""
    known = set(supported)
    longer = (
        (*positions, last)
        for positions in supported
        for last in range(positions[-1] + 1 if positions else 0, n)
    )
    return [one for one in longer if all(part in known for part in combinations(one, order - 1))]


def _support(members: tuple[str, ...], bits: _Bits, positive: _Bits | None, needed: int) -> Support:
    n = _count(bits)
    if positive is None:
        return Support(members, n, reason=_lack({"row": n}, needed))
    n_positive = _count(bits & positive)
    classes = {"positive": n_positive, "negative": n - n_positive}
    return Support(members, n, n_positive, n - n_positive, _lack(classes, needed))


def _lack(counts: Mapping[str, int], needed: int) -> str | None:
    short = [counted(n, name) for name, n in counts.items() if n < needed]
    return f"{' and '.join(short)} where {counted(needed, 'is', 'are')} needed" if short else None


def _joined(bits: Mapping[str, _Bits], members: Sequence[str]) -> _Bits:
    return reduce(np.bitwise_and, [bits[name] for name in members])


def _count(bits: _Bits) -> int:
    return int(np.bitwise_count(bits).sum())


def _packed(mask: BoolArray) -> _Bits:
    """Pack eight rows per byte, in whole words of 64 rows."""
    octets = np.packbits(mask)
    words = np.zeros(math.ceil(octets.size / 8), dtype=np.uint64)
    words.view(np.uint8)[: octets.size] = octets
    return words


def _unpacked(bits: _Bits, n: int) -> BoolArray:
    return np.unpackbits(bits.view(np.uint8), count=n).view(np.bool_)
