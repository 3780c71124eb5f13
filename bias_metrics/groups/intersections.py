"""Intersections of subgroups that have enough rows to be measured.

Memberships are packed, eight rows per byte. An intersection is counted only if every smaller
intersection of its members has enough rows (Agrawal and Srikant 1994). So triples of 24 identities
stay cheap on millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, check_mask, check_subgroups
from bias_metrics._core.index import require_aligned
from bias_metrics._core.masks import LazyMapping, Subgroups
from bias_metrics._core.tables import Row, Tabular
from bias_metrics._core.wording import format_shortage

SEPARATOR = " & "

_Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class IntersectionSupport(Tabular):
    """Number of rows of an intersection."""

    members: tuple[str, ...]
    """The joined subgroups, in the given order."""
    n: int
    """Number of rows in all joined subgroups."""
    n_positive: int | None = None
    n_negative: int | None = None
    """n_positive, n_negative: number of rows by class; None without labels."""
    reason: str | None = None
    """Why the intersection was left out; None if it was kept."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without fields that are None."""
        optional = {
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "reason": self.reason,
        }
        present = {name: value for name, value in optional.items() if value is not None}
        return {"members": list(self.members), "n": self.n} | present

    def rows(self) -> list[Row]:
        """Return a single record."""
        return [vars(self) | {"members": ", ".join(self.members)}]


@dataclass(frozen=True, eq=False)
class Intersections(Tabular):
    """Intersections of subgroups.

    For each order k, the numbers of intersections kept, left out and not counted add up to the
    number of ways to choose k subgroups.
    """

    masks: Mapping[str, BoolArray]
    """Memberships of the kept intersections, computed on access."""
    kept: dict[str, IntersectionSupport]
    """Counts of the kept intersections."""
    left_out: dict[str, IntersectionSupport]
    """Subgroups and intersections with too few rows, with counts and the reason."""
    n_not_counted: dict[int, int]
    """By order: number of intersections that contain an entry of `left_out`, and so cannot have
    more rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values, without the masks."""
        return {
            "kept": {name: support.to_dict() for name, support in self.kept.items()},
            "left_out": {name: support.to_dict() for name, support in self.left_out.items()},
            "n_not_counted": {str(order): n for order, n in self.n_not_counted.items()},
        }

    def rows(self) -> list[Row]:
        """Return a record per counted intersection, with `kept`."""
        counted = self.kept | self.left_out
        return [
            {"intersection": name, "kept": name in self.kept} | row
            for name, support in counted.items()
            for row in support.rows()
        ]


@require_aligned
def intersections(
    subgroups: Subgroups,
    *,
    max_order: int = 2,
    min_support: int = 1,
    y_true: npt.ArrayLike | None = None,
) -> Intersections:
    """Find the intersections of subgroups that have enough rows to be measured.

    A model can be fair to two identities and unfair to comments that mention both. The masks
    can be passed to `evaluate_bias` as further subgroups. The background of an intersection is all
    rows outside it, including rows with only some of its identities. To cross subgroups with a
    slice, give the slice as a further subgroup; to measure within a slice,
    use `evaluate_slices`.

    Parameters
    ----------
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Subgroup names and memberships; no name may contain ` & `.
    max_order : int, default=2
        The largest number of subgroups to join; at least 2.
    min_support : int, default=1
        Number of rows that an intersection needs; with `y_true`, per class. At least 1.
    y_true : bool array of shape (n,), optional
        True for the positive (toxic) class.

    Returns
    -------
    Intersections
        Names are the members joined with ` & `. Pairs come first, then higher orders, in the given
        order of the subgroups, which are not repeated. Intersections with too few rows are in
        `left_out`; `n_not_counted` has the number of intersections that contain them.

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
    >>> joined = intersections(
    ...     {"black": [1, 1, 1, 0], "female": [1, 1, 0, 0], "jewish": [0, 0, 0, 1]}
    ... )
    >>> joined.masks["black & female"]
    array([ True,  True, False, False])
    >>> joined.left_out["black & jewish"].reason
    '0 rows where 1 is needed'
    """
    labels = None if y_true is None else check_mask("y_true", y_true)
    masks = check_subgroups(subgroups, None if labels is None else labels.size)
    _check_options(masks, max_order, min_support)
    bits = {name: _pack_bits(mask) for name, mask in masks.items()}
    positive = None if labels is None else _pack_bits(labels)
    names = list(masks)
    kept: dict[str, IntersectionSupport] = {}
    left_out: dict[str, IntersectionSupport] = {}
    n_not_counted: dict[int, int] = {}
    supported: list[tuple[int, ...]] = [()]
    for order in range(1, min(max_order, len(names)) + 1):
        candidates = _list_candidates(supported, order, len(names))
        supported = []
        for positions in candidates:
            members = tuple(names[position] for position in positions)
            own = _intersect_bits(bits, members)
            n = int(np.bitwise_count(own).sum())
            support = IntersectionSupport(
                members, n, reason=format_shortage({"row": n}, min_support)
            )
            if positive is not None:
                n_positive = int(np.bitwise_count(own & positive).sum())
                classes = {"positive": n_positive, "negative": n - n_positive}
                reason = format_shortage(classes, min_support)
                support = IntersectionSupport(members, n, n_positive, n - n_positive, reason)
            if support.reason is not None:
                left_out[SEPARATOR.join(members)] = support
                continue
            supported.append(positions)
            if order > 1:
                kept[SEPARATOR.join(members)] = support
        if order > 1:
            n_not_counted[order] = math.comb(len(names), order) - len(candidates)
    n_rows = next((mask.size for mask in masks.values()), 0)

    def unpack_mask(name: str) -> BoolArray:
        own = _intersect_bits(bits, kept[name].members)
        return np.unpackbits(own.view(np.uint8), count=n_rows).view(np.bool_)

    # A thousand masks need not fit into memory.
    masks_on_access = LazyMapping(kept, unpack_mask, max_cached=0)
    return Intersections(masks_on_access, kept, left_out, n_not_counted)


def _check_options(names: Mapping[str, object], max_order: int, min_support: int) -> None:
    for name, value, least in (("max_order", max_order, 2), ("min_support", min_support, 1)):
        if not isinstance(value, int | np.integer) or value < least:
            msg = f"`{name}` must be a whole number of at least {least}; got {value!r}."
            raise ValueError(msg)
    for name in names:
        if SEPARATOR in name:
            msg = f"`subgroups` must have names without {SEPARATOR!r}; got {name!r}."
            raise ValueError(msg)


def _list_candidates(
    supported: Sequence[tuple[int, ...]], order: int, n: int
) -> list[tuple[int, ...]]:
    """Extend each intersection by a later subgroup, if all parts of the result have support."""
    supported_set = set(supported)
    longer = (
        (*positions, last)
        for positions in supported
        for last in range(positions[-1] + 1 if positions else 0, n)
    )
    return [
        candidate
        for candidate in longer
        if all(part in supported_set for part in combinations(candidate, order - 1))
    ]


def _intersect_bits(bits: Mapping[str, _Bits], members: Sequence[str]) -> _Bits:
    return reduce(np.bitwise_and, [bits[name] for name in members])


def _pack_bits(mask: BoolArray) -> _Bits:
    """Pack eight rows per byte, in whole words of 64 rows."""
    octets = np.packbits(mask)
    words = np.zeros(math.ceil(octets.size / 8), dtype=np.uint64)
    words.view(np.uint8)[: octets.size] = octets
    return words
