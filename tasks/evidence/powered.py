"""Sets whose human identity labels, on part of the rows, are helped by terms on all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics import BiasReport, LabelAgreement, label_agreement, prediction_powered_bias
from bias_metrics.parts import PackedMasks
from bias_metrics.prediction_powered import PoweredRows
from bias_metrics.rows import Background
from bias_metrics.rows import Rows as LabelledRows
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import MATCHED, EvaluationSet
from biasgate.tasks.evidence.rows import Rows

Bools = npt.NDArray[np.bool_]


def measure_powered(
    rows: Rows, name: str, groups: list[str] | None, confidence: float, background: Background
) -> BiasReport:
    """Measure the bias of all rows of a set, of which some have human labels.

    Raises
    ------
    InputError
        If the labelled rows clearly differ from the others in their scores.
    """
    assert rows.matched is not None  # noqa: S101 - such rows are those of a prediction-powered set
    assert rows.labelled is not None  # noqa: S101
    try:
        return prediction_powered_bias(
            rows.checked(background),
            rows.y_score,
            rows.matched,
            rows.labelled,
            power_mean_groups=groups,
            confidence=confidence,
        )
    except ValueError as error:
        raise InputError(_told(name, error)) from error


def agreement_of(rows: Rows) -> LabelAgreement | None:
    """Return how well terms agree with human labels; None if they do not help them."""
    if rows.matched is None or rows.labelled is None:
        return None
    return label_agreement(rows.members.within(rows.labelled), rows.matched.within(rows.labelled))


def read_matched(evaluation_set: EvaluationSet, identities: Iterable[str]) -> PackedMasks:
    """Return which rows contain a term of each identity.

    Raises
    ------
    InputError
        If the set does not say so of one.
    """
    names = list(identities)
    missing = [name for name in names if MATCHED + name not in evaluation_set.columns]
    if missing or not names:
        msg = (
            f"evaluation set {evaluation_set.name!r} must have terms and human labels of every "
            f"identity, since it is `prediction_powered`; {', '.join(missing) or 'it'} has none."
        )
        raise InputError(msg)

    def each() -> Iterator[tuple[str, Bools]]:
        columns = evaluation_set.each_column([MATCHED + name for name in names])
        for name, column in zip(names, columns, strict=True):
            yield name, np.asarray(column.to_numpy(), dtype=np.bool_)

    return PackedMasks.of(each(), evaluation_set.n_rows)


def refuse_selected_rows(
    evaluation_set: EvaluationSet,
    labels: Bools,
    labelled: Bools,
    identities: Iterable[str],
    clusters: npt.NDArray[Any] | None,
) -> None:
    """Refuse a set whose labelled rows were clearly not drawn at random, as far as terms tell."""
    matched = read_matched(evaluation_set, identities)
    try:
        PoweredRows.of(LabelledRows(labels, matched, clusters=clusters), matched, labelled)
    except ValueError as error:
        raise InputError(_told(evaluation_set.name, error)) from error


def _told(name: str, error: ValueError) -> str:
    text = str(error)
    for of_library, of_user in _WORDS:
        text = re.sub(of_library, of_user, text)
    return f"evaluation set {name!r} is `prediction_powered`, and {text}"


# What the library calls its arguments, in the words of an evaluation file.
_WORDS = (
    ("measure the labelled rows alone with `evaluate_bias`", "remove `prediction_powered`"),
    (
        "`labelled` must be a random sample",
        "rows with a value in every column of `identities` must be a random sample",
    ),
    (
        "`labelled` must be true of some rows; got none of",
        "some rows must have a value in every column of `identities`; got none of",
    ),
    (r"a mean of `matched\['(.*?)'\]` of", r"a share of rows with a term of \1 of"),
    ("a mean of `y_score` of", "a mean score of"),
)
