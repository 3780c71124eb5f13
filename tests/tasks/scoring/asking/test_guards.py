"""Every guard, behind servers of every shape."""

import math
import re
from collections import Counter

import pytest
from pydantic import ValidationError
from support.comments import batch
from support.guards import FAMILIES, PROMPTED, SHAPES, GuardServer, wanted
from support.services import KEY, serving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.asking.guard import Guard, Token, guard_names, read_guard
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import NO_ANSWER, Missing

TEXTS = [f"comment {number}, with a few words" for number in range(9)]
PAIRS = [
    (shape, family)
    for shape in SHAPES
    for family in FAMILIES
    if not (shape == "openai-completions" and family == "gpt-oss-safeguard")
]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)


def candidate(server, **options):
    return CANDIDATES.validate_python(server.candidate() | options)


def scored(server, texts, **options):
    with candidate(server, **options).open(None) as scorer:
        return scorer.score(batch(texts))


def test_every_guard_is_tried_and_cites_its_sources():
    assert sorted(FAMILIES) == guard_names()
    for name in guard_names():
        assert all(one.startswith("https://") for one in read_guard(name).sources)
        assert (read_guard(name).prompt is None) == (name in PROMPTED)


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_a_score_is_what_the_answer_means(pair):
    with serving(pair, GuardServer) as server:
        found = scored(server, TEXTS)
    assert found.scores.tolist() == pytest.approx(
        [wanted(pair[1], text) for text in TEXTS], abs=1e-12
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_level_is_the_word_of_the_answer(family):
    with serving(("openai-chat", family), GuardServer) as server:
        found = scored(server, TEXTS, score_as="level")
        assert all("logprobs" not in request.json for request in server.seen)
    assert found.scores.tolist() == [wanted(family, text, level=True) for text in TEXTS]


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_many_comments_with_refusals_run_to_the_end(pair):
    words = {0: "REFUSE", 1: "EVADE"}
    size = 500 if pair == PAIRS[0] else 20
    texts = [f"comment {number} {words.get(number % 10, '')}" for number in range(size)]
    with serving(pair, GuardServer) as server:
        found = scored(server, texts, concurrency=8)
    # Ollama has no field for a refusal: an empty answer is one that cannot be used.
    each = size // 10
    reasons = {"refused": each, NO_ANSWER: each}
    if pair[0] == "ollama-chat":
        reasons = {NO_ANSWER: 2 * each}
    assert Counter(one for one in found.reasons if one) == reasons
    assert [one is not None for one in found.reasons] == [n % 10 < 2 for n in range(size)]
    known = [text for text, one in zip(texts, found.reasons, strict=True) if one is None]
    scores = [one for one in found.scores if not math.isnan(one)]
    assert scores == pytest.approx([wanted(pair[1], text) for text in known], abs=1e-12)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"gpt-oss-safeguard"}))
def test_a_server_without_log_probabilities_is_told_what_to_set(family):
    with serving(("openai-chat", family), GuardServer) as server:
        server.with_logprobs = False
        with pytest.raises(InputError, match=r"must support `logprobs`.* `score_as: level`.* tie"):
            scored(server, ["a"])


@pytest.mark.parametrize(
    ("family", "behind"),
    [("qwen3guard", "llama-guard-3"), ("llama-guard-3", "qwen3guard"), ("cope", "shieldstral")],
)
@pytest.mark.parametrize("score_as", ["probability", "level"])
def test_another_model_than_the_guards_is_told(family, behind, score_as):
    with serving(("openai-chat", family), GuardServer) as server:
        server.family = behind
        texts = [f"a secret {n}" for n in range(12)]
        with pytest.raises(InputError, match=r"none of 12 answers does. Is another model") as e:
            scored(server, ["REFUSE", *texts, "REFUSE again"], score_as=score_as)
    assert "secret" not in str(e.value)


def test_a_guard_that_reasons_too_long_has_no_answer_and_a_hint():
    with serving(("openai-chat", "gpt-oss-safeguard"), GuardServer) as server:
        cut = {"role": "assistant", "content": None, "reasoning_content": "Let me think"}
        choice = {"index": 0, "message": cut, "finish_reason": "length", "logprobs": None}
        server.answer = lambda _: {"choices": [choice]}
        assert scored(server, ["a"]).reasons == [NO_ANSWER]
        with pytest.raises(InputError, match="`max_tokens`"):
            scored(server, list("abcdefghij"))


def sent(family, **options):
    with serving(("openai-chat", family), GuardServer) as server:
        scored(server, ["first"], **options)
        return server.seen[0].json


def test_the_criterion_of_a_guard_goes_into_its_chat_template():
    body = sent("granite-guardian-3.3", options={"model": "m", "criterion": "social_bias"})
    assert body["chat_template_kwargs"] == {
        "guardian_config": {"criteria_id": "social_bias"},
        "think": False,
    }
    assert body["messages"] == [{"role": "user", "content": "first"}]
    body = sent("llama-guard-4", options={"model": "m", "excluded": ["S7"]})
    assert body["chat_template_kwargs"] == {"excluded_category_keys": ["S7"]}


def test_what_does_not_apply_is_not_sent():
    assert not {"chat_template_kwargs", "reasoning_effort"} & set(sent("llama-guard-3"))


def test_a_policy_and_its_levels_are_part_of_the_message():
    body = sent("gpt-oss-safeguard", words=["2", "1", "0"])
    system, user = body["messages"]
    assert system["content"].startswith("No insults.")
    assert system["content"].endswith("2, 1, 0")
    assert user == {"role": "user", "content": "first"}
    assert body["reasoning_effort"] == "low"
    assert body["max_tokens"] == 2048


@pytest.mark.parametrize(("counted", "share"), [(["S10"], 1), (["S1"], 0)])
def test_only_the_categories_that_count_make_a_toxic_answer_toxic(counted, share):
    with serving(("openai-chat", "llama-guard-3"), GuardServer) as server:
        found = scored(server, TEXTS, categories=counted).scores.tolist()
    values = [wanted("llama-guard-3", text) for text in TEXTS]
    assert any(value > 0.5 for value in values)
    assert found == pytest.approx([one * (share if one > 0.5 else 1) for one in values], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guard": "lama-guard-3"}, "`guard` must be one of .* mean .*llama-guard-3"),
        ({"guard": "wildguard"}, r"`prompt` must be given as .*documentation.*allenai/wildguard"),
        ({"guard": "gpt-oss-safeguard"}, "`options` must have `policy` for guard gpt-oss"),
        ({"guard": "llama-guard-3", "categories": ["S99"]}, r"got 'S99' \(known: S1, "),
        ({"guard": "llama-guard-3", "options": {"model": "m", "criterion": "x"}}, "got criterion"),
        (
            {"guard": "shieldgemma", "preset": "ollama-chat"},
            r"`prompt` must be given for guard shieldgemma .*\(guideline\)",
        ),
        (
            {
                "guard": "wildguard",
                "preset": "openai-completions",
                "prompt": [{"content": "{{text}}"}],
            },
            "`prompt` must be a text for preset openai-completions",
        ),
        ({"guard": "llama-guard-3", "preset": "tei", "categories": ["a"]}, "`guard` is for judges"),
        ({"prompt": "{{text}}", "words": ["yes"]}, "at least 2 items"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, message):
    known = {"name": "a", "kind": "http", "preset": "openai-chat", "version": "1"}
    known |= {"url": "http://127.0.0.1:1/", "options": {"model": "m"}}
    if options.get("preset") == "tei":
        known["options"] = {}
    with pytest.raises(ValidationError, match=message):
        CANDIDATES.validate_python(known | options)


def at(*tokens):
    """Return tokens of which each is certain, but for those with shares of their own."""
    return [
        Token(one, [(one, 0.0)])
        if isinstance(one, str)
        else Token(next(iter(one)), [(token, math.log(p)) for token, p in one.items()])
        for one in tokens
    ]


def test_the_marker_may_share_a_token_with_the_word():
    guard = Guard(prompt="{{text}}", after="<score>")
    tokens = at("<score", {">yes": 0.6, ">no": 0.2, "yes": 0.2})
    assert guard.outcome("<score>yes", tokens) == pytest.approx(0.6 / 0.8)


def test_the_last_marker_counts():
    guard = Guard(prompt="{{text}}", after="score:", score_as="level")
    assert guard.outcome("The score: no, or rather. Score: yes") == 1.0


def test_a_word_of_several_tokens_is_known_by_its_first():
    guard = Guard(prompt="{{text}}", words=("unsafe", "safe"))
    tokens = at({"un": 0.7, "sa": 0.2, "u": 0.1}, "safe")
    assert guard.outcome("unsafe", tokens) == pytest.approx(0.7 / 0.9)


def test_a_token_that_several_words_begin_with_counts_for_none():
    guard = Guard(prompt="{{text}}", words=("toxic", "toned"))
    assert guard.outcome("toxic", at({"to": 0.9, "toxic": 0.1})) == Missing(NO_ANSWER)


def test_a_longer_word_is_not_the_word():
    guard = Guard(prompt="{{text}}", score_as="level")
    assert guard.outcome("Nothing wrong here") == Missing(NO_ANSWER)
    assert guard.outcome('**"No."**') == 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompt_that_users_must_give_is_in_no_record(family):
    prompt = str(read_guard(family).prompt)
    assert not re.search("Document|Examine|classifier for analyzing", prompt)
