"""What a command lets others write to standard error."""

import os

import pytest

from biasgate.telling import errors_told


@pytest.mark.parametrize(("verbose", "level"), [(False, "CRITICAL"), (True, "WARNING")])
def test_the_temporary_server_shows_its_errors_only_where_they_are_asked_for(
    monkeypatch, verbose, level
):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    monkeypatch.setattr(os, "environ", environment)
    with errors_told(verbose=verbose):
        pass
    assert environment["PREFECT_SERVER_LOGGING_LEVEL"] == level
