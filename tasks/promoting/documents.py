"""The documents of a run, as far as verification reads them: bounded, and checked before use.

Whoever may write to the artifacts may write anything there. A document of another form than the
one that biasgate writes is refused here with its name and the place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import check, parse_json, read_bytes, require_regular
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.records import LoggedVerdict, Report, Verdict


@dataclass(frozen=True)
class Documents:
    """The files that a verdict rests on, read once."""

    verdict: Verdict
    """`verdict.json`."""
    report: Report
    """`report.json`."""
    policy: Policy
    """`policy.json`."""
    digests: Mapping[str, str]
    """SHA-256 of the bytes that were read, by the file's name."""

    @classmethod
    def of(cls, folder: Path, name: str) -> Documents:
        """Read the documents about a set in a folder; the evidence there must be a plain file.

        Raises
        ------
        InputError
            If one is missing, or not what biasgate writes.
        """
        try:
            content = {
                file: read_bytes(folder / file, f"the {what} on {name}")
                for what, file in _FILES.items()
            }
            require_regular(folder / EVIDENCE, f"the evidence on {name}")
        except FileNotFoundError as error:
            msg = f"{Path(error.filename).name} of the verdict on {name} must be there; it is not."
            raise InputError(msg) from error
        found = {
            what: parse_json(content[file], f"the {what} on {name}")
            for what, file in _FILES.items()
        }
        return cls(
            checked_verdict(found["verdict"], f"the verdict on {name}"),
            check(found["report"], Report, f"the report on {name}"),
            checked_policy(found["policy"], f"the policy on {name}"),
            {file: hashlib.sha256(one).hexdigest() for file, one in content.items()},
        )


_FILES = {"verdict": "verdict.json", "report": "report.json", "policy": "policy.json"}


def read_verdict(run_id: str, gateway: Gateway) -> Verdict:
    """Read the verdict of a run.

    Raises
    ------
    InputError
        If it is missing, or not what biasgate writes.
    """
    what = f"the verdict in run {run_id}"
    return checked_verdict(_read(run_id, "verdict.json", what, gateway), what)


def logged_verdict(run_id: str, gateway: Gateway) -> LoggedVerdict:
    """Read the verdict of a run, with the run's id.

    Raises
    ------
    InputError
        As `read_verdict`.
    """
    return LoggedVerdict.logged(read_verdict(run_id, gateway), run_id)


def read_policy_of(run_id: str, gateway: Gateway) -> Policy:
    """Read the policy of a run.

    Raises
    ------
    InputError
        As `read_verdict`.
    """
    what = f"the policy in run {run_id}"
    return checked_policy(_read(run_id, "policy.json", what, gateway), what)


def _read(run_id: str, file: str, what: str, gateway: Gateway) -> Any:
    try:
        return gateway.read_json(run_id, file)
    except OSError as error:
        msg = f"{what} must be readable; got: {error.strerror or type(error).__name__}."
        raise InputError(msg) from error


def checked_verdict(content: Any, what: str) -> Verdict:
    """Return a verdict if it has the form of one.

    Raises
    ------
    InputError
        With what is wrong.
    """
    return check(content, Verdict, what)


def checked_policy(content: Any, what: str) -> Policy:
    """Return a policy.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        return Policy.model_validate(content)
    except ValueError as error:
        msg = f"{what} must be a policy; it is not ({type(error).__name__})."
        raise InputError(msg) from error
