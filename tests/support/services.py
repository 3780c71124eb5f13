"""Local servers that behave as moderation services document it: answers, limits, errors, quirks.

What each does is in the documentation that its preset names. The score of a text is `toxicity`.
"""

import json
import threading
import zlib
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

KEY = "the-secret-of-the-service"


def toxicity(text):
    """Return a score that depends on the text alone, in steps of 1/1000."""
    return (zlib.crc32(text.encode("utf-8", "replace")) % 1001) / 1000


def severity(text):
    return round(7 * toxicity(text))


class RefusalError(Exception):
    """An error that the service documents."""

    def __init__(self, status, body):
        super().__init__(status)
        self.status, self.body = status, body


def mlflow(request):
    return {"predictions": [toxicity(text) for text in request.json["inputs"]]}


def kserve(request):
    [tensor] = request.json["inputs"]
    if tensor["datatype"] != "BYTES" or tensor["shape"] != [len(tensor["data"]), 1]:
        raise RefusalError(400, {"error": "[request id: <id_unknown>] unexpected shape for input"})
    flat = [one for text in tensor["data"] for one in (1 - toxicity(text), toxicity(text))]
    shape = [len(tensor["data"]), 2]
    output = {"name": "probabilities", "datatype": "FP32", "shape": shape, "data": flat}
    return {"model_name": "m", "model_version": "1", "outputs": [output]}


def torchserve(request):
    if not request.headers["Content-Type"].startswith("text/plain"):
        raise RefusalError(
            503, {"code": 503, "type": "InternalServerException", "message": "failed"}
        )
    text = request.body.decode()
    return {"harmless": 1 - toxicity(text), "toxic": toxicity(text)}


def tei(request):
    inputs = request.json["inputs"]
    if len(inputs) > 32:
        raise RefusalError(
            413, {"error": f"batch size {len(inputs)} > 32", "error_type": "Validation"}
        )
    if not all(one[0] for one in inputs):
        raise RefusalError(413, {"error": "`inputs` cannot be empty", "error_type": "Validation"})
    if not all(isinstance(one, list) for one in inputs):  # two texts are a pair to compare
        return [{"score": 0.9, "label": "harmless"}, {"score": 0.1, "label": "toxic"}]
    both = [[(1 - toxicity(text), "harmless"), (toxicity(text), "toxic")] for [text] in inputs]
    return [[{"score": score, "label": label} for score, label in sorted(one)] for one in both]


def inference_endpoint(request):
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        raise RefusalError(401, {"error": "Invalid credentials"})
    most = request.json["parameters"]["top_k"]
    inputs = request.json["inputs"]
    both = [[(1 - toxicity(text), "harmless"), (toxicity(text), "toxic")] for text in inputs]
    return [
        [{"label": label, "score": score} for score, label in sorted(one, reverse=True)[:most]]
        for one in both
    ]


def vllm(request):
    texts = request.json["input"]
    if any(len(text) > 8000 for text in texts):
        text = "This model's maximum context length is 2048 tokens. However, you requested more."
        raise RefusalError(
            400, {"error": {"message": text, "type": "BadRequestError", "code": 400}}
        )
    data = [
        {"index": at, "label": "x", "probs": [1 - toxicity(text), toxicity(text)], "num_classes": 2}
        for at, text in enumerate(texts)
    ]
    return {"id": "classify-1", "object": "list", "model": "m", "data": data[::-1], "usage": {}}


def moderations(request):
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        raise RefusalError(
            401, {"error": {"code": "invalid_api_key", "message": "Incorrect API key"}}
        )
    results = []
    for text in request.json["input"]:
        scores = {"hate": toxicity(text), "harassment": toxicity(text) / 2, "sexual": 0.99}
        scores |= {"hate/threatening": 0.0, "harassment/threatening": 0.0}
        results.append({"flagged": False, "categories": {}, "category_scores": scores})
    return {"id": "modr-1", "model": "omni-moderation-latest", "results": results}


def azure(request):
    if request.headers.get("Ocp-Apim-Subscription-Key") != KEY:
        raise RefusalError(401, {"error": {"code": "401", "message": "Access denied"}})
    if request.query.get("api-version") != ["2024-09-01"]:
        raise RefusalError(404, {"error": {"code": "404", "message": "Resource not found"}})
    text = request.json["text"]
    if not text.strip() or len(text) > 10_000:
        raise RefusalError(400, {"error": {"code": "InvalidRequestBody", "message": "bad length"}})
    of_each = {"Hate": severity(text), "Violence": severity(text) // 2, "Sexual": 7, "SelfHarm": 7}
    asked = request.json["categories"]
    found = [{"category": name, "severity": of_each[name]} for name in asked]
    return {"blocklistsMatch": [], "categoriesAnalysis": found}


def google(request):
    if request.headers.get("X-Goog-Api-Key") != KEY:
        details = [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        ]
        raise RefusalError(400, {"error": {"code": 400, "details": details}})
    text = request.json["document"]["content"]
    if not text.strip():
        raise RefusalError(400, {"error": {"code": 400, "status": "INVALID_ARGUMENT"}})
    found = [{"name": "Toxic", "confidence": toxicity(text)}, {"name": "Legal", "confidence": 1}]
    return {"moderationCategories": found, "languageCode": "en", "languageSupported": True}


def is_foreign(text):
    """Say whether Perspective does not know the language of a text, here."""
    return any(one.isalpha() and ord(one) > 0x500 for one in text)


def perspective_error(kind):
    found = {
        "@type": "type.googleapis.com/google.commentanalyzer.v1alpha1.Error",
        "errorType": kind,
    }
    return RefusalError(
        400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [found]}}
    )


def perspective(request):
    if request.headers.get("X-Goog-Api-Key") != KEY:
        raise RefusalError(403, {"error": {"code": 403, "status": "PERMISSION_DENIED"}})
    text = request.json["comment"]["text"]
    if not text.strip():
        raise perspective_error("COMMENT_EMPTY")
    if len(text.encode()) > 20_480:
        raise perspective_error("COMMENT_TOO_LONG")
    if is_foreign(text):
        raise perspective_error("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE")
    value = {"value": toxicity(text), "type": "PROBABILITY"}
    asked = request.json["requestedAttributes"]
    return {
        "attributeScores": {
            name: {"spanScores": [{"begin": 0, "end": len(text), "score": value}]}
            | {"summaryScore": value}
            for name in asked
        },
        "languages": ["en"],
    }


def chat(request):
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        raise RefusalError(
            401, {"error": {"code": "invalid_api_key", "message": "Incorrect API key"}}
        )
    text = request.json["messages"][-1]["content"].removeprefix("Is this toxic? ")
    return judged(text, toxicity(text))


def judged(text, toxic):
    """Return the answer of a judge, which refuses what asks for it."""
    import math  # noqa: PLC0415

    if "REFUSE" in text:
        message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        return {"choices": [{"index": 0, "message": message, "logprobs": None}]}
    shares = {" Yes": 0.3 * toxic, "yes": 0.6 * toxic, "No": 0.9 * (1 - toxic), "I": 0.1}
    if "EVADE" in text:
        shares = {"I": 0.9, "yes": 0.04, "no": 0.01}
    top = [{"token": one, "logprob": math.log(p)} for one, p in shares.items() if p > 0]
    content = [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]
    message = {"role": "assistant", "content": top[0]["token"], "refusal": None}
    choice = {"index": 0, "finish_reason": "length", "message": message}
    return {"choices": [choice | {"logprobs": {"content": content, "refusal": None}}]}


def completions(request):
    """Answer as the older endpoint does: a prompt, and lists side by side."""
    body = request.json
    asked = {"messages": [{"content": body["prompt"]}]}
    return in_lists(chat(_Asked(request.headers, asked)))


def in_lists(answer):
    [choice] = answer["choices"]
    if choice["logprobs"] is None:
        return {"choices": [{"text": "", "logprobs": None, "finish_reason": "content_filter"}]}
    content = choice["logprobs"]["content"]
    lists = {"tokens": [one["token"] for one in content], "top_logprobs": []}
    for one in content:
        lists["top_logprobs"].append({top["token"]: top["logprob"] for top in one["top_logprobs"]})
    return {"choices": [{"text": choice["message"]["content"], "logprobs": lists}]}


def ollama(request):
    asked = request.json["messages"][-1]["content"].removeprefix("Is this toxic? ")
    if request.json["stream"] is not False:
        raise RefusalError(400, {"error": "this server answers at once"})
    [choice] = judged(asked, toxicity(asked))["choices"]
    message = {"role": "assistant", "content": choice["message"]["content"] or ""}
    logprobs = (choice["logprobs"] or {}).get("content")
    return {"model": "m", "message": message, "done": True, "logprobs": logprobs}


class _Asked:
    def __init__(self, headers, body):
        self.headers, self.json = headers, body


SERVICES = {
    "mlflow": (mlflow, "/invocations", {}),
    "kserve": (kserve, "/v2/models/m/infer", {"options": {"output": "probabilities"}}),
    "torchserve": (torchserve, "/predictions/m", {"categories": ["toxic"]}),
    "tei": (tei, "/predict", {"categories": ["toxic"]}),
    "inference-endpoints": (inference_endpoint, "/", {"categories": ["toxic"]}),
    "vllm": (vllm, "/classify", {"options": {"model": "m"}}),
    "openai-moderations": (moderations, "/v1/moderations", {}),
    "azure-content-safety": (azure, "/contentsafety/text:analyze", {}),
    "google-moderate-text": (google, "/v2/documents:moderateText", {}),
    "perspective": (perspective, "/v1alpha1/comments:analyze", {}),
    "openai-chat": (
        chat,
        "/v1/chat/completions",
        {"options": {"model": "m"}, "prompt": "Is this toxic? {{text}}"},
    ),
    "openai-completions": (
        completions,
        "/v1/completions",
        {"options": {"model": "m"}, "prompt": "Is this toxic? {{text}}"},
    ),
    "ollama-chat": (
        ollama,
        "/api/chat",
        {"options": {"model": "m"}, "prompt": "Is this toxic? {{text}}"},
    ),
}


def expected(preset, text):
    """Return the score of a text by a service."""
    return severity(text) / 7 if preset == "azure-content-safety" else toxicity(text)


class Service(ThreadingHTTPServer):
    """A service, and the faults of its coming answers: statuses, or words for worse."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, preset):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.preset = preset
        self.answer, path, self.options = SERVICES[preset]
        self.url = f"http://127.0.0.1:{self.server_port}{path}"
        self.faults = []
        self.always = None
        self.every = None  # a function of the number of a request that returns its fault, or None
        self.headers = {}  # of faults
        self.bodies = {}  # of faults, by status
        self.seen = []
        self.answered = Counter()
        self.released = threading.Event()
        self.lock = threading.Lock()

    def candidate(self, **options):
        """Return the settings of a candidate that is this service."""
        known = {"name": "served", "kind": "http", "preset": self.preset, "url": self.url}
        known |= {"version": "1", "token_env": "SERVICE_KEY", "requests_per_second": 1e9}
        return known | {"tokens_per_second": 1e9, "timeout_s": 60} | self.options | options

    def fault(self):
        with self.lock:
            if self.always is not None:
                return self.always
            if self.faults:
                return self.faults.pop(0)
            return self.every(len(self.seen)) if self.every else None


class Request:
    def __init__(self, handler):
        self.headers = handler.headers
        self.body = handler.rfile.read(int(handler.headers["Content-Length"]))
        parts = urlsplit(handler.path)
        self.path, self.query = parts.path, parse_qs(parts.query)

    @property
    def json(self):
        return json.loads(self.body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server, request = self.server, Request(self)
        fault = server.fault()
        with server.lock:
            server.seen.append(request)
        if fault == "hang":
            server.released.wait(300)
        if fault in {"hang", "cut"}:
            self.close_connection = True
            return
        headers, status = {}, 200
        if fault == "garbage":
            content = b"<html>" + request.body
        elif fault is not None:
            headers, status = server.headers, fault
            content = json.dumps(server.bodies.get(fault, {"error": str(request.body)})).encode()
        else:
            try:
                content = json.dumps(server.answer(request)).encode()
                with server.lock:
                    server.answered[request.body] += 1
            except RefusalError as refusal:
                status, content = refusal.status, json.dumps(refusal.body).encode()
        (self.send_response_only if "Date" in headers else self.send_response)(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def serving(preset, make=Service):
    """Run a service."""
    made = make(preset)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.released.set()
        made.shutdown()
        thread.join()
        made.server_close()
