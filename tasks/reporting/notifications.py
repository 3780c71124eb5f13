"""Notifications of how an evaluation ended: webhooks, Slack, Prefect's notification blocks.

Addresses are secrets. The evaluation file names the environment variable that holds one; it is
read here, when a message is sent, and no error, log or result shows it. A message that cannot be
delivered is reported, and changes nothing else.
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
from typing import Annotated, Literal, NotRequired, Self, TypedDict

from pydantic import Field, SecretStr, model_validator

from biasgate.tasks.common.outcomes import WORDS, Occasion, word_of
from biasgate.tasks.common.prefect_task import notify_by_block, task
from biasgate.tasks.common.settings import Settings
from biasgate.tasks.records import Summary

SECONDS = 10.0
"""Time limit for one message."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SENTENCES = 20
_log = logging.getLogger("biasgate.notifying")


class Told(TypedDict):
    """The decision on a candidate, as in a message."""

    candidate: str
    outcome: str
    promoted: bool
    sentence: str


class Message(TypedDict):
    """A message: decisions and failed checks of a summary, or the type of error of a crash."""

    evaluation: str
    outcome: Occasion
    run_id: NotRequired[str]
    decisions: NotRequired[list[Told]]
    n_unmet: NotRequired[int]
    unmet: NotRequired[list[str]]
    error: NotRequired[str]


class Notification(Settings):
    """Whom to notify, and of which outcomes.

    Attributes
    ----------
    kind : {"webhook", "slack", "prefect_block"}
        JSON by POST; the same in Slack's format; a Prefect block.
    url : str, optional
        `${NAME}`: the environment variable with the address of the webhook, or of Slack.
    block : str, optional
        `TYPE/NAME` of a Prefect notification block, as in `slack-webhook/alerts`.
    when : list of {"pass", "block", "insufficient", "error"}
        The outcomes to report. Default: all but a pass.
    """

    kind: Literal["webhook", "slack", "prefect_block"]
    url: str | None = None
    block: str | None = None
    when: Annotated[tuple[Occasion, ...], Field(min_length=1)] = ("block", "insufficient", "error")

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        needed, other = ("block", "url") if self.kind == "prefect_block" else ("url", "block")
        if getattr(self, needed) is None or getattr(self, other) is not None:
            msg = f"kind {self.kind} needs `{needed}` and no `{other}`"
            raise ValueError(msg)
        if self.url is not None and not _VARIABLE.fullmatch(self.url):
            msg = (
                "`url` must be the name of an environment variable, as in ${SLACK_URL}: an address "
                "is a secret and must not be in a file"
            )
            raise ValueError(msg)
        return self

    def send(self, message: Message) -> None:
        """Send a message.

        Raises
        ------
        Exception
            Of any type, if it was not delivered; its text may contain the address.
        """
        if self.kind == "prefect_block":
            notify_by_block(str(self.block), plain_text(message), _subject(message))
        elif self.kind == "slack":
            _post(self._address(), {"text": slack_text(message)})
        else:
            _post(self._address(), message)

    def _address(self) -> SecretStr:
        match = _VARIABLE.fullmatch(str(self.url))
        address = os.environ.get(match[1] if match else "", "")
        if not address.startswith(("http://", "https://")):
            raise UnusableAddressError
        return SecretStr(address)


class UnusableAddressError(ValueError):
    """The variable does not hold an address that starts with http:// or https://."""


def message_of(summary: Summary) -> Message:
    """Return the message of a summary: outcome, decisions, checks that did not pass."""
    unmet = [
        f"{verdict['candidate']['name']} on {verdict['evaluation_set']['name']}: {one['sentence']}"
        for verdict in summary["verdicts"]
        for one in verdict["results"]
        if one["outcome"] not in {"pass", "skipped"}
    ]
    return {
        "evaluation": summary["evaluation"],
        "outcome": word_of(summary).occasion,
        "run_id": summary["run_id"],
        "decisions": [
            {
                "candidate": one["candidate"],
                "outcome": one["outcome"],
                "promoted": one["promoted"],
                "sentence": one["sentence"],
            }
            for one in summary["decisions"]
        ],
        "n_unmet": len(unmet),
        "unmet": unmet[:_SENTENCES],
    }


def message_of_crash(evaluation: str, error: str) -> Message:
    """Return the message of a crash: only the type of the error, as its text may quote anything."""
    return {"evaluation": evaluation, "outcome": "error", "error": error}


def plain_text(message: Message) -> str:
    """Return a message as lines of text."""
    lines = [f"{one['candidate']}: {one['sentence']}" for one in message.get("decisions", [])]
    lines += [f"- {one}" for one in message.get("unmet", [])]
    more = message.get("n_unmet", 0) - len(message.get("unmet", []))
    lines += [f"- and {more} more"] if more else []
    lines += [f"It ended with {message['error']}."] if "error" in message else []
    return "\n".join([_subject(message), *lines])


def slack_text(message: Message) -> str:
    """Return a message in Slack's format, in which `&`, `<` and `>` are markup."""
    text = plain_text(message).replace("&", "&amp;")
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _subject(message: Message) -> str:
    texts = {one.occasion: one.text.lower() for one in WORDS.values()}
    return f"biasgate {message['evaluation']}: {texts[message['outcome']]}"


def notify(
    notifications: Sequence[Notification], message: Message, seconds: float = SECONDS
) -> list[str]:
    """Send all notifications for this outcome; never raise an error.

    Returns
    -------
    list of str
        One sentence for each message that was not delivered; each is logged as a warning.
    """
    lost = []
    for number, one in enumerate(notifications, start=1):
        if message["outcome"] in one.when:
            problem = _attempt(one.send, message, seconds)
            if problem:
                lost.append(f"notification {number} ({one.kind}) was not delivered: {problem}.")
    for sentence in lost:
        _log.warning("%s", sentence)
    return lost


def _attempt(send: Callable[[Message], None], message: Message, seconds: float) -> str | None:
    """Call `send` with a time limit; return what went wrong, without the error's text."""
    problem: list[str] = []

    def attempt() -> None:
        try:
            send(message)
        except urllib.error.HTTPError as error:
            problem.append(f"the receiver answered {error.code}")
        except Exception as error:  # noqa: BLE001 - no error may change the outcome
            problem.append(type(error).__name__)

    context = contextvars.copy_context()  # it holds Prefect's settings
    # A daemon, so that a receiver that never ends its answer does not keep the process alive.
    thread = threading.Thread(target=context.run, args=(attempt,), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return f"no answer within {seconds:g} s"
    return problem[0] if problem else None


def _post(address: SecretStr, content: Mapping[str, object]) -> None:
    """POST JSON. Not with httpx, which logs the address of every request."""
    request = urllib.request.Request(  # noqa: S310 - http and https alone
        address.get_secret_value(),
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "biasgate"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - http and https alone
        pass


@task(name="notify")
def notify_people(notifications: Sequence[Notification], summary: Summary) -> list[str]:
    """Send the notifications of an evaluation file; return the undelivered ones."""
    return notify(notifications, message_of(summary))
