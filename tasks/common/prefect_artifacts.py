"""Artifacts of a flow run in Prefect, and the address of its page."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

EPHEMERAL_SERVER = "PREFECT__SERVER_EPHEMERAL"
"""The environment variable that marks a server that ends with the command."""
# A key is part of an address, and longer keys do not fit into the columns of Prefect's pages.
_MAX_KEY_LENGTH = 100
_flow_run: ContextVar[str | None] = ContextVar("shown", default=None)


def make_artifact_key(*parts: str) -> str:
    """Return the key of an artifact: lower case letters, digits and `-`, as Prefect requires.

    A digest is added if the key is too long, or if a part lacks ASCII letters and digits.

    Examples
    --------
    >>> make_artifact_key("biasgate", "My evaluation_2", "identities")
    'biasgate-my-evaluation-2-identities'
    """
    slugs = [re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts]
    key = "-".join(filter(None, slugs))
    if all(slugs) and len(key) <= _MAX_KEY_LENGTH:
        return key
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{key[: _MAX_KEY_LENGTH - len(digest) - 1]}-{digest}".lstrip("-")


def publish_markdown(key: str, markdown: str, description: str) -> None:
    """Publish Markdown; the description is Markdown as well."""
    from prefect.artifacts import create_markdown_artifact  # noqa: PLC0415

    create_markdown_artifact(key=key, markdown=markdown, description=description)


def publish_table(key: str, rows: Sequence[Mapping[str, str]], description: str) -> None:
    """Publish a table; its cells are Markdown."""
    from prefect.artifacts import create_table_artifact  # noqa: PLC0415

    create_table_artifact(key=key, table=[dict(row) for row in rows], description=description)


def publish_link(key: str, link: str, text: str, description: str) -> None:
    """Publish a link."""
    from prefect.artifacts import create_link_artifact  # noqa: PLC0415

    create_link_artifact(key=key, link=link, link_text=text, description=description)


@contextmanager
def show_flow_run(flow_run: str) -> Iterator[None]:
    """Make `find_flow_run_page` return this flow run in the body, which may run in a subflow."""
    before = _flow_run.set(flow_run)
    try:
        yield
    finally:
        _flow_run.reset(before)


def find_flow_run_page() -> tuple[str, str | None] | None:
    """Return the id of the flow run, and the address of its page if it has a page.

    None outside of a flow. The pages of a server that ends with the command are not shown.
    """
    from prefect import runtime  # noqa: PLC0415
    from prefect.utilities.urls import url_for  # noqa: PLC0415

    run_id: Any = _flow_run.get() or runtime.flow_run.id
    if not run_id:
        return None
    address = None if os.environ.get(EPHEMERAL_SERVER) else url_for("flow-run", UUID(str(run_id)))
    return str(run_id), address


def get_api_url() -> str | None:
    """Return the address of Prefect's server; None if each command starts its own server."""
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    url: str | None = PREFECT_API_URL.value()
    return url


class ProgressArtifact:
    """A progress artifact of the running task; created at the first update.

    `key`: its key in Prefect: lower case letters, digits and `-`.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None

    def publish(self, percent: float, description: str) -> None:
        """Publish the progress in percent."""
        from prefect.artifacts import (  # noqa: PLC0415
            create_progress_artifact,
            update_progress_artifact,
        )

        if self._id is None:
            artifact_id: Any = create_progress_artifact(percent, self._key, description)
            self._id = artifact_id
        else:
            update_progress_artifact(self._id, percent, description)
