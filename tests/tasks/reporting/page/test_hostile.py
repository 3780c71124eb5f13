"""Pages are safe to open: names run nothing, and nothing is asked for from outside."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest
from support.html_page import read_page
from support.judged import by_place, judge, rows, summary_of

from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.records import Details, Report, Verdict
from biasgate.tasks.reporting.page.page import build_candidate_page, build_evaluation_page
from biasgate.tasks.reporting.page.writing import render_page

SCRIPT, IMAGE = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
OVERRIDE, HEBREW = "\u202egnp.exe", "עברית"
NAMES = [SCRIPT, IMAGE, "[a](javascript:alert(1))", "a|b", "=cmd()", OVERRIDE, HEBREW, "</style>"]
NAMES += ["{{ 7 * 7 }}", "\x00\x1b[2K", "\ud800", "🏳️‍🌈"]
TAGS = """
html head meta title style body a header p h1 h2 h3 h4 span bdi nav ol li main section ul div
details summary dl dt dd table caption thead tbody tr th td code small svg path i b figure
figcaption label input button script pre wbr form select option output em circle
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Hostile names everywhere, also where an evaluation file would refuse them."""
    names = NAMES[:-2]  # a set cannot even be written with half a character
    columns = rows(names, champion=True)
    report, verdict, details = judge(tmp_path_factory.mktemp("hostile"), columns)
    text = json.dumps(convert_to_plain([report, verdict, details]))
    for known, hostile in (('"c"', IMAGE), ('"s"', SCRIPT), ('"p"', HEBREW), ('"old"', OVERRIDE)):
        text = text.replace(known, json.dumps(hostile))
    kinds = (Report, Verdict, Details)
    report, verdict, details = (
        kind.from_dict(one) for kind, one in zip(kinds, json.loads(text), strict=True)
    )
    return replace(report, warnings=[f"No comment mentions {IMAGE}."]), verdict, details


@pytest.fixture(scope="module", params=["candidate", "evaluation"])
def html(request, judged):
    if request.param == "candidate":
        return render_page(build_candidate_page(*judged)).decode()
    page = build_evaluation_page(summary_of([judged], evaluation=SCRIPT), by_place([judged]))
    return render_page(page).decode()


def test_names_make_no_element_and_no_attribute(html):
    for one in read_page(html).find():
        assert one.tag in TAGS.split()
        assert not [name for name in one.attributes if name.startswith(("on", "style", "src"))]
        assert one.attributes.get("href", "#").startswith("#")


def test_names_are_shown_as_they_are(html):
    shown = {one.text for one in read_page(html).find("bdi")}
    assert {SCRIPT, IMAGE, "a|b", "=cmd()", HEBREW, "</style>", "{{ 7 * 7 }}"} <= shown


def test_marks_that_reorder_a_line_and_control_characters_are_escaped(html):
    assert "\\u202egnp.exe" in html
    assert "\\x00\\x1b[2K" in html
    assert not set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\x00\x1b") & set(html)


def test_names_in_another_script_are_isolated_in_sentences_too(html):
    outside = re.sub("<bdi>.*?</bdi>", "", html)
    of_sentences = re.sub(
        r'aria-label="[^"]*"|id="[^"]*"|<title>.*?</title>|<option.*?</option>|<code>.*?</code>',
        "",
        outside,
    )
    assert HEBREW in outside  # in a title, which has no elements
    assert HEBREW not in of_sentences


def test_half_a_character_is_written_as_an_escape(tmp_path):
    report, verdict, details = judge(tmp_path, rows(["a", "b"]))
    page = render_page(
        build_candidate_page(replace(report, warnings=["\ud800 is half"]), verdict, details)
    )
    assert b"\\ud800 is half" in page


def test_the_only_script_and_style_sheet_are_those_that_the_policy_names(html):
    page = read_page(html)
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    [style] = page.find("style")
    scripts = [one for one in page.find("script") if "type" not in one.attributes]
    rules = dict(one.split(" ", 1) for one in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["style-src"] == hash_content(style)
    assert [rules["script-src"]] == [hash_content(one) for one in scripts]


def hash_content(element):
    digest = hashlib.sha256("".join(element.content).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def test_nothing_is_asked_for_from_outside(html):
    page = read_page(html)
    style = page.one("style").content[0]
    assert not re.search(r"url\(|@import|@font-face", style)
    for one in page.find("script"):
        assert not re.search(r"fetch|XMLHttp|import\(|://|eval|innerHTML", "".join(one.content))
    asking = {"src", "srcset", "action", "poster", "data", "background", "xlink:href"}
    assert not [one.tag for one in page.find() if asking & set(one.attributes)]


def test_data_for_the_script_have_no_names(html):
    [data] = read_page(html).find("script", type="application/json")
    assert json.loads(data.content[0]).keys() == {"thresholds", "end", "overall", "rows"}
    assert "alert" not in data.content[0]
