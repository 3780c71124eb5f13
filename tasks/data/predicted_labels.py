"""Conversion of scores of the predicted label, as classifiers export them, to toxicity scores."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.common.arrow_arrays import convert_column
from biasgate.tasks.common.errors import InputError, MisreadError, format_place
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.plain_columns import MAX_WORDS, list_words, normalize_value
from biasgate.tasks.data.reading import refuse_values

_MIN_ROWS = 10
_LABEL_COLUMN = re.compile(
    r"((pred|predicted|top|winning|model)[_ ]?)?(label|class)|pred(icted|iction)?"
)
_CLASS_NAME = re.compile(
    r"(?<![a-z])(toxi|hate|offensi|abus|insult|threat|obscen|unsafe|harass|profan|label_?\d)"
)


class PredictedLabels:
    """The labels of a file: a positive label, and at most one other label."""

    def __init__(self, positive: str, path: Path) -> None:
        self._positive, self._path = positive, path
        self._others: dict[str, str] = {}
        self._has_positive = False

    def convert_scores(
        self, chunk: Chunk, column: str, ids: pa.Array, labels: pa.Array, scores: pa.Array
    ) -> pa.Array:
        """Return the scores of the positive label, given those of the predicted label.

        Refuse a score without a label.
        """
        has_score = pc.invert(pc.is_nan(scores))
        has_no_label = pc.or_kleene(pc.is_null(labels), pc.equal(labels, ""))
        unlabelled = pc.and_(has_score, has_no_label)
        refuse_values(chunk, column, unlabelled, "a score must have a label", ids)
        is_positive = self.find_positive_labels(labels)
        self._has_positive = self._has_positive or bool(is_positive.any())
        others = pc.unique(labels.filter(pa.array(~is_positive)).drop_null()).to_pylist()
        self._others |= {normalize_value(other): other for other in others if other}
        return pa.array(np.where(is_positive, convert_column(scores), 1 - convert_column(scores)))

    def find_positive_labels(self, labels: pa.Array) -> np.ndarray:
        """Return the mask of the positive label; numbers are compared in their normal form."""
        encoded = pc.fill_null(labels, "").dictionary_encode()
        positive, words = normalize_value(self._positive), encoded.dictionary.to_pylist()
        is_positive = np.array([normalize_value(word) == positive for word in words], bool)
        return np.asarray(is_positive[convert_column(encoded.indices)])

    def check_labels(self, column: str) -> None:
        """Raise an error if the positive label never occurs, or if several other labels occur."""
        location = format_place(file=self._path, column=column)
        others = list_words(pa.array([*self._others.values()] * 2, pa.string()))
        shown = " and ".join(map(repr, sorted(others))) or "others"
        if not self._has_positive:
            msg = (
                f"`positive_label` must be a label of the file; no row has {self._positive!r}, "
                f"the labels are {shown} {location}. Put quotes around yes, no, on and off."
            )
            raise InputError(msg)
        if len(self._others) > 1:
            msg = (
                f"predicted labels must be two; in addition to {self._positive!r} there are "
                f"{shown} {location}. Write the score of {self._positive!r} to a column of its own."
            )
            raise InputError(msg)


def refuse_predicted_scores(
    scores: np.ndarray,
    columns: Iterable[tuple[str, pa.Array]],
    score_column: str,
    location: str,
    remedies: tuple[str, str],
) -> None:
    """Refuse scores that appear to be those of the predicted label.

    The largest of k probabilities is at least 1/k. So the test is that a column has k different
    words and all scores are at least 1/k. As other columns, such as languages, may have three or
    more words, two conditions are added for k > 2. The column or its words must be named like
    classes, and most scores must be at least 0.5.

    `remedies` are for two and for more labels; LABEL in them is replaced with the column.
    """
    finite = scores[~np.isnan(scores)]
    if finite.size < _MIN_ROWS or finite.min() < 1 / MAX_WORDS or finite.max() > 1:
        return
    if np.unique(finite).size <= 2:  # class labels, which another check refuses
        return
    for name, values in columns:
        words = sorted(list_words(values))
        if len(words) < 2 or finite.min() < np.floor(100 / len(words)) / 100:
            continue
        has_class_names = _LABEL_COLUMN.fullmatch(name.strip().casefold()) or any(
            _CLASS_NAME.search(word.casefold()) for word in words
        )
        if len(words) > 2 and not (np.median(finite) >= 0.5 and has_class_names):
            continue
        shown = f"{', '.join(map(repr, words[:-1]))} and {words[-1]!r}"
        n, remedy = ("two", remedies[0]) if len(words) == 2 else (len(words), remedies[1])
        msg = (
            f"scores must be those of the toxic class; all in {score_column!r} are at least "
            f"{1 / len(words):.2g}, and {name!r} has {n} labels, {shown}, so they seem to be "
            f"scores of the predicted label {location}. {remedy.replace('LABEL', name)}"
        )
        raise MisreadError(msg)


def is_label_type(kind: pa.DataType) -> bool:
    """Check if a column's type is that of labels with scores: a struct, or a list of structs."""
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return pa.types.is_struct(kind) and {"label", "score"} <= {field.name for field in kind}


def extract_label_scores(chunk: Chunk, column: str) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Return the row numbers, labels and scores of a column of labels with scores."""
    array = chunk.table.column(column).combine_chunks()
    rows = np.arange(len(array))
    while not pa.types.is_struct(array.type):
        rows = rows[convert_column(pc.list_parent_indices(array))]
        array = pc.list_flatten(array)
    is_valid = array.is_valid()
    labels, scores = (pc.struct_field(array.filter(is_valid), name) for name in ("label", "score"))
    return rows[convert_column(is_valid)], labels.cast(pa.string()), scores


def select_label_scores(
    chunk: Chunk, column: str, ids: pa.Array, predicted: PredictedLabels
) -> tuple[pa.Array, pa.Array]:
    """Return a label and its score for each row: the positive label, or the only label.

    Refuse a row of several labels without the positive label.
    """
    rows, labels, scores = extract_label_scores(chunk, column)
    is_positive = predicted.find_positive_labels(labels)
    chosen = np.full(len(ids), -1)
    chosen[rows] = np.arange(len(rows))
    chosen[rows[is_positive]] = np.flatnonzero(is_positive)
    n_labels = np.bincount(rows, minlength=len(ids))
    n_positive = np.bincount(rows[is_positive], minlength=len(ids))
    ambiguous = pa.array((n_labels > 1) & (n_positive != 1))
    refuse_values(chunk, column, ambiguous, "several labels must include `positive_label`", ids)
    positions = pa.array(chosen, mask=chosen < 0)
    return labels.take(positions), scores.take(positions)
