"""Scores from the answers of models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_metrics.parts import widen_floats
from biasgate.tasks.common.errors import InputError, MisreadError, format_column_names

if TYPE_CHECKING:
    import pandas as pd


def extract_scores(
    answer: Any, name: str, *, output: str | None = None, label: str | None = None
) -> np.ndarray:
    """Return the score of the positive class from any answer of a model.

    - a number per row is the score
    - two columns are the probabilities of the negative and the positive class
    - a table needs the name of the score's column in `output`
    - a table of a text classification pipeline, with the winning label and its score, needs the
      toxic label in `label`
    """
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        answer = _make_table(answer, [output or "score", "label"] if label else [output])
    is_table = "pandas" in sys.modules and isinstance(answer, sys.modules["pandas"].DataFrame)
    if is_table and label is not None:
        answer = _read_label_scores(answer, name, output or "score", label)
    elif is_table and output is not None:
        table, answer = answer, _select_column(answer, name, output)
        _refuse_predicted_scores(table, name, output)
    try:
        values = np.asarray(answer)
    except ValueError:  # a ragged list
        values = np.empty(0, dtype=object)
    if values.ndim == 2 and values.shape[1] in {1, 2}:
        values = values[:, -1]
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        msg = (
            f"{name} must return a score or two class probabilities per row; got shape "
            f"{values.shape} of {values.dtype}. For a table, name the score's column with `output`."
        )
        raise InputError(msg)
    return widen_floats(values)


def _make_table(rows: list[Any], columns: list[str | None]) -> pd.DataFrame:
    """Return the given and the first few columns of what may be very many."""
    import pandas as pd  # noqa: PLC0415 - slow, and most answers are not tables

    names = dict.fromkeys([*(name for name in columns if name in rows[0]), *list(rows[0])[:3]])
    dicts = [row if isinstance(row, dict) else {} for row in rows]
    return pd.DataFrame({name: [row.get(name) for row in dicts] for name in names})


def _select_column(table: pd.DataFrame, name: str, column: str) -> Any:
    if column not in table.columns:
        msg = (
            f"`output` of {name} must name a column of its answer; got {column!r} "
            f"(known: {format_column_names(table)})."
        )
        raise InputError(msg)
    return table[column]


def _refuse_predicted_scores(table: pd.DataFrame, name: str, output: str) -> None:
    if "label" not in table.columns or table[output].dtype.kind != "f":
        return
    import pyarrow as pa  # noqa: PLC0415 - slow, and few answers have labels

    from biasgate.tasks.data.predicted_labels import refuse_predicted_scores  # noqa: PLC0415

    labels = pa.array(table["label"].astype(str))
    remedies = (
        "Name the label that means toxic: `label:` instead of `output:`.",
        "Let it return the score of the toxic label in a column, and name it with `output`.",
    )
    scores = widen_floats(table[output])
    refuse_predicted_scores(scores, [("label", labels)], output, f"({name})", remedies)


def _read_label_scores(table: pd.DataFrame, name: str, score: str, label: str) -> np.ndarray:
    winning = [str(value) for value in _select_column(table, name, "label")]
    try:
        scores = widen_floats(_select_column(table, name, score))
    except (TypeError, ValueError):  # not chained, since its text quotes the value
        scores = None
    if scores is None:
        msg = f"column {score!r} of the answer of {name} must be numbers; it is not."
        raise InputError(msg)
    others = set(winning) - {label}
    if len(others) > 1:
        msg = (
            f"`label` of {name} must be a label that it returns; it returns two others, not "
            f"{label!r}."
        )
        raise MisreadError(msg)
    return np.where(np.array(winning) == label, scores, 1 - scores)
