"""Clusters of copies: copies of a text are not independent, so many copies form clusters."""

import unicodedata
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.data.same_texts import normalize_text
from biasgate.tasks.evidence.choose import choose_rows, find_clusters
from biasgate.tasks.measuring.cautions import describe_copies

N = 1000


def frozen(folder, texts, **columns):
    draws = np.random.default_rng(0)
    table = {"id": range(N), "label": draws.integers(0, 2, N), "gay": draws.integers(0, 2, N)}
    pd.DataFrame(table | {"text": texts} | columns).to_parquet(folder / "t.parquet")
    options = {"text": "text", "identities": ["gay"]} | {name: name for name in columns}
    source = {"name": "t", "source": "table", "path": folder / "t.parquet"} | options
    return freeze_source(SOURCES.validate_python(source), folder / "store")


def make_texts(n_different):
    return [f"comment {at % n_different}" for at in range(N)]


def test_more_than_a_few_copies_are_clusters(tmp_path):
    codes, n_copies = find_clusters(frozen(tmp_path, make_texts(600)))
    assert n_copies == 400
    assert (codes == np.arange(N) % 600).all()


FORMS = {
    "case": str.upper,
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "full width": lambda text: text.translate({code: code + 0xFEE0 for code in range(33, 127)}),
    "spaces": lambda text: f"  {text.replace(' ', chr(160) + chr(9))}\n",
    "invisible": lambda text: text.replace(" ", "\u200b \ufeff"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_in_another_form_is_a_copy(tmp_path, form):
    texts = [f"Straße, déjà vu {at % 600}" for at in range(N)]
    texts[600:] = map(FORMS[form], texts[600:])
    assert len(set(texts)) == N
    codes, n_copies = find_clusters(frozen(tmp_path, texts))
    assert n_copies == 400
    assert (codes == np.arange(N) % 600).all()


@given(st.text())
def test_the_normal_form_is_that_of_itself_and_of_its_other_forms(text):
    form = normalize_text(text)
    assert normalize_text(form) == form
    for other in ("NFC", "NFD", "NFKC", "NFKD"):
        assert normalize_text(unicodedata.normalize(other, text)) == form
    assert normalize_text(f" {text}\r\n") == form
    if text.isascii():
        assert form == " ".join(text.lower().split())


@pytest.mark.parametrize(("n_different", "clustered"), [(1000, False), (990, False), (989, True)])
def test_up_to_one_row_of_a_hundred_may_be_a_copy(tmp_path, n_different, clustered):
    codes, n_copies = find_clusters(frozen(tmp_path, make_texts(n_different)))
    assert n_copies == N - n_different
    assert (codes is not None) is clustered


def test_texts_that_are_lacking_are_not_the_same(tmp_path):
    texts = [" " if at < 300 else text for at, text in enumerate(make_texts(N))]
    assert find_clusters(frozen(tmp_path, texts)) == (None, 0)
    texts = [" " if at < 300 else text for at, text in enumerate(make_texts(650))]
    codes, n_copies = find_clusters(frozen(tmp_path, texts))
    assert n_copies == 50
    assert np.unique(codes).size == N - 50
    assert np.unique(codes[:300]).size == 300


def test_a_named_cluster_counts_and_no_other(tmp_path):
    threads = [f"thread {at % 7}" for at in range(N)]
    codes, n_copies = find_clusters(frozen(tmp_path, make_texts(10), cluster=threads))
    assert (np.unique(codes).size, n_copies) == (7, None)


def test_a_report_says_how_many_comments_are_copies(tmp_path):
    evaluation_set = frozen(tmp_path, make_texts(600))
    source = SOURCES.validate_python(
        {"name": "t", "source": "table", "path": tmp_path / "t.parquet"} | {"identities": ["gay"]}
    )
    choices = choose_rows(evaluation_set, source)[2]
    few, many = (replace(choices, n_copies=400, n_clusters=of) for of in (None, 600))
    assert describe_copies(few) is None
    assert describe_copies(many).startswith(
        "400 of 1,000 comments (40%) are copies of another's text"
    )
