"""Scores of the predicted label, as text classifiers export them, as scores of the toxic one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.common.errors import InputError, MisreadError, place
from biasgate.tasks.data.chunks import Chunk
from biasgate.tasks.data.plain_columns import MOST_WORDS, form_of, words_of
from biasgate.tasks.data.reading import refuse_values

_LEAST_ROWS = 10


class PredictedLabels:
    """The labels of a file: one is positive, and at most one other occurs."""

    def __init__(self, positive: str, path: Path) -> None:
        self._positive, self._path = positive, path
        self._others: dict[str, str] = {}
        self._is_found = False

    def positive_scores(
        self, chunk: Chunk, column: str, ids: pa.Array, labels: pa.Array, scores: pa.Array
    ) -> pa.Array:
        """Return the scores of the positive label, given those of the predicted one.

        A score without its label is refused.
        """
        known = pc.invert(pc.is_nan(scores))
        lacking = pc.and_(known, pc.or_kleene(pc.is_null(labels), pc.equal(labels, "")))
        refuse_values(chunk, column, lacking, "a score must have a label", ids)
        is_positive = self.are_positive(labels)
        self._is_found = self._is_found or bool(is_positive.any())
        others = pc.unique(labels.filter(pa.array(~is_positive)).drop_null()).to_pylist()
        self._others |= {form_of(other): other for other in others if other}
        return pa.array(np.where(is_positive, as_numpy(scores), 1 - as_numpy(scores)))

    def are_positive(self, labels: pa.Array) -> np.ndarray:
        """Return which labels are the positive one, whatever form a number has."""
        encoded = pc.fill_null(labels, "").dictionary_encode()
        wanted, words = form_of(self._positive), encoded.dictionary.to_pylist()
        are_wanted = np.array([form_of(word) == wanted for word in words], bool)
        return np.asarray(are_wanted[as_numpy(encoded.indices)])

    def refuse_others(self, column: str) -> None:
        """Refuse labels that are not two, or not the positive one: it is probably misspelt."""
        where = place(file=self._path, column=column)
        others = words_of(pa.array([*self._others.values()] * 2, pa.string()))
        shown = " and ".join(map(repr, sorted(others))) or "others"
        if not self._is_found:
            msg = (
                f"`positive_label` must be a label of the file; no row has {self._positive!r}, "
                f"the labels are {shown} {where}. Put quotes around yes, no, on and off."
            )
            raise InputError(msg)
        if len(self._others) > 1:
            msg = (
                f"predicted labels must be two; in addition to {self._positive!r} there are "
                f"{shown} {where}. Write the score of {self._positive!r} to a column of its own."
            )
            raise InputError(msg)


def refuse_scores_of_predicted(
    scores: np.ndarray,
    columns: Iterable[tuple[str, pa.Array]],
    score: str,
    where: str,
    cures: tuple[str, str],
) -> None:
    """Refuse scores that seem to be those of the predicted label.

    That is so if a column has k labels and all scores are at least 1/k, as the largest of k shares
    is. Other columns may have three or more words too, such as languages: labels are known by the
    name of their column or by a class that they name, and most of their scores are at least 0.5.

    The message has the cure for two, or for several labels, with their column in place of LABEL.
    """
    known = scores[~np.isnan(scores)]
    if known.size < _LEAST_ROWS or known.min() < 1 / MOST_WORDS or known.max() > 1:
        return
    if np.unique(known).size <= 2:  # class labels, which have an error of their own
        return
    for name, values in columns:
        words = sorted(words_of(values))
        if len(words) < 2 or known.min() < np.floor(100 / len(words)) / 100:
            continue
        if len(words) > 2 and not (np.median(known) >= 0.5 and _name_classes(name, words)):
            continue
        shown = f"{', '.join(map(repr, words[:-1]))} and {words[-1]!r}"
        n, cure = ("two", cures[0]) if len(words) == 2 else (len(words), cures[1])
        msg = (
            f"scores must be those of the toxic class; all in {score!r} are at least "
            f"{1 / len(words):.2g}, and {name!r} has {n} labels, {shown}, so they seem to be "
            f"scores of the predicted label {where}. {cure.replace('LABEL', name)}"
        )
        raise MisreadError(msg)


_LABELS = re.compile(r"((pred|predicted|top|winning|model)[_ ]?)?(label|class)|pred(icted|iction)?")
_CLASS = re.compile(
    r"(?<![a-z])(toxi|hate|offensi|abus|insult|threat|obscen|unsafe|harass|profan|label_?\d)"
)


def _name_classes(column: str, words: Sequence[str]) -> bool:
    """Return whether a column seems to hold labels, by its own name or by those of classes."""
    if _LABELS.fullmatch(column.strip().casefold()):
        return True
    return any(_CLASS.search(word.casefold()) for word in words)


def holds_labels(kind: pa.DataType) -> bool:
    """Whether a column holds labels with their scores, one or a list in each row."""
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return pa.types.is_struct(kind) and {"label", "score"} <= {field.name for field in kind}


def labels_with_scores(chunk: Chunk, column: str) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Return the labels and scores of a column of them, each with the number of its row."""
    array = chunk.table.column(column).combine_chunks()
    rows = np.arange(len(array))
    while not pa.types.is_struct(array.type):
        rows = rows[as_numpy(pc.list_parent_indices(array))]
        array = pc.list_flatten(array)
    known = array.is_valid()
    labels, scores = (pc.struct_field(array.filter(known), name) for name in ("label", "score"))
    return rows[as_numpy(known)], labels.cast(pa.string()), scores


def one_of_each(
    chunk: Chunk, column: str, ids: pa.Array, predicted: PredictedLabels
) -> tuple[pa.Array, pa.Array]:
    """Return one label and its score for each row: the positive one, or the only one.

    A row of several labels without the positive one is refused.
    """
    rows, labels, scores = labels_with_scores(chunk, column)
    is_positive = predicted.are_positive(labels)
    chosen = np.full(len(ids), -1)
    chosen[rows] = np.arange(len(rows))
    chosen[rows[is_positive]] = np.flatnonzero(is_positive)
    n_labels = np.bincount(rows, minlength=len(ids))
    n_positive = np.bincount(rows[is_positive], minlength=len(ids))
    several = pa.array((n_labels > 1) & (n_positive != 1))
    refuse_values(chunk, column, several, "several labels must include `positive_label`", ids)
    places = pa.array(chosen, mask=chosen < 0)
    return labels.take(places), scores.take(places)
