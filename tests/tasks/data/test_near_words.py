import json

import pandas as pd
import pytest

from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.data.near_words import NearTerms, stem_word
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.measuring.cautions import warn_of_other_forms


def count_near(terms, texts):
    matcher = TermMatcher(terms)
    matcher.mentions(texts)
    return matcher.summarize_near_words()


def test_words_that_begin_like_a_term_are_counted_where_it_was_not_found():
    texts = [*["tych muzułmanów"] * 4, "muzułmanin i muzułmanów", "nic"]
    near_terms = count_near({"muslim": ["muzułmanin"], "women": ["kobieta"]}, texts)
    assert near_terms == {
        "muslim": NearTerms(n_looked_at=6, n_found=1, n_near=4, words={"muzułmanów": 4})
    }


def test_forms_with_what_is_attached_to_them_count_too():
    assert count_near({"jews": ["يهود"]}, ["واليهوديات"] * 3)["jews"].words == {"واليهوديات": 3}


def test_a_word_with_an_accent_that_the_term_lacks_is_told():
    near_terms = count_near({"indigenous": ["indigena"]}, ["os indígenas"] * 3 + ["indígena"] * 4)
    assert near_terms["indigenous"].words == {"indígena": 4, "indígenas": 3}


def test_listed_forms_and_terms_without_borders_have_none():
    assert count_near({"gay": ["gay", "gays"], "women": ["女人"]}, ["gays", "女人们"] * 3) == {}
    assert count_near({"gay": ["gay*"]}, ["gays"] * 3) == {}


@pytest.mark.parametrize("word", ["gaylord77", "gay_anna", "gay" + "y" * 40])
def test_rare_words_and_what_may_be_the_name_of_an_account_are_not_told(word):
    assert count_near({"gay": ["gay"]}, [word] * 5)["gay"] == NearTerms(
        n_looked_at=5, n_found=0, n_near=5, words={}
    )
    assert count_near({"gay": ["gay"]}, ["gayle"] * 2)["gay"].words == {}


def test_a_stem_lacks_more_of_longer_words():
    assert [stem_word(w) for w in ("gej", "kobie", "kobieta", "muzułmanin", "काला")] == [
        "gej",
        "kobi",
        "kobie",
        "muzułman",
        "काल",
    ]


def test_the_warning_names_identities_whose_other_forms_are_frequent(tmp_path):
    texts = ["o muzułmanach", "jeden muzułmanin", "kobieta", "kobiety"] * 5
    rows = pd.DataFrame({"id": range(20), "text": texts, "label": [0, 1] * 10})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    settings = {"name": "rows", "source": "table", "path": tmp_path / "rows.csv", "text": "text"}
    terms = {"muslim": ["muzułmanin"], "women": ["kobieta", "kobiety"]}
    frozen = freeze_source(SOURCES.validate_python(settings | {"terms": terms}), tmp_path / "store")
    near_terms = {k: NearTerms(**counts) for k, counts in frozen.record["near_terms"].items()}
    warning = warn_of_other_forms(near_terms)
    assert "muslim in 5 comments (found in 5 of 20), such as muzułmanach (5)" in warning
    assert "women" not in warning
    assert "jeden" not in json.dumps(frozen.record)
    assert warn_of_other_forms({}) is None
