"""A hub of data sets on this machine: the requests that `huggingface_hub` sends, over a folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(repository: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder as the data set `name` at `COMMIT`; yield the address and the requests."""
    server = _Server(repository, name)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(self, repository: Path, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Hub)
        self.repository, self.name = repository, name
        self.asked: list[str] = []


class _Hub(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        name, repository = self.server.name, self.server.repository
        self.server.asked.append(f"{self.command} {self.path}")
        path = self.path.partition("?")[0]
        files, tree = (f"/datasets/{name}/resolve/{COMMIT}/", f"/api/datasets/{name}/tree/{COMMIT}")
        if path.startswith(files):
            self._file(repository / path.removeprefix(files))
        elif path == f"/api/datasets/{name}/revision/{COMMIT}":
            siblings = [{"rfilename": one["path"]} for one in _tree(repository)]
            about = {"id": name, "sha": COMMIT, "private": False, "siblings": siblings}
            self._json(about | {"tags": [], "downloads": 0, "likes": 0})
        elif path.startswith(tree):
            below = path.removeprefix(tree).strip("/")
            self._json([one for one in _tree(repository) if str(one["path"]).startswith(below)])
        else:
            code = "RevisionNotFound" if f"/{name}/" in path else "RepoNotFound"
            self._send(404, b"{}", {"X-Error-Code": code})

    def _file(self, file: Path) -> None:
        if not file.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = file.read_bytes()
        self._send(200, content, {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": COMMIT})

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


def _tree(repository: Path) -> list[dict[str, object]]:
    return [
        {
            "type": "directory" if one.is_dir() else "file",
            "path": str(one.relative_to(repository)),
            "oid": "0" * 40 if one.is_dir() else _digest(one.read_bytes()),
            "size": 0 if one.is_dir() else one.stat().st_size,
        }
        for one in sorted(repository.rglob("*"))
    ]


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()  # noqa: S324 - as git does
