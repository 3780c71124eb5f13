"""The candidate to mitigate, from its verdict, and the evaluation file of its results."""

import json

import pytest
from support.made import result, summary_of, verdict_of
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json
from biasgate.tasks.mitigating.blocked import Blocked, find_results_config, read_blocked

NUMBER = json.dumps(summary_of(config=3).to_dict())


def write_verdict(folder, outcome, group="gay"):
    folder.mkdir(parents=True, exist_ok=True)
    results = [result(outcome, group=group)] * 2
    content = verdict_of(*results, name="t", of_set="phrases", outcome=outcome)
    write_json(folder / "verdict.json", content)
    return folder


def test_a_blocked_verdict_names_the_identities_that_failed(tmp_path):
    blocked = Blocked.from_results(write_verdict(tmp_path, "fail"))
    assert (blocked.candidate, blocked.evaluation_set, blocked.failed) == ("t", "phrases", ("gay",))


def test_a_candidate_that_passed_has_nothing_to_mitigate(tmp_path):
    with pytest.raises(InputError, match="must be a candidate that did not pass; t passed"):
        Blocked.from_results(write_verdict(tmp_path, "pass"))


def test_a_folder_without_a_verdict_is_refused(tmp_path):
    with pytest.raises(InputError, match="must be a folder of results, OUTPUT/SET/CANDIDATE"):
        Blocked.from_results(tmp_path / "nothing")


@pytest.fixture
def results(tmp_path):
    """Results of a blocked candidate, whose evaluation file still exists."""
    config = tmp_path / "mine.yaml"
    config.write_text("name: mine", "utf-8")
    summary = tmp_path / "out" / "summary.json"
    folder = write_verdict(tmp_path / "out" / "phrases" / "t", "fail")
    write_json(summary, summary_of(config=str(config)))
    return folder


def test_results_name_the_evaluation_file_that_they_were_made_with(results, tmp_path):
    assert find_results_config(results) == tmp_path / "mine.yaml"


def test_an_evaluation_file_that_is_not_there_any_more_is_asked_for(results, tmp_path):
    (tmp_path / "mine.yaml").unlink()
    with pytest.raises(InputError, match=r"must exist; .*mine.yaml does not. Also give CONFIG"):
        find_results_config(results)


@pytest.mark.parametrize("content", ["{}", "[]", "{", NUMBER])
def test_results_that_do_not_name_their_file_are_told(results, content):
    (results.parents[1] / "summary.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match="does not name an evaluation file"):
        find_results_config(results)


def test_results_that_would_be_replaced_are_refused(results):
    with pytest.raises(InputError, match="must be another folder than that of the blocked"):
        read_blocked.fn(str(results), str(results.parents[1]))


def test_mitigate_needs_a_file_or_results(tmp_path):
    result = CliRunner().invoke(app, ["mitigate", "--output", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "give CONFIG, or `--from`" in result.stderr
