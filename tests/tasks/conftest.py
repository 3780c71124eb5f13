import gzip
import hashlib
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from support import civil_comments
from support.civil_comments import SUBTYPES

from biasgate.tasks.data import download
from biasgate.tasks.data.civil_comments import IDENTITIES


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
        self.validator = "ETag"  # or weak ETag, Last-Modified, None
        self.compresses = False
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
        if server.validator in {"ETag", "weak ETag"}:
            weak = "W/" * (server.validator == "weak ETag")
            self.send_header("ETag", weak + server.etag)
        elif server.validator:
            self.send_header("Last-Modified", "Mon, 01 Jul 2024 10:00:00 GMT")
        if start:
            told = start + server.wrong_range
            total = len(server.content)
            self.send_header("Content-Range", f"bytes {told}-{total - 1}/{total}")
        body = server.content[start:]
        if server.compresses:
            self.send_header("Content-Encoding", "gzip")
            body = gzip.compress(body)
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


N_ROWS = {"train": 40, "test_public": 12, "test_private": 9}


def comment(number, split):
    """One invented row; every third was not shown to identity raters."""
    rated = number % 3 != 0
    text = f'Comment {number} said "good,\nday" — ça va? ' + "More of the same. " * (number % 8)
    row = {"id": number, "comment_text": text, "split": split, "article_id": number // 4}
    for place, name in enumerate(IDENTITIES):
        row[name] = (number + place) % 7 / 7 if rated else ""
    for place, name in enumerate([*SUBTYPES, "sexual_explicit"]):
        row[name] = (number + place) % 5 / 5
    return row | {"toxicity": (number % 11) / 11, "rating": "approved", "parent_id": "12.0"}


def comments(split):
    """All rows of a split of the Kaggle release."""
    start = {"train": 1000, "test_public": 7000, "test_private": 8000}[split]
    return [comment(number, split) for number in range(start, start + N_ROWS[split])]


def wilds_comments():
    """Rows with the splits of WILDS; the last six were rated, and mention nobody."""
    rows = [comment(n, ("train", "val", "test")[n // 3 % 3]) for n in range(100, 160) if n % 3]
    return rows + [comment(n, "test") | dict.fromkeys(IDENTITIES, 0.0) for n in range(300, 306)]


@pytest.fixture(scope="session")
def release():
    """Invented rows in every published layout of Civil Comments."""
    return SimpleNamespace(
        comments=comments,
        write=civil_comments.write,
        kaggle_files=partial(civil_comments.kaggle_files, rows_of=comments),
        single_file=partial(civil_comments.single_file, rows_of=comments),
        public_archive=partial(civil_comments.public_archive, rows_of=comments),
        wilds=partial(civil_comments.wilds, rows=wilds_comments()),
    )
