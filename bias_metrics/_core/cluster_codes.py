"""Names of clusters, of any type, as codes 0, 1, ...: a missing name is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import check_shape

# Whole numbers are looked up in a table instead of being sorted if it has at most this many
# entries for each row.
_SPREAD = 4


def check_clusters(
    values: npt.ArrayLike | None, n: int, *, name: str = "clusters", like: str = "y_true"
) -> npt.NDArray[np.intp] | None:
    """Return clusters as codes 0, 1, ... of shape (n,), or None."""
    if values is None:
        return None
    array = np.asarray(values)
    check_shape(name, array, n, like)
    if array.dtype.kind in "biu":
        return _codes_of_integers(array)
    if array.dtype.kind in "fmM":
        _refuse(~np.isfinite(array) if array.dtype.kind == "f" else np.isnat(array), array, name)
        return np.unique(array, return_inverse=True)[1]
    if not isinstance(values, np.ndarray):
        array = np.asarray(values, dtype=object)  # otherwise a NaN among text becomes text
    return _codes_of_objects(array, name)


def _codes_of_integers(array: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    if array.size == 0 or int(array.max()) - int(array.min()) > _SPREAD * array.size:
        return np.asarray(np.unique(array, return_inverse=True)[1])
    shifted = array.astype(np.intp) - int(array.min())
    present = np.bincount(shifted) > 0
    return np.asarray((np.cumsum(present) - 1)[shifted])


def _codes_of_objects(array: npt.NDArray[Any], argument: str) -> npt.NDArray[np.intp]:
    """Give numbers in the order in which names occur: they need not be comparable."""
    known: dict[object, int] = {}
    names = array.tolist()
    try:
        codes = [known.setdefault(name, len(known)) for name in names]
    except TypeError as error:
        msg = f"`{argument}` must be numbers, text or dates; {error}."
        raise TypeError(msg) from error
    missing = [name for name in known if _is_missing(name)]
    if missing:
        row = codes.index(known[missing[0]])
        msg = f"`{argument}` must not be missing; got {missing[0]!r} (row {row})."
        raise ValueError(msg)
    return np.array(codes, dtype=np.intp)


def _is_missing(name: object) -> bool:
    """Say whether a name is None, NaN, NaT or pandas' NA, which equals nothing, not even itself."""
    if name is None:
        return True
    same = name == name  # noqa: PLR0124 - that is what tells them apart
    return not isinstance(same, bool | np.bool_) or not same


def _refuse(missing: npt.NDArray[np.bool_], array: npt.NDArray[Any], argument: str) -> None:
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        msg = f"`{argument}` must not be missing; got {array[row]} (row {row})."
        raise ValueError(msg)
