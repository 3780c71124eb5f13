"""Reader of a file of scores with ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, model_validator

from biasgate.tasks.common.arrow_arrays import convert_column
from biasgate.tasks.common.errors import InputError, format_id, format_place
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk, TextFormat, read_chunks, read_column_names
from biasgate.tasks.data.plain_columns import list_words, read_plain_column, stringify_scalar
from biasgate.tasks.data.predicted_labels import (
    PredictedLabels,
    extract_label_scores,
    is_label_type,
    refuse_predicted_scores,
    select_label_scores,
)

_MISSING_HINT = (
    "Score them, or remove them from the evaluation set and from this file; or set "
    "`allow_missing: true`, if the model refused them."
)
_TOXIC_HINT = " If they are scores of the toxic class, leave column 'LABEL' out of the file."
_PREDICTED_REMEDIES = (
    "Set `label: LABEL`, and `positive_label` to the label that means toxic." + _TOXIC_HINT,
    "Write the score of the toxic label to a column of its own; or export all labels with their "
    "scores as JSON lines, and set `positive_label` to the toxic label." + _TOXIC_HINT,
)
_MAX_COLUMNS = 20


class ScoreColumns(TextFormat):
    """Options that name the columns of a file of scores."""

    id: str = "id"
    """Column of the ids, exactly those of the set; `row_number` numbers the rows from 0."""
    score: str = Field(default="prediction")
    """Column of the scores, higher for more toxic. With `positive_label` it may hold labels with
    their scores, as text classifiers write them to JSON lines."""
    label: str | None = None
    """Column of the predicted label, if `score` is the score of that label; with
    `positive_label`."""
    positive_label: Annotated[str, BeforeValidator(stringify_scalar)] | None = None
    """The label that means toxic; a score of the other label counts as 1 - score."""

    @model_validator(mode="after")
    def _require_positive_label(self) -> Self:
        if self.label is not None and self.positive_label is None:
            msg = "`label` needs `positive_label`: the label that means toxic"
            raise ValueError(msg)
        return self

    @property
    def required_columns(self) -> list[str]:
        """Columns that the file must have."""
        named = [self.id, self.score, self.label]
        return [name for name in named if name is not None and name != reading.ROW_NUMBER]

    @property
    def chosen_options(self) -> dict[str, str]:
        """Options that are set and affect the scores read from a file."""
        return self.model_dump(include=set(ScoreColumns.model_fields), exclude_none=True)

    def read_scores(self, path: Path, *, allow_missing: bool) -> pd.Series[float]:
        """Return a file's scores, indexed by id; NaN for missing scores.

        Refuse repeated ids, and scores that appear to be those of the predicted label.
        """
        label = self.positive_label
        predicted = None if label is None else PredictedLabels(label, path)
        ids, scores = [], []
        for chunk in read_chunks(path, self.required_columns, text_format=self):
            ids.append(reading.convert_ids(chunk, self.id))
            numbers = self._convert_scores(chunk, ids[-1], predicted, allow_missing=allow_missing)
            scores.append(convert_column(numbers))
        if not sum(map(len, ids)):
            msg = f"file {path} must have rows; it has none."
            raise InputError(msg)
        series = pd.Series(np.concatenate(scores), pd.Index(pa.chunked_array(ids).to_pandas()))
        repeated = np.flatnonzero(series.index.duplicated())
        if repeated.size:
            row = int(repeated[0])
            location = format_place(file=path, row=row, id=series.index[row])
            msg = f"ids must be unique; got a second {format_id(series.index[row])} {location}."
            raise InputError(msg)
        if predicted is None:
            columns, location = self._read_unused_columns(path), format_place(file=path)
            refuse_predicted_scores(
                series.to_numpy(), columns, self.score, location, _PREDICTED_REMEDIES
            )
        else:
            predicted.check_labels(self.label or self.score)
        return series

    def _convert_scores(
        self,
        chunk: Chunk,
        ids: pa.Array,
        predicted: PredictedLabels | None,
        *,
        allow_missing: bool,
    ) -> pa.Array:
        """Return a chunk's scores of the toxic class."""
        labels, location = None, chunk.locate_column(self.score)
        if is_label_type(chunk.table.column(self.score).type):
            if predicted is None:
                words = sorted(list_words(extract_label_scores(chunk, self.score)[1]))
                choices = f" ({' or '.join(map(repr, words))})" if words else ""
                msg = (
                    f"scores must be numbers; got labels with their scores {location}. Set "
                    f"`positive_label` to the label that means toxic{choices}."
                )
                raise InputError(msg)
            labels, numbers = select_label_scores(chunk, self.score, ids, predicted)
            chunk = replace(chunk, table=pa.table({self.score: numbers}))
        elif self.label is not None:
            labels = read_plain_column(chunk, self.label).cast(pa.string())
        elif predicted is not None:
            msg = f"`positive_label` needs `label`, the column of the predicted label {location}."
            raise InputError(msg)
        scores = reading.convert_scores(
            chunk, self.score, ids, allow_missing=allow_missing, missing_hint=_MISSING_HINT
        )
        if predicted is None or labels is None:
            return scores
        outside = pc.or_(pc.less(scores, 0.0), pc.greater(scores, 1.0))
        rule = "a score of a predicted label must be from 0 to 1"
        reading.refuse_values(chunk, self.score, outside, rule, ids, scores)
        return predicted.convert_scores(chunk, self.label or self.score, ids, labels, scores)

    def _read_unused_columns(self, path: Path) -> Iterator[tuple[str, pa.Array]]:
        """Yield the first rows of unread columns that may hold predicted labels."""
        names = read_column_names(path, self)
        others = [name for name in names if name not in self.required_columns][:_MAX_COLUMNS]
        chunk = next(read_chunks(path, others, text_format=self))
        for name in others:
            kind = chunk.table.column(name).type
            if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
                yield name, read_plain_column(chunk, name).cast(pa.string())
            elif not pa.types.is_nested(kind):
                yield name, read_plain_column(chunk, name)
