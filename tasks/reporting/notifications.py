"""Notifications of an evaluation's outcome: webhooks, Apprise, Prefect's notification blocks.

Addresses are secrets. The evaluation file names an environment variable with the address, which is
read when a message is sent. No error, log or result shows it. A message that cannot be delivered is
reported without other effects.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from biasgate.tasks.common.prefect_task import send_notification, task
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.outcomes import WORDS, Occasion, get_outcome_words
from biasgate.tasks.records import Summary
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.trend import Trend
from biasgate.tasks.reporting.results import Results, load_results
from biasgate.tasks.reporting.verdict_story import VerdictStory

# Services interpret these as markup, mentions or links.
_MARKUP = {"@": "(at)", "<": "(", ">": ")", "`": "'", "*": "", "[": "(", "]": ")", "|": "/"}
_LINK = re.compile(r"(?<=\w)(:)(?=//)|(?<=www)(\.)", re.IGNORECASE)
SECONDS = 10.0
"""Time limit for one message."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SENTENCES = 20
_log = logging.getLogger("biasgate.notifying")


When = Literal[Occasion, "change"]


@dataclass(frozen=True, kw_only=True)
class DecisionMessage(Record):
    """The decision on a candidate, as in a message."""

    candidate: str
    outcome: str
    promoted: bool
    word: str
    told: list[str]
    """Sentences on the candidate."""


@dataclass(frozen=True, kw_only=True)
class Message(Record):
    """A message: decisions and failed checks of a summary, or the type of error of a crash."""

    evaluation: str
    outcome: Occasion
    word: str | None = None
    run_id: str | None = None
    decisions: list[DecisionMessage] | None = None
    n_unmet: int | None = None
    unmet: list[str] | None = None
    night: int | None = None
    changed: list[str] | None = None
    report: str | None = None
    error: str | None = None


class Notification(Settings):
    """Whom to notify, and of which outcomes."""

    kind: Literal["webhook", "prefect_block", "apprise", "heartbeat"]
    """JSON by POST; a Prefect block; Apprise; an empty request after each evaluation that ended
    with a verdict, whatever it is."""
    url: str | None = None
    """`${NAME}`: the environment variable with the address, or the addresses of Apprise."""
    block: str | None = None
    """`TYPE/NAME` of a Prefect notification block, as in `slack-webhook/alerts`."""
    when: Annotated[tuple[When, ...], Field(min_length=1)] = ("block", "insufficient", "error")
    """The outcomes to report; `change` is a night on which something changed. Default: all but a
    pass."""

    @model_validator(mode="after")
    def _require_address(self) -> Self:
        needed, other = ("block", "url") if self.kind == "prefect_block" else ("url", "block")
        if getattr(self, needed) is None or getattr(self, other) is not None:
            msg = f"kind {self.kind} needs `{needed}` and no `{other}`"
            raise ValueError(msg)
        if self.url is not None and not _VARIABLE.fullmatch(self.url):
            msg = (
                "`url` must be the name of an environment variable, as in ${HOOK_URL}: an address "
                "is a secret and must not be in a file"
            )
            raise ValueError(msg)
        if self.kind == "heartbeat" and "when" in self.model_fields_set:
            msg = "kind heartbeat takes no `when`: it is sent after every verdict"
            raise ValueError(msg)
        return self

    def is_for(self, message: Message) -> bool:
        """Return True if a message is to be sent."""
        if self.kind == "heartbeat":
            return message.error is None
        return message.outcome in self.when or ("change" in self.when and is_news(message))

    def send(self, message: Message) -> None:
        """Send a message.

        Raises
        ------
        Exception
            Of any type, if it was not delivered; its text may contain the address.
        """
        if self.kind == "prefect_block":
            send_notification(str(self.block), format_message(message), _format_subject(message))
        elif self.kind == "apprise":
            subject = remove_markup(_format_subject(message))
            lines = [remove_markup(format_message(message, with_report=False))]
            lines += _format_place(message)
            failed = message.outcome != "pass"
            send_by_apprise(self._read_secret(), subject, "\n".join(lines), failed=failed)
        else:
            address = self._read_secret()
            if not address.startswith(("http://", "https://")):
                raise UnusableAddressError
            content = {} if self.kind == "heartbeat" else message.to_dict()
            _post_json(SecretStr(address), content)

    def _read_secret(self) -> str:
        match = _VARIABLE.fullmatch(str(self.url))
        return os.environ.get(match[1] if match else "", "")


class UnusableAddressError(ValueError):
    """The variable does not hold an address that starts with http:// or https://."""


def is_news(message: Message) -> bool:
    """Return True if a message is of a night on which something changed."""
    return bool(message.changed)


def build_message(
    results: Results, trend: Trend | None = None, report: str | None = None
) -> Message:
    """Return the message of an evaluation, with its summary and unmet checks.

    The message of a night also has its number, changes and the address of the report.
    """
    summary = results.summary
    if summary is None:
        msg = "a message is about a whole evaluation"
        raise ValueError(msg)
    unmet = [
        f"{story.candidate} on {story.evaluation_set}: {check.sentence}"
        for story in map(VerdictStory.from_verdict, summary.verdicts)
        for check in story.unmet
    ]
    word = get_outcome_words(summary)
    tonight = None if trend is None else trend.nights[-1]
    return Message(
        evaluation=summary.evaluation,
        outcome=word.occasion,
        word=word.text,
        run_id=summary.run_id,
        decisions=[
            DecisionMessage(
                candidate=candidate.name,
                outcome=decision.outcome,
                promoted=decision.promoted,
                word=candidate.word.text,
                told=candidate.sentences,
            )
            for decision, candidate in zip(summary.decisions, results.candidates, strict=True)
        ],
        n_unmet=len(unmet),
        unmet=unmet[:_SENTENCES],
        night=None if tonight is None else tonight.number,
        changed=None if tonight is None else tonight.news[:_SENTENCES],
        report=report,
    )


def build_crash_message(evaluation: str, error: str) -> Message:
    """Return the message of a crash, with only the type of the error: its text may quote data."""
    return Message(evaluation=evaluation, outcome="error", error=error)


def format_message(message: Message, *, with_report: bool = True) -> str:
    """Return a message as lines of text."""
    lines = []
    news = message.changed or []
    if message.night is not None:
        lines = [f"Night {message.night}:{'' if news else ' nothing changed.'}"]
        lines += [f"- {sentence}" for sentence in news]
    for decision in message.decisions or []:
        lines.append(f"{decision.candidate}: {decision.word}.")
        lines += [f"- {text}" for text in decision.told]
    lines += [] if message.error is None else [f"It ended with {message.error}."]
    return "\n".join(
        [_format_subject(message), *lines, *(_format_place(message) if with_report else [])]
    )


def _format_place(message: Message) -> list[str]:
    return [] if message.report is None else [f"Report: {message.report}"]


def _format_subject(message: Message) -> str:
    texts = {word.occasion: word.text for word in WORDS.values()}
    text = texts[message.outcome] if message.word is None else message.word
    small = text[:1].lower() + text[1:]
    return f"biasgate {message.evaluation}: {small}"


def notify(
    notifications: Sequence[Notification], message: Message, seconds: float = SECONDS
) -> list[str]:
    """Send the notifications of this outcome; log and return failures in words."""
    undelivered = []
    for number, notification in enumerate(notifications, start=1):
        if not notification.is_for(message):
            continue
        problem = _send_within(notification.send, message, seconds)
        if problem:
            kind = notification.kind
            undelivered.append(f"notification {number} ({kind}) was not delivered: {problem}.")
    for sentence in undelivered:
        _log.warning("%s", sentence)
    return undelivered


def _send_within(send: Callable[[Message], None], message: Message, seconds: float) -> str | None:
    """Call `send` with a time limit; return the problem, if any, without the error's text."""
    problems: list[str] = []

    def attempt() -> None:
        try:
            send(message)
        except urllib.error.HTTPError as error:
            problems.append(f"the receiver answered {error.code}")
            error.close()
        except Exception as error:  # noqa: BLE001 - no error may change the outcome
            problems.append(type(error).__name__)

    context = contextvars.copy_context()  # it holds Prefect's settings
    # A daemon, so that an endless answer does not keep the process alive.
    thread = threading.Thread(target=context.run, args=(attempt,), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return f"no answer within {seconds:g} s"
    return problems[0] if problems else None


def _post_json(address: SecretStr, content: Mapping[str, object]) -> None:
    """POST JSON, without httpx, which logs the address of every request."""
    request = urllib.request.Request(  # noqa: S310 - only http and https
        address.get_secret_value(),
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "biasgate"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - only http and https
        pass


@task(name="notify")
def notify_people(
    notifications: Sequence[Notification],
    summary: Summary,
    output: str,
    trend: Trend | None = None,
    report: str | None = None,
) -> list[str]:
    """Send the notifications of an evaluation file; return failures in words."""
    results = load_results(summary, Path(output))
    return notify(notifications, build_message(results, trend, report))


def remove_markup(text: str) -> str:
    """Remove markup, mentions and links of any service from a text."""
    for sign, replacement in _MARKUP.items():
        text = text.replace(sign, replacement)
    return _LINK.sub(" ", escape_invisible(text, keep="\n"))


def send_by_apprise(addresses: str, subject: str, body: str, *, failed: bool) -> None:
    """Send a message to all addresses, as a warning if it `failed`.

    Raises
    ------
    ValueError
        If Apprise does not support an address.
    RuntimeError
        If a message was not delivered.
    """
    import apprise  # noqa: PLC0415 - it takes a second

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it logs parts of addresses
    services: Any = apprise.Apprise()
    if not all([services.add(address) for address in addresses.split()]) or not services:  # noqa: C419
        msg = "not addresses of Apprise"
        raise ValueError(msg)
    kind = apprise.NotifyType.WARNING if failed else apprise.NotifyType.INFO
    if not services.notify(
        body=body, title=subject, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    ):
        msg = "not delivered"
        raise RuntimeError(msg)
