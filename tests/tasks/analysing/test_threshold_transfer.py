"""Transfer of a threshold from the scores of an earlier model."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError

from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import freeze_rows

IDS = ["a", "b", "c", "d"]


def analysis(tmp_path, scores=(0.9, 0.8, 0.3, 0.1), ids=IDS, **options):
    path = tmp_path / "old.csv"
    pd.DataFrame({"id": ids, "prediction": scores}).to_csv(path, index=False)
    given = {"kind": "threshold_transfer", "path": str(path), "threshold": 0.5}
    return ANALYSES.validate_python(given | options, context={"folder": tmp_path})


@pytest.fixture
def frozen(tmp_path):
    table = pa.table({"id": IDS, "label": [1.0, 0.0, 1.0, 0.0]})
    return freeze_rows([table], tmp_path / "rows", name="rows", split="all", source={})


def rows(frozen, after):
    return SimpleNamespace(
        frozen=frozen,
        row_numbers=np.ones(4, bool),
        y_true=np.array([True, False, True, False]),
        y_score=np.array(after),
        groups=["gay"],
        masks={"gay": np.array([False, False, True, True])},
        clusters=None,
    )


def test_the_threshold_with_the_same_flag_rate_is_found_by_id(tmp_path, frozen):
    one = analysis(tmp_path, scores=(0.1, 0.3, 0.8, 0.9), ids=IDS[::-1])
    found = one.analyse(rows(frozen, [0.4, 0.1, 0.5, 0.2]))
    assert found.result["after"] == 0.4
    assert found.result["subgroups"]["gay"]["n_gained"] == 1
    assert found.sentences[0].startswith(
        "At threshold 0.4, the flag rate is 0.500, as before at 0.5"
    )
    assert found.table[0]["subgroup"] == "gay"


def test_recall_counts_toxic_comments_alone(tmp_path, frozen):
    found = analysis(tmp_path, match="recall").analyse(rows(frozen, [0.4, 0.9, 0.5, 0.2]))
    assert found.result["after"] == 0.5
    assert "recall is 0.500" in found.sentences[0]


def test_comments_that_the_earlier_model_did_not_score_are_left_out(tmp_path, frozen):
    one = analysis(tmp_path, scores=(0.9, None, 0.3, 0.1))
    one.check(frozen, None)
    assert one.analyse(rows(frozen, [0.4, 0.1, 0.5, 0.2])).result["overall"]["n"] == 3


def test_a_file_that_lacks_rows_of_the_set_is_refused(tmp_path, frozen):
    one = analysis(tmp_path, scores=(0.9, 0.8), ids=IDS[:2])
    with pytest.raises(InputError, match="2 of its 4 rows are not in that file"):
        one.check(frozen, None)


def test_an_id_that_the_file_has_twice_is_refused(tmp_path, frozen):
    one = analysis(tmp_path, scores=(0.9, 0.8, 0.3, 0.1, 0.2), ids=[*IDS, "a"])
    with pytest.raises(InputError, match=r"ids must be unique; got a second a .*old\.csv"):
        one.check(frozen, None)


def test_a_file_without_the_column_is_refused(tmp_path, frozen):
    with pytest.raises(InputError, match="toxicity"):
        analysis(tmp_path, score="toxicity").check(frozen, None)


@pytest.mark.parametrize("options", [{"threshold": float("nan")}, {"match": "precision"}])
def test_options_that_mean_nothing_are_refused(tmp_path, options):
    with pytest.raises(ValidationError):
        analysis(tmp_path, **options)


def test_without_a_file_the_champions_scores_are_the_earlier_ones(tmp_path, frozen):
    one = analysis(tmp_path, path=None)
    one.check(frozen, None)
    given = rows(frozen, [0.4, 0.1, 0.5, 0.2])
    before = np.array([0.9, 0.8, 0.3, np.nan])
    given.evidence = SimpleNamespace(
        roles=["candidate", "champion"], scores=lambda role: {"champion": before}[role]
    )
    assert (one.analyse(given).result["before"], one.needs_champion) == (0.5, True)
    given.evidence = SimpleNamespace(roles=["candidate"])
    with pytest.raises(InputError, match="neither a champion nor a `path` is given"):
        one.analyse(given)
