"""The label of a row, from one column or from several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from bias_metrics.parts import MAX_WEIGHT
from biasgate.tasks.data import reading
from biasgate.tasks.data.reading import Chunk, refuse_values, to_numbers

LabelRule = Literal["highest", "raters"]
LabelValues = dict[str, Annotated[float, Field(ge=0, le=1)]]
_HINT = (
    " Divide percentages by 100. If the numbers are codes, say what each means, as in "
    '`label_values: {"-1": 0, "1": 1}`.'
)


def to_labels(
    chunk: reading.Chunk,
    columns: Sequence[str],
    ids: pa.Array,
    values: Mapping[str, float] | None,
    rule: LabelRule | None,
) -> tuple[pa.Array, pa.Array | None]:
    """Return one label for each row and, if the columns are raters, how many answered.

    Parameters
    ----------
    columns : sequence of str
        One column, or several with a `rule`.
    rule : {"highest", "raters"}, optional
        `highest`: the columns are kinds of toxicity, and a row is as toxic as the highest.
        `raters`: each column has the answers of one rater, 0 or 1, empty where there is none;
        the label is the fraction that said 1.

    Raises
    ------
    InputError
        At the first label that is missing, is no fraction, or has no rater at all.
    """
    nullable = rule == "raters"
    found = [_one(chunk, column, ids, values, nullable=nullable) for column in columns]
    if rule is None:
        return found[0], None
    if rule == "highest":
        return pc.max_element_wise(*found), None
    for column, answers in zip(columns, found, strict=True):
        whole = pc.or_(pc.equal(answers, 0.0), pc.equal(answers, 1.0))
        wrong = pc.invert(pc.fill_null(whole, fill_value=True))
        reading.refuse_values(
            chunk, column, wrong, "the answer of one rater must be 0 or 1", ids, answers
        )
    counted = [pc.is_valid(answers).cast(pa.float64()) for answers in found]
    raters, toxic = counted[0], pc.fill_null(found[0], 0.0)
    for one, answers in zip(counted[1:], found[1:], strict=True):
        raters, toxic = pc.add(raters, one), pc.add(toxic, pc.fill_null(answers, 0.0))
    shown = f"{columns[0]} to {columns[-1]}"
    unrated = "at least one rater must have answered"
    reading.refuse_values(chunk, shown, pc.equal(raters, 0.0), unrated, ids)
    return pc.divide(toxic, raters), raters


def _one(
    chunk: reading.Chunk,
    column: str,
    ids: pa.Array,
    values: Mapping[str, float] | None,
    *,
    nullable: bool,
) -> pa.Array:
    if values is not None:
        return reading.to_mapped(chunk, column, ids, values, nullable=nullable)
    reading.refuse_words(chunk, column)
    return reading.to_fractions(chunk, column, ids, nullable=nullable, hint=_HINT)


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
