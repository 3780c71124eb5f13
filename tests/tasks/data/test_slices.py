"""Slices from the values of a column, and their names in rules."""

import unicodedata

import pandas as pd
import pytest
from pydantic import TypeAdapter, ValidationError
from support.tables import freeze_table

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import SliceName
from biasgate.tasks.gating.policy_rules import RuleSettings, is_matching_slice


def test_each_value_of_a_column_is_a_slice(tmp_path):
    rows = pd.DataFrame({"id": range(4), "label": [0, 1, 0, 1], "gay": [1, 1, 0, 0]})
    rows["language"] = ["german", "arabic", None, "german"]
    frozen = freeze_table(tmp_path, rows, slices_in=["language"])
    assert frozen.column("slice/language.german").to_pylist() == [True, False, False, True]
    assert frozen.column("slice/language.arabic").to_pylist() == [False, True, False, False]
    assert frozen.record["in_no_slice"] == {"language": 1}
    whole = rows.assign(language=["german", "arabic", "german", "german"])
    assert "in_no_slice" not in freeze_table(tmp_path, whole, slices_in=["language"]).record


def test_a_rule_can_name_the_slice_of_a_value():
    rule = {"metric": "auc", "scope": "overall", "floor": 0.5, "slice": "language.german"}
    assert RuleSettings.model_validate(rule).make_rule(0.95).slice == "language.german"


def list_slices(tmp_path, languages):
    rows = pd.DataFrame({"id": range(len(languages)), "label": 0, "gay": 1, "language": languages})
    frozen = freeze_table(tmp_path, rows, slices_in=["language"])
    return [name.removeprefix("slice/") for name in frozen.columns if name.startswith("slice/")]


def test_slices_are_named_in_every_script_and_a_rule_and_a_filing_name_them_so(tmp_path):
    names = ["عربي", "文言", "女書", "हिन्दी", "русский", "français"]
    slices = list_slices(tmp_path, names)
    assert slices == sorted(f"language.{name}" for name in names)
    rule = {"metric": "auc", "scope": "overall", "floor": 0.5}
    for name in slices:
        decomposed = unicodedata.normalize("NFD", name)
        assert RuleSettings.model_validate(rule | {"slice": decomposed}).slice == name
        assert TypeAdapter(SliceName).validate_python(decomposed) == name
    pattern = RuleSettings.model_validate(rule | {"slice": "язык.*"}).slice
    assert is_matching_slice(pattern, "язык.русский")


@pytest.mark.parametrize("name", ["", ".*", " a", "a/b", "a\u202eb", "a\x1b", "x" * 101, "a*"])
def test_what_is_no_slice_is_named_by_no_rule(name):
    rule = {"metric": "auc", "scope": "overall", "floor": 0.5, "slice": name}
    with pytest.raises(ValidationError, match="must be at most 100 letters, digits"):
        RuleSettings.model_validate(rule)


@pytest.mark.parametrize("values", [["?", "!"], ["cafe\u0301", "caf\u00e9"]])
def test_values_that_no_rule_could_tell_apart_make_no_slices(tmp_path, values):
    with pytest.raises(InputError, match="two in column 'language' give the slice 'language"):
        list_slices(tmp_path, values)


@pytest.mark.parametrize("values", [["x" * 61, "b"], [str(at) for at in range(201)]])
def test_a_column_of_comments_makes_no_slices(tmp_path, values):
    n = len(values)
    rows = pd.DataFrame({"id": range(n), "label": 0, "gay": 1, "comment": values})
    with pytest.raises(InputError, match="at most 200 different values") as refused:
        freeze_table(tmp_path, rows, slices_in=["comment"])
    assert values[0] not in str(refused.value) or len(values[0]) < 3
