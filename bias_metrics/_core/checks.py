"""Input checks shared by all metrics; an error names the argument and the row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bias_metrics._core.cuts import to_printed_float, widen_floats
from bias_metrics._core.masks import PackedMasks, Subgroups, get_columns
from bias_metrics._core.wording import format_count
from bias_metrics.suggestion import did_you_mean

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.floating]
LARGEST_WHOLE = 2**53  # floating-point numbers represent all smaller integers exactly
MAX_WEIGHT = 1e100  # the product of two total weights, and its inverse, must not overflow
_THRESHOLD_FIRST = "Threshold fractions first: `fraction >= 0.5`."


def check_mask(
    name: str, values: npt.ArrayLike, n: int | None = None, *, like: str = "y_true"
) -> BoolArray:
    """Return `values` as a boolean array of shape (n,); 0 and 1 are accepted."""
    array = np.asarray(values)
    check_shape(name, array, n, like)
    if array.dtype == np.bool_:
        return array
    if array.dtype == np.object_ and all(isinstance(label, bool | np.bool_) for label in array):
        return array.astype(np.bool_)  # a nullable boolean column without nulls
    if array.dtype.kind in "iuf":
        wrong = np.flatnonzero((array != 0) & (array != 1))
        if wrong.size == 0:
            return array.astype(np.bool_)
        refuse_values(np.isnan(array), array, name, "not be missing")
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
    """Return `values` as an array of finite floats of shape (n,); float32 stays float32."""
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # numpy lacks this type
        values = values.float()  # type: ignore[union-attr]
    array = np.asarray(values)
    check_shape(name, array, n, like)
    if array.dtype.kind in "iub":
        if array.dtype.itemsize > 4 and array.size:
            rule = "be whole numbers of at most 2^53 in size: larger ones that differ become equal"
            is_large = (array > LARGEST_WHOLE) | (array < -LARGEST_WHOLE)
            refuse_values(is_large, array, name, rule, " Subtract a constant, or rank them.")
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        _refuse_nulls(name, array)
        msg = f"`{name}` must be numbers; got dtype {array.dtype}."
        raise TypeError(msg)
    if array.dtype == np.float16:
        array = widen_floats(array).astype(np.float32)
    refuse_values(~np.isfinite(array), array, name, "be finite")
    return array


def check_weights(values: npt.ArrayLike | None, n: int) -> FloatArray | None:
    """Return weights as float64 of shape (n,), or None; refuse negative weights."""
    if values is None:
        return None
    name = "sample_weight"
    array = check_scores(name, values, n).astype(np.float64)
    refuse_values(array < 0, array, name, "be at least 0")
    is_extreme = (array > MAX_WEIGHT) | ((array > 0) & (array < 1 / MAX_WEIGHT))
    rule = f"be 0 or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}"
    refuse_values(is_extreme, array, name, rule)
    return array


def check_subgroups(
    subgroups: Subgroups,
    n: int | None = None,
    *,
    name: str = "subgroups",
    like: str = "y_true",
) -> Mapping[str, BoolArray]:
    """Return the masks as boolean arrays of shape (n,), in the given order.

    Without `n`, all masks must have the length of the first. Packed masks stay packed.
    """
    named = get_columns(_split_names(subgroups, name), name)
    if isinstance(named, PackedMasks):
        if n is not None and named.n_rows != n:
            msg = f"`{name}` must have {format_count(n, 'row')} like `{like}`; got {named.n_rows}."
            raise ValueError(msg)
        return named
    for key in named:
        if not isinstance(key, str):
            msg = f"`{name}` must have strings as names; got {key!r}."
            raise TypeError(msg)
    masks: dict[str, BoolArray] = {}
    for key, mask in named.items():
        own_name = f"{name}[{key!r}]"
        named_masks = _split_names(mask, own_name)
        if named_masks is mask:
            named_masks = {key: mask}
        for group, group_mask in named_masks.items():
            if group in masks:
                msg = f"`{name}` must have different names; {group!r} is in {own_name} again."
                raise ValueError(msg)
            masks[group] = check_mask(own_name, group_mask, n, like=like)
            if n is None:
                n, like = masks[group].size, own_name
    return masks


def _split_names(subgroups: Any, argument: str) -> Any:
    """Return a mask for each name in a column of group names; return other input unchanged.

    Rows with a missing or empty name belong to no group.
    """
    if isinstance(subgroups, Mapping) or hasattr(type(subgroups), "columns"):
        return subgroups
    if hasattr(subgroups, "__array__") and np.asarray(subgroups).dtype.kind in "biuf":
        return subgroups
    values = np.asarray(subgroups, dtype=object)
    if values.ndim != 1 or not any(isinstance(value, str) for value in values):
        return subgroups
    named = np.array([not _is_missing(value) and value != "" for value in values], dtype=np.bool_)
    for row in np.flatnonzero(named):
        if not isinstance(values[row], str):
            msg = f"`{argument}` must hold names as text; got {values[row]!r} (row {row})."
            raise TypeError(msg)
    values = np.where(named, values, "")
    return {name: values == name for name in sorted(set(values[named]))}


def check_power_mean_groups(
    groups: Sequence[str] | None, subgroups: Mapping[str, object], name: str = "power_mean_groups"
) -> tuple[str, ...]:
    """Return the groups of an aggregate (default: all); refuse unknown or repeated names."""
    if groups is None:
        return tuple(subgroups)
    names = tuple(groups)
    if isinstance(groups, str) or len(set(names)) != len(names):
        msg = f"`{name}` must be a list of different names; got {groups!r}."
        raise ValueError(msg)
    unknown = [group for group in names if group not in subgroups]
    if unknown:
        msg = (
            f"`{name}` must name subgroups; got {', '.join(map(repr, unknown))} "
            f"(known: {', '.join(subgroups) or 'none'}).{did_you_mean(unknown[0], subgroups)}"
        )
        raise ValueError(msg)
    return names


def check_shape(name: str, array: np.ndarray, n: int | None, like: str) -> None:
    """Refuse an array without exactly a value per row."""
    if array.ndim != 1:
        msg = f"`{name}` must have shape (n,); got shape {array.shape}."
        raise ValueError(msg)
    if n is not None and array.size != n:
        msg = f"`{name}` must have {format_count(n, 'row')} like `{like}`; got {array.size}."
        raise ValueError(msg)


# ---- Codes 0, 1, ... for clusters with names of any type; a missing name is refused


# Integers are looked up in a table, which is faster than sorting, if it has at most this many
# entries per row.
_SPREAD = 4


def check_clusters(values: npt.ArrayLike | None, n: int) -> npt.NDArray[np.intp] | None:
    """Return clusters as codes 0, 1, ... of shape (n,), or None."""
    if values is None:
        return None
    array = np.asarray(values)
    check_shape("clusters", array, n, "y_true")
    if array.dtype.kind in "biu":
        lowest = int(array.min()) if array.size else 0
        if array.size == 0 or int(array.max()) - lowest > _SPREAD * array.size:
            return np.asarray(np.unique(array, return_inverse=True)[1])
        shifted = array.astype(np.intp) - lowest
        return np.asarray((np.cumsum(np.bincount(shifted) > 0) - 1)[shifted])
    if array.dtype.kind in "fmM":
        lacking = ~np.isfinite(array) if array.dtype.kind == "f" else np.isnat(array)
        refuse_values(lacking, array, "clusters", "not be missing")
        return np.unique(array, return_inverse=True)[1]
    if not isinstance(values, np.ndarray):
        array = np.asarray(values, dtype=object)  # numpy would turn a NaN among text into text
    return _encode_objects(array)


def _encode_objects(array: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return codes in order of first occurrence, since names need not be comparable."""
    codes_by_name: dict[object, int] = {}
    names = array.tolist()
    try:
        codes = [codes_by_name.setdefault(name, len(codes_by_name)) for name in names]
    except TypeError as error:
        types = ", ".join(sorted({type(name).__name__ for name in names}))
        msg = f"`clusters` must be numbers, text or dates; got {types}."
        raise TypeError(msg) from error
    missing = [name for name in codes_by_name if _is_missing(name)]
    if missing:
        row = codes.index(codes_by_name[missing[0]])
        msg = f"`clusters` must not be missing; got {missing[0]!r} (row {row})."
        raise ValueError(msg)
    kinds: dict[bool, object] = {}
    for name in codes_by_name:
        kinds.setdefault(isinstance(name, str), name)
    if len(kinds) > 1:
        examples = " and ".join(
            f"{kind!r} (row {codes.index(codes_by_name[kind])})" for kind in kinds.values()
        )
        msg = (
            f"`clusters` must be all text or all numbers, since 1 is not '1'; got {examples}. Make "
            "each text, as `.astype(str)` does."
        )
        raise ValueError(msg)
    return np.array(codes, dtype=np.intp)


def _is_missing(name: object) -> bool:
    """Check for None, NaN, NaT or pandas' NA, which does not equal itself."""
    if name is None:
        return True
    same = name == name  # noqa: PLR0124 - False, or not a bool, for missing values
    return not isinstance(same, bool | np.bool_) or not same


def _refuse_nulls(name: str, array: npt.NDArray[Any]) -> None:
    """Refuse a missing value of any library in an array of objects."""
    if array.dtype == np.object_:
        missing = np.fromiter(map(_is_missing, array), np.bool_, array.size)
        refuse_values(missing, array, name, "not be missing")


def refuse_values(
    wrong: npt.NDArray[np.bool_], array: npt.NDArray[Any], name: str, rule: str, hint: str = ""
) -> None:
    """Refuse an array with a wrong value; the error names the rule and the first row."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        msg = f"`{name}` must {rule}; got {array[row]} (row {row}).{hint}"
        raise ValueError(msg)


# ---- Checks of options: thresholds, choices from a list, generators


Choice = TypeVar("Choice", bound=str)


def check_threshold(threshold: float) -> float:
    """Return the threshold as a finite float."""
    number = to_printed_float(threshold)
    if not math.isfinite(number):
        msg = f"`threshold` must be a finite number; got {threshold}."
        raise ValueError(msg)
    return number


def check_choice(
    name: str, choice: Choice, allowed: Iterable[str] | Mapping[str, object]
) -> Choice:
    """Return `choice`, which must be among the allowed names."""
    names = tuple(allowed)
    if choice not in names:
        msg = f"`{name}` must be one of {', '.join(names)}; got {choice!r}."
        raise ValueError(msg)
    return choice


def check_rng(rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator, which the caller must pass: a hidden default is not reproducible."""
    if not isinstance(rng, np.random.Generator):
        msg = (
            "`rng` must be a numpy Generator, as in `numpy.random.default_rng(0)`; "
            f"got {type(rng).__name__}."
        )
        raise TypeError(msg)
    return rng
