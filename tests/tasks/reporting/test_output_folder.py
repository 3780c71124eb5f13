"""Whose results are in an output folder, and what is left of an earlier evaluation."""

from dataclasses import replace

import pytest
from support.published import publish

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json
from biasgate.tasks.records import Decided, Summary
from biasgate.tasks.reporting.publish import require_own_output, summarise_evaluation


@pytest.fixture
def output(tmp_path):
    publish(tmp_path / "out", sets=("s", "t"))
    return tmp_path / "out"


def read_summary(output):
    return Summary.read((output / "summary.json").read_bytes())


def write_summary(output, verdicts, decisions):
    options = {"evaluation": "models", "outcome_of": [], "report_only": False, "sets": []}
    options |= {"store": str(output), "config": "file.yaml"}
    summarise_evaluation.fn(Decided(verdicts, decisions), "run", str(output), **options)


def test_the_results_of_another_evaluation_are_not_replaced_unasked(output):
    with pytest.raises(InputError, match=r"it has those of 'models'\. Name another folder, or"):
        require_own_output(output, "other", overwrite=False)
    require_own_output(output, "other", overwrite=True)


def test_those_of_the_same_evaluation_are_and_a_new_folder_is_fine(output, tmp_path):
    require_own_output(output, "models", overwrite=False)
    require_own_output(tmp_path / "new", "models", overwrite=False)
    (tmp_path / "half").mkdir()
    (tmp_path / "half/s").mkdir()  # of a run that was killed
    require_own_output(tmp_path / "half", "models", overwrite=False)


def test_a_summary_of_another_program_is_not_replaced_unasked(output):
    (output / "summary.json").write_text('{"total": 3}')
    with pytest.raises(InputError, match=r"as biasgate writes it.*`--overwrite`"):
        require_own_output(output, "models", overwrite=False)
    require_own_output(output, "models", overwrite=True)


def test_folders_of_candidates_and_sets_that_are_no_longer_there_are_removed(output):
    summary = read_summary(output)
    kept = [one for one in summary.verdicts if one.candidate.name == "fair"]
    kept = [one for one in kept if one.evaluation_set.name == "s"]
    write_summary(output, kept, [summary.decisions[1]])
    assert sorted(str(one.relative_to(output)) for one in output.glob("*/*")) == ["s/fair"]
    assert not (output / "t").exists()


def test_files_of_others_stay(output):
    summary = read_summary(output)
    (output / "s/notes.txt").write_text("mine")
    (output / "s/biased/report.json").unlink()
    write_summary(output, [], [summary.decisions[1]])
    left = {str(one.relative_to(output)) for one in output.glob("*/*")}
    assert left == {"s/notes.txt", "s/biased"}


def test_a_summary_cannot_name_folders_outside(output, tmp_path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "report.json").write_text("{}")
    summary = read_summary(output)
    first, *others = summary.verdicts
    named = replace(
        first,
        evaluation_set=replace(first.evaluation_set, name=".."),
        candidate=replace(first.candidate, name="precious"),
    )
    write_json(output / "summary.json", replace(summary, verdicts=[named, *others]))
    write_summary(output, [], summary.decisions[:1])
    assert (outside / "report.json").exists()
