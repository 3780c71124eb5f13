"""Two candidates compared by the command: what got worse, and which identities differ."""

import json
import shutil
from pathlib import Path

import pytest
from support.cells import cell, groups_of
from support.evaluations import run
from support.judged import rows
from support.partial import partial
from support.published import NAMES, publish
from typer.testing import CliRunner

from bias_metrics import compare_bias
from biasgate.cli import app
from biasgate.tasks.reporting.comparing import describe_missing_candidate
from biasgate.tasks.reporting.results import Published


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "out"
    publish(folder, sets=("s", "t"))
    return folder


def compare(*arguments, width=120):
    environment = {"COLUMNS": str(width), "TERM": "xterm"}
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], env=environment)


def as_json(*arguments):
    return json.loads(compare(*arguments, "--json").stdout)


def test_differences_are_those_of_the_library_paired_by_row(output):
    [found] = as_json(output / "s/biased", output / "s/fair")
    columns = [rows(NAMES, shift=shift) for shift in (0.8, 0.0)]
    scores = [one["score/candidate"] for one in columns]
    members = {name: columns[0][f"identity/{name}"] for name in NAMES}
    expected = compare_bias(columns[0]["label"], *scores, members).to_dict()
    assert found["paired"]
    assert found["comparison"] == expected


def test_what_got_worse_comes_first_and_its_identity_before_others(output):
    lines = compare(output / "s/biased", output / "s/fair", width=1000).stdout.splitlines()
    assert lines[0] == "biased minus fair"
    assert lines[1].startswith("  Significantly worse than fair: gay (negative_aeg by at least 0.")
    assert lines[2] == "  No identity is significantly better than under fair."
    assert "of 3 identities: gay" in lines[3]
    table = [line for line in lines if line.startswith("│")]
    assert table[0].startswith("│ gay")
    assert " ✕ " in table[0]


def test_the_other_way_round_nothing_got_worse_and_differences_have_the_other_sign(output):
    there, back = (as_json(*(output / "s" / x for x in pair))[0] for pair in PAIRS)
    assert there["worsened"]
    assert not back["worsened"]
    one, other = (cell(x["comparison"], "auc")["value"] for x in (there, back))
    assert one == pytest.approx(-other)


PAIRS = (("biased", "fair"), ("fair", "biased"))


def test_two_candidates_of_an_evaluation_are_compared_on_every_set(output):
    found = as_json("biased", "fair", "--in", output)
    assert [one["evaluation_set"] for one in found] == ["s", "t"]
    code, text = run("compare", "biased", "fare", "--in", output)
    assert (code, "'fare' must be a candidate in" in text) == (2, True)
    assert "it has biased, fair." in text


def judged_against(champion, model=None):
    verdict = {
        "evaluation_set": {"name": "s"},
        "candidate": {"name": "worse one", "model": model},
        "champion": champion,
    }
    return [Published(Path("out/s/worse one"), partial({}), partial(verdict))]


@pytest.mark.parametrize(
    ("model", "command"),
    [
        ("models:/toxicity/3", "biasgate compare models:/toxicity/3 models:/toxicity/2"),
        (None, "biasgate compare 'out/s/worse one' models:/toxicity/2"),
    ],
)
def test_a_champion_that_is_no_candidate_there_is_compared_as_a_version(model, command):
    each = judged_against({"name": "champion", "model": "models:/toxicity/2"}, model)
    told = describe_missing_candidate("old model", "worse one", Path("out"), each)
    assert told.startswith("'old model' must be a candidate in out; it has worse one. The champion")
    assert "was models:/toxicity/2:" in told
    assert f"`{command}` compares with it." in told


def test_without_a_registered_champion_the_report_or_nothing_is_named():
    told = describe_missing_candidate(
        "old", "worse one", Path("out"), judged_against({"name": "old"})
    )
    assert "report.html compares them with it." in told
    told = describe_missing_candidate("old", "worse one", Path("out"), judged_against(None))
    assert told == "'old' must be a candidate in out; it has worse one."


def test_two_folders_are_compared_candidate_by_candidate(output, tmp_path):
    other = tmp_path / "other"
    publish(other, candidates={"biased": {"shift": 0.1}})
    [found] = as_json(output, other)
    assert found["first"] == f"biased of {output}"
    assert found["second"] == f"biased of {other}"


def test_without_evidence_values_are_compared_without_intervals(output, tmp_path):
    copy = shutil.copytree(output / "s/biased", tmp_path / "copy")
    (copy / "evidence.parquet").unlink()
    [found] = as_json(copy, output / "s/fair")
    bpsn = cell(found["comparison"], "bpsn_auc", "gay")
    assert bpsn["value"] == pytest.approx(bpsn["first"] - bpsn["second"])
    assert (bpsn["low"], found["worsened"]) == (None, [])
    text = compare(copy, output / "s/fair").stdout
    assert "No intervals, so no difference can be tested:" in text
    assert "±" not in text


def test_other_rows_are_not_paired(output, tmp_path):
    publish(tmp_path, candidates={"fair": {"shift": 0.0, "n": 800}})
    [found] = as_json(output / "s/fair", tmp_path / "s/fair")
    assert not found["paired"]
    assert "they did not score the same rows: 800 rows are in both, of 900 and" in found["reason"]


def test_identities_that_one_lacks_are_named_and_the_others_are_compared(output, tmp_path):
    publish(tmp_path, names=["gay", "white"], candidates={"fair": {"shift": 0.0}})
    [found] = as_json(output / "s/fair", tmp_path / "s/fair")
    assert found["left_out"] == ["deaf", "muslim", "white"]
    assert groups_of(found["comparison"]) == ["gay"]


def test_folders_without_a_common_set_are_refused(output, tmp_path):
    publish(tmp_path, candidates={"fair": {}}, sets=("other",))
    code, text = run("compare", output / "s/fair", tmp_path)
    assert code == 2
    assert "must be given two candidates on the same set" in text
    assert "has fair on s;" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_keep_to_the_width(output, width):
    text = compare(output / "s/biased", output / "s/fair", width=width).stdout
    assert max(map(len, text.splitlines())) <= width
