"""A language model as a judge: from its answer to a score."""

import math

import pytest
from pydantic import ValidationError
from support.comments import batch
from support.services import KEY, in_lists, serving, toxicity

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.http.judge import Judge, Token
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import NO_ANSWER, Missing

TEXTS = [f"comment {number}, with a few words" for number in range(9)]
LEVELS = {"prompt": "{{text}}", "after": "Safety:", "max_tokens": 64}
LEVELS["words"] = ["Unsafe", "Controversial", "Safe"]


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)


def score_texts(server, texts, **options):
    with CANDIDATES.validate_python(server.candidate(**options)).open(None) as scorer:
        return scorer.score(batch(texts))


def answer_in_levels(request):
    """Answer as a model of three levels does: a few tokens, with a single decisive token."""
    body = request.json
    p = toxicity(body["prompt"] if "prompt" in body else body["messages"][-1]["content"])
    levels = {" Unsafe": 0.9 * p, " Controvers": 0.05, " Safe": 0.9 * (1 - p), "!": 0.05}
    likeliest = max(levels, key=levels.get)
    rest = ["ial"] if likeliest == " Controvers" else []
    tokens = [(token, {token: 0.99, "?": 0.01}) for token in ("Safety", ":")]
    tokens += [(likeliest, levels)]
    tokens += [(token, {token: 1.0}) for token in [*rest, "\n", "Categories"]]
    content = [
        {
            "token": token,
            "top_logprobs": [
                {"token": text, "logprob": math.log(p)} for text, p in top.items() if p > 0
            ],
        }
        for token, top in tokens
    ]
    message = {"role": "assistant", "content": "".join(token for token, _ in tokens)}
    logprobs = {"content": content} if body.get("logprobs") else None
    answer = {"choices": [{"index": 0, "message": message, "logprobs": logprobs}]}
    return in_lists(answer) if "prompt" in body else answer


def compute_level_shares(text):
    p = toxicity(text)
    return {1.0: 0.9 * p, 0.5: 0.05, 0.0: 0.9 * (1 - p)}


@pytest.mark.parametrize("preset", ["openai-chat", "openai-completions"])
def test_several_words_after_a_marker_give_their_mean_score(preset):
    with serving(preset) as server:
        server.answer = answer_in_levels
        found = score_texts(server, TEXTS, **LEVELS)
    means = [
        sum(score * p for score, p in compute_level_shares(text).items()) / 0.95 for text in TEXTS
    ]
    assert found.scores.tolist() == pytest.approx(means, abs=1e-12)


def test_a_level_is_the_word_of_the_answer():
    with serving("openai-chat") as server:
        server.answer = answer_in_levels
        found = score_texts(server, TEXTS, **LEVELS, score_as="level")
        assert all("logprobs" not in request.json for request in server.seen)
    shares = [compute_level_shares(text) for text in TEXTS]
    assert found.scores.tolist() == [max(one, key=one.get) for one in shares]


def test_a_server_without_log_probabilities_is_refused_with_a_remedy():
    with serving("openai-chat") as server:
        message = {"role": "assistant", "content": "yes", "refusal": None}
        server.answer = lambda _: {"choices": [{"message": message, "logprobs": None}]}
        with pytest.raises(InputError, match=r"must support `logprobs`.* `score_as: level`.* tie"):
            score_texts(server, ["a"])


@pytest.mark.parametrize("score_as", ["probability", "level"])
def test_a_model_that_never_answers_the_question_is_refused(score_as):
    with serving("openai-chat") as server:
        texts = ["REFUSE", *(f"EVADE a secret {n}" for n in range(12)), "REFUSE again"]
        with pytest.raises(InputError, match=r"none of 12 answers does. Check that `prompt`") as e:
            score_texts(server, texts, score_as=score_as)
    assert "secret" not in str(e.value)


def test_reasoning_that_is_cut_off_is_no_answer_and_a_hint():
    with serving("openai-chat") as server:
        cut = {"role": "assistant", "content": None, "reasoning_content": "Let me think"}
        choice = {"index": 0, "message": cut, "finish_reason": "length", "logprobs": None}
        server.answer = lambda _: {"choices": [choice]}
        assert score_texts(server, ["a"]).reasons == [NO_ANSWER]
        with pytest.raises(InputError, match="`max_tokens`"):
            score_texts(server, list("abcdefghij"))


def test_the_request_holds_how_much_to_reason_only_if_it_is_given():
    with serving("openai-chat") as server:
        score_texts(server, ["first"])
        score_texts(server, ["first"], effort="low", max_tokens=2048)
    without, given = (one.json for one in server.seen)
    assert "reasoning_effort" not in without
    assert (given["reasoning_effort"], given["max_tokens"]) == ("low", 2048)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": ["S10"]}, "`categories` is not for judges; preset openai-chat is a judge"),
        ({"options": {"model": "m", "criterion": "x"}}, "got criterion"),
        (
            {"preset": "openai-completions", "prompt": [{"role": "user", "content": "{{text}}"}]},
            "`prompt` must be a text for preset openai-completions",
        ),
        (
            {"preset": "tei", "categories": ["a"], "options": {}, "prompt": "{{text}}"},
            "`prompt` is for judges; preset tei is not a judge",
        ),
        ({"words": ["yes"]}, "at least 2 items"),
        ({"prompt": "Is it toxic?"}, "`prompt` must hold {{text}} in place of the comment"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, message):
    known = {"name": "a", "kind": "http", "preset": "openai-chat", "version": "1"}
    known |= {"url": "http://127.0.0.1:1/", "options": {"model": "m"}}
    known |= {} if options.get("preset") == "tei" else {"prompt": "{{text}}"}
    with pytest.raises(ValidationError, match=message):
        CANDIDATES.validate_python(known | options)


def make_tokens(*tokens):
    """Return tokens; a mapping has the probabilities of alternatives."""
    return [
        Token(token, [(token, 0.0)])
        if isinstance(token, str)
        else Token(next(iter(token)), [(text, math.log(p)) for text, p in token.items()])
        for token in tokens
    ]


def test_the_marker_may_share_a_token_with_the_word():
    judge = Judge(prompt="{{text}}", after="<score>")
    tokens = make_tokens("<score", {">yes": 0.6, ">no": 0.2, "yes": 0.2})
    assert judge.read_answer("<score>yes", tokens) == pytest.approx(0.6 / 0.8)


def test_an_answer_without_the_marker_gives_no_score():
    judge = Judge(prompt="{{text}}", after="<score>")
    assert judge.read_answer("yes", make_tokens("yes")) == Missing(NO_ANSWER)
    assert judge.read_answer("<score>", make_tokens("<score>")) == Missing(NO_ANSWER)


def test_the_last_marker_counts():
    judge = Judge(prompt="{{text}}", after="score:", score_as="level")
    assert judge.read_answer("The score: no, or rather. Score: yes") == 1.0


def test_a_word_of_several_tokens_is_known_by_its_first():
    judge = Judge(prompt="{{text}}", words=("unsafe", "safe"))
    tokens = make_tokens({"un": 0.7, "sa": 0.2, "u": 0.1}, "safe")
    assert judge.read_answer("unsafe", tokens) == pytest.approx(0.7 / 0.9)


def test_a_token_that_several_words_begin_with_counts_for_none():
    judge = Judge(prompt="{{text}}", words=("toxic", "toned"))
    assert judge.read_answer("toxic", make_tokens({"to": 0.9, "toxic": 0.1})) == Missing(NO_ANSWER)


def test_a_longer_word_is_not_the_word():
    judge = Judge(prompt="{{text}}", score_as="level")
    assert judge.read_answer("Nothing wrong here") == Missing(NO_ANSWER)
    assert judge.read_answer('**"No."**') == 0.0
