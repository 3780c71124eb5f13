"""What was published of a registered version: the files of the runs that judged it."""

from __future__ import annotations

from contextlib import ExitStack

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import require_known
from biasgate.tasks.promoting.documents import Documents
from biasgate.tasks.promoting.opened import own_verdicts
from biasgate.tasks.promoting.version_tags import with_whole_tags
from biasgate.tasks.reporting.results import Published
from biasgate.tasks.signing.statement import RESTS_ON

PREFIX = "models:/"


def published_of(uri: str, gateway: Gateway, kept: ExitStack) -> list[Published]:
    """Return what was published of a version on each set.

    Parameters
    ----------
    uri : str
        `models:/NAME/VERSION` or `models:/NAME@ALIAS`.
    kept : ExitStack
        Holds the files as long as they are read.

    Raises
    ------
    InputError
        If there is no such version, or it has no verdict that counts.
    """
    model = uri.removeprefix(PREFIX).partition("/")[0].partition("@")[0]
    require_known(model, gateway)
    version = with_whole_tags(gateway.resolve(uri), gateway)
    found: list[Published] = []
    for run_id, verdict in own_verdicts(version, gateway):
        folder = kept.enter_context(gateway.run_files(run_id, RESTS_ON))
        documents = Documents.of(folder, verdict.evaluation_set.name)
        found.append(Published(folder, documents.report, documents.verdict))
    if not found:
        msg = (
            f"{version.uri} must have a verdict, as `biasgate evaluate` gives it; it has none that "
            "counts."
        )
        raise InputError(msg)
    return found
