"""The column of weights of a table."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics.parts import MAX_WEIGHT
from biasgate.tasks.data.reading import Chunk, refuse_values, to_numbers


def to_weights(chunk: Chunk, column: str, ids: pa.Array, *, whole: bool) -> pa.Array:
    """Return weights: finite and at least 0; whole numbers if `whole`.

    Raises
    ------
    InputError
        At the first weight that is missing, NaN, infinite, negative or, if `whole`, a fraction.
    """
    numbers = to_numbers(chunk, column, ids)
    known = pc.fill_null(numbers, math.nan)
    fit = pc.or_(pc.equal(known, 0.0), pc.greater_equal(known, 1 / MAX_WEIGHT))
    fit = pc.and_(fit, pc.less_equal(known, MAX_WEIGHT))
    rule = f"a weight must be 0 or between {1 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}"
    hint = " A row of weight 0 does not count." if numbers.null_count else ""
    refuse_values(chunk, column, pc.invert(fit), rule, ids, numbers, hint)
    if whole:
        rule = "a weight must be a whole number where `weight_kind` is `frequency`"
        refuse_values(chunk, column, pc.not_equal(known, pc.floor(known)), rule, ids, numbers)
    return numbers
