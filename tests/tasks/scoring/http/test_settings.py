"""What a candidate behind a preset refuses before anything is sent."""

import json

import numpy as np
import pytest
from pydantic import ValidationError
from support.comments import batch
from support.services import KEY, serving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

HOST = "https://commentanalyzer.googleapis.com/v1alpha1/comments:analyze"
OWN = {
    "request": {"input": "{{texts}}"},
    "limits": {"texts": 8},
    "rows": "$.out[*]",
    "score": "$.toxicity",
}


def make_candidate(**options):
    settings = {"name": "a", "kind": "http", "version": "1"}
    return CANDIDATES.validate_python(settings | options)


def make_custom(url="http://127.0.0.1:1/", protocol=None, **options):
    return make_candidate(preset="custom", url=url, protocol=OWN | (protocol or {}), **options)


def score_texts(answer, texts, protocol=None, **options):
    with serving("mlflow") as service:
        service.answer = answer
        with make_custom(service.url, protocol, **options).open(None) as scorer:
            return scorer.score(batch(texts)).scores.tolist(), service.seen


def test_a_protocol_of_ones_own():
    answer = lambda request: {  # noqa: E731
        "out": [{"toxicity": len(text) / 10} for text in request.json["input"]]
    }
    found, seen = score_texts(answer, ["a", "{{text}}", "ccc"], batch_size=2, concurrency=1)
    assert found == [0.1, 0.8, 0.3]
    assert [one.json for one in seen] == [{"input": ["a", "{{text}}"]}, {"input": ["ccc"]}]


@pytest.mark.parametrize(
    ("combine", "score"), [("max", 0.5), ("noisy_or", 1 - 0.5 * 0.8 * 0.9), (None, 0.5)]
)
def test_categories_are_combined_by_a_named_rule(combine, score):
    answer = lambda _: {"out": [{"c": {"x": 0.5, "y": 0.2, "z": 0.1}}]}  # noqa: E731
    options = {"combine": combine} if combine else {}
    found, _ = score_texts(answer, ["a"], {"score": {"at": "$.c"}}, **options)
    assert found == pytest.approx([score], abs=1e-15)


def test_a_batch_beyond_an_own_protocol_is_refused_with_the_key_that_allows_it():
    with pytest.raises(
        ValueError, match=r"at most 8 for preset custom; got 9\. .*`limits: {texts: 9}`"
    ):
        make_custom(batch_size=9)
    assert make_custom(protocol={"limits": {"texts": 9}}, batch_size=9).batch_size == 9


def test_one_category_may_count_alone():
    answer = lambda _: {"out": [{"c": {"x": 0.5, "y": 0.2}}]}  # noqa: E731
    assert score_texts(answer, ["a"], {"score": {"at": "$.c"}}, categories=["y"])[0] == [0.2]


def test_a_scale_keeps_its_order_and_ends_at_0_and_1():
    levels = iter(range(8))
    answer = lambda _: {"out": [{"toxicity": next(levels)}]}  # noqa: E731
    found, _ = score_texts(answer, list("abcdefgh"), {"scale": [0, 7]}, batch_size=1, concurrency=1)
    assert sorted(found) == found == [level / 7 for level in range(8)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"out": [{"toxicity": 8}]}, r"scores from 0 to 7 \(`scale`\)"),
        ({"out": [{"toxicity": True}]}, "a single finite number at"),
        ({"out": [{"toxicity": "7"}]}, "a single finite number at"),
        ({"out": [{"toxicity": 10**400}]}, "a single finite number at"),
        ({"out": [{"toxicity": 1}] * 2}, "as many scores as texts; got 2 for 1"),
        ({"out": []}, "as many scores as texts; got 0 for 1"),
    ],
)
def test_a_score_that_is_none_is_refused(answer, message):
    with pytest.raises(InputError, match=message):
        score_texts(lambda _: answer, ["a"] * 20, {"scale": [0, 7]}, batch_size=1)


def test_a_category_that_the_service_does_not_know_is_told():
    answer = lambda _: {"out": [{"c": {"x": 0.5}}]}  # noqa: E731
    message = r"first 50 answers have none \(50 without y; its categories: 'x'\)\. Check `categ"
    with pytest.raises(InputError, match=message):
        score_texts(answer, ["a"] * 50, {"score": {"at": "$.c"}}, categories=["y"])


def test_parts_in_another_order_are_sorted_by_their_number():
    answer = lambda _: {"out": [{"n": 1, "toxicity": 0.2}, {"n": 0, "toxicity": 0.1}]}  # noqa: E731
    assert score_texts(answer, ["a", "b"], {"index": "$.n"}, batch_size=2)[0] == [0.1, 0.2]
    twice = lambda _: {"out": [{"n": 1, "toxicity": 0.2}, {"n": 1, "toxicity": 0.1}]}  # noqa: E731
    assert np.isnan(score_texts(twice, ["a", "b"], {"index": "$.n"}, batch_size=2)[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "perspectiv"}, "`preset` must be custom or one of .* mean .*perspective"),
        ({"preset": "custom", "url": "http://h/"}, "`protocol` must be given for `preset: custom`"),
        ({"preset": "vllm", "url": "http://h/"}, "`options` must have `model` for preset vllm"),
        ({"preset": "tei", "url": "http://h/"}, "`categories` must name the toxic label"),
        ({"preset": "vllm", "url": "http://h/", "options": {"modle": "m"}}, "got modle"),
        ({"preset": "perspective", "output": "x"}, "`output` is only for MLflow models"),
        ({"preset": "perspective", "batch_size": 2}, "`batch_size` must be at most 1"),
        ({"preset": "perspective", "prompt": "{{text}}"}, "`prompt` is for judges"),
        ({"preset": "openai-chat", "options": {"model": "m"}}, "`prompt` must be given"),
        (
            {"preset": "openai-chat", "options": {"model": "m"}, "prompt": "{{text}} {{name}}"},
            r"`prompt` must have known placeholders; got {{name}} \(known: {{text}}\)",
        ),
        (
            {
                "preset": "openai-chat",
                "options": {"model": "m"},
                "prompt": "{{text}}",
                "words": ["Yes", "yes "],
            },
            "`words` must be different words",
        ),
        ({"preset": "perspective", "requests_per_second": 0}, "greater than 0"),
        ({"preset": "perspective", "headers": {"x-goog-api-key": "k"}}, "must not set X-Goog-Api"),
        ({"preset": "perspective", "headers": {"content-type": "a"}}, "must not set content-type"),
        (
            {"preset": "perspective", "secret": {"header": "From"}, "headers": {"from": "a"}},
            "must not set From: it holds the secret",
        ),
        (
            {"preset": "perspective", "secret": {"header": "X", "query": "key"}},
            "`query` must be the only key of `secret`",
        ),
        (
            {
                "preset": "azure-content-safety",
                "url": "http://h/",
                "secret": {"query": "api-version"},
            },
            "`secret` must not set api-version",
        ),
        ({"preset": "perspective", "secret": {"header": "X Key"}}, "should match pattern"),
        ({"preset": "perspective", "secret": {"value": "{{key}}"}}, "known placeholders"),
        ({"preset": "perspective", "headers": {"From": "a\nb: c"}}, "should match pattern"),
        ({"preset": "perspective", "headers": {"Fr om": "a"}}, "should match pattern"),
        ({"preset": "kserve", "options": {"output": "o"}}, "url"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        make_candidate(**options)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"request": {"input": "{{txt}}"}}, r"known placeholders; got {{txt}}.*Did you mean"),
        ({"request": {"input": "text"}}, "`request` must hold the comments"),
        ({"request": {"input": "{{text}}"}}, "`limits.texts` must be 1 for a request with"),
        ({"rows": None}, "`rows` must locate each text's part"),
        ({"rows": "results[*]"}, "must be a JSONPath as in RFC 9535"),
        ({"score": "$["}, "must be a JSONPath"),
        ({"scale": [7, 0]}, "`scale` must be the lowest and the highest value"),
        ({"answers": [{"status": 400, "then": "missing"}]}, "`why` must be given"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_protocol_that_cannot_work_is_refused(protocol, message):
    with pytest.raises(ValidationError, match=message):
        make_custom(protocol=protocol)


def test_comments_leave_this_machine_only_for_a_host_that_is_named(monkeypatch):
    monkeypatch.setenv("PERSPECTIVE_API_KEY", KEY)
    with pytest.raises(InputError, match=r"add `sends_text_to: commentanalyzer\.googleapis\.com`"):
        make_candidate(preset="perspective").check()
    with pytest.raises(InputError, match="must be the host of its `url`"):
        make_candidate(preset="perspective", sends_text_to="googleapis.com").check()
    make_candidate(preset="perspective", sends_text_to="CommentAnalyzer.googleapis.com").check()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "a.localhost", "LOCALHOST"]
)
def test_this_machine_needs_no_name(host):
    make_candidate(url=f"http://{host}:5000/invocations").check()


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "192.168.0.9", "127.0.0.1.example.com", "localhost.example", "2130706433"]
)
def test_every_other_host_needs_its_name(host):
    with pytest.raises(InputError, match="another machine"):
        make_candidate(url=f"http://{host}:5000/invocations").check()


def test_a_proxy_of_the_environment_gets_no_comment_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    answer = lambda _: {"out": [{"toxicity": 0.5}]}  # noqa: E731
    assert score_texts(answer, ["a"])[0] == [0.5]


def test_the_key_of_a_service_is_sent_to_no_other_url(monkeypatch):
    monkeypatch.setenv("PERSPECTIVE_API_KEY", KEY)
    assert make_candidate(preset="perspective").read_secret() == KEY
    assert make_candidate(preset="perspective", url="http://127.0.0.1:1/").read_secret() is None


@pytest.mark.parametrize(
    ("value", "message"), [("", "it is not set"), ("a\nb", "visible ASCII"), ("é", "visible")]
)
def test_a_key_that_cannot_be_sent_is_refused_without_it(monkeypatch, value, message):
    monkeypatch.setenv("PERSPECTIVE_API_KEY", value)
    one = make_candidate(preset="perspective", sends_text_to="commentanalyzer.googleapis.com")
    with pytest.raises(InputError, match=message) as e:
        one.check()
    assert not value or value not in str(e.value)


def test_limits_and_batches_leave_the_digest_and_options_change_it():
    def digest(**options):
        return make_candidate(preset="perspective", **options).digest

    same = {"requests_per_second": 9, "concurrency": 1, "tries": 1, "sends_text_to": "x"}
    same |= {"secret": {"query": "key"}}
    assert digest() == digest(**same)
    others = [{"categories": ["INSULT"]}, {"options": {"languages": ["de"]}}, {"version": "2"}]
    assert len({digest(), *(digest(**one) for one in others)}) == 4


def test_mlflow_is_the_preset_of_an_endpoint_without_one():
    one = make_candidate(url="http://127.0.0.1:5000/invocations")
    assert one.digest == make_candidate(url=one.url, preset="mlflow").digest
    assert json.loads(one.model_dump_json())["batch_size"] == 64
