"""A hub of models and data sets on this machine: the requests of `huggingface_hub`, over HTTP."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_BLOCK = 1 << 16
# /api/models/NAME[/revision/R | /tree/R[/FOLDER]] and [/datasets]/NAME/resolve/R/FILE
_API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+)/?(.*))?")
_FILE = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class Hub:
    """A hub whose repositories are folders.

    `url`: its address. `requests`: those so far, as in `GET /acme/tiny/resolve/main/config.json`.
    `gated`: names of repositories that may not be read without a token. `cut_at`: the first answer
    with more bytes of a file ends after this many. `pause_s`: the time before each block of 64 KiB.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.gated: set[str] = set()
        self.cut_at: int | None = None
        self.pause_s = 0.0
        self._repositories: dict[tuple[str, str], dict[str, tuple[str, Path]]] = {}
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, folder: Path, name: str, *, kind: str = "models", commit: str = COMMIT) -> None:
        """Serve a folder as a commit of a repository; `main` names the last one added.

        `kind`: `models` or `datasets`.
        """
        revisions = self._repositories.setdefault((kind, name), {})
        revisions[commit] = revisions["main"] = (commit, folder)

    def environment(self, home: Path) -> dict[str, str]:
        """Return the variables that let `huggingface_hub` use this hub and a cache in a folder."""
        named = {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        return named | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}

    def revisions(self, kind: str, name: str) -> dict[str, tuple[str, Path]] | None:
        """Return commit and folder by revision; None if the repository does not exist."""
        return self._repositories.get((kind, name))

    @contextmanager
    def running(self) -> Iterator[Hub]:
        """Answer requests."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@contextmanager
def serving(
    folder: Path, name: str, *, kind: str = "models", commit: str = COMMIT
) -> Iterator[Hub]:
    """Yield a hub with one repository."""
    hub = Hub()
    hub.add(folder, name, kind=kind, commit=commit)
    with hub.running():
        yield hub


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub

    def handle_error(self, *_: object) -> None:
        """Leave out the traceback of a client that was killed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.hub.requests.append(f"{self.command} {self.path}")
        path = unquote(self.path.partition("?")[0])
        if match := _API.fullmatch(path):
            kind, name, about, revision, below = match.groups()
        elif match := _FILE.fullmatch(path):
            kind, name, revision, below = match.groups()
            about = "resolve"
        else:
            self._send(404)
            return
        revisions = self.server.hub.revisions(kind or "models", name)
        if revisions is None:
            self._refuse(404, "RepoNotFound")
        elif name in self.server.hub.gated and "Authorization" not in self.headers:
            self._refuse(401, "GatedRepo")
        elif (revision or "main") not in revisions:
            self._refuse(404, "RevisionNotFound")
        else:
            commit, folder = revisions[revision or "main"]
            if about == "resolve":
                self._send_file(folder / below, commit)
            elif about == "tree":
                self._json([one for one in _tree(folder) if str(one["path"]).startswith(below)])
            else:
                self._json(_describe(name, commit, folder))

    def _send_file(self, file: Path, commit: str) -> None:
        if not file.is_file():
            self._refuse(404, "EntryNotFound")
            return
        start, size = 0, file.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            start, stop = int(asked[1]), min(int(asked[2] or size - 1) + 1, size)
            if start >= size:
                self._send(416, {"Content-Range": f"bytes */{size}"})
                return
        else:
            stop = size
        headers = {"Content-Range": f"bytes {start}-{stop - 1}/{size}"} if asked else {}
        self._send(
            206 if asked else 200,
            headers
            | {"Accept-Ranges": "bytes", "ETag": f'"{_digest(file)}"', "X-Repo-Commit": commit}
            | {"X-Linked-Size": str(size), "X-Linked-Etag": f'"{_digest(file)}"'},
            length=stop - start,
        )
        if self.command != "HEAD":
            self._stream(file, start, stop)

    def _stream(self, file: Path, start: int, stop: int) -> None:
        hub = self.server.hub
        if hub.cut_at is not None and stop - start > hub.cut_at:
            stop, hub.cut_at = start + hub.cut_at, None
            self.close_connection = True
        with file.open("rb") as stream:
            stream.seek(start)
            for at in range(start, stop, _BLOCK):
                time.sleep(hub.pause_s)
                self.wfile.write(stream.read(min(_BLOCK, stop - at)))

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, {"X-Error-Code": code})

    def _json(self, content: object) -> None:
        body = json.dumps(content).encode()
        self._send(200, {"Content-Type": "application/json"}, length=len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send(self, status: int, headers: dict[str, str] | None = None, *, length: int = 0) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(length), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


def _describe(name: str, commit: str, folder: Path) -> dict[str, Any]:
    files = [one for one in _tree(folder) if one["type"] == "file"]
    siblings = [
        {"rfilename": one["path"], "size": one["size"], "blobId": one["oid"]} for one in files
    ]
    about = {"_id": "0", "id": name, "modelId": name, "sha": commit, "siblings": siblings}
    return about | {"private": False, "tags": [], "downloads": 0, "likes": 0}


def _tree(folder: Path) -> list[dict[str, object]]:
    return [
        {
            "type": "directory" if one.is_dir() else "file",
            "path": one.relative_to(folder).as_posix(),
            "oid": "0" * 40 if one.is_dir() else _digest(one),
            "size": 0 if one.is_dir() else one.stat().st_size,
        }
        for one in sorted(folder.rglob("*"))
    ]


def _digest(file: Path) -> str:
    """Return a digest of a file's content, kept while size and time stay the same."""
    about = file.stat()
    return _digest_of(file, about.st_size, about.st_mtime_ns)


@cache
def _digest_of(file: Path, size: int, changed: int) -> str:
    del size, changed
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha1").hexdigest()  # as git does
