"""A server of one file, with Range and If-Range, that misbehaves as it is set to."""

import gzip
import hashlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODIFIED = "Mon, 01 Jul 2024 10:00:00 GMT"
BLOCK = 2**16


class FileServer(ThreadingHTTPServer):
    """Serves `content`: bytes, or the path of a file, which is read as it is sent."""

    daemon_threads = True

    def __init__(self, content=b"", *, port=0, bytes_per_s=None):
        super().__init__(("127.0.0.1", port), _Handler)
        self.content = content
        self.bytes_per_s = bytes_per_s  # most bytes of a body in a second
        self.cuts = []  # body bytes after which each coming answer is cut
        self.statuses = []  # error statuses of the coming answers
        self.honours_range = True
        self.honours_if_range = True
        self.validator = "ETag"  # or weak ETag, Last-Modified, None
        self.compresses = False
        self.tells_length = True
        self.wrong_range = False
        self.seen = []  # headers of every request
        self.sent = []  # body bytes of every answer so far

    @property
    def size(self):
        return self.content.stat().st_size if self.is_file else len(self.content)

    @property
    def is_file(self):
        return isinstance(self.content, Path)

    @property
    def etag(self):
        if self.is_file:
            return f'"{self.size:x}-{self.content.stat().st_mtime_ns:x}"'
        return '"' + hashlib.sha256(self.content).hexdigest()[:12] + '"'

    def url(self, name="data.zip"):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def blocks(self, start):
        """Yield the bytes from `start` on."""
        if not self.is_file:
            yield from (self.content[a : a + BLOCK] for a in range(start, self.size, BLOCK))
            return
        with self.content.open("rb") as stream:
            stream.seek(start)
            while block := stream.read(BLOCK):
                yield block

    def handle_error(self, request, client_address):
        """Pass over a client that ended its connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.seen.append(dict(self.headers))
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start, total = self.range_start(), server.size
        self.send_response(206 if start else 200)
        if server.validator in {"ETag", "weak ETag"}:
            weak = "W/" * (server.validator == "weak ETag")
            self.send_header("ETag", weak + server.etag)
        elif server.validator:
            self.send_header("Last-Modified", MODIFIED)
        if start:
            told = start + server.wrong_range
            self.send_header("Content-Range", f"bytes {told}-{total - 1}/{total}")
        blocks, length = server.blocks(start), total - start
        if server.compresses:
            self.send_header("Content-Encoding", "gzip")
            blocks = [gzip.compress(b"".join(blocks))]
            length = len(blocks[0])
        if server.tells_length:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.send_body(blocks, server.cuts.pop(0) if server.cuts else length)
        self.close_connection = True

    def send_body(self, blocks, n_bytes):
        """Send the first bytes of a body, no faster than the server may."""
        server, answer = self.server, len(self.server.sent)
        server.sent.append(0)
        began = time.monotonic()
        for block in blocks:
            part = block[: n_bytes - server.sent[answer]]
            self.wfile.write(part)
            server.sent[answer] += len(part)
            if len(part) < len(block):
                return
            if server.bytes_per_s:
                late = server.sent[answer] / server.bytes_per_s - (time.monotonic() - began)
                time.sleep(max(late, 0))

    def range_start(self):
        asked = self.headers.get("Range")
        if asked is None or not self.server.honours_range:
            return 0
        current = self.server.etag if self.server.validator == "ETag" else None
        same = self.headers.get("If-Range") in {current, MODIFIED}
        if self.server.honours_if_range and not same:
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *_):
        pass
