"""The message of a night: by Apprise to a real receiver, silent without news, a heartbeat."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.made import decision_of, summary_of
from support.receiver import PATIENCE_S, receiving

from biasgate.tasks.records.trend import Night, Trend
from biasgate.tasks.reporting.markdown import format_results
from biasgate.tasks.reporting.notifications import (
    Notification,
    build_crash_message,
    build_message,
    format_message,
    notify,
    remove_markup,
    send_by_apprise,
)
from biasgate.tasks.reporting.results import Results
from biasgate.tasks.reporting.terminal import print_results

NEWS = "gay got worse with champion on news: BPSN AUC 0.910 -> 0.840 in 2 nights."
DECISION = decision_of("toxicity-7", "pass", "models:/toxicity/7 is champion now.", promoted=True)
SUMMARY = summary_of([], [DECISION], evaluation="production", outcome="pass", run_id="r1")
REPORT = "https://mlflow.example.org/#/experiments/1/runs/r1/artifacts/report.html"


def make_trend(*news):
    known = {"schema_version": 1, "evaluation": "production"}
    night = Night(
        **known, number=12, at="", run_id="r1", joint_confidence=0.95, models=[], news=list(news)
    )
    return Trend(**known, nights=[night], changed=[], moved=[], not_compared=[])


def make_message(summary):
    return build_message(Results(Path(), summary, []))


def make_night_message(*news):
    return build_message(Results(Path(), SUMMARY, []), make_trend(*news), REPORT)


def make_notification(name, *when):
    return Notification(kind=name, url="${HOOK}", **({"when": when} if when else {}))


def test_the_message_of_a_night_has_verdicts_changes_and_a_link():
    assert format_message(make_night_message(NEWS)).splitlines() == [
        "biasgate production: passed",
        "Night 12:",
        f"- {NEWS}",
        "toxicity-7: Passed.",
        "- models:/toxicity/7 is champion now.",
        f"Report: {REPORT}",
    ]
    assert "Night 12: nothing changed." in format_message(make_night_message())


def test_show_and_the_summary_in_prefect_name_who_moved(capsys):
    results = Results(Path(), replace(SUMMARY, moved=[NEWS]), [])
    print_results(results)
    assert NEWS in capsys.readouterr().out
    assert format_results(results).endswith(f"- {NEWS}")


def test_apprise_delivers_it_to_a_service(monkeypatch, caplog):
    with receiving() as (address, arrived):
        patience = f"?cto={PATIENCE_S}&rto={PATIENCE_S}"
        monkeypatch.setenv("HOOK", address.replace("http://", "json://") + patience)
        with caplog.at_level(logging.DEBUG):
            assert (
                notify([make_notification("apprise", "pass")], make_night_message(NEWS), PATIENCE_S)
                == []
            )
        [message] = arrived
        assert message["title"] == "biasgate production: passed"
        assert NEWS.replace(">", ")") in message["message"]
        assert message["message"].endswith(f"Report: {REPORT}")
        assert message["type"] == "info"
        assert address.partition("//")[2] not in caplog.text


@pytest.mark.parametrize("when", ["change", "pass"])
def test_silence_when_nothing_changed_can_be_chosen(monkeypatch, when):
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        for told_now in (make_night_message(), make_night_message(NEWS), make_message(SUMMARY)):
            notify([make_notification("webhook", when)], told_now, PATIENCE_S)
    assert [one.get("changed") for one in arrived] == (
        [[NEWS]] if when == "change" else [[], [NEWS], None]
    )


def test_a_heartbeat_follows_every_verdict_and_no_crash(monkeypatch):
    with receiving() as (address, arrived):
        monkeypatch.setenv("HOOK", address)
        notify([make_notification("heartbeat")], make_night_message(), PATIENCE_S)
        notify(
            [make_notification("heartbeat")],
            make_message(replace(SUMMARY, outcome="fail")),
            PATIENCE_S,
        )
        notify(
            [make_notification("heartbeat")],
            build_crash_message("production", "OSError"),
            PATIENCE_S,
        )
    assert arrived == [{}, {}]


def test_a_heartbeat_takes_no_outcomes():
    with pytest.raises(ValidationError, match="kind heartbeat takes no `when`"):
        make_notification("heartbeat", "pass")


@pytest.mark.parametrize("address", ["", "what", "nosuchscheme://host json://127.0.0.1:1"])
def test_an_address_that_is_none_of_apprises_is_reported_without_it(monkeypatch, address):
    monkeypatch.setenv("HOOK", address)
    [lost] = notify([make_notification("apprise", "pass")], make_night_message(), PATIENCE_S)
    assert lost == "notification 1 (apprise) was not delivered: ValueError."


def test_a_message_that_is_not_delivered_is_an_error():
    with pytest.raises(RuntimeError, match="not delivered"):
        send_by_apprise("json://127.0.0.1:1", "s", "b", failed=True)


def test_names_make_no_mention_markup_or_link():
    name = "<!channel> @everyone [x](http://evil) `www.evil.org` *b* \u202e|"
    shown = remove_markup(name)
    assert not set("<>@[]`*|\u202e") & set(shown)
    assert "://" not in shown
    assert "www." not in shown
