"""The columns of how many raters a comment had, and how many of them called it toxic."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.data.reading import Chunk, refuse_values, to_numbers

MOST_RATERS = 1e9


def to_raters(chunk: Chunk, column: str, ids: pa.Array) -> pa.Array:
    """Return numbers of raters: whole and at least 1.

    Raises
    ------
    InputError
        At the first number that is missing, below 1 or a fraction.
    """
    rule = "a number of raters must be whole and at least 1"
    return _whole(chunk, column, ids, 1.0, rule)


def to_label_of_votes(
    chunk: Chunk, column: str, raters: pa.Array, raters_column: str, ids: pa.Array
) -> pa.Array:
    """Return labels as fractions: the raters who said toxic, divided by all raters.

    Raises
    ------
    InputError
        At the first number of votes that is missing, below 0, a fraction or above the number of
        raters.
    """
    votes = _whole(chunk, column, ids, 0.0, "a number of votes must be whole and at least 0")
    rule = f"there must be no more votes than raters in column {raters_column}"
    refuse_values(chunk, column, pc.greater(votes, raters), rule, ids, votes)
    return pc.divide(votes, raters)


def _whole(chunk: Chunk, column: str, ids: pa.Array, least: float, rule: str) -> pa.Array:
    numbers = to_numbers(chunk, column, ids)
    known = pc.fill_null(numbers, math.nan)
    fits = pc.and_(pc.greater_equal(known, least), pc.less_equal(known, MOST_RATERS))
    fits = pc.and_(fits, pc.equal(known, pc.floor(known)))
    refuse_values(chunk, column, pc.invert(fits), rule, ids, numbers)
    return numbers
