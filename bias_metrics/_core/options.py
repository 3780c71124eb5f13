"""Checks of options: thresholds, choices from a list, generators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

Choice = TypeVar("Choice", bound=str)


def check_threshold(threshold: float) -> float:
    """Return a threshold as a finite float."""
    number = float(threshold)
    if not math.isfinite(number):
        msg = f"`threshold` must be a finite number; got {threshold}."
        raise ValueError(msg)
    return number


def check_share(name: str, share: float) -> float:
    """Return a number from 0 to 1."""
    number = float(share)
    if not 0 <= number <= 1:
        msg = f"`{name}` must be from 0 to 1; got {share}."
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
