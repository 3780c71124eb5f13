import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasgate.tasks.data.terms import TermMatcher


def find_mentions(text, *words, matching="longest"):
    matcher = TermMatcher({word: [word] for word in words}, matching)
    (row,) = matcher.mentions([text])
    return {name for name, flag in zip(matcher.identities, row, strict=True) if flag}


@pytest.mark.parametrize(
    "text",
    ["a gay man", "Gay", "GAY!", "(gay)", "so-called gay-friendly", "gay's view", "ça gay été"],
)
def test_a_whole_word_is_found_whatever_its_case_and_punctuation(text):
    assert find_mentions(text, "gay") == {"gay"}


@pytest.mark.parametrize(
    "text", ["gayle", "nosegay", "gay_man", "gays", "g a y", "gay2", "égay", ""]
)
def test_a_part_of_a_word_is_not_found(text):
    assert find_mentions(text, "gay") == set()


def test_characters_that_mean_something_in_patterns_are_taken_as_they_are():
    assert find_mentions("a.b c+ (d)", "a.b", "c+", "(d)") == {"a.b", "c+", "(d)"}
    assert find_mentions("axb", "a.b") == set()


def test_any_white_space_may_stand_between_the_words_of_a_term():
    assert find_mentions("African  \n American", "african american") == {"african american"}
    assert find_mentions("african-american", "african american") == set()


def test_the_longest_term_takes_the_place_and_overlap_gives_it_to_all():
    words = "african", "american", "african american"
    assert find_mentions("an african american man", *words) == {"african american"}
    assert find_mentions("an african american man", *words, matching="overlap") == set(words)
    assert find_mentions("african american and african", *words) == {"african american", "african"}


def test_an_identity_may_have_several_terms_and_a_term_several_identities():
    matcher = TermMatcher({"lgbt": ["Gay", "lesbian"], "men": ["gay", "man"]})
    mentions = matcher.mentions(["a gay", "a lesbian", "a man", "none"])
    assert mentions.tolist() == [[True, True], [True, False], [False, True], [False, False]]


@pytest.mark.parametrize("text", ["mu\u017flim", "MUSL\u0130M", "musl\u0131m"])
@pytest.mark.parametrize("matching", ["longest", "overlap"])
def test_letters_whose_case_rules_differ_do_no_harm(text, matching):
    assert find_mentions(text, "muslim", "jew", matching=matching) == {"muslim"}


@pytest.mark.parametrize("terms", [{"a": []}, {"a": [""]}, {"a": ["b"], "c": [" "]}])
def test_an_empty_term_would_match_everywhere_and_is_refused(terms):
    with pytest.raises(ValueError, match="none may be empty"):
        TermMatcher(terms)


WORDS = ["old", "older", "very old", "old man", "man"]
TEXTS = st.lists(st.sampled_from([*WORDS, "the", "woman"]), max_size=8).map(" ".join)


@given(TEXTS)
def test_overlap_agrees_with_one_search_a_word(text):
    naive = {w for w in WORDS if re.search(rf"\b{re.escape(w)}\b", text)}
    assert find_mentions(text, *WORDS, matching="overlap") == naive


@given(TEXTS)
def test_longest_finds_a_part_of_what_overlap_finds(text):
    longest, overlap = find_mentions(text, *WORDS), find_mentions(text, *WORDS, matching="overlap")
    assert longest <= overlap
    assert bool(longest) == bool(overlap)


def test_the_mask_has_a_column_for_every_identity_even_without_texts():
    assert TermMatcher({"a": ["a"], "b": ["b"]}).mentions([]).shape == (0, 2)
    assert TermMatcher({"a": ["a"]}).mentions(["a"]).dtype == np.bool_


@pytest.mark.parametrize("matching", ["longest", "overlap"])
def test_the_columns_say_which_terms_found_which_identity(matching):
    matcher = TermMatcher({"lgbt": ["Gay", "gay man"], "men": ["gay", "man", "men"]}, matching)
    texts = ["a gay man, a gay and a gay", "men and a man", "none"]
    columns = matcher.build_columns(texts)
    *mentions, matched = columns.values()
    assert np.transpose(mentions).tolist() == matcher.mentions(texts).tolist()
    assert list(columns) == ["identity/lgbt", "identity/men", "terms"]
    terms, identities = zip(*matcher.list_coded_terms(), strict=True)
    assert dict(zip(terms, identities, strict=True)) == {
        "Gay": ["lgbt", "men"],
        "gay man": ["lgbt"],
        "man": ["men"],
        "men": ["men"],
    }
    names = [{terms[code] for code in codes} for codes in matched.to_pylist()]
    overlapping = {"man"} if matching == "overlap" else set()
    assert names == [{"Gay", "gay man"} | overlapping, {"man", "men"}, set()]
