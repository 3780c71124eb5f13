"""Servers with a guard behind them: what each family answers, in the shape of each server.

What a family answers is written here from its documentation, without the records of biasgate. The
probability of a violation is `toxicity`; a text with REFUSE is refused, one with EVADE gets prose.
"""

import math

from support.services import Service, toxicity

EVADED = ["I", " would", " rather", " talk", " about", " tea"]


def spread(*likeliest):
    """Return a token, the first of the likeliest, and the log-probabilities at its place."""
    return likeliest[0][0], [(token, math.log(share)) for token, share in likeliest if share > 0]


def sure(*tokens):
    return [spread((token, 0.99), ("?", 0.01)) for token in tokens]


def between(yes, no, p):
    """Return one token of two, the likelier first; a tenth of the probability is elsewhere."""
    both = sorted([(yes, 0.9 * p), (no, 0.9 * (1 - p))], key=lambda one: -one[1])
    return [spread(*both, ("The", 0.1))]


def llama_guard(p):
    verdict = between("unsafe", "safe", p)
    return [*sure("\n\n"), *verdict, *(sure("\n", "S", "10") if p > 0.5 else [])]


def qwen3guard(p):
    levels = [(" Unsafe", 0.9 * p), (" Controvers", 0.05), (" Safe", 0.9 * (1 - p)), ("!", 0.05)]
    top = sorted(levels, key=lambda one: -one[1])
    rest = sure("ial") if top[0][0] == " Controvers" else []
    named = [" Un", "ethical", " Acts"] if p > 0.5 else [" None"]
    return [*sure("Safety", ":"), spread(*top), *rest, *sure("\n", "Categories", ":", *named)]


def granite_33(p):
    before = sure("<think>", "\n", "</think>", "\n", "<", "score", ">")
    return [*before, *between(" yes", " no", p), *sure(" </", "score", ">")]


def wildguard(p):
    after = sure("\n", "Response", " refusal", ":", " N", "/A")
    return [*sure("Harm", "ful", " request", ":"), *between(" yes", " no", p), *after]


FAMILIES = {
    "llama-guard-3": llama_guard,
    "llama-guard-4": llama_guard,
    "shieldgemma": lambda p: between("Yes", "No", p),
    "qwen3guard": qwen3guard,
    "gpt-oss-safeguard": lambda p: sure("1" if p > 0.5 else "0"),
    "granite-guardian-3.2": lambda p: between("Yes", "No", p),
    "granite-guardian-3.3": granite_33,
    "cope": lambda p: between("1", "0", p),
    "shieldstral": lambda p: between("Yes", "no", p),
    "wildguard": wildguard,
}


def wanted(family, text, *, level=False):
    """Return the score that follows from what a family answers about a text."""
    p = toxicity(text)
    if family == "gpt-oss-safeguard":
        return float(p > 0.5)
    if family == "qwen3guard":
        shares = {1.0: 0.9 * p, 0.5: 0.05, 0.0: 0.9 * (1 - p)}
        if level:
            return max(shares, key=lambda score: shares[score])
        return sum(score * share for score, share in shares.items()) / 0.95
    return float(0.9 * p > 0.9 * (1 - p)) if level else p


def chat(text, tokens, *, with_logprobs, refusal):
    """Return an answer of /v1/chat/completions, as vLLM and llama.cpp give it."""
    content = [
        {
            "token": token,
            "logprob": top[0][1],
            "bytes": list(token.encode()),
            "top_logprobs": [
                {"token": one, "logprob": logprob, "bytes": list(one.encode())}
                for one, logprob in top
            ],
        }
        for token, top in tokens
    ]
    message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
    message["reasoning_content"] = "The policy says so."
    logprobs = {"content": content} if with_logprobs and not refusal else None
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]}


def completions(text, tokens, *, with_logprobs, refusal):
    """Return an answer of /v1/completions, as vLLM gives it."""
    logprobs = {
        "text_offset": [],
        "tokens": [token for token, _ in tokens],
        "token_logprobs": [top[0][1] for _, top in tokens],
        "top_logprobs": [dict(top) for _, top in tokens],
    }
    choice = {"index": 0, "text": text, "logprobs": logprobs if with_logprobs else None}
    finish = "content_filter" if refusal else "stop"
    return {"object": "text_completion", "choices": [choice | {"finish_reason": finish}]}


def ollama(text, tokens, *, with_logprobs, refusal):
    """Return an answer of Ollama's /api/chat, which knows no refusals of its own."""
    message = {"role": "assistant", "content": "" if refusal else text, "thinking": "The policy."}
    found = {"model": "m", "message": message, "done": True, "done_reason": "stop"}
    if with_logprobs and not refusal:
        content = chat(text, tokens, with_logprobs=True, refusal=None)["choices"][0]
        found["logprobs"] = content["logprobs"]["content"]
    return found


SHAPES = {
    "openai-chat": (chat, "/v1/chat/completions"),
    "openai-completions": (completions, "/v1/completions"),
    "ollama-chat": (ollama, "/api/chat"),
}
PROMPTED = {"cope", "shieldstral", "wildguard"}
OPTIONS = {"gpt-oss-safeguard": {"policy": "No insults."}}


class GuardServer(Service):
    """A server of one shape with one family behind it."""

    def __init__(self, preset):
        shape, family = preset
        super().__init__("openai-chat")
        self.preset, self.family = shape, family
        wrap, path = SHAPES[shape]
        self.url = f"http://127.0.0.1:{self.server_port}{path}"
        self.with_logprobs, self.marked = True, "[[{}]]"

        def answer(request):
            body = request.json
            asked = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
            text = asked.removeprefix("[[").removesuffix("]]")
            tokens = sure(*EVADED) if "EVADE" in text else FAMILIES[self.family](toxicity(text))
            said = "".join(token for token, _ in tokens)
            refusal = "I cannot help with that." if "REFUSE" in text else None
            wants = bool(body.get("logprobs"))
            return wrap(said, tokens, with_logprobs=wants and self.with_logprobs, refusal=refusal)

        self.answer = answer
        self.options = {"guard": family, "options": {"model": "m", **OPTIONS.get(family, {})}}
        needs = shape != "openai-chat" and family in {
            "llama-guard-4",
            "shieldgemma",
            "granite-guardian-3.2",
            "granite-guardian-3.3",
        }
        if family in PROMPTED or needs or (shape == "openai-completions" and family in OPTIONS):
            self.options["prompt"] = "[[{{text}}]]"
