"""Where an evaluation file comes from, as MLflow's pages show it."""

from __future__ import annotations

from pathlib import Path


def source_tags(file: Path) -> dict[str, str]:
    """Return the tags of a run that name a file and the commit of its repository, if there is one.

    MLflow shows them as *Source* and *Version*. The address of the repository is left out: it may
    hold a password.
    """
    from mlflow.utils.git_utils import get_git_commit  # noqa: PLC0415

    tags = {"mlflow.source.name": file.name, "mlflow.source.type": "LOCAL"}
    commit = get_git_commit(str(file.absolute().parent))
    return tags if commit is None else tags | {"mlflow.source.git.commit": str(commit)}
