"""Candidates behind an endpoint, against a real server that misbehaves."""

import asyncio
import contextlib
import gzip
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.comments import ODD, batch
from support.endpoints import ATTACKS, answered, attacking, zipped

from biasgate.tasks.common.errors import CandidateError, CandidateStoppedError, InputError
from biasgate.tasks.common.secrets import mask_errors
from biasgate.tasks.scoring.kinds import http_requests as requests
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

SECRET = "an unrepeatable comment"  # noqa: S105


class ModelServer(ThreadingHTTPServer):
    """A server that answers as `mlflow models serve` does, and misbehaves on request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = []  # of the coming answers; 200 when there are no more
        self.always = None  # a status of every answer
        self.retry_after = None
        self.answer = lambda texts: {"predictions": [len(text) / 1e6 for text in texts]}
        self.refuses = lambda _: None  # a status and a body for some texts
        self.drips = False
        self.released = threading.Event()
        self.seen = []
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/invocations"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.respond(self.server)

    def respond(self, server):
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.seen.append((dict(self.headers), content))
            status = server.always or (server.statuses.pop(0) if server.statuses else 200)
        if "inputs" in content:
            texts = content["inputs"]
        else:
            texts = [row[0] for row in content["dataframe_split"]["data"]]
        body = server.answer(texts) if status == 200 else {"error": " ".join(texts)}
        status, body = server.refuses(texts) or (status, body)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if status != 200 and server.retry_after:
            self.send_header("Retry-After", server.retry_after)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.drips:
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                if server.released.wait(0.05):
                    return
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.001)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def make_candidate(server, **options):
    settings = {"name": "served", "kind": "http", "url": server.url, "version": "1"}
    return CANDIDATES.validate_python(settings | {"timeout_s": 10} | options)


def score(server, texts, **options):
    with make_candidate(server, **options).open(None) as scorer:
        # As in a Prefect task, which must pass on the errors of parallel requests.
        return mask_errors(scorer.score)(batch(texts)).scores.tolist()


def expect_refusal(server, answer=None):
    """Return the error for a server that gives no comment a score."""
    if answer is not None:
        server.answer = answer
    with pytest.raises((InputError, CandidateStoppedError)) as error:
        score(server, [SECRET] * 30, batch_size=1, concurrency=1, tries=2)
    assert len(server.seen) in {20, 40}
    assert "20 comments in a row" in str(error.value)
    assert SECRET not in str(error.getrepr(chain=True, showlocals=False))
    return str(error.value)


@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 1}, {"batch_size": 3, "concurrency": 2}, {"column": "text"}],
)
def test_every_text_gets_its_score_whatever_the_batches(server, options):
    texts = ODD * 3
    assert score(server, texts, **options) == [len(text) / 1e6 for text in texts]
    assert len(server.seen) == -(-len(texts) // options.get("batch_size", 64))


def test_a_table_is_sent_where_the_model_takes_one(server):
    score(server, ["a", "b"], column="comment")
    [(_, content)] = server.seen
    assert content == {"dataframe_split": {"columns": ["comment"], "data": [["a"], ["b"]]}}


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ([[0.9, 0.1], [0.4, 0.6]], {}),
        ([{"score": 0.1, "x": 3}, {"score": 0.6, "x": 3}], {"output": "score"}),
        ([{"label": "fine", "score": 0.9}, {"label": "toxic", "score": 0.6}], {"label": "toxic"}),
    ],
)
def test_every_form_of_answer_is_understood(server, answer, options):
    server.answer = lambda _: {"predictions": answer}
    assert score(server, ["a", "b"], **options) == pytest.approx([0.1, 0.6], abs=1e-15)


def test_no_more_requests_at_once_than_allowed(server):
    quick, at_once, seen = server.answer, [], []

    def answer(texts):  # ends before its answer is sent: the next request is never beside it
        at_once.append(1)
        seen.append(len(at_once))
        time.sleep(0.02)
        at_once.pop()
        return quick(texts)

    server.answer = answer
    score(server, ["a"] * 20, batch_size=1, concurrency=3)
    assert 1 < max(seen) <= 3


@pytest.fixture
def waits(monkeypatch):
    """The waits between tries, which take no time."""
    seen = []

    async def wait(seconds):
        seen.append(seconds)

    monkeypatch.setattr(requests, "sleep", wait)
    return seen


def test_the_wait_that_a_server_asks_for_is_kept(server, waits):
    server.statuses, server.retry_after = [429, 503], "7"
    score(server, ["abc"])
    assert waits == [0, 7, 7]


def test_waits_grow(server, waits, monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.5)
    server.statuses = [503] * 5
    score(server, ["abc"])
    assert len(waits) == 6
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[1:]))


@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 405])
def test_another_refusal_is_told_at_once_without_the_text(server, status):
    server.always = status
    with pytest.raises(InputError, match=f"must answer 200; got status {status}") as e:
        score(server, [SECRET])
    assert len(server.seen) == 1
    assert SECRET not in str(e.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>an unrepeatable comment", r"must answer with JSON; it did not \(29 bytes\)"),
        (b"", r"must answer with JSON; it did not \(0 bytes\)"),
        (b"\xff\xfe\x00", "must answer with JSON"),
        (b"[" * 100_000, r"must answer with JSON; it did not \(100000 bytes\)"),
        ([0.5], "must answer with `predictions`"),
        ({"scores": [0.5]}, "must answer with `predictions`"),
        ({"predictions": [0.5, 0.6]}, "must return as many scores as texts; got 2 for 1"),
        ({"predictions": []}, "got 0 for 1"),
        ({"predictions": ["toxic"]}, "must return a score"),
        ({"predictions": [None]}, "must return a score"),
        ({"predictions": 0.5}, "must return a score"),
        ({"predictions": {"a": 1}}, "must return a score"),
        ({"predictions": [{"a": 1, "b": 2, "c": 3}]}, "must return a score"),
    ],
)
def test_garbage_is_refused_without_the_text(server, answer, message):
    assert re.search(message, expect_refusal(server, lambda _: answer))


def test_a_wrong_column_of_the_answer_is_told(server):
    server.answer = lambda texts: {"predictions": [{"p": 0.5}] * len(texts)}
    with pytest.raises(
        InputError, match=r"must name a column of its answer; got 's' \(known: 'p'\)"
    ):
        score(server, ["a"] * 20, output="s")


@pytest.mark.parametrize("options", [{"output": "s"}, {"label": "toxic"}])
def test_a_table_whose_columns_are_comments_is_refused_without_them(server, options):
    secrets = [SECRET, "本当に最低だ君は", *(f"word{n}" for n in range(20))]
    server.answer = lambda _: {"predictions": [dict.fromkeys(secrets, 0.5)]}
    with pytest.raises(InputError, match="must name a column of its answer; got '") as e:
        score(server, [SECRET] * 20, **options)
    assert not [one for one in secrets[:2] if one in str(e.value)]
    assert "word15" not in str(e.value)


@pytest.mark.parametrize("value", [SECRET, [SECRET], {SECRET: 1}])
def test_a_value_of_a_table_that_is_a_comment_is_refused_without_it(server, value):
    server.answer = lambda _: {"predictions": [{"label": SECRET, "score": value}]}
    with pytest.raises(InputError, match=r"'score' of the answer of endpoint .* numbers") as e:
        score(server, [SECRET] * 20, label="toxic")
    assert SECRET not in str(e.value)


def test_a_label_that_is_none_of_two_is_told(server):
    answers = [{"label": one, "score": 0.9} for one in ("fine", "toxic", "fine")]
    server.answer = lambda _: {"predictions": answers}
    with pytest.raises(InputError, match="it returns two others, not 'hate'"):
        score(server, ["a", "b", "c"], label="hate")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "null"])
def test_a_number_that_is_none_is_no_score(server, number):
    server.answer = lambda texts: (
        f'{{"predictions": [{", ".join([number] * len(texts))}]}}'.encode()
    )
    assert np.isnan(score(server, ["a"])).all()


SENTENCES = {
    "a plain text": (b"Text is too short.", "Text is too short"),
    "a message": ({"error": {"message": "Input is too long", "code": 3}}, "Input is too long"),
    "FastAPI": (
        {"detail": [{"loc": ["text"], "msg": "Not English", "input": SECRET}]},
        "Not English",
    ),
    "a repeated comment": ({"error": f"cannot score: {SECRET}"}, "cannot score: an …"),
    "a part of it": ({"message": "Bad word unrepeatable."}, "Bad word …"),
    "a part of a word": ({"message": "Bad token 'peatab' at 3"}, "Bad token '…' at 3"),
    "an encoded comment": ({"message": "got an%20unrepeatable"}, ""),
    "another script": ({"message": "текст не принят"}, "…"),
    "a page": (b"<html><p>Bad Request</p></html>", ""),
    "a control character": ({"error": "no\x1b[2Kscore"}, r"no\x1b[2Kscore"),
    "a novel": ({"error": "a very long story " * 99}, "a very long story "),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("status", [200, 400, 413, 422, 451, 500])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_one_refused_comment_has_no_score_and_the_sentence_of_the_service(
    server, status, name, batch_size
):
    body, sentence = SENTENCES[name]
    quick = server.answer
    server.refuses = lambda texts: (status, body) if SECRET in texts else None
    texts = ["abc", SECRET, "abcd", "abcde"]
    with make_candidate(server, batch_size=batch_size, tries=2).open(None) as scorer:
        found = scorer.score(batch(texts))
    wanted = quick(texts)["predictions"]
    assert found.scores[[0, 2, 3]].tolist() == [wanted[0], wanted[2], wanted[3]]
    assert np.isnan(found.scores[1])
    [reason] = filter(None, found.reasons)
    assert reason.startswith(f"status {status} ({sentence}" if sentence else f"status {status}")
    assert len(reason) < 200
    assert not {"unrepeatable", "peatab", "текст"} & set(reason.split())


def test_comments_in_a_row_without_a_score_end_the_candidate_with_the_sentence(server):
    server.refuses = lambda _: (400, {"error": {"message": "Input is too long"}})
    said = expect_refusal(server)
    assert "must answer 200; got status 400 (Input is too long). See the server's log" in said
    assert said.endswith("20 comments in a row. (id c19)")


def test_a_service_that_refuses_many_comments_but_not_in_a_row_is_asked_on(server):
    server.refuses = lambda texts: (400, {"error": "No"}) if "bad" in texts else None
    found = np.isnan(score(server, (["bad"] * 19 + ["good"]) * 3, batch_size=1, concurrency=1))
    assert found.tolist() == ([True] * 19 + [False]) * 3


def test_an_endpoint_that_does_not_finish_is_given_up(server):
    server.drips = True
    with pytest.raises(CandidateError, match=r"failed 2 times, .* complete answer in 0.3 s \(`tim"):
        score(server, ["a" * 50], timeout_s=0.3, tries=2)
    assert len(server.seen) == 2


HOSTILE = [
    "a dripped status line",
    "a dripped header",
    "endless 102 answers",
    "a 102 answer every half second",
    "dripped trailers",
]


@pytest.mark.parametrize("attack", HOSTILE)
def test_one_deadline_holds_for_the_whole_exchange(attack):
    with attacking(ATTACKS[attack]) as url, pytest.raises(CandidateError, match=r"in 0.3 s"):
        score(SimpleNamespace(url=url), ["a text"], timeout_s=0.3, tries=1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answered(zipped(1, 20), "gzip"), r"must answer at most \d+ bytes; it sent more"),
        (answered(zipped(2, 20), "gzip, gzip"), "must answer uncompressed, or in gzip; it did not"),
        (answered(b"{}", "gzip"), "must answer uncompressed, or in gzip; it did not"),
        (answered(b" " * 3_000_000), r"must answer at most \d+ bytes; it sent more"),
    ],
)
def test_what_an_answer_may_hold_is_limited(answer, message):
    with attacking(lambda: iter([answer])) as url, pytest.raises(InputError, match=message):
        score(SimpleNamespace(url=url), ["a text"])


def test_an_answer_in_gzip_is_understood():
    answer = answered(gzip.compress(b'{"predictions": [0.5]}'), "gzip")
    with attacking(lambda: iter([answer])) as url:
        assert score(SimpleNamespace(url=url), ["a text"]) == [0.5]


def test_an_endpoint_is_called_where_an_event_loop_runs(server):
    async def score_inside():
        return score(server, ["abc"])

    assert asyncio.run(score_inside()) == [3e-6]


def test_after_many_answers_that_came_too_late_the_next_one_is_read(server):
    slow = server.answer
    server.answer = lambda texts: (time.sleep(0.5 * ("slow" in texts)), slow(texts))[1]
    with make_candidate(server, timeout_s=0.2, tries=2, batch_size=1).open(None) as scorer:
        with pytest.raises(CandidateError):
            scorer.score(batch(["slow"] * 9))
        assert scorer.score(batch(["abc"] * 9)).scores.tolist() == [3e-6] * 9


def test_an_endless_answer_is_refused(server, monkeypatch):
    monkeypatch.setattr(requests, "_MAX_BYTES", 10_000)
    server.answer = lambda _: b"0" * 20_000
    with pytest.raises(InputError, match="must answer at most 10000 bytes"):
        score(server, ["a"])


def test_an_attack_ends_where_the_client_leaves_without_a_question():
    with attacking(ATTACKS["a proper answer"]) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=60) as client:
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


def test_nobody_there_is_told(server):
    server.shutdown()
    server.server_close()
    with pytest.raises(CandidateError, match="failed 2 times, the last time with ConnectError"):
        score(server, ["a"], tries=2)


def test_a_token_is_sent_and_never_shown(server, monkeypatch):
    monkeypatch.setenv("MODEL_TOKEN", "hidden")
    one = make_candidate(server, token_env="MODEL_TOKEN")  # noqa: S106 - a variable's name
    with one.open(None) as scorer:
        scorer.score(batch(["a"]))
    assert server.seen[0][0]["Authorization"] == "Bearer hidden"
    assert "hidden" not in str(one.model_dump())
    monkeypatch.delenv("MODEL_TOKEN")
    with pytest.raises(InputError, match="MODEL_TOKEN must hold the token of candidate 'served'"):
        one.check()


@pytest.mark.parametrize(
    "url", ["http://ada:word@host/invocations", "http://host/i?key=1", "ftp://host/", "host/i"]
)
def test_a_url_that_would_show_a_secret_or_is_none_is_refused(server, url):
    with pytest.raises(ValueError, match="must"):
        make_candidate(server, url=url)


def test_scores_are_reused_by_version(server):
    def open_digest(**options):
        return make_candidate(server, **options).open(None).digest

    assert open_digest() == open_digest(batch_size=1, concurrency=1, tries=1, timeout_s=1)
    assert open_digest() != open_digest(version="2")
    assert open_digest() != open_digest(output="other")
