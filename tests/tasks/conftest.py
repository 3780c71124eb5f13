import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tasks.data import download


class FileServer(ThreadingHTTPServer):
    """Serves `content`, with Range and If-Range, and misbehaves as told."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = b""
        self.cuts = []  # body bytes after which each coming answer is cut
        self.statuses = []  # error statuses of the coming answers
        self.honours_range = True
        self.honours_if_range = True
        self.validator = "ETag"  # or Last-Modified, or None
        self.tells_length = True
        self.wrong_range = False
        self.seen = []  # headers of every request

    @property
    def etag(self):
        return '"' + hashlib.sha256(self.content).hexdigest()[:12] + '"'

    def url(self, name="data.zip"):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.seen.append(dict(self.headers))
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start = self.range_start()
        self.send_response(206 if start else 200)
        if server.validator == "ETag":
            self.send_header("ETag", server.etag)
        elif server.validator:
            self.send_header("Last-Modified", "Mon, 01 Jul 2024 10:00:00 GMT")
        if start:
            told = start + server.wrong_range
            total = len(server.content)
            self.send_header("Content-Range", f"bytes {told}-{total - 1}/{total}")
        body = server.content[start:]
        if server.tells_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cuts:
            body = body[: server.cuts.pop(0)]
        self.wfile.write(body)
        self.close_connection = True

    def range_start(self):
        asked = self.headers.get("Range")
        if asked is None or not self.server.honours_range:
            return 0
        current = self.server.etag if self.server.validator == "ETag" else None
        same = self.headers.get("If-Range") in {current, "Mon, 01 Jul 2024 10:00:00 GMT"}
        if self.server.honours_if_range and not same:
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *_):
        pass


@pytest.fixture
def file_server(monkeypatch):
    monkeypatch.setattr(download, "WAIT_S", 0.0)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
