"""Input checks shared by every metric: refuse early, and say which argument is wrong and where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bias_metrics._core.counted import counted
from bias_metrics._core.cuts import as_decimal, widened
from bias_metrics._core.packed import PackedMasks, Subgroups, by_name
from bias_metrics.suggestion import did_you_mean

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.floating]
LARGEST_WHOLE = 2**53  # up to which whole numbers are floating-point numbers
MAX_WEIGHT = 1e100  # so that neither a product of two total weights nor its inverse overflows
_THRESHOLD_FIRST = "Threshold fractions first: `fraction >= 0.5`."


def check_mask(
    name: str, values: npt.ArrayLike, n: int | None = None, *, like: str = "y_true"
) -> BoolArray:
    """Return `values` as a boolean array of shape (n,); 0/1 numbers are accepted."""
    array = np.asarray(values)
    check_shape(name, array, n, like)
    if array.dtype == np.bool_:
        return array
    if array.dtype == np.object_ and all(isinstance(one, bool | np.bool_) for one in array):
        return array.astype(np.bool_)  # a nullable boolean column without nulls
    if array.dtype.kind in "iuf":
        wrong = np.flatnonzero((array != 0) & (array != 1))
        if wrong.size == 0:
            return array.astype(np.bool_)
        _refuse(np.isnan(array), array, name)
        signs = np.isin(array, (-1, 1)).all()
        how = "Compare -1 and 1 with 1: `labels == 1`." if signs else _THRESHOLD_FIRST
        msg = (
            f"`{name}` must be boolean (or 0 and 1); got {array[wrong[0]]} (row {wrong[0]}). {how}"
        )
        raise ValueError(msg)
    _refuse_nulls(name, array)
    if array.size and isinstance(array[0], str):
        value = str(array[0])
        msg = (
            f"`{name}` must be boolean (or 0 and 1); got {value!r} (row 0). Compare it with the "
            "value that means yes, as in `labels == 'toxic'`."
        )
        raise TypeError(msg)
    msg = f"`{name}` must be boolean (or 0 and 1); got dtype {array.dtype}."
    raise TypeError(msg)


def check_scores(
    name: str, values: npt.ArrayLike, n: int | None = None, *, like: str = "y_true"
) -> FloatArray:
    """Return `values` as a finite floating array of shape (n,); float32 stays float32."""
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # numpy has no such type
        values = values.float()  # type: ignore[union-attr]
    array = np.asarray(values)
    check_shape(name, array, n, like)
    if array.dtype.kind in "iub":
        if array.dtype.itemsize > 4 and array.size:
            _refuse_large(name, array)
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        _refuse_nulls(name, array)
        msg = f"`{name}` must be numbers; got dtype {array.dtype}."
        raise TypeError(msg)
    if array.dtype == np.float16:
        array = widened(array).astype(np.float32)
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        msg = f"`{name}` must be finite; got {array[row]} (row {row})."
        raise ValueError(msg)
    return array


def _refuse_large(name: str, array: npt.NDArray[np.integer[Any]]) -> None:
    """Refuse whole numbers that are equal to others once they are floating-point numbers."""
    large = (array > LARGEST_WHOLE) | (array < -LARGEST_WHOLE)
    if large.any():
        row = int(np.flatnonzero(large)[0])
        msg = (
            f"`{name}` must be whole numbers of at most 2^53 in size: larger ones that differ "
            f"become equal; got {array[row]} (row {row}). Subtract a constant, or rank them."
        )
        raise ValueError(msg)


def check_weights(values: npt.ArrayLike | None, n: int) -> FloatArray | None:
    """Return weights as float64 of shape (n,), or None; negative weights are refused."""
    if values is None:
        return None
    array = check_scores("sample_weight", values, n).astype(np.float64)
    if (array < 0).any():
        row = int(np.flatnonzero(array < 0)[0])
        msg = f"`sample_weight` must be at least 0; got {array[row]} (row {row})."
        raise ValueError(msg)
    extreme = (array > MAX_WEIGHT) | ((array > 0) & (array < 1 / MAX_WEIGHT))
    if extreme.any():
        row = int(np.flatnonzero(extreme)[0])
        msg = (
            f"`sample_weight` must be 0 or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}; "
            f"got {array[row]} (row {row})."
        )
        raise ValueError(msg)
    return array


def check_subgroups(
    subgroups: Subgroups,
    n: int | None = None,
    *,
    name: str = "subgroups",
    like: str = "y_true",
) -> Mapping[str, BoolArray]:
    """Return the masks as boolean arrays of shape (n,), in the order given.

    Without `n`, all masks must be as long as the first. Packed masks stay packed.
    """
    given = by_name(_by_value(subgroups, name), name)
    if isinstance(given, PackedMasks):
        if n is not None and given.n_rows != n:
            msg = f"`{name}` must have {counted(n, 'row')} like `{like}`; got {given.n_rows}."
            raise ValueError(msg)
        return given
    for key in given:
        if not isinstance(key, str):
            msg = f"`{name}` must have strings as names; got {key!r}."
            raise TypeError(msg)
    masks: dict[str, BoolArray] = {}
    for key, mask in given.items():
        own_name = f"{name}[{key!r}]"
        of_names = _by_value(mask, own_name)
        if of_names is mask:
            of_names = {key: mask}
        for group, of_group in of_names.items():
            if group in masks:
                msg = f"`{name}` must have different names; {group!r} is in {own_name} again."
                raise ValueError(msg)
            masks[group] = check_mask(own_name, of_group, n, like=like)
            if n is None:
                n, like = masks[group].size, own_name
    return masks


def _by_value(subgroups: Any, argument: str) -> Any:
    """Return one mask for each name in a column of group names; anything else as it is.

    Rows with a missing or empty name belong to no group.
    """
    if isinstance(subgroups, Mapping) or hasattr(type(subgroups), "columns"):
        return subgroups
    if hasattr(subgroups, "__array__") and np.asarray(subgroups).dtype.kind in "biuf":
        return subgroups
    values = np.asarray(subgroups, dtype=object)
    if values.ndim != 1 or not any(isinstance(one, str) for one in values):
        return subgroups
    named = np.array([not _is_missing(one) and one != "" for one in values], dtype=np.bool_)
    for row in np.flatnonzero(named):
        if not isinstance(values[row], str):
            msg = f"`{argument}` must hold names as text; got {values[row]!r} (row {row})."
            raise TypeError(msg)
    values = np.where(named, values, "")
    return {name: values == name for name in sorted(set(values[named]))}


def check_power_mean_groups(
    groups: Sequence[str] | None, subgroups: Mapping[str, object], name: str = "power_mean_groups"
) -> tuple[str, ...]:
    """Return the groups of an aggregate, all by default; refuse unknown and repeated ones."""
    if groups is None:
        return tuple(subgroups)
    names = tuple(groups)
    if isinstance(groups, str) or len(set(names)) != len(names):
        msg = f"`{name}` must be a list of different names; got {groups!r}."
        raise ValueError(msg)
    unknown = [one for one in names if one not in subgroups]
    if unknown:
        msg = (
            f"`{name}` must name subgroups; got {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(subgroups) or 'none'}).{did_you_mean(unknown[0], subgroups)}"
        )
        raise ValueError(msg)
    return names


def check_shape(name: str, array: np.ndarray, n: int | None, like: str) -> None:
    """Refuse anything but one value for each row."""
    if array.ndim != 1:
        msg = f"`{name}` must have shape (n,); got shape {array.shape}."
        raise ValueError(msg)
    if n is not None and array.size != n:
        msg = f"`{name}` must have {counted(n, 'row')} like `{like}`; got {array.size}."
        raise ValueError(msg)


# ---- Names of clusters, of any type, as codes 0, 1, ...: a missing name is refused


# Whole numbers are looked up in a table instead of being sorted if it has at most this many
# entries for each row.
_SPREAD = 4


def check_clusters(values: npt.ArrayLike | None, n: int) -> npt.NDArray[np.intp] | None:
    """Return clusters as codes 0, 1, ... of shape (n,), or None."""
    if values is None:
        return None
    array = np.asarray(values)
    check_shape("clusters", array, n, "y_true")
    if array.dtype.kind in "biu":
        return _codes_of_integers(array)
    if array.dtype.kind in "fmM":
        lacking = ~np.isfinite(array) if array.dtype.kind == "f" else np.isnat(array)
        _refuse(lacking, array, "clusters")
        return np.unique(array, return_inverse=True)[1]
    if not isinstance(values, np.ndarray):
        array = np.asarray(values, dtype=object)  # otherwise a NaN among text becomes text
    return _codes_of_objects(array)


def _codes_of_integers(array: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    if array.size == 0 or int(array.max()) - int(array.min()) > _SPREAD * array.size:
        return np.asarray(np.unique(array, return_inverse=True)[1])
    shifted = array.astype(np.intp) - int(array.min())
    present = np.bincount(shifted) > 0
    return np.asarray((np.cumsum(present) - 1)[shifted])


def _codes_of_objects(array: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Give numbers in the order in which names occur: they need not be comparable."""
    known: dict[object, int] = {}
    names = array.tolist()
    try:
        codes = [known.setdefault(name, len(known)) for name in names]
    except TypeError as error:
        types = ", ".join(sorted({type(name).__name__ for name in names}))
        msg = f"`clusters` must be numbers, text or dates; got {types}."
        raise TypeError(msg) from error
    missing = [name for name in known if _is_missing(name)]
    if missing:
        row = codes.index(known[missing[0]])
        msg = f"`clusters` must not be missing; got {missing[0]!r} (row {row})."
        raise ValueError(msg)
    kinds: dict[bool, object] = {}
    for name in known:
        kinds.setdefault(isinstance(name, str), name)
    if len(kinds) > 1:
        told = " and ".join(f"{kind!r} (row {codes.index(known[kind])})" for kind in kinds.values())
        msg = (
            f"`clusters` must be all text or all numbers, since 1 is not '1'; got {told}. Make "
            "each text, as `.astype(str)` does."
        )
        raise ValueError(msg)
    return np.array(codes, dtype=np.intp)


def _is_missing(name: object) -> bool:
    """Say whether a name is None, NaN, NaT or pandas' NA, which equals nothing, not even itself."""
    if name is None:
        return True
    same = name == name  # noqa: PLR0124 - that is what tells them apart
    return not isinstance(same, bool | np.bool_) or not same


def _refuse_nulls(name: str, array: npt.NDArray[Any]) -> None:
    """Refuse a missing value of any library in an array of objects."""
    if array.dtype == np.object_:
        _refuse(np.fromiter(map(_is_missing, array), np.bool_, array.size), array, name)


def _refuse(missing: npt.NDArray[np.bool_], array: npt.NDArray[Any], argument: str) -> None:
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        msg = f"`{argument}` must not be missing; got {array[row]} (row {row})."
        raise ValueError(msg)


# ---- Checks of options: thresholds, choices from a list, generators


Choice = TypeVar("Choice", bound=str)


def check_threshold(threshold: float) -> float:
    """Return a threshold as a finite float."""
    number = as_decimal(threshold)
    if not math.isfinite(number):
        msg = f"`threshold` must be a finite number; got {threshold}."
        raise ValueError(msg)
    return number


def check_choice(
    name: str, choice: Choice, allowed: Iterable[str] | Mapping[str, object]
) -> Choice:
    """Return `choice`, which must be one of the allowed names."""
    names = tuple(allowed)
    if choice not in names:
        msg = f"`{name}` must be one of {', '.join(names)}; got {choice!r}."
        raise ValueError(msg)
    return choice


def check_rng(rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator; the caller must pass one, there is no hidden default."""
    if not isinstance(rng, np.random.Generator):
        msg = (
            "`rng` must be a numpy Generator, as in `numpy.random.default_rng(0)`; "
            f"got {type(rng).__name__}."
        )
        raise TypeError(msg)
    return rng
