"""Secrets are masked in errors, in logs and on Prefect's server."""

import logging

import pytest

from biasgate import deploy, output
from biasgate.tasks.common import prefect_task, secrets
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.secrets import mask_errors, mask_secrets, register_secret
from biasgate.tasks.common.settings import expand_variables
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.reading_evaluation import read_evaluation

PASSWORD = "correct-horse"  # noqa: S105
FILE = """\
name: secret
evaluation_sets: [{name: rows, source: table, path: rows.csv, identities: [group]}]
candidates: [{name: one, kind: http, URL, version: "1"}]
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(secrets, "_variables", {})
    monkeypatch.setenv("ENDPOINT_PASSWORD", PASSWORD)


@pytest.mark.parametrize(
    "url",
    [
        f"http://ada:{PASSWORD}@host/invocations",
        "http://ada:${ENDPOINT_PASSWORD}@host/invocations",
        "http://host/invocations?key=${ENDPOINT_PASSWORD}",
        f"http://host/invocations?key={PASSWORD}",
        "ftp://host/${ENDPOINT_PASSWORD}",
        "http://host:${ENDPOINT_PASSWORD}/",
    ],
)
def test_an_error_that_refuses_a_url_does_not_show_its_password(tmp_path, url):
    (tmp_path / "rows.csv").write_text("id,label,group\n1,0,1\n")
    (tmp_path / "file.yaml").write_text(FILE.replace("URL", f'url: "{url}"'))
    with pytest.raises(InputError, match=r"candidates.0.url: must ") as error:
        read_evaluation(tmp_path / "file.yaml")
    assert PASSWORD not in str(error.getrepr(chain=True, showlocals=False))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://ada:word@host:80/a.", "at http://***@host:80/a."),
        ("postgresql://ada:w@rd@host/db", "postgresql://***@host/db"),
        ("s3://token@bucket", "s3://***@bucket"),
        ("models:/toxicity@champion", "models:/toxicity@champion"),
        ("http://host:80/#/a@b", "http://host:80/#/a@b"),
        ("http://host/a and ada@host", "http://host/a and ada@host"),
    ],
)
def test_only_user_and_password_of_a_url_are_masked(text, shown):
    assert mask_secrets(text) == shown


def test_a_short_value_is_no_secret():
    register_secret("STRENGTH", "0.8")
    assert mask_secrets("AUC 0.8") == "AUC 0.8"


def test_a_step_that_fails_tells_prefect_no_secret():
    expand_variables("${ENDPOINT_PASSWORD}", "file")

    def step():
        raise RuntimeError(f"{PASSWORD} was refused") from OSError(f"http://ada:{PASSWORD}@host")  # noqa: EM102

    with pytest.raises(RuntimeError, match=r"\$\{ENDPOINT_PASSWORD\} was refused") as error:
        mask_errors(step)()
    assert PASSWORD not in str(error.value)
    assert PASSWORD not in str(error.value.__cause__)


def test_an_error_out_of_a_group_of_errors_stays_itself_and_the_group_is_masked():
    expand_variables("${ENDPOINT_PASSWORD}", "file")

    def step():
        group = ExceptionGroup("in parallel", [InputError(f"{PASSWORD} was refused")])
        raise InputError("the first error") from group

    with pytest.raises(InputError, match="the first error") as error:
        mask_errors(step)()
    assert PASSWORD not in str(error.getrepr(chain=True, showlocals=False, style="native"))


def test_steps_and_errors_of_the_command_show_no_secret(capsys, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("biasgate.steps"), "propagate", True)
    caplog.set_level(logging.INFO, "biasgate.steps")
    expand_variables("${ENDPOINT_PASSWORD}", "file")
    prefect_task.log_message(f"reading {PASSWORD}")
    output.print_error(f"wrong: {PASSWORD}")
    assert "reading ${ENDPOINT_PASSWORD}" in caplog.text
    assert "wrong: ${ENDPOINT_PASSWORD}" in capsys.readouterr().err


@pytest.fixture
def tracking_server(monkeypatch):
    """The address of an unreachable tracking server, with a password."""
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", "")  # restored afterwards
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ada:{PASSWORD}%21@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("BIASGATE_MLFLOW_WAIT_S", "0")
    return "http://127.0.0.1:9"


def test_no_error_of_the_registry_shows_the_password_of_its_address(tracking_server, tmp_path):
    gateway = Gateway.from_store(tmp_path)
    with pytest.raises(Exception, match=f"MLflow at {tracking_server} does not answer") as error:
        gateway.resolve("models:/toxicity@champion")
    assert PASSWORD not in str(error.getrepr(chain=True, showlocals=False))


def test_mlflow_still_gets_the_password_of_the_address(tracking_server, tmp_path):
    from mlflow.utils.credentials import get_default_host_creds  # noqa: PLC0415

    assert Gateway.from_store(tmp_path).uri == tracking_server
    credentials = get_default_host_creds(tracking_server)
    assert (credentials.username, credentials.password) == ("ada", f"{PASSWORD}!")


def test_a_deploy_script_sees_no_password(tracking_server, tmp_path):
    del tracking_server
    (tmp_path / "store").mkdir()
    with pytest.raises(Exception, match=r"127\.0\.0\.1") as error:
        deploy.require_champion("toxicity", tmp_path / "store")
    assert PASSWORD not in str(error.getrepr(chain=True, showlocals=False))
