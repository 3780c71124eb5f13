"""The documents of a run, as far as verification reads them: bounded, and checked before use.

Anyone with write access to the artifacts may write anything there. A document of another form than
the one that biasgate writes is refused here with its name and the place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import check, parse_json, read_bytes, require_regular
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import LoggedVerdict, Report, Verdict
from biasgate.tasks.reporting.version_tags import tags_of

WRITING = "biasgate.writing"
"""Names the runs of the new verdicts while a version's tags are written.

MLflow writes one tag at a time. A process that is killed in between would leave tags of two
evaluations, and a deployed champion that does not verify. While this tag is there, the verdicts of
its runs count, and not the tags that are being written.
"""
_FILES = {"verdict": "verdict.json", "report": "report.json", "policy": "policy.json"}


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
    def of(cls, folder: Path, name: str, evidence: str = EVIDENCE) -> Documents:
        """Read the documents about a set in a folder; the evidence there must be a plain file."""
        try:
            content = {
                file: read_bytes(folder / file, f"the {what} on {name}")
                for what, file in _FILES.items()
            }
            require_regular(folder / evidence, f"the evidence on {name}")
        except FileNotFoundError as error:
            msg = f"{Path(error.filename).name} of the verdict on {name} must exist; it does not."
            raise InputError(msg) from error
        found = {
            what: parse_json(content[file], f"the {what} on {name}")
            for what, file in _FILES.items()
        }
        return cls(
            check(found["verdict"], Verdict, f"the verdict on {name}"),
            check(found["report"], Report, f"the report on {name}"),
            checked_policy(found["policy"], f"the policy on {name}"),
            {file: hashlib.sha256(one).hexdigest() for file, one in content.items()},
        )


def read_verdict(run_id: str, gateway: Gateway) -> Verdict:
    """Read the verdict of a run."""
    what = f"the verdict in run {run_id}"
    return check(_read(run_id, "verdict.json", what, gateway), Verdict, what)


def logged_verdict(run_id: str, gateway: Gateway) -> LoggedVerdict:
    """Read the verdict of a run, with the run's id."""
    return LoggedVerdict.logged(read_verdict(run_id, gateway), run_id)


def read_policy_of(run_id: str, gateway: Gateway) -> Policy:
    """Read the policy of a run."""
    what = f"the policy in run {run_id}"
    return checked_policy(_read(run_id, "policy.json", what, gateway), what)


def _read(run_id: str, file: str, what: str, gateway: Gateway) -> Any:
    try:
        return gateway.read_json(run_id, file)
    except OSError as error:
        msg = f"{what} must be readable; got: {error.strerror or type(error).__name__}."
        raise InputError(msg) from error


def checked_policy(content: Any, what: str) -> Policy:
    """Return a policy."""
    try:
        return Policy.model_validate(content)
    except ValueError as error:
        msg = f"{what} must be a policy; it is not ({type(error).__name__})."
        raise InputError(msg) from error


def write_verdicts(
    version: ModelVersion, verdicts: Sequence[LoggedVerdict], gateway: Gateway
) -> None:
    """Write the tags of a version's verdicts. Safe to repeat."""
    runs = [verdict.run_id for verdict in verdicts]
    gateway.tag_version(version, {WRITING: json.dumps(runs)})
    gateway.tag_version(version, tags_of(verdicts))
    gateway.client.delete_model_version_tag(version.name, version.version, WRITING)


def with_whole_tags(version: ModelVersion, gateway: Gateway) -> ModelVersion:
    """Return a version with the tags that an interrupted evaluation was writing, if one was."""
    if WRITING not in version.tags:
        return version
    try:
        verdicts = [logged_verdict(run, gateway) for run in json.loads(version.tags[WRITING])]
        return replace(version, tags={**version.tags, **tags_of(verdicts)})
    except (InputError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return version  # then the tags as they are do not hold
