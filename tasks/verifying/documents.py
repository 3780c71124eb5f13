"""The documents of a run, read with a size limit and validated before verification uses them.

Anyone with write access to the artifacts may change a document. A document that lacks the form that
biasgate writes raises an error with its name and the invalid key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import check_document, parse_json, read_bytes, require_regular
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import LoggedVerdict, Report, Verdict
from biasgate.tasks.reporting.version_tags import build_tags

WRITING = "biasgate.writing"
"""Tag with the run ids of the new verdicts while a version's tags are written.

MLflow writes a single tag per request. A process that is killed in between would leave tags of two
evaluations, and a deployed champion would fail verification. While this tag exists, the verdicts
of its runs count instead of the other tags.
"""
_FILES = {"verdict": "verdict.json", "report": "report.json", "policy": "policy.json"}


@dataclass(frozen=True)
class Documents:
    """The documents behind a verdict, read once."""

    verdict: Verdict
    """`verdict.json`."""
    report: Report
    """`report.json`."""
    policy: Policy
    """`policy.json`."""
    digests: Mapping[str, str]
    """SHA-256 of the documents by file name."""

    @classmethod
    def from_folder(cls, folder: Path, name: str, evidence: str = EVIDENCE) -> Documents:
        """Read the documents in a folder; its evidence must be a regular file.

        `name`: the set, for errors. `evidence`: file name of the evidence.
        """
        try:
            content = {
                file: read_bytes(folder / file, f"the {document} on {name}")
                for document, file in _FILES.items()
            }
            require_regular(folder / evidence, f"the evidence on {name}")
        except FileNotFoundError as error:
            msg = f"{Path(error.filename).name} of the verdict on {name} must exist; it does not."
            raise InputError(msg) from error
        parsed = {
            document: parse_json(content[file], f"the {document} on {name}")
            for document, file in _FILES.items()
        }
        return cls(
            check_document(parsed["verdict"], Verdict, f"the verdict on {name}"),
            check_document(parsed["report"], Report, f"the report on {name}"),
            validate_policy(parsed["policy"], f"the policy on {name}"),
            {file: hashlib.sha256(raw).hexdigest() for file, raw in content.items()},
        )


def read_verdict(run_id: str, gateway: Gateway) -> Verdict:
    """Read the verdict of a run."""
    subject = f"the verdict in run {run_id}"
    return check_document(
        _read_document(run_id, "verdict.json", subject, gateway), Verdict, subject
    )


def read_logged_verdict(run_id: str, gateway: Gateway) -> LoggedVerdict:
    """Read the verdict of a run, with the run's id."""
    return LoggedVerdict.from_verdict(read_verdict(run_id, gateway), run_id)


def read_run_policy(run_id: str, gateway: Gateway) -> Policy:
    """Read the policy of a run."""
    subject = f"the policy in run {run_id}"
    return validate_policy(_read_document(run_id, "policy.json", subject, gateway), subject)


def _read_document(run_id: str, file: str, subject: str, gateway: Gateway) -> Any:
    try:
        return gateway.read_json(run_id, file)
    except OSError as error:
        msg = f"{subject} must be readable; got: {error.strerror or type(error).__name__}."
        raise InputError(msg) from error


def validate_policy(content: Any, subject: str) -> Policy:
    """Return the policy in parsed JSON; `subject` names the document in errors."""
    try:
        return Policy.model_validate(content)
    except ValueError as error:
        msg = f"{subject} must be a policy; it is not ({type(error).__name__})."
        raise InputError(msg) from error


def write_verdict_tags(
    version: ModelVersion, verdicts: Sequence[LoggedVerdict], gateway: Gateway
) -> None:
    """Write the tags of a version's verdicts. A retry is safe."""
    runs = [verdict.run_id for verdict in verdicts]
    gateway.tag_version(version, {WRITING: json.dumps(runs)})
    gateway.tag_version(version, build_tags(verdicts))
    gateway.client.delete_model_version_tag(version.name, version.version, WRITING)


def complete_tags(version: ModelVersion, gateway: Gateway) -> ModelVersion:
    """Return a version with the tags that an unfinished evaluation was writing, if any."""
    if WRITING not in version.tags:
        return version
    try:
        verdicts = [read_logged_verdict(run, gateway) for run in json.loads(version.tags[WRITING])]
        return replace(version, tags={**version.tags, **build_tags(verdicts)})
    except (InputError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return version  # verification of its unchanged tags fails
