"""Numbers of raters, and of votes: frozen with the set, and refused if they are wrong."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze

FRAME = pd.DataFrame(
    {
        "id": np.arange(8),
        "label": [0, 1 / 3, 0.5, 1, 0.25, 0, 1, 2 / 3],
        "toxic": [0, 1, 1, 4, 1, 0, 3, 2],
        "asked": [3, 3, 2, 4, 4, 3, 3, 3],
        "gay": [0, 1] * 4,
    }
)


@pytest.fixture
def source(tmp_path):
    def source(table=FRAME, **options):
        table.to_csv(tmp_path / "rows.csv", index=False)
        settings = {"name": "rows", "source": "table", "path": tmp_path / "rows.csv"}
        return SOURCES.validate_python(settings | {"identities": ["gay"]} | options)

    return source


def test_numbers_of_raters_are_frozen_and_part_of_the_digest(source, tmp_path):
    found = freeze(source(raters="asked"), tmp_path / "store")
    assert found.column("raters").to_pylist() == FRAME["asked"].tolist()
    other = freeze(source(FRAME.assign(asked=5), raters="asked"), tmp_path / "store")
    plain = freeze(source(), tmp_path / "store")
    assert len({found.digest, other.digest, plain.digest}) == 3


def test_a_set_without_raters_is_frozen_as_before(source, tmp_path):
    assert not {"raters", "votes"} & source().provenance().keys()
    assert "raters" not in freeze(source(), tmp_path / "store").columns


def test_votes_out_of_raters_are_the_label(source, tmp_path):
    found = freeze(source(FRAME.drop(columns="label"), votes="toxic", raters="asked"), tmp_path)
    assert found.column("label").to_pylist() == (FRAME["toxic"] / FRAME["asked"]).tolist()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"votes": "toxic"}, "name the column of these with `raters`"),
        ({"votes": "toxic", "raters": "asked", "label": "label"}, "give `label`, or `votes`"),
        (
            {"votes": "toxic", "raters": "asked", "label_values": {"a": 1}},
            "give `label`, or `votes` with `raters`, not both",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(source, options, told):
    with pytest.raises(ValidationError, match=told):
        source(**options)


WRONG = {
    "no raters": ("asked", 0, r"a number of raters must be whole and at least 1; got 0\.0"),
    "half a rater": ("asked", 2.5, r"must be whole and at least 1; got 2\.5"),
    "unknown raters": ("asked", np.nan, "must be whole and at least 1; got nothing"),
    "infinite raters": ("asked", np.inf, "must be whole and at least 1; got inf"),
    "fewer than no votes": ("toxic", -1, r"of votes must be whole and at least 0; got -1\.0"),
    "half a vote": ("toxic", 0.5, r"of votes must be whole and at least 0; got 0\.5"),
    "too many votes": ("toxic", 9, r"no more votes than raters in column asked; got 9\.0"),
}


@pytest.mark.parametrize(("column", "value", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_number_is_refused_with_its_place(source, tmp_path, column, value, told):
    table = FRAME.astype({column: float})
    table.loc[6, column] = value
    place = rf"{told} \(file \S*rows\.csv, column {column}, row 6, id 6\)"
    with pytest.raises(InputError, match=place):
        freeze(source(table.drop(columns="label"), votes="toxic", raters="asked"), tmp_path)


def test_a_missing_column_is_refused_before_any_row_is_read(source):
    with pytest.raises(InputError, match="must have the column 'raters'"):
        source(raters="raters").check()
