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
