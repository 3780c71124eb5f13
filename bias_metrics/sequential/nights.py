"""The rows of several nights as one set of rows; no row counts twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

IDS = "id"
SUBGROUPS = "subgroups"


def pool_nights(nights: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the rows of several nights together, for `compare_bias` or `evaluate_bias`.

    All rows count alike, so each AUC is that of all rows: a toxic comment of one night is compared
    with the harmless ones of every night. Nights with few mentions of an identity thus count too.

    Parameters
    ----------
    nights : sequence of mapping
        At least one. Each has `id`, with an id for each row, and arguments of `compare_bias` or
        `evaluate_bias`: arrays of shape (n,), and `subgroups`, a mapping of them. All nights have
        the same arguments and subgroups. Clusters that go on for several nights keep their name.

    Returns
    -------
    dict
        The arguments with the rows of all nights.

    Raises
    ------
    ValueError
        If there is no night, if nights have different arguments or subgroups, if the arrays of a
        night differ in length, or if an id is given twice: rows that count twice make every
        interval too narrow.

    References
    ----------
    Johari, Koomen, Pekelis and Walsh (2022), Operations Research 70 (looking at accumulating data).

    Examples
    --------
    >>> monday = {"id": [1, 2], "y_true": [0, 1], "y_score": [0.2, 0.9]}
    >>> tuesday = {"id": [3, 4], "y_true": [1, 0], "y_score": [0.4, 0.7]}
    >>> pool_nights([monday, tuesday])["y_score"]
    array([0.2, 0.9, 0.4, 0.7])
    """
    if not nights:
        msg = "`nights` must have at least one night; got none."
        raise ValueError(msg)
    each = [_arrays(night, number) for number, night in enumerate(nights, start=1)]
    for number, night in enumerate(each, start=1):
        _refuse_other_names(night, each[0], number)
    pooled = {key: np.concatenate([night[key] for night in each]) for key in each[0]}
    _refuse_repeated(pooled.pop((IDS, None)), [night[IDS, None].size for night in each])
    found: dict[str, Any] = {SUBGROUPS: {}} if SUBGROUPS in nights[0] else {}
    for (argument, group), values in pooled.items():
        if group is None:
            found[argument] = values
        else:
            found[SUBGROUPS][group] = values
    return found


_Arrays = dict[tuple[str, str | None], npt.NDArray[Any]]


def _arrays(night: Mapping[str, Any], number: int) -> _Arrays:
    """Return the arrays of a night, by argument and subgroup."""
    if IDS not in night:
        msg = f"`nights` must have an `{IDS}` for each row; night {number} has none."
        raise ValueError(msg)
    found: _Arrays = {}
    for argument, values in night.items():
        if argument == SUBGROUPS:
            found |= {(argument, str(name)): np.asarray(values[name]) for name in values}
        else:
            found[argument, None] = np.asarray(values)
    for (argument, group), array in found.items():
        if array.shape != found[IDS, None].shape or array.ndim != 1:
            name = argument if group is None else f"{argument}[{group!r}]"
            msg = (
                f"`{name}` of night {number} must have a value for each of its "
                f"{found[IDS, None].size} ids; got shape {array.shape}."
            )
            raise ValueError(msg)
    return found


def _refuse_other_names(night: _Arrays, first: _Arrays, number: int) -> None:
    differ = night.keys() ^ first.keys()
    if differ:
        argument, group = min(differ, key=str)
        name = argument if group is None else f"{argument}[{group!r}]"
        msg = f"`nights` must all have the same arguments; not both of 1 and {number} have {name}."
        raise ValueError(msg)


def _refuse_repeated(ids: npt.NDArray[Any], sizes: Sequence[int]) -> None:
    """Refuse rows that are given twice; say which, and in which nights."""
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[codes] != np.arange(ids.size))
    if again.size:
        night = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        row = int(again[0])
        msg = (
            f"`nights` must be fresh rows, each given once; {again.size:,} are given again, first "
            f"id {ids[row]} of night {night[first[codes[row]]]} in night {night[row]}."
        )
        raise ValueError(msg)
