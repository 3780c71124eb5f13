"""Impossible analyses are refused: in the evaluation file, or on a set before it is scored."""

import pytest
import yaml

from biasgate.tasks.analysing import intersections as intersecting
from biasgate.tasks.analysing.analyse import check_analyses
from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reading_evaluation import read_evaluation

TWO = {"identities": ["black", "female"]}
TRANSFER = {"kind": "threshold_transfer", "threshold": 0.5, "path": "rows.csv"}


def refused(made, **asked):
    source, rows = made
    analysis = ANALYSES.validate_python(asked)
    with pytest.raises(InputError) as error:
        check_analyses.fn([analysis], source, str(rows.folder))
    told = str(error.value)
    assert told.startswith(f"analysis {asked['kind']}: ")
    assert "`sets`" in told
    return told


def test_one_identity_has_no_intersections(frame, frozen):
    told = refused(frozen(frame, identities=["black"]), kind="intersections")
    assert "'rows' must have two identities or more; it has black." in told


def test_names_that_cannot_be_joined_have_no_intersections(frame, frozen):
    names = {"black & white": "black", "female": "female"}
    told = refused(frozen(frame, identities=names), kind="intersections")
    assert "must have identities without ' & ' in their names; got 'black & white'." in told


def test_more_intersections_than_can_be_counted_are_refused(frame, frozen, monkeypatch):
    monkeypatch.setattr(intersecting, "COUNTED", 3)
    made = frozen(frame, identities=["black", "female", "muslim"])
    source, rows = made
    ANALYSES.validate_python("intersections").check(rows, source)
    told = refused(made, kind="intersections", max_order=3)
    assert "`max_order` must give at most 3 intersections; 3 of the 3 identities" in told
    assert "give 4." in told


@pytest.fixture
def read(frame, tmp_path):
    """Read an evaluation file with these analyses."""
    frame.to_csv(tmp_path / "rows.csv", index=False)
    rows = {"name": "rows", "source": "table", "path": "rows.csv"} | TWO
    candidate = {"name": "file", "kind": "scores", "path": "rows.csv"}

    def read(*analyses):
        content = {"name": "asked", "evaluation_sets": [rows, rows | {"name": "others"}]}
        content |= {"candidates": [candidate], "analyses": list(analyses)}
        (tmp_path / "file.yaml").write_text(yaml.safe_dump(content))
        return read_evaluation(tmp_path / "file.yaml")

    return read


def test_a_plain_name_means_the_default_options(read):
    assert read("intersections").analyses == read({"kind": "intersections"}).analyses
    assert read("intersections").analyses[0].max_order == 2


def test_an_analysis_is_done_on_all_sets_or_on_those_that_it_names(read):
    evaluation = read("intersections", TRANSFER | {"sets": ["others"]})
    kinds = {
        name: [one.kind for one in evaluation.list_set_analyses(name)]
        for name in ("rows", "others")
    }
    assert kinds == {
        "rows": ["intersections"],
        "others": ["intersections", "threshold_transfer"],
    }


WRONG = {
    "unknown": (["intersection"], "got 'intersection'. Did you mean 'intersections'?"),
    "misspelt option": ([{"kind": "intersections", "max_ordr": 3}], "Did you mean 'max_order'?"),
    "without its needs": (["threshold_transfer"], "analyses.0"),
    "twice": (["intersections", "intersections"], "kinds in `analyses` must differ; intersections"),
    "on no such set": (
        [TRANSFER | {"sets": ["other"]}],
        "must name evaluation sets; got other (known: rows, others). Did you mean 'others'?",
    ),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_analysis_is_refused_when_the_file_is_read(read, name):
    analyses, told = WRONG[name]
    with pytest.raises(InputError) as error:
        read(*analyses)
    assert told in str(error.value)
