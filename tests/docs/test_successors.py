"""The guide's successors of Perspective, against local servers that answer as their pages say."""

import json
import logging
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
import yaml
from support.blocks import blocks_of
from support.services import RefusalError, perspective, serving, severity, toxicity
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.scoring.http.pace import Pace
from biasgate.tasks.scoring.http.preset import read_preset
from biasgate.tasks.scoring.kinds import http_requests

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "replacing-perspective.md"
TERMS = ["gay", "muslim", "deaf"]
COMMENT = "secretword"
BLANK = "  "
LONG = f"{COMMENT} a deaf person " + "writes on " * 1100
AXES = {"hate_and_discrimination": 1.0, "violence_and_threats": 0.5, "pii": 1.0}


def rows():
    rng = np.random.default_rng(0)
    words = np.array([*TERMS, "kind"])[rng.integers(0, 4, 240)]
    text = [f"{COMMENT} a {word} person number {at}" for at, word in enumerate(words)]
    text = np.array([*text, BLANK, LONG], dtype=object)
    toxic = [toxicity(one) + rng.normal(0, 0.3) > 0.5 for one in text]
    return pd.DataFrame(
        {"id": [f"c{at}" for at in range(len(text))], "comment": text, "toxic": np.int64(toxic)}
    )


def is_unknown(text):
    """Say whether a service lacks an attribute for a comment: in 90 % of those on Muslims."""
    return "muslim" in text and not text.endswith("3")


def demand(is_met, status, body):
    if not is_met:
        raise RefusalError(status, body)


def respectify(request, key):
    named = request.headers["X-User-Email"] == "team@example.org"
    error = {"error": {"code": 401, "message": "Unauthorized", "status": "UNAUTHENTICATED"}}
    demand(named and request.headers["X-API-Key"] == key, 401, error)
    text = request.json["comment"]["text"]
    asked = [] if is_unknown(text) else request.json["requestedAttributes"]
    value = {"summaryScore": {"value": toxicity(text), "type": "PROBABILITY"}}
    return {"attributeScores": dict.fromkeys(asked, value), "languages": ["en"]}


def moder8r(request, key):
    def error(code, kind, message):
        return {"error": {"code": code, "message": message, "type": kind}, "request_id": "req_1"}

    unknown = error("invalid_api_key", "authentication_error", "The provided key is invalid")
    demand(request.query.get("key") == [key], 401, unknown)
    text = request.json["comment"]["text"]
    long = error("content_too_long", "invalid_request_error", "Content exceeds maximum length")
    demand(len(text) <= 3000, 400, long)
    value = {"summaryScore": {"value": toxicity(text), "type": "PROBABILITY"}}
    asked = request.json["requestedAttributes"]
    return {"attributeScores": dict.fromkeys(asked, value), "languages": ["en"]}


def refuse_blank(texts):
    demand(all(text.strip() for text in texts), 400, {"error": {"message": "Input is empty"}})


def openai(request, key):
    demand(request.headers["Authorization"] == f"Bearer {key}", 401, {"error": {"code": "no"}})
    texts = request.json["input"]
    refuse_blank(texts)
    names = "harassment", "harassment/threatening", "hate", "hate/threatening", "sexual"
    scores = [dict.fromkeys(names, 0.0) | {"hate": toxicity(text), "sexual": 1} for text in texts]
    return {"results": [{"flagged": False, "category_scores": one} for one in scores]}


def mistral(request, key):
    demand(request.headers["Authorization"] == f"Bearer {key}", 401, {"message": "Unauthorized"})
    demand(request.json["model"] == "mistral-moderation-2603", 400, {"message": "Invalid model"})
    texts = request.json["input"]
    refuse_blank(texts)
    scores = [{name: share * toxicity(text) for name, share in AXES.items()} for text in texts]
    for text, found in zip(texts, scores, strict=True):
        if is_unknown(text):
            del found["violence_and_threats"]
    return {"model": "m", "results": [{"categories": {}, "category_scores": one} for one in scores]}


def azure(request, key):
    denied = {"error": {"code": "401", "message": "Access denied"}}
    demand(request.headers["Ocp-Apim-Subscription-Key"] == key, 401, denied)
    demand("api-version" in request.query, 404, {"error": {"code": "404"}})
    text, asked = request.json["text"], request.json["categories"]
    demand(len(text.strip()) > 0 and len(text) <= 10_000, 400, {"error": {"code": "InvalidReq"}})
    found = [
        {"category": name, "severity": severity(text) if name == "Hate" else 0} for name in asked
    ]
    return {"blocklistsMatch": [], "categoriesAnalysis": found}


def google(request, key):
    denied = {"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}
    demand(request.headers["X-Goog-Api-Key"] == key, 400, denied)
    text = request.json["document"]["content"]
    found = [{"name": "Legal", "confidence": 1}, {"name": "Toxic", "confidence": toxicity(text)}]
    return {"moderationCategories": found, "languageCode": "en"}


STAND_INS = {
    "respectify": respectify,
    "moder8r": moder8r,
    "openai": openai,
    "mistral": mistral,
    "azure": azure,
    "google": google,
}
# What each does to some requests, and what it says then.
FAULTS = {
    "moder8r": (429, {"Retry-After": "7"}),
    "openai": (429, {"Retry-After": "2"}),
    "azure": (503, {}),
    "google": (500, {}),
}


def successors():
    """Return the guide's candidates."""
    blocks = [block for block in blocks_of(PAGE) if block.language == "yaml"]
    [found] = [one for one in (yaml.safe_load(block.content) for block in blocks) if len(one) == 1]
    return found["candidates"]


def serve(stack, given):
    """Serve a candidate of the guide; return its settings with the server's address."""
    preset, name = read_preset(given["preset"]), given["name"]
    address = urlsplit(given.get("url") or preset.url)
    assert address.hostname == given["sends_text_to"]
    service = stack.enter_context(serving(given["preset"]))
    key = f"key-of+{name}/1="

    def answer(request):
        demand(request.path == address.path, 404, {"error": "unknown path"})
        return STAND_INS[name](request, key)

    service.answer = answer
    if name in FAULTS:
        status, service.headers = FAULTS[name]
        service.every = lambda n: status if n % 5 == 2 else None
    local = {"url": service.url.removesuffix(urlsplit(service.url).path) + address.path}
    settings = {key: value for key, value in given.items() if key != "sends_text_to"}
    variable = given.get("token_env") or preset.token_env
    rate = {"requests_per_second": 1e6}
    return settings | local | rate | {"token_env": variable}, variable, key


@pytest.fixture(scope="module")
def judged(tmp_path_factory, prefect_server):
    """A folder in which all successors were judged in a single evaluation, and what it printed."""
    del prefect_server
    folder = tmp_path_factory.mktemp("successors")
    rows().to_csv(folder / "labelled.csv", index=False)
    first = next(block for block in blocks_of(PAGE) if block.language == "yaml")
    content = yaml.safe_load(first.content)
    del content["analyses"]
    waits, pauses = [], []

    async def wait(seconds):
        waits.append(round(seconds))

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(folder)
        patch.setattr(http_requests, "sleep", wait)
        patch.setattr(Pace, "pause", lambda _, seconds: pauses.append(round(seconds)))
        for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
            patch.setattr(logging.getLogger(name), "disabled", True)
        keys, candidates = [], []
        for given in successors():
            settings, variable, key = serve(stack, given)
            patch.setenv(variable, key)
            candidates.append(settings)
            keys.append(key)
        service = stack.enter_context(serving("perspective"))
        service.answer = perspective
        patch.setenv("PERSPECTIVE_API_KEY", "the-secret-of-the-service")
        champion = content["champion"] | {"url": service.url, "token_env": "PERSPECTIVE_API_KEY"}
        champion["requests_per_second"] = 1e6
        del champion["sends_text_to"]
        content |= {"candidates": candidates, "champion": champion}
        Path("january.yaml").write_text(yaml.safe_dump(content), "utf-8")
        done = CliRunner().invoke(app, ["evaluate", "january.yaml", "--output", "out", "--yes"])
    return folder, done, (waits, pauses), keys


def missing(folder, name):
    report = json.loads((folder / f"out/labelled/{name}/report.json").read_text("utf-8"))
    return report["missing"]


def scores(folder, name):
    return pd.read_parquet(folder / f"out/labelled/{name}/evidence.parquet")["score/candidate"]


pytestmark = pytest.mark.slow


def test_the_guide_has_every_successor():
    assert [one["name"] for one in successors()] == list(STAND_INS)


def test_each_is_judged_and_gives_each_comment_its_own_score(judged):
    folder, done, _, _ = judged
    assert done.exit_code in {0, 3, 4}, done.output + done.stderr
    texts = rows()["comment"]
    for name in STAND_INS:
        found, known = scores(folder, name), texts.map(toxicity)
        if name == "azure":
            known = texts.map(severity) / 7
        has_score = found.notna()
        assert has_score.sum() > 150
        assert found[has_score].tolist() == pytest.approx(known[has_score].tolist(), abs=1e-12)


def test_comments_without_a_score_have_the_reason_of_their_service(judged):
    folder, *_ = judged
    unknown = int(rows()["comment"].map(is_unknown).sum())
    assert unknown > 40
    expected = {
        "respectify": {"empty": 1, "without TOXICITY": unknown},
        "moder8r": {"empty": 1, "status 400 (Content exceeds maximum length)": 1},
        "openai": {"status 400 (Input is empty)": 1},
        "mistral": {"status 400 (Input is empty)": 1, "without violence_and_threats": unknown},
        "azure": {"empty": 1, "too_long": 1},
        "google": {"empty": 1},
    }
    assert {name: missing(folder, name)["reasons"] for name in STAND_INS} == expected


@pytest.mark.parametrize("name", ["respectify", "mistral"])
def test_a_missing_attribute_is_counted_by_identity(judged, name):
    folder, *_ = judged
    muslim = missing(folder, name)["subgroups"]["muslim"]
    texts = rows()["comment"]
    mentions = texts[texts.str.contains("muslim")]
    assert (muslim["n"], muslim["n_marked"]) == (len(mentions), mentions.map(is_unknown).sum())
    assert muslim["gap"]["low"] > 0.5
    shown = CliRunner().invoke(app, ["show", str(folder / f"out/labelled/{name}")])
    assert "significantly more often so for muslim" in " ".join(shown.output.split())


def test_the_wait_that_a_service_asks_for_is_kept(judged):
    _, _, (waits, pauses), _ = judged
    assert set(pauses) == {2, 7}
    assert {2, 7} <= set(waits)


def test_no_key_and_no_comment_is_shown(judged):
    folder, done, _, keys = judged
    suffixes = {".json", ".csv", ".html", ".md", ".xml", ".yaml"}
    files = [path for path in (folder / "out").rglob("*") if path.suffix in suffixes]
    assert len(files) > 20
    for text in (done.output, done.stderr, *(path.read_text("utf-8") for path in files)):
        assert COMMENT not in text
        assert not [key for key in keys if key in text or key.split("/")[0] in text]
