"""Scores by id, read from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from biasgate.tasks.common.errors import InputError, place, shown_id
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Separator

_IF_NONE = (
    "Score them too, or remove them from the evaluation set and from this file; or set "
    "`allow_missing: true`, if the model refused them."
)


def read_scores(
    path: Path, id_: str, score: str, *, separator: Separator | None, allow_missing: bool
) -> pd.Series[float]:
    """Read the scores of a file, with their ids as the index.

    Parameters
    ----------
    id_, score : str
        Its columns; the ids may be `row_number`.
    separator : str, optional
        Of a CSV file. Default: a tab for `.tsv`, else a comma.
    allow_missing : bool
        Whether rows may have no score, which is then NaN.

    Raises
    ------
    InputError
        If there are no rows, an id occurs twice, or a value is no number.
    """
    wanted = [name for name in (id_, score) if name != reading.ROW_NUMBER]
    ids, scores = [], []
    for chunk in reading.read_chunks(path, wanted, separator=separator):
        ids.append(reading.to_ids(chunk, id_))
        numbers = reading.to_scores(
            chunk, score, ids[-1], allow_missing=allow_missing, if_none=_IF_NONE
        )
        scores.append(numbers.to_numpy())
    if not sum(map(len, ids)):
        msg = f"file {path} must have rows; it has none."
        raise InputError(msg)
    found = pd.Series(np.concatenate(scores), pd.Index(pa.chunked_array(ids).to_pandas()))
    repeated = np.flatnonzero(found.index.duplicated())
    if repeated.size:
        row = int(repeated[0])
        twice = found.index[row]
        where = place(file=path, row=row, id=twice)
        msg = f"ids must be unique; got a second {shown_id(twice)} {where}."
        raise InputError(msg)
    return found
