"""The tags of a version change from one set of verdicts to the next as a whole.

MLflow writes one tag at a time. A process that is killed in between would leave tags of two
evaluations, and a deployed champion that does not verify. So one tag first names the runs of the
new verdicts; while it is there, those verdicts count, and not the tags that are being written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.records import LoggedVerdict, Verdict
from biasgate.tasks.reporting.version_tags import tags_of

WRITING = "biasgate.writing"


def write_verdicts(
    version: ModelVersion, verdicts: Sequence[LoggedVerdict], gateway: Gateway
) -> None:
    """Write the tags of a version's verdicts. Safe to repeat."""
    runs = [one.run_id for one in verdicts]
    gateway.tag_version(version, {WRITING: json.dumps(runs)})
    gateway.tag_version(version, tags_of(verdicts))
    gateway.client.delete_model_version_tag(version.name, version.version, WRITING)


def with_whole_tags(version: ModelVersion, gateway: Gateway) -> ModelVersion:
    """Return a version with the tags that an interrupted evaluation was writing, if one was."""
    if WRITING not in version.tags:
        return version
    try:
        verdicts = [_logged(run, gateway) for run in json.loads(version.tags[WRITING])]
        return replace(version, tags={**version.tags, **tags_of(verdicts)})
    except (InputError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return version  # then the tags as they are do not hold


def interrupted(version: ModelVersion) -> list[Finding]:
    """Return what a person should know if the tags of a version are half written."""
    if WRITING not in version.tags:
        return []
    text = (
        f"an evaluation was stopped while it wrote the tags of {version.uri}, or is writing them "
        "now; its verdicts count. Run `biasgate evaluate` again to complete the tags."
    )
    return [Finding("tags", holds=True, sentence=text)]


def _logged(run: str, gateway: Gateway) -> LoggedVerdict:
    return LoggedVerdict.logged(Verdict.from_dict(gateway.read_json(run, "verdict.json")), run)
