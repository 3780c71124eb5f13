import threading
from functools import partial
from types import SimpleNamespace

import pytest
from support import civil_comments
from support.civil_comments import SUBTYPES
from support.file_server import FileServer

from biasgate.tasks.data import download
from biasgate.tasks.data.civil_comments import IDENTITIES


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


def make_comment(number, split):
    """Return a generated row; every third row was not shown to identity raters."""
    rated = number % 3 != 0
    text = f'Comment {number} said "good,\nday" — ça va? ' + "More of the same. " * (number % 8)
    row = {"id": number, "comment_text": text, "split": split, "article_id": number // 4}
    for position, name in enumerate(IDENTITIES):
        row[name] = (number + position) % 7 / 7 if rated else ""
    for position, name in enumerate([*SUBTYPES, "sexual_explicit"]):
        row[name] = (number + position) % 5 / 5
    return row | {"toxicity": (number % 11) / 11, "rating": "approved", "parent_id": "12.0"}


def comments(split):
    """Return all rows of a split of the Kaggle release."""
    start = {"train": 1000, "test_public": 7000, "test_private": 8000}[split]
    return [make_comment(number, split) for number in range(start, start + N_ROWS[split])]


def list_wilds_comments():
    """Return rows with the splits of WILDS; the last six were rated without an identity."""
    rows = [make_comment(n, ("train", "val", "test")[n // 3 % 3]) for n in range(100, 160) if n % 3]
    return rows + [
        make_comment(n, "test") | dict.fromkeys(IDENTITIES, 0.0) for n in range(300, 306)
    ]


@pytest.fixture(scope="session")
def release():
    """Invented rows in every published layout of Civil Comments."""
    return SimpleNamespace(
        comments=comments,
        write=civil_comments.write,
        kaggle_files=partial(civil_comments.kaggle_files, rows_of=comments),
        single_file=partial(civil_comments.single_file, rows_of=comments),
        public_archive=partial(civil_comments.public_archive, rows_of=comments),
        wilds=partial(civil_comments.wilds, rows=list_wilds_comments()),
    )
