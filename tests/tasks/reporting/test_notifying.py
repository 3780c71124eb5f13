"""Notifications to a local receiver: delivered or reported as lost, without leaking anything."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.made import decision_of, result, summary_of, verdict_of
from support.receiver import PATIENCE_S, TOKEN, receiving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.evaluation_file import EvaluationFile
from biasgate.tasks.reporting import notifications as notifying
from biasgate.tasks.reporting.notifications import (
    Notification,
    build_crash_message,
    build_message,
    notify,
)
from biasgate.tasks.reporting.results import Results

VERDICT = verdict_of(
    result("fail", reason="undefined", why="0.6 < 0.8 & far"),
    result(),
    name="words",
    of_set="comments",
)
DECISION = decision_of("words", "fail", "champion <stays> & waits.", word="Blocked", exceptions=[])
SUMMARY = summary_of([VERDICT], [DECISION], run_id="r1")
MESSAGE = build_message(Results(Path(), SUMMARY, []))
WEBHOOK = Notification(kind="webhook", url="${HOOK}")


def test_a_webhook_gets_outcome_decisions_and_unmet_demands(monkeypatch):
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        assert notify([WEBHOOK], MESSAGE, PATIENCE_S) == []
    assert arrived == [
        {
            "evaluation": "small",
            "outcome": "block",
            "word": "Blocked",
            "run_id": "r1",
            "decisions": [
                {
                    "candidate": "words",
                    "outcome": "fail",
                    "promoted": False,
                    "word": "Blocked",
                    "told": ["champion <stays> & waits."],
                }
            ],
            "n_unmet": 1,
            "unmet": ["words on comments: bpsn_auc of gay is undefined: 0.6 < 0.8 & far."],
        }
    ]


def test_of_many_unmet_demands_the_first_are_told_and_the_rest_counted():
    many = [result("fail", group=f"n{at}") for at in range(25)]
    message = build_message(
        Results(Path(), replace(SUMMARY, verdicts=[replace(VERDICT, results=many)]), [])
    )
    assert len(message.unmet) == 20
    assert message.n_unmet == 25


@pytest.mark.parametrize("outcome", ["pass", "block", "insufficient", "error"])
@pytest.mark.parametrize("when", ["pass", "block", "insufficient", "error"])
def test_only_who_wants_to_know_is_told(monkeypatch, outcome, when):
    sent = []
    monkeypatch.setattr(Notification, "send", lambda _self, message: sent.append(message))
    wanted = Notification(kind="webhook", url="${HOOK}", when=[when])
    message = replace(build_crash_message("small", "OSError"), outcome=outcome)
    notify([wanted], message)
    assert sent == ([message] if outcome == when else [])


def send_lost_message(caplog):
    """Send a message; return the failure, which must not contain the address."""
    caplog.set_level(logging.DEBUG)
    [sentence] = notify([WEBHOOK], MESSAGE, PATIENCE_S)
    assert sentence in caplog.text
    assert TOKEN not in caplog.text + sentence
    assert "127.0.0.1" not in caplog.text + sentence
    return sentence


@pytest.mark.parametrize("status", [404, 500])
def test_a_receiver_that_refuses_is_told_by_its_status(monkeypatch, caplog, status):
    with receiving(status) as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        expected = f"notification 1 (webhook) was not delivered: the receiver answered {status}."
        assert send_lost_message(caplog) == expected
    assert len(arrived) == 1


def test_a_receiver_that_is_down_is_told(monkeypatch, caplog):
    with receiving() as (address, _):
        monkeypatch.setenv("HOOK", address)
    assert send_lost_message(caplog).endswith("was not delivered: URLError.")


def test_a_receiver_that_hangs_is_waited_for_no_longer_than_allowed(monkeypatch):
    hang = threading.Event()
    with receiving(hang=hang) as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        [sentence] = notify([WEBHOOK], MESSAGE, seconds=0.5)
        assert not hang.is_set()
    assert sentence.endswith("was not delivered: no answer within 0.5 s.")
    assert len(arrived) == 1


@pytest.mark.parametrize("address", [None, "", f"file:///etc/{TOKEN}", TOKEN])
def test_a_variable_without_an_address_is_told(monkeypatch, caplog, address):
    monkeypatch.delenv("HOOK", raising=False)
    if address is not None:
        monkeypatch.setenv("HOOK", address)
    assert send_lost_message(caplog).endswith("was not delivered: UnusableAddressError.")


def test_one_lost_message_does_not_keep_the_next(monkeypatch):
    monkeypatch.delenv("GONE", raising=False)
    gone = Notification(kind="webhook", url="${GONE}")
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        assert len(notify([gone, WEBHOOK], MESSAGE, PATIENCE_S)) == 1
    assert len(arrived) == 1


def test_a_prefect_block_is_used_by_name(monkeypatch):
    used = []
    monkeypatch.setattr(notifying, "send_notification", lambda *given: used.append(given))
    block = Notification(kind="prefect_block", block="slack-webhook/alerts")
    assert notify([block], build_crash_message("small", "OSError"), PATIENCE_S) == []
    subject = "biasgate small: error"
    assert used == [("slack-webhook/alerts", f"{subject}\nIt ended with OSError.", subject)]


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "webhook"},
        {"kind": "webhook", "url": f"https://{TOKEN}"},
        {"kind": "webhook", "url": "${HOOK}", "block": "slack-webhook/alerts"},
        {"kind": "prefect_block", "url": "${HOOK}"},
        {"kind": "webhook", "url": "${HOOK}", "when": []},
        {"kind": "mail", "url": "${HOOK}"},
    ],
)
def test_a_notification_without_its_address_is_refused(given):
    with pytest.raises(ValidationError):
        Notification.model_validate(given)


FILE = """\
name: small
evaluation_sets: [{{name: rows, source: table, path: rows.csv, identities: [gay]}}]
candidates: [{{name: file, kind: scores, path: scores.csv}}]
notifications: [{{kind: webhook, {more}}}]
"""


def test_an_address_stays_out_of_the_settings_until_a_message_is_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOK", f"https://{TOKEN}")
    (tmp_path / "a.yaml").write_text(FILE.format(more='url: "${HOOK}"'), "utf-8")
    read = read_settings(tmp_path / "a.yaml", EvaluationFile)
    assert read.notifications[0].url == "${HOOK}"
    assert TOKEN not in repr(read) + read.model_dump_json()


@pytest.mark.parametrize("more", [f"url: https://{TOKEN}", f"link: {TOKEN}", f"when: [{TOKEN}]"])
def test_an_address_in_a_file_is_refused_without_being_repeated(tmp_path, more):
    (tmp_path / "a.yaml").write_text(FILE.format(more=more), "utf-8")
    with pytest.raises(InputError, match=r"notifications\.0") as told:
        read_settings(tmp_path / "a.yaml", EvaluationFile)
    assert TOKEN not in str(told.value)
    assert told.value.__suppress_context__
