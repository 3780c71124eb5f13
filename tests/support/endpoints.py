"""Endpoints that attack whoever calls them, and what one call costs.

    python tests/support/endpoints.py

prints a table of docs/evidence/operation.md: how each attack ended, how long it took, and how much
memory it needed beyond a call that is answered properly. Each call is one request of a candidate of
kind `http` with `timeout_s: 3` and `tries: 1`, in a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import math
import multiprocessing
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from multiprocessing.connection import Connection
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.comments import batch

from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.store import Workplace

TIMEOUT_S, LONGEST_S = 3, 60
Parts = Callable[[], Iterator[bytes]]
_MIB = 2**20
_OK = b"HTTP/1.1 200 OK\r\n"
_ANSWER = b'{"predictions": [0.5]}'


def answered(body: bytes, encoding: str = "identity") -> bytes:
    head = f"Content-Length: {len(body)}\r\nContent-Encoding: {encoding}\r\n\r\n"
    return _OK + head.encode() + body


@cache
def zipped(times: int, mebibytes: int) -> bytes:
    """Return an answer of so many MiB that was compressed once or twice, without its checksum."""
    packer = zlib.compressobj(wbits=31)
    content = packer.compress(b'{"predictions": [0') + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the same MiB is always packed to the same bytes.
    part = packer.compress(b",0" * (_MIB // 2)) + packer.flush(zlib.Z_FULL_FLUSH)
    content += part * mebibytes
    return content if times == 1 else gzip.compress(content, mtime=0)


def _dripped(first: bytes, drip: bytes, wait: float = 0.5) -> Iterator[bytes]:
    yield first
    for _ in range(int(4 * LONGEST_S / wait)):
        time.sleep(wait)
        yield drip


def _endless(first: bytes, again: bytes) -> Iterator[bytes]:
    yield first
    yield from repeat(again)


def _after(wait: float, content: bytes) -> Iterator[bytes]:
    time.sleep(wait)
    yield content


_KEYS = b",".join(b'{"k%d": 1}' % n for n in range(400_000))
ATTACKS: dict[str, Parts] = {
    "a proper answer": lambda: iter([answered(_ANSWER)]),
    "no answer": lambda: _after(4 * LONGEST_S, b""),
    "a dripped status line": lambda: _dripped(b"HTTP/1.1 200 ", b"O"),
    "a dripped header": lambda: _dripped(_OK + b"A: ", b"b"),
    "a new header every half second": lambda: _dripped(_OK, b"A: b\r\n"),
    "a header without end": lambda: _endless(_OK + b"A: ", b"b" * 65536),
    "endless 102 answers": lambda: _endless(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "a 102 answer every half second": lambda: _dripped(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "a dripped body": lambda: _dripped(_OK + b"Content-Length: 9999\r\n\r\n", b" "),
    "dripped trailers": lambda: _dripped(
        _OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n", b"A: b\r\n"
    ),
    "a body without end": lambda: _endless(_OK + b"\r\n", b" " * 65536),
    "500 MB in gzip": lambda: iter([answered(zipped(1, 500), "gzip")]),
    "4 GB in gzip, twice": lambda: iter([answered(zipped(2, 4096), "gzip, gzip")]),
    "a million brackets": lambda: iter([answered(b"[" * 1_000_000)]),
    "60 MiB of empty lists": lambda: iter([answered(b"[" + b"[]," * (20 * _MIB) + b"0]")]),
    "400,000 rows, each with another column": lambda: iter(
        [answered(b'{"predictions": [' + _KEYS + b"]}")]
    ),
    "a number of a million digits": lambda: iter(
        [answered(b'{"predictions": [%s]}' % (b"1" * 10**6))]
    ),
    "something else than HTTP": lambda: _endless(b"", b"\x00\xff" * 1000),
}


@contextmanager
def attacking(parts: Parts) -> Iterator[str]:
    """Yield the address of a server that sends these bytes once a request has arrived."""
    parts()  # what takes long to make is made once, and before
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=send, args=[connection], daemon=True).start()

        def send(connection: socket.socket) -> None:
            with connection:
                asked = b""
                try:
                    while b"a text" not in asked:
                        received = connection.recv(65536)
                        if not received:  # the client has gone
                            return
                        asked += received
                    for part in parts():
                        if ended.is_set():
                            return
                        connection.sendall(part)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/invocations"
        finally:
            ended.set()


def call(proper: str, url: str, sender: Connection) -> None:
    """Score a text at a proper address, then at `url`; send how that ended, and what it took."""
    score(proper)
    before, begun = _peak(), time.monotonic()
    sender.send(before)
    try:
        score(url)
        ended = "scored"
    except Exception as error:  # noqa: BLE001 - whatever ends the call is shown
        said = str(error).partition("'served' ")[2] or str(error)
        ended = f"{type(error).__name__}: {said}"
    sender.send((ended, time.monotonic() - begun, _peak() - before))


def score(url: str) -> None:
    """Score one text."""
    one = {"name": "served", "kind": "http", "url": url, "version": "1", "output": "p"}
    settings = CANDIDATES.validate_python(one | {"timeout_s": TIMEOUT_S, "tries": 1})
    with settings.open(Workplace(Path())) as scorer:
        scorer.score(batch(["a text"]))


def measure(parts: Parts) -> tuple[str, float, float]:
    """Return how a call ended, its seconds, and the memory in MiB beyond a proper call."""
    forking = multiprocessing.get_context("spawn")
    receiver, sender = forking.Pipe(duplex=False)
    with attacking(ATTACKS["a proper answer"]) as proper, attacking(parts) as url:
        process = forking.Process(target=call, args=[proper, url, sender])
        process.start()
        sender.close()
        try:
            before = receiver.recv()
            if receiver.poll(LONGEST_S):
                return tuple(receiver.recv())
            return f"not ended after {LONGEST_S} s", math.nan, _peak(process.pid) - before
        except EOFError:
            return "the process was killed", math.nan, math.nan
        finally:
            process.kill()
            process.join()


def _peak(pid: int | None = None) -> float:
    lines = Path(f"/proc/{pid or 'self'}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", choices=ATTACKS, nargs="*", default=list(ATTACKS))
    asked = parser.parse_args().only
    say = sys.stdout.write
    say("| the endpoint sends | seconds | MiB | how the call ended |\n|---|--:|--:|---|\n")
    for name in asked:
        ended, seconds, peak = measure(ATTACKS[name])
        say(f"| {name} | {seconds:.1f} | {peak:.0f} | {ended} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
