"""Models that roads score with: a function, and the same function behind an endpoint."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTILE = ("awful", "stupid", "rotten", "vile", "foul", "nasty")


def score(text, salt):
    """Return .6 for a hostile word and up to .4 of noise, the same for the same text."""
    noise = int.from_bytes(hashlib.blake2b((salt + text).encode(), digest_size=6).digest())
    return 0.6 * any(word in text for word in HOSTILE) + 0.4 * noise / 2.0**48


def count_hostile(texts):
    """Score texts, as a candidate of kind `python`."""
    return [score(text, "python") for text in texts]


@contextmanager
def serving():
    """Yield the address of an endpoint that answers like MLflow's, for arrays and tables."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            table = asked.get("dataframe_split")
            texts = asked["inputs"] if table is None else [row[0] for row in table["data"]]
            answer = json.dumps({"predictions": [score(text, "http") for text in texts]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with listening(Handler) as address:
        yield f"{address}/invocations"


@contextmanager
def listening(handler):
    """Serve with a handler in a thread; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
