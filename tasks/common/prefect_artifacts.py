"""What a flow run shows on Prefect's pages, and where its own page is."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

TEMPORARY = "PREFECT__SERVER_EPHEMERAL"
"""The environment variable of a server, and its processes, that ends with the command."""
# A key is part of an address; longer ones fit no column of Prefect's pages either.
_LONGEST = 100
_shown: ContextVar[str | None] = ContextVar("shown", default=None)


def artifact_key(*parts: str) -> str:
    """Return the key of an artifact: lower case letters, digits and `-`, as Prefect demands.

    Parts that are too long, or have no letter or digit of ASCII, are distinguished by a digest.

    Examples
    --------
    >>> artifact_key("biasgate", "My evaluation_2", "identities")
    'biasgate-my-evaluation-2-identities'
    """
    slugs = [re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts]
    key = "-".join(filter(None, slugs))
    if all(slugs) and len(key) <= _LONGEST:
        return key
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{key[: _LONGEST - len(digest) - 1]}-{digest}".lstrip("-")


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
def shown_as(flow_run: str) -> Iterator[None]:
    """Let `flow_run_page` name this flow run within its stages."""
    before = _shown.set(flow_run)
    try:
        yield
    finally:
        _shown.reset(before)


def flow_run_page() -> tuple[str, str | None] | None:
    """Return the id of the flow run, and the address of its page if one is known.

    None outside of a flow. A server that ends with the command has no pages.
    """
    from prefect import runtime  # noqa: PLC0415
    from prefect.utilities.urls import url_for  # noqa: PLC0415

    found: Any = _shown.get() or runtime.flow_run.id
    if not found:
        return None
    address = None if os.environ.get(TEMPORARY) else url_for("flow-run", UUID(str(found)))
    return str(found), address


def api_url() -> str | None:
    """Return the address of Prefect's server; None if each command starts one of its own."""
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    found: str | None = PREFECT_API_URL.value()
    return found


class ProgressArtifact:
    """A progress artifact of the running task; created at the first update.

    `key`: its key in Prefect: lower case letters, digits and `-`.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None

    def tell(self, percent: float, description: str) -> None:
        """Publish how much is done."""
        from prefect.artifacts import (  # noqa: PLC0415
            create_progress_artifact,
            update_progress_artifact,
        )

        if self._id is None:
            made: Any = create_progress_artifact(percent, self._key, description)
            self._id = made
        else:
            update_progress_artifact(self._id, percent, description)
