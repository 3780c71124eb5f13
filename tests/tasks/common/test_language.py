"""Catalogues: every message in each, with the same places; numbers and names as the reader's."""

import re
import string

import pytest
from babel.messages.pofile import read_po
from support.messages import CATALOGUES, expected

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.language import (
    LANGUAGES,
    Said,
    as_html,
    as_sentence,
    as_written,
    by_locale,
    direction,
    isolated_html,
    listed,
    percent_sign,
    phrase,
    phrase_of,
    reading,
    visible,
    whole_number,
    without_stop,
)

OTHERS = [one for one in LANGUAGES if one != "en"]
# Of the languages of the world's catalogues, by GNU gettext's manual and Unicode's plural rules.
PLURALS = {"de": 2, "fr": 2, "es": 2, "ar": 6}
NAME, WRITTEN, END = "\u2068", "\u2066", "\u2069"


def catalogue(code):
    with (CATALOGUES / f"{code}.po").open("rb") as file:
        return read_po(file, locale=code)


def places(text):
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def texts_of(message):
    return message.string if isinstance(message.string, tuple) else (message.string,)


@pytest.mark.parametrize("code", OTHERS)
def test_a_catalogue_has_every_message_and_no_other(code):
    known = {one.id for one in catalogue(code) if one.id}
    assert known == {one.id for one in expected() if one.id}


@pytest.mark.parametrize("code", OTHERS)
def test_every_message_is_translated_with_the_same_places(code):
    for message in catalogue(code):
        if not message.id:
            continue
        several = message.id[1] if message.pluralizable else message.id
        assert not message.fuzzy
        for text in texts_of(message):
            assert places(text) == places(several), message.id
            assert text, message.id


@pytest.mark.parametrize("code", OTHERS)
def test_plurals_have_as_many_forms_as_the_language(code):
    found = catalogue(code)
    assert found.num_plurals == PLURALS[code]
    forms = [len(one.string) for one in found if one.pluralizable]
    assert forms
    assert set(forms) == {PLURALS[code]}


def test_a_message_with_words_is_said_otherwise_in_arabic():
    latin = re.compile(r"\{\w+\}|`\w+`|[\w./]+\.(csv|json)|AUC|AEG|CSV|show --all")
    for message in catalogue("ar"):
        for text in texts_of(message) if message.id else ():
            assert not re.search("[A-Za-z]", latin.sub("", text)), message.id


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (0, "0 فحص: x"),
        (1, "فحص واحد (1): x"),
        (2, "فحصان (2): x"),
        (3, "3 فحوص: x"),
        (10, "10 فحوص: x"),
        (11, "11 فحصًا: x"),
        (99, "99 فحصًا: x"),
        (100, "100 فحص: x"),
        (102, "102 فحص: x"),
        (103, "103 فحوص: x"),
    ],
)
def test_arabic_counts_in_six_forms(n, said):
    with reading("ar"):
        text = phrase_of(n, "{n} check: {outcomes}", "{n} checks: {outcomes}", outcomes=Said("x"))
    assert text == said


def test_an_unknown_language_is_refused_with_those_that_are_known():
    with (
        pytest.raises(InputError, match=r"`language` must be one of en, de, fr, es, ar; got 'it'"),
        reading("it"),
    ):
        pass


def test_english_is_as_it_is_written():
    assert phrase("{n} more", n=1234) == "1,234 more"
    assert phrase_of(1, "{n} a", "{n} b") == "1 a"
    assert listed(["a", "b\x1b"]) == "a, b\x1b"
    assert as_written("a\x1b") == "a\x1b"
    assert visible("a\x1b") == "a\\x1b"
    assert isolated_html("<b>") == "&lt;b&gt;"


@pytest.mark.parametrize(
    ("code", "n", "decimals", "percent"),
    [
        ("en", "12,345", "+0.5", "%"),
        ("de", "12.345", "+0,5", "\u00a0%"),
        ("fr", "12\u202f345", "+0,5", "\u00a0%"),
        ("es", "12.345", "+0,5", "\u00a0%"),
        ("ar", "12,345", "+0.5", "%"),
    ],
)
def test_numbers_are_written_by_locale(code, n, decimals, percent):
    with reading(code):
        assert (whole_number(12345), by_locale("+0.5"), percent_sign()) == (n, decimals, percent)


def test_the_language_ends_with_its_block():
    with reading("de"), reading("ar"):
        assert direction() == "rtl"
    assert direction() == "ltr"
    assert phrase("Passed") == "Passed"


HOSTILE = f"\u202egay{END}{NAME}<b>{{n}}"


@pytest.mark.parametrize("code", OTHERS)
def test_a_name_is_isolated_and_cannot_leave_its_place(code):
    with reading(code):
        text = phrase("also {names}", names=HOSTILE)
        line, html = visible(text), as_html(text, lambda part: part)
    escaped = "\\u202egay\\u2069\\u2068<b>{n}"
    assert escaped in line
    assert line.count(NAME) == line.count(END) == (code == "ar")
    assert "<bdi>\\u202egay\\u2069\\u2068&lt;b&gt;{n}</bdi>" in html


def test_a_text_whose_isolates_do_not_match_is_escaped():
    with reading("ar"):
        assert visible(Said(f"a{END}{NAME}")) == "a\\u2069\\u2068"
        assert as_html(Said(f"<a>{NAME}"), lambda part: part) == "&lt;a&gt;\\u2068"
        assert visible(f"{NAME}a{END}") == "\\u2068a\\u2069"  # of no catalogue


@pytest.mark.parametrize("stop", ["", "."])
def test_a_sentence_without_its_stop_can_be_put_into_another(stop):
    with reading("ar"):
        inner = phrase("{claim} on {set}", claim="AUC", set="night") + stop
        whole = phrase("{claim} (on {set})", claim=without_stop(Said(inner)), set="night")
        assert "\\u2068" not in visible(whole)


def test_what_has_no_letter_is_read_from_left_to_right():
    with reading("ar"):
        assert isolated_html("[+0.1, +0.2]") == '<bdi dir="ltr">[+0.1, +0.2]</bdi>'
        assert isolated_html("عربي") == "<bdi>عربي</bdi>"


def test_english_in_other_languages_says_that_it_is():
    with reading("de"):
        text = as_written("It failed.")
        assert as_html(text, lambda part: part) == '<span lang="en" dir="ltr">It failed.</span>'
        assert visible(text) == "It failed."
        assert without_stop(text) == f"{WRITTEN}It failed{END}"
        assert as_sentence(text) == text
    with reading("ar"):
        assert visible(text) == f"{WRITTEN}It failed.{END}"
