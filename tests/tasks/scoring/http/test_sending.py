"""What is sent to paid or limited services is estimated, and agreed to before it is sent."""

import asyncio
import io
import time

import pyarrow as pa
import pytest
from support.services import KEY, serving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.scoring import sending
from biasgate.tasks.scoring.http import pace
from biasgate.tasks.scoring.kinds import http_endpoint
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import Load
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.sending import Sending, agree_to_send, estimate_sending
from biasgate.tasks.store import Workplace

PERSPECTIVE = {"preset": "perspective", "sends_text_to": "commentanalyzer.googleapis.com"}
GOOGLE = {"preset": "google-moderate-text", "sends_text_to": "language.googleapis.com"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("PERSPECTIVE_API_KEY", "GOOGLE_API_KEY", "SERVICE_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("BIASGATE_SCORES", raising=False)


@pytest.fixture
def rows(tmp_path):
    texts = [f"{number:03}" + "x" * 147 for number in range(20)]
    table = pa.table({"id": list("abcdefghijklmnopqrst"), "text": texts, "label": [1.0, 0.0] * 10})
    return freeze_rows([table], tmp_path / "rows", name="rows", split="all", source={})


def make_candidate(**options):
    return CANDIDATES.validate_python({"name": "a", "kind": "http", "version": "1"} | options)


def estimate(candidate, rows, tmp_path):
    return estimate_sending.fn([candidate], [str(rows.folder)], Workplace(tmp_path))


def test_requests_tokens_time_and_price_are_estimated(rows, tmp_path):
    [found] = estimate(make_candidate(**GOOGLE), rows, tmp_path)
    # 150 characters are two units of 100; 151 / 3 tokens at most; 10 requests in a second.
    assert found.load == Load("language.googleapis.com", 20, 20 * 51, 2.0, pytest.approx(0.02))
    assert "20 comments to language.googleapis.com in 20 requests" in found.describe()
    assert "at least 2 s; it costs about 0.02 US dollars." in found.describe()


def test_a_price_of_ones_own_replaces_the_published_one(rows, tmp_path):
    own = {"usd": 1, "unit": "tokens", "size": 50}
    [found] = estimate(make_candidate(**GOOGLE, price=own), rows, tmp_path)
    assert found.load.usd == 40


def test_a_free_service_with_limits_is_estimated_too(rows, tmp_path):
    [found] = estimate(make_candidate(**PERSPECTIVE), rows, tmp_path)
    assert found.describe().endswith("within its limits this takes at least 20 s; free.")


@pytest.mark.parametrize(
    "one",
    [
        {"url": "http://127.0.0.1:5000/invocations"},
        {"preset": "perspective", "url": "http://127.0.0.1:1/"},
        {"url": "http://models.example/invocations", "sends_text_to": "models.example"},
    ],
)
def test_nothing_is_asked_on_this_machine_or_without_price_and_limits(one, rows, tmp_path):
    assert estimate(make_candidate(**one), rows, tmp_path) == []


@pytest.mark.parametrize(("own", "seconds"), [({}, 0), ({"requests_per_second": 2}, 10)])
def test_published_limits_do_not_hold_for_a_server_on_this_machine(own, seconds, tmp_path):
    judge = {"preset": "openai-chat", "options": {"model": "m"}, "prompt": "{{text}}"}
    one = make_candidate(**judge, url="http://127.0.0.1:8000/v1/chat", **own)
    with one.open(Workplace(tmp_path)) as scorer:
        assert scorer.estimate_load(["text"] * 20).seconds == seconds


@pytest.mark.parametrize(
    ("own", "seconds", "ends"),
    [
        ({}, 0, "requests (about 1,020 tokens); its price is unknown (`price`)."),
        ({"requests_per_second": 2, "price": {"usd": 0.5}}, 10, "it costs about 10.00 US dollars."),
    ],
)
def test_what_a_service_publishes_does_not_hold_for_another_that_speaks_its_protocol(
    own, seconds, ends, rows, tmp_path
):
    elsewhere = {"url": "https://successor.example/analyze", "sends_text_to": "successor.example"}
    one = make_candidate(**PERSPECTIVE | elsewhere | own)
    [found] = estimate(one, rows, tmp_path)
    assert found.load.seconds == seconds
    assert found.describe().endswith(ends)


def test_only_comments_without_a_kept_score_count(rows, tmp_path, monkeypatch):
    with serving("perspective") as service:
        one = CANDIDATES.validate_python(service.candidate(rows_a_shard=5))
        monkeypatch.setattr(http_endpoint, "is_loopback", lambda _: False)
        [before] = estimate(one, rows, tmp_path)
        with one.open(None) as scorer:
            kept = score_rows(scorer, rows, one, Workplace(tmp_path).scores).table()
        assert before.n_texts == 20
        assert estimate(one, rows, tmp_path) == []
        (next(iter((tmp_path / "scores").rglob("000001.parquet")))).unlink()
        (next(iter((tmp_path / "scores").rglob("record.json")))).unlink()
        [after] = estimate(one, rows, tmp_path)
    assert after.n_texts == 5
    assert kept.num_rows == 20


SENDING = [Sending("a", 2000, Load("host.example", 2000, 9, 7200, None))]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def simulate_terminal(monkeypatch, answer):
    monkeypatch.setattr(sending.sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sending.sys, "stderr", Terminal())


def test_where_nobody_can_be_asked_it_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(sending.sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(InputError, match=r"2,000 comments to host.example .* 2.0 hours.*--yes"):
        agree_to_send(SENDING, yes=False)


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yeah\n"])
def test_at_a_terminal_only_yes_is_yes(monkeypatch, answer):
    simulate_terminal(monkeypatch, answer)
    with pytest.raises(InputError, match="no comments were sent"):
        agree_to_send(SENDING, yes=False)


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_yes_at_a_terminal_is_enough(monkeypatch, answer):
    simulate_terminal(monkeypatch, answer)
    agree_to_send(SENDING, yes=False)


def test_yes_in_advance_asks_nobody(monkeypatch):
    monkeypatch.setattr(sending.sys, "stdin", None)
    agree_to_send(SENDING, yes=True)
    agree_to_send([], yes=False)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves while a request waits."""
    now = [1000.0]

    async def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(pace, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def record_starts(limits, sizes, clock):
    async def run():
        times = []
        for size in sizes:
            await limits.wait_turn(size)
            times.append(round(clock[0] - 1000, 6))
        return times

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((2.0, None), [0, 0.5, 1.0, 1.5]),
        ((None, 100.0), [0, 1.0, 1.5, 4.5]),
        ((1.0, 100.0), [0, 1.0, 2.0, 5.0]),
        ((None, None), [0, 0, 0, 0]),
    ],
)
def test_requests_are_spaced_by_the_tighter_limit(limits, expected, clock):
    assert record_starts(pace.Pace(*limits), [100, 50, 300, 1], clock) == expected


def test_after_too_many_requests_all_wait(clock):
    one = pace.Pace(1.0)
    one.pause(30)
    assert record_starts(one, [1, 1], clock) == [30, 31]


def test_candidates_of_one_service_share_its_pace():
    assert pace.get_pace("http://a/", 1.0, None) is pace.get_pace("http://a/", 1.0, None)
    assert pace.get_pace("http://a/", 1.0, None) is not pace.get_pace("http://b/", 1.0, None)
