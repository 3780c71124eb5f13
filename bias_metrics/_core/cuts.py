"""Cuts of columns, which select the same rows in 16, 32 and 64 bits.

A program that stores .7 in 32 bits keeps .699999988, and pandas writes that to JSON as
.6999999881. Where such a form of the cut occurs in a column, it is the cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DIGITS_OF_JSON = 10


def reaches(values: npt.NDArray[np.floating], cut: float) -> npt.NDArray[np.bool_]:
    """Return which values are at least the cut; NaN is not."""
    return np.asarray(values >= cut_in(values, cut))


def cut_in(values: npt.NDArray[np.floating], cut: float) -> np.float64:
    """Return the cut in the form that a column holds it in: its own, or a narrower one."""
    # As numpy's float64: it would round a Python float to the 32 bits of the values.
    cut = as_decimal(cut)
    found = (form for form in narrow_forms(cut) if np.any(values == form))
    return np.float64(min(found, default=cut))


def cuts_in(
    values: npt.NDArray[np.floating], cuts: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return each cut in the form that a column holds it in."""
    return np.array([cut_in(values, cut) for cut in cuts], dtype=np.float64)


def narrow_forms(cut: float) -> tuple[float, ...]:
    """Return the numbers below a cut that stand for it where it was stored in 32 bits.

    None stands for a cut beside a number that 32 bits hold exactly: .5 is below .5000000001.
    """
    with np.errstate(over="ignore"):
        rounded = np.float32(cut)
    single = float(rounded)
    if single >= cut or float(str(rounded)) == single:
        return ()
    return tuple({single, round(single, _DIGITS_OF_JSON)} - {cut})


def as_decimal(number: float) -> float:
    """Return the decimal that a number prints as: .7, not the .699999988 of numpy's float32."""
    return float(str(number)) if isinstance(number, np.floating) else float(number)


def widened(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return numbers in 64 bits; those of 16 bits as they print: .1, not .0999755859375."""
    array = np.asarray(values)
    return (array.astype(str) if array.dtype == np.float16 else array).astype(np.float64)
