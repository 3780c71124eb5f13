import hashlib
import os
import threading

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data import download as downloads
from biasgate.tasks.data.download import MAX_TRIES, download_file, redact_url

CONTENT = os.urandom(200_000)
OTHER = os.urandom(200_000)


def compute_sha256(content):
    return hashlib.sha256(content).hexdigest()


def list_ranges(server):
    return [headers.get("Range") for headers in server.seen]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "data.zip"


@pytest.fixture
def server(file_server):
    file_server.content = CONTENT
    return file_server


def list_leftovers(path):
    """Return the file names in the folder, except the lock."""
    return sorted(p.name for p in path.parent.iterdir() if not p.name.startswith("."))


def test_a_file_is_fetched_verified_and_recorded(server, path):
    digest = download_file(server.url(), path, size=len(CONTENT), sha256=compute_sha256(CONTENT))
    assert digest == compute_sha256(CONTENT)
    assert path.read_bytes() == CONTENT
    assert list_leftovers(path) == ["data.zip", "data.zip.json"]


@pytest.mark.parametrize("validator", ["ETag", "Last-Modified"])
def test_a_cut_connection_is_resumed_where_it_ended(server, path, validator):
    server.validator = validator
    server.cuts = [100_000, 30_000]
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert list_ranges(server) == [None, "bytes=100000-", "bytes=130000-"]
    assert server.seen[1]["If-Range"] in {server.etag, "Mon, 01 Jul 2024 10:00:00 GMT"}


def test_a_later_run_goes_on_where_an_earlier_one_gave_up(server, path):
    server.cuts = [50_000] + [0] * MAX_TRIES
    with pytest.raises(InputError, match=r"failed 5 times in a row.*first 50000 bytes are kept"):
        download_file(server.url(), path)
    assert not path.exists()
    server.cuts, server.seen = [], []
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert list_ranges(server) == ["bytes=50000-"]


def test_a_part_that_is_whole_is_verified_without_a_request(server, path, monkeypatch):
    with monkeypatch.context() as crash:
        crash.setattr(downloads, "file_digest", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            download_file(server.url(), path)
    server.seen = []
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert server.seen == []


def test_a_part_that_nothing_is_known_about_is_not_resumed(server, path):
    path.parent.mkdir()
    path.with_name("data.zip.part").write_bytes(OTHER[:1000])
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert list_ranges(server) == [None]


def test_more_cuts_than_tries_do_not_matter_while_bytes_arrive(server, path):
    server.cuts = [20_000] * (MAX_TRIES + 3)
    assert download_file(server.url(), path) == compute_sha256(CONTENT)


@pytest.mark.parametrize(
    "habit",
    [
        {"honours_range": False},
        {"validator": None},
        {"validator": "weak ETag", "honours_if_range": False},
        {"wrong_range": True},
        {"compresses": True},
    ],
    ids=["ignores Range", "no validator", "weak ETag", "answers another range", "compresses"],
)
def test_a_server_that_cannot_resume_sends_everything_again(server, path, habit):
    server.cuts = [100_000]
    for name, value in habit.items():
        setattr(server, name, value)
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert path.read_bytes() == CONTENT


def test_a_weak_etag_does_not_identify_a_version(server, path):
    server.cuts, server.validator = [100_000], "weak ETag"
    download_file(server.url(), path)
    assert list_ranges(server) == [None, None]


@pytest.mark.parametrize("honours_if_range", [True, False])
def test_a_file_that_changed_between_the_tries_is_not_spliced(server, path, honours_if_range):
    server.cuts = [100_000] + [0] * MAX_TRIES
    with pytest.raises(InputError):
        download_file(server.url(), path)
    server.cuts, server.content = [], OTHER
    server.honours_if_range = honours_if_range
    assert download_file(server.url(), path) == compute_sha256(OTHER)
    assert path.read_bytes() == OTHER


def test_a_part_of_another_address_is_not_resumed(server, path):
    server.cuts = [100_000] + [0] * MAX_TRIES
    with pytest.raises(InputError):
        download_file(server.url("a.zip"), path)
    server.cuts, server.seen = [], []
    download_file(server.url("b.zip"), path)
    assert list_ranges(server) == [None]


def test_a_file_of_the_wrong_digest_is_not_kept(server, path):
    with pytest.raises(InputError, match=f"must have SHA-256 {compute_sha256(OTHER)}") as caught:
        download_file(server.url(), path, sha256=compute_sha256(OTHER))
    assert "deleted" in str(caught.value)
    assert f"If you mean this file, set `sha256` to {compute_sha256(CONTENT)}." in str(caught.value)
    assert list_leftovers(path) == []


@pytest.fixture
def sentences(monkeypatch):
    sentences = []
    monkeypatch.setattr(downloads, "log_message", sentences.append)
    return sentences


def test_size_host_and_disk_are_reported_before_the_first_byte(server, path, sentences):
    url = server.url("data.zip?key=s3cret")
    server.cuts = [50_000]
    download_file(url, path, expansion=5.0)
    host = f"127.0.0.1:{server.server_port}"
    start, end = "downloading data.zip (0.2 MB", f") from {host}; about 1.0 MB of disk in all"
    assert sentences == [f"{start}{end}", f"{start}, 0.1 MB already here{end}"]


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_size_that_the_server_does_not_report_is_unknown_unless_expected(
    server, path, sentences, size
):
    server.tells_length = False
    download_file(server.url(), path, size=size)
    assert ["does not report its size" in sentence for sentence in sentences] == [size is None]


def test_a_disk_that_is_too_small_is_refused_before_the_download(server, path, set_free_bytes):
    set_free_bytes(999_999)
    with pytest.raises(
        InputError, match=r"1\.0 MB free to download data\.zip and to unpack"
    ) as error:
        download_file(server.url(), path, expansion=5.0, alternative="Do that instead.")
    assert str(path.parent) in str(error.value)
    assert "(`--store` or BIASGATE_STORE). Do that instead." in str(error.value)
    assert list_leftovers(path) == []
    set_free_bytes(1_000_000)
    assert download_file(server.url(), path, expansion=5.0) == compute_sha256(CONTENT)


def test_bytes_that_are_already_here_need_no_more_space(server, path, set_free_bytes):
    set_free_bytes(1_000_000)
    server.cuts = [50_000] + [0] * MAX_TRIES
    with pytest.raises(InputError, match="50000 bytes are kept"):
        download_file(server.url(), path)
    set_free_bytes(150_000)
    assert download_file(server.url(), path) == compute_sha256(CONTENT)


def test_a_disk_that_fills_up_keeps_what_arrived(server, disk, set_free_bytes):
    folder, change = disk
    change("size=128k")
    set_free_bytes(10**9)  # what the check before the download sees
    path = folder / "cache" / "data.zip"
    with pytest.raises(InputError, match=rf"disk of {path.parent} must have space .*; it is full"):
        download_file(server.url(), path)
    n_kept = path.with_name("data.zip.part").stat().st_size
    assert 50_000 < n_kept < len(CONTENT)
    change("size=64m")
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert list_ranges(server) == [None, f"bytes={n_kept}-"]
    assert list_leftovers(path) == ["data.zip", "data.zip.json"]


def test_the_wrong_size_is_refused_before_the_body_is_fetched(server, path):
    with pytest.raises(InputError, match="must have 7 bytes; the server has 200000"):
        download_file(server.url(), path, size=7)
    assert list_leftovers(path) == []


def test_the_wrong_size_is_found_when_the_server_does_not_tell_it(server, path):
    server.tells_length = False
    with pytest.raises(InputError, match="must have bytes 7; it has 200000"):
        download_file(server.url(), path, size=7)
    assert list_leftovers(path) == []


def test_a_file_that_is_there_and_verified_is_not_fetched_again(server, path, sentences):
    download_file(server.url(), path)
    sentences.clear()
    server.seen, server.content = [], OTHER
    assert download_file(server.url(), path) == compute_sha256(CONTENT)
    assert server.seen == sentences == []


def test_a_file_put_there_by_hand_is_used_if_its_digest_is_the_expected_one(server, path):
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    download_file(server.url(), path, sha256=compute_sha256(CONTENT))
    assert server.seen == []


@pytest.mark.parametrize("expected", [None, compute_sha256(CONTENT)], ids=["unknown", "known"])
def test_a_file_altered_on_disk_is_fetched_again(server, path, expected):
    download_file(server.url(), path, sha256=expected)
    path.write_bytes(OTHER)
    download_file(server.url(), path, sha256=expected)
    assert path.read_bytes() == CONTENT


def test_a_new_expected_digest_fetches_the_new_file(server, path):
    download_file(server.url(), path, sha256=compute_sha256(CONTENT))
    server.content = OTHER
    assert download_file(server.url(), path, sha256=compute_sha256(OTHER)) == compute_sha256(OTHER)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_by_the_server_is_final_and_says_what_to_do(server, path, status):
    server.statuses = [status]
    with pytest.raises(InputError, match=rf"answered {status} .* Do that instead\.$"):
        download_file(server.url(), path, alternative="Do that instead.")
    assert len(server.seen) == 1


def test_a_busy_server_is_asked_again(server, path):
    server.statuses = [503, 429]
    assert download_file(server.url(), path) == compute_sha256(CONTENT)


def test_a_refused_connection_says_what_to_do(server, path):
    url = server.url()
    server.server_close()
    with pytest.raises(InputError, match=r"failed 5 times in a row: .* Do that instead\.$"):
        download_file(url, path, alternative="Do that instead.")
    assert list_leftovers(path) == []


def test_no_text_or_file_holds_the_secrets_of_an_address(server, path):
    server.cuts = [10] + [0] * MAX_TRIES
    url = server.url("data.zip?key=s3cret").replace("//", "//user:hunter2@")
    assert redact_url(url) == server.url()
    with pytest.raises(InputError) as caught:
        download_file(url, path)
    texts = [str(caught.value), *(p.read_bytes().decode("latin-1") for p in path.parent.iterdir())]
    assert not any("s3cret" in text or "hunter2" in text for text in texts)


def test_two_threads_that_want_the_same_file_fetch_it_once(server, path):
    digests = []
    threads = [
        threading.Thread(target=lambda: digests.append(download_file(server.url(), path)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests == [compute_sha256(CONTENT)] * 3
    assert len(server.seen) == 1
