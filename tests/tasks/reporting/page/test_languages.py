"""Pages in other languages: nothing of the first screen stays English that does not say so."""

import re
from pathlib import Path

import pytest
from support.html_page import read_page
from support.judged import by_place, judge, rows, summary_of
from support.messages import expected

from biasgate.tasks.common.language import LANGUAGES, looked_up, reading
from biasgate.tasks.reporting.notifications import message_of, plain_text
from biasgate.tasks.reporting.page.page import candidate_page, evaluation_page
from biasgate.tasks.reporting.page.writing import render
from biasgate.tasks.reporting.results import Published, Results

NAMES = ["gay", "muslim", "deaf"]
OTHERS = [one for one in LANGUAGES if one != "en"]
# Names of metrics and files, and what the page's own mathematics writes.
LATIN = re.compile(r"Subgroup AUC|BPSN AUC|BNSP AUC|(Posi|Nega)tive AEG|AUC|AEG|CSV|n = |\w+\.csv")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A candidate that is worse than the champion for one identity; nothing mentions another."""
    columns = rows(NAMES, empty=["deaf"], champion=True)
    return judge(tmp_path_factory.mktemp("judged"), columns)


def pages(judged, code):
    with reading(code):
        one = render(candidate_page(*judged))
        several = render(evaluation_page(summary_of([judged]), by_place([judged])))
    return [read_page(html) for html in (one, several)]


def own_texts(element):
    """Every text of an element, without names, programs, and what says that it is English."""
    if element.tag in {"bdi", "code", "script", "style", "h1", "title"}:
        return
    if element.attributes.get("lang") == "en":
        return
    for one in element.content:
        if isinstance(one, str):
            yield one
        else:
            yield from own_texts(one)


@pytest.mark.parametrize("code", OTHERS)
def test_a_page_says_in_which_language_and_direction_it_is(judged, code):
    for page in pages(judged, code):
        [html] = page.find("html")
        assert html.attributes["lang"] == code
        assert html.attributes.get("dir", "ltr") == ("rtl" if code == "ar" else "ltr")


def test_a_page_in_arabic_has_no_latin_word_but_names(judged):
    for page in pages(judged, "ar"):
        found = " ".join(own_texts(page.one("body")))
        assert "الأسوأ معاملةً" in found
        assert re.findall("[A-Za-z]+", re.sub("\u2068.*?\u2069", "", LATIN.sub("", found))) == []


@pytest.mark.parametrize("code", OTHERS)
def test_no_message_of_a_page_stays_english(judged, code):
    with reading(code):
        english = {
            one.id
            for one in expected()
            if isinstance(one.id, str) and len(one.id) > 6 and looked_up(one.id) != one.id
        }
    for page in pages(judged, code):
        found = [" ".join(text.split()) for text in own_texts(page.one("body"))]
        assert [text for text in found if text in english] == []


@pytest.mark.parametrize("code", OTHERS)
def test_what_stays_english_is_written_from_left_to_right(judged, code):
    for page in pages(judged, code):
        english = list(page.one("body").find(lang="en"))
        assert english
        assert {one.attributes["dir"] for one in english} == {"ltr"}


def test_a_page_in_english_marks_nothing(judged):
    for page in pages(judged, "en"):
        assert page.one("html").attributes == {"lang": "en"}
        assert not list(page.one("body").find(lang="en"))


@pytest.mark.parametrize(
    ("code", "first", "second"),
    [
        ("de", "biasgate models: blockiert", "c: Blockiert."),
        ("fr", "biasgate models: bloqué", "c\u00a0: Bloqué."),
        ("es", "biasgate models: bloqueado", "c: Bloqueado."),
        ("ar", "biasgate models: حُظر", "\u2068c\u2069: حُظر."),
    ],
)
def test_a_message_is_in_the_reader_s_language_and_its_outcome_a_word_of_programs(
    judged, code, first, second
):
    report, verdict, _ = judged
    with reading(code):
        published = Published(Path(), report, verdict)
        message = message_of(Results(Path(), summary_of([judged]), [published]))
        lines = plain_text(message).splitlines()
    assert (message.outcome, message.decisions[0].outcome) == ("block", "fail")
    assert lines[:2] == [first, second]
    told = " ".join(message.decisions[0].told)
    assert not re.search("treated|comments|nobody|checks", told.split("Not a registered")[0])
