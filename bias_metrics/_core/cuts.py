"""Cuts that select the same rows of a column in 16, 32 and 64 bits.

A program that stores .7 in 32 bits keeps .699999988, and pandas writes that number to JSON as
.6999999881. If a column contains such a form of the cut, this form is the cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DIGITS_OF_JSON = 10


def reaches_cut(values: npt.NDArray[np.floating], cut: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the values that are at least the cut; False for NaN."""
    return np.asarray(values >= find_cut(values, cut))


def find_cut(values: npt.NDArray[np.floating], cut: float) -> np.float64:
    """Return the cut in the form in which the column contains it, possibly a narrower form."""
    # numpy would round a Python float, but not a float64, to the 32 bits of the values.
    cut = to_printed_float(cut)
    forms = (form for form in list_narrow_forms(cut) if np.any(values == form))
    return np.float64(min(forms, default=cut))


def find_cuts(
    values: npt.NDArray[np.floating], cuts: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return each cut in the form in which the column contains it."""
    return np.array([find_cut(values, cut) for cut in cuts], dtype=np.float64)


def list_narrow_forms(cut: float) -> tuple[float, ...]:
    """Return the numbers below a cut that result if it is stored in 32 bits.

    The tuple is empty for a cut next to a number that 32 bits hold exactly: .5 is below
    .5000000001.
    """
    with np.errstate(over="ignore"):
        rounded = np.float32(cut)
    single = float(rounded)
    if single >= cut or float(str(rounded)) == single:
        return ()
    return tuple({single, round(single, _DIGITS_OF_JSON)} - {cut})


def to_printed_float(number: float) -> float:
    """Return a number as it prints: .7, not .699999988, for numpy's float32."""
    return float(str(number)) if isinstance(number, np.floating) else float(number)


def widen_floats(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return numbers in 64 bits; 16-bit numbers as they print: .1, not .0999755859375."""
    array = np.asarray(values)
    return (array.astype(str) if array.dtype == np.float16 else array).astype(np.float64)
