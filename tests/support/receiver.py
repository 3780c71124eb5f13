"""A local receiver of webhooks that can misbehave like real ones."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATIENCE_S = 300  # machines of tests are slow


@contextmanager
def receiving(status=200, hang=None):
    """Yield an address with a token in it, and the list of what arrives there."""
    arrived = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            arrived.append(json.loads(content))
            if hang is not None:
                hang.wait(60)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hooks/{TOKEN}", arrived
    finally:
        if hang is not None:
            hang.set()
        server.shutdown()
        thread.join()
        server.server_close()


TOKEN = "T0pSecretT0ken"  # noqa: S105 - of a receiver that the tests start
