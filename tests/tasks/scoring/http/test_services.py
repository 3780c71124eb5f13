"""Each preset against a local server that behaves as its service documents."""

import logging
import math
import re
import traceback
from email.utils import formatdate
from urllib.parse import quote

import numpy as np
import pytest
from support.comments import batch
from support.services import (
    KEY,
    SERVICES,
    RefusalError,
    expected,
    perspective_error,
    serving,
)

from biasgate.tasks.common.errors import CandidateError, CandidateStoppedError, InputError
from biasgate.tasks.scoring.kinds import http_requests as requests
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import PartlyScored

SECRET_TEXT = "an unrepeatable comment"  # noqa: S105
TEXTS = [f"comment {number}, with a few words" for number in range(9)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.001)
    monkeypatch.setenv("SERVICE_KEY", KEY)


@pytest.fixture(params=list(SERVICES))
def service(request):
    with serving(request.param) as server:
        yield server


def score_texts(service, texts, **options):
    with CANDIDATES.validate_python(service.candidate(**options)).open(None) as scorer:
        return scorer.score(batch(texts))


def list_scores(service, texts, **options):
    scored = score_texts(service, texts, **options)
    return (scored.scores if isinstance(scored, PartlyScored) else scored).tolist()


def expect_scores(service, texts):
    return pytest.approx([expected(service.preset, text) for text in texts], abs=1e-12)


def test_every_comment_gets_its_own_score(service):
    assert list_scores(service, TEXTS) == expect_scores(service, TEXTS)


def test_further_headers_are_sent_beside_the_secret_and_decide_the_digest(service):
    further = {"From": "team@example.org", "X-Project": "7"}
    assert list_scores(service, TEXTS[:2], headers=further) == expect_scores(service, TEXTS[:2])
    for request in service.seen:
        assert {name: request.headers[name] for name in further} == further
        assert KEY in str(request.headers)
    plain, with_headers = (
        CANDIDATES.validate_python(service.candidate(headers=headers)).digest
        for headers in ({}, further)
    )
    assert plain != with_headers


def test_passing_failures_lose_and_double_nothing(service):
    service.faults = [429, 500, "cut", 503, 502]
    assert list_scores(service, TEXTS, concurrency=2, batch_size=1) == expect_scores(service, TEXTS)
    assert max(service.answered.values()) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_storm_ends_after_some_tries_without_the_text(service, status):
    service.always = status
    # Prefect does not try this error again, which would be three times as many tries.
    with pytest.raises(CandidateStoppedError, match=rf"failed 3 times, .* status {status}") as e:
        list_scores(service, [SECRET_TEXT], tries=3)
    assert len(service.seen) == 3
    assert ("Set `requests_per_second` to the quota" in str(e.value)) == (status == 429)
    assert SECRET_TEXT not in "".join(traceback.format_exception(e.value))


def test_a_service_that_hangs_is_given_up(service):
    service.always = "hang"
    with pytest.raises(CandidateError, match=r"failed 1 time, .* in 0.1 s"):
        list_scores(service, ["a"], tries=1, timeout_s=0.1)


@pytest.mark.parametrize(("batch_size", "where"), [(1, r"\(id c4\)"), (9, r"\(ids c0 to c8\)")])
def test_an_error_names_the_comments_that_the_request_held(batch_size, where):
    with serving("tei") as service:
        service.every = lambda n: 401 if n == (4 if batch_size == 1 else 0) else None
        with pytest.raises(InputError, match=f"got status 401.* {where}$"):
            list_scores(service, TEXTS, batch_size=batch_size, concurrency=1)


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "`token_env`"), (404, "Check `url`"), (400, "server's log")],
)
def test_an_error_for_which_a_service_has_no_rule_says_what_to_check(status, advice):
    with serving("perspective") as service:
        service.always = status
        with pytest.raises(InputError, match=f"got status {status}.*{advice}"):
            list_scores(service, TEXTS * 3)


def test_garbage_is_refused_without_the_text(service):
    for garbage in ("<html>", {}, [], {"a": [SECRET_TEXT]}, 3, None, [[[]]]):
        service.answer = lambda _, garbage=garbage: garbage
        with pytest.raises(InputError, match="must") as e:
            list_scores(service, [SECRET_TEXT] * 50)
        assert SECRET_TEXT not in str(e.value)


def test_a_body_that_is_no_json_is_refused_without_the_text(service):
    service.always = "garbage"
    with pytest.raises(InputError, match="must answer with JSON") as e:
        list_scores(service, [SECRET_TEXT] * 20)
    assert SECRET_TEXT not in str(e.value)


def test_the_key_is_in_no_message_setting_or_digest(service, monkeypatch):
    service.always = 401
    one = CANDIDATES.validate_python(service.candidate())
    with one.open(None) as scorer, pytest.raises(InputError) as e:
        scorer.score(batch(["a"]))
    assert KEY not in f"{e.value} {one!r} {one.model_dump()} {scorer._requests!r}"
    before = scorer.digest
    monkeypatch.setenv("SERVICE_KEY", "another-secret")
    assert CANDIDATES.validate_python(service.candidate()).open(None).digest == before


def test_a_redirect_is_not_followed(service):
    service.always, service.headers = 307, {"Location": "http://127.0.0.1:9/elsewhere"}
    with pytest.raises(InputError, match=r"got status 307.* Redirects are not followed"):
        list_scores(service, ["a"])
    assert len(service.seen) == 1


NEED_NO_KEY = {"mlflow", "kserve", "torchserve", "tei", "vllm", "ollama-chat"}


@pytest.mark.parametrize("preset", [name for name in SERVICES if name not in NEED_NO_KEY])
def test_a_wrong_key_is_told_at_once(preset, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", "wrong")
    with serving(preset) as service, pytest.raises(InputError, match=r"Check the (key|token) in"):
        list_scores(service, ["a"])


@pytest.mark.parametrize(
    ("preset", "text", "reason"),
    [
        ("perspective", " \n", "empty"),
        ("perspective", "x" * 20_481, "too_long"),
        ("perspective", "本当に", "language"),
        ("azure-content-safety", "x" * 10_001, "too_long"),
        ("azure-content-safety", "", "empty"),
        ("google-moderate-text", "\t", "empty"),
        ("tei", "", "empty"),
        ("vllm", "x" * 9000, "too_long"),
        ("openai-chat", "REFUSE this", "refused"),
        ("openai-chat", "EVADE this", "no_answer"),
        ("openai-completions", "REFUSE this", "refused"),
        ("openai-completions", "EVADE this", "no_answer"),
        ("ollama-chat", "REFUSE this", "no_answer"),
    ],
)
def test_a_comment_that_the_service_refuses_has_no_score_and_a_reason(preset, text, reason):
    with serving(preset) as service:
        found = score_texts(service, ["before", text, "after"])
        known = [expected(preset, one) for one in ("before", "after")]
    assert math.isnan(found.scores[1])
    assert [found.scores[0], found.scores[2]] == pytest.approx(known, abs=1e-12)
    assert list(found.reasons) == [None, reason, None]


def answer_without_attribute(form, attributes):
    """Answer as a service that does not have an attribute for a comment."""
    if form == "an error":
        raise perspective_error("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE")
    if form == "a sentence":
        text = "Attribute INSULT does not support request languages: fi"
        raise RefusalError(400, {"error": {"code": 400, "message": text}})
    if form == "no attributes":
        return {"languages": ["fi"]}
    value = {name: {"summaryScore": {"value": 0.5}} for name in attributes}
    if form == "another attribute":
        del value["INSULT"]
    else:
        value["INSULT"]["summaryScore"]["value"] = None
    return {"attributeScores": value, "languages": ["fi"]}


FORMS = {
    "an error": "language",
    "a sentence": "language",
    "no attributes": "language",
    "another attribute": "without INSULT",
    "null": "without INSULT",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_attribute_that_some_comments_lack_ends_nothing(form):
    # By chance, and 60 in a row.
    rng = np.random.default_rng(3)
    lack = (rng.random(300) < 0.3) | (np.arange(300) // 60 == 3)
    lack[:5] = True
    texts = [f"{'foreign' if one else 'plain'} {at}" for at, one in enumerate(lack)]
    with serving("perspective") as service:
        known = service.answer

        def answer(request):
            is_foreign = request.json["comment"]["text"].startswith("foreign")
            asked = request.json["requestedAttributes"]
            return answer_without_attribute(form, asked) if is_foreign else known(request)

        service.answer = answer
        found = score_texts(service, texts, categories=["TOXICITY", "INSULT"])
        assert len(service.seen) == 300
    assert np.isnan(found.scores).tolist() == lack.tolist()
    assert list(found.reasons) == [FORMS[form] if one else None for one in lack]
    assert found.scores[~lack].tolist() == expect_scores(
        service, [text for text, one in zip(texts, lack, strict=True) if not one]
    )


@pytest.mark.parametrize("form", FORMS)
def test_an_attribute_that_the_service_never_gives_is_an_early_error(form):
    with serving("perspective") as service:
        service.answer = lambda one: answer_without_attribute(form, one.json["requestedAttributes"])
        options = {"categories": ["TOXICITY", "INSULT"], "concurrency": 1}
        one = CANDIDATES.validate_python(service.candidate(**options))
        with one.open(None) as scorer:
            for _ in range(2):  # in shards
                scorer.score(batch([SECRET_TEXT] * 20))
            with pytest.raises(InputError, match="its first 50 answers have none") as e:
                scorer.score(batch([SECRET_TEXT] * 20))
        assert len(service.seen) == 50
    reason = "in an unsupported language" if FORMS[form] == "language" else "without INSULT"
    assert f"(50 {reason}" in str(e.value)
    assert SECRET_TEXT not in str(e.value)


def test_a_judge_that_refuses_every_comment_is_an_early_error():
    with serving("openai-chat") as service:
        with pytest.raises(InputError, match=r"none \(50 refused\)\. Check `prompt` and `options`"):
            list_scores(service, ["REFUSE this"] * 90, concurrency=1)
        assert len(service.seen) == 50


def test_in_a_batch_one_comment_without_a_category_is_not_asked_for_again():
    with serving("openai-moderations") as service:
        known = service.answer

        def answer(request):
            found = known(request)
            for text, result in zip(request.json["input"], found["results"], strict=True):
                if text == TEXTS[3]:
                    del result["category_scores"]["hate"]
            return found

        service.answer = answer
        found = score_texts(service, TEXTS)
        assert len(service.seen) == 1
    assert list(found.reasons) == [None] * 3 + ["without hate"] + [None] * 5


@pytest.mark.parametrize(
    ("secret", "header", "query"),
    [
        ({"header": "X-API-Key"}, ("X-API-Key", "{}"), {}),
        ({"header": "authorization"}, ("Authorization", "Bearer {}"), {}),
        ({"value": "Token {{secret}}"}, ("Authorization", "Token {}"), {}),
        ({"query": "key"}, None, {"key": ["{}"]}),
    ],
)
def test_another_service_gets_the_secret_where_it_wants_it(
    secret, header, query, monkeypatch, caplog
):
    caplog.set_level(logging.DEBUG)
    key = "k-1+2/3=4%5&6"
    monkeypatch.setenv("SERVICE_KEY", key)
    email = {"X-User-Email": "team@example.org"}
    with serving("perspective") as service:
        service.answer = lambda _: {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0}}}}
        one = CANDIDATES.validate_python(service.candidate(secret=secret, headers=email))
        with one.open(None) as scorer:
            scorer.score(batch(["a"]))
            shown = f"{one!r} {one.model_dump()} {scorer._requests!r} {scorer.digest}"
            service.always = 400
            with pytest.raises(InputError) as e:
                scorer.score(batch(["a"] * 20))
        request = service.seen[0]
    assert request.headers["X-User-Email"] == "team@example.org"
    assert request.headers["X-Goog-Api-Key"] is None
    assert request.headers["Authorization"] is None or header[0] == "Authorization"
    if header:
        assert request.headers[header[0]] == header[1].format(key)
    assert request.query == {name: [one.format(key) for one in v] for name, v in query.items()}
    assert "HTTP Request: POST" in caplog.text
    for text in (shown, str(e.value), caplog.text):
        assert not {key, quote(key), quote(key, safe="")} & set(re.split(r"[\s=?'\"]", text))
        assert "k-1" not in text


@pytest.mark.parametrize("preset", ["perspective", "azure-content-safety", "google-moderate-text"])
def test_what_a_service_does_not_accept_is_not_sent(preset):
    with serving(preset) as service:
        score_texts(service, ["", "x" * 1_000_001])
        assert service.seen == []


def test_an_account_without_credit_is_not_asked_again():
    with serving("openai-moderations") as service:
        service.always = 429
        service.bodies = {429: {"error": {"code": "insufficient_quota", "message": "..."}}}
        with pytest.raises(InputError, match="no credit left"):
            list_scores(service, ["a"])
        assert len(service.seen) == 1


@pytest.fixture
def waits(monkeypatch):
    seen = []

    async def wait(seconds):
        seen.append(round(seconds))

    monkeypatch.setattr(requests, "sleep", wait)
    return seen


@pytest.mark.parametrize("own_clock", [0, 3600])
def test_a_wait_until_a_date_is_kept_by_the_clock_of_the_service(waits, own_clock):
    now = 1_900_000_000 + own_clock
    with serving("vllm") as service:
        service.faults = [503]
        service.headers = {"Retry-After": formatdate(now + 20, usegmt=True)}
        service.headers["Date"] = formatdate(now, usegmt=True)
        list_scores(service, ["a"])
    assert waits[1] == 20


@pytest.mark.parametrize("asked", ["soon", "-3", "Wed, 99 Foo 2026 99:99:99 GMT", "1e3", ""])
def test_a_wait_that_is_none_is_ignored(waits, asked):
    with serving("vllm") as service:
        service.faults, service.headers = [503], {"Retry-After": asked}
        list_scores(service, ["a"])
    assert waits[1] == 0


@pytest.mark.parametrize(("preset", "longest"), [("mlflow", 30), ("openai-moderations", 120)])
def test_a_wait_is_limited(waits, preset, longest, monkeypatch):
    monkeypatch.setattr("biasgate.tasks.scoring.http.pace.Pace.pause", lambda *_: None)
    with serving(preset) as service:
        service.faults, service.headers = [503], {"Retry-After": "99999"}
        list_scores(service, ["a"])
    assert waits[1] == longest
