"""What libraries may write to standard error during a command."""

import os
import subprocess
import sys

import pytest
import typer

from biasgate.output import report_errors
from biasgate.tasks.common.errors import CandidateError, CandidateStoppedError

LINKS = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"


@pytest.mark.parametrize(("verbose", "level"), [(False, "CRITICAL"), (True, "WARNING")])
def test_the_temporary_server_shows_its_errors_only_where_they_are_asked_for(
    monkeypatch, verbose, level
):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    monkeypatch.setattr(os, "environ", environment)
    with report_errors(verbose=verbose):
        pass
    assert environment["PREFECT_SERVER_LOGGING_LEVEL"] == level
    # What the server does when it starts, and what a library logs later.
    code = (
        "import logging; from prefect.logging.configuration import setup_logging\n"
        "setup_logging(); logging.getLogger('sqlalchemy.pool').error('reset failed')"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, check=True, capture_output=True, env=environment)
    assert (b"reset failed" in ended.stderr) is verbose


@pytest.mark.parametrize(("own", "found"), [({}, "true"), ({LINKS: "false"}, "false")])
def test_links_of_mlflow_do_not_stand_among_the_steps_unless_wished(monkeypatch, own, found):
    environment = {k: v for k, v in os.environ.items() if k != LINKS} | own
    monkeypatch.setattr(os, "environ", environment)
    with report_errors(verbose=False):
        pass
    assert environment[LINKS] == found


@pytest.mark.parametrize("kind", [CandidateError, CandidateStoppedError])
def test_a_candidate_that_failed_is_told_in_its_own_words(capsys, kind):
    with pytest.raises(typer.Exit) as ended, report_errors(verbose=False):
        raise kind("candidate 'served' failed 1 time.")
    assert ended.value.exit_code == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "error: candidate 'served' failed 1 time. Finished scores are kept" in told
    assert "Error:" not in told


@pytest.mark.parametrize(("verbose", "advised"), [(None, False), (False, True)])
def test_a_crash_advises_verbose_only_where_a_command_has_it(capsys, verbose, advised):
    with pytest.raises(typer.Exit) as ended, report_errors(verbose=verbose):
        raise RuntimeError("boom")
    told = capsys.readouterr().err
    assert (ended.value.exit_code, "RuntimeError: boom" in told) == (1, True)
    assert ("--verbose" in told) == advised
