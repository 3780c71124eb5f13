"""A service's own sentence is shown without what it may quote of a comment."""

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.services import KEY, serving

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_rows
from biasgate.tasks.scoring.http.sentences import extract_sentence
from biasgate.tasks.scoring.kinds import http_requests as requests
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

WORDS = st.text(st.sampled_from("xyzäß本ت7"), min_size=3, max_size=12)
FORMS = (
    "Input {0!r} is not valid",
    "cannot tokenize {0}",
    "unknown word <{0}> at 3",
    "{0}",
    "bad.{0}.token",
    "prefix{0}suffix",
    "got {1}",
    "Text: {2}",
)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(FORMS), st.booleans())
def test_no_word_of_a_comment_is_shown(words, form, is_json):
    comment = " ".join(words)
    said = form.format(comment, json.dumps(comment), comment.upper())
    answer = {"error": {"message": said}} if is_json else None
    found = extract_sentence(answer, said.encode(), [comment]).casefold()
    assert not any(word.casefold() in found for word in words)
    assert not re.search(r"\\u[0-9a-f]{4}", found)


def test_a_sentence_is_whole_if_the_comment_says_nothing_of_it():
    said = "Text is too long for this model: 9000 of 8192 tokens"
    assert extract_sentence({"detail": said}, b"", ["something else that is too good"]) == said


def freeze_texts(folder, texts):
    table = pa.table({"id": [f"c{n}" for n in range(len(texts))], "text": texts})
    table = table.append_column("label", pa.array([n % 2 / 1 for n in range(len(texts))]))
    return freeze_rows([table], folder / "rows", name="rows", split="all", source={})


def score_texts(folder, texts, refuses):
    with serving("mlflow") as service:
        service.answer = lambda request: (
            {"error": {"message": "No such script"}}
            if any(refuses in text for text in request.json["inputs"])
            else {"predictions": [len(text) / 1e3 for text in request.json["inputs"]]}
        )
        one = CANDIDATES.validate_python(service.candidate())
        with one.open(None) as scorer:
            return score_rows(scorer, freeze_texts(folder, texts), one, str(folder / "scores"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.001)
    monkeypatch.setenv("SERVICE_KEY", KEY)


def test_one_refused_comment_of_a_set_is_counted_with_the_sentence(tmp_path):
    texts = [f"a comment{'!' * n}" for n in range(90)]
    kept = score_texts(tmp_path, [*texts, "a riddle"], "riddle")
    assert kept.table()["score"].to_pylist()[:90] == [len(text) / 1e3 for text in texts]
    assert kept.reasons() == {"status 200 (No such script)": 1}


def test_a_set_of_which_all_comments_are_refused_ends_with_the_sentence(tmp_path):
    told = r"all are missing \(3 answers without a score \(No such script\)\)"
    with pytest.raises(InputError, match=told):
        score_texts(tmp_path, ["a riddle", "riddles", "riddle!"], "riddle")
