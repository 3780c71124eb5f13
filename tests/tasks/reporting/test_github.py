"""The comment on a pull request: what it says, and that no name of others does anything in it."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from support.published import publish

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reporting import ci
from biasgate.tasks.reporting.ci import escape_github, format_github_comment
from biasgate.tasks.reporting.results import read_results
from biasgate.tasks.reporting.story import Story

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b|c",
    "@octocat and @team/all",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "`code` *bold* _em_ ~~no~~",
    "https://evil.example www.evil.example a@evil.example",
    "\u202eabc\u2066",
    "line\n\n# heading\n- item",
    "<!-- --><details>",
    "closes #1 and team/models#2",
    "&lt;b&gt; \\<b>",
]


class Page(HTMLParser):
    """The tags of a page, and its texts, each with True if it is code."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.inside, self.links = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside.append(tag)
        self.links += [value for name, value in attributes if name in {"href", "src"}]

    def handle_endtag(self, tag):
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data):
        self.texts.append(("code" in self.inside, data))

    def handle_comment(self, _):
        self.texts.append((False, "\N{BULLET}"))

    @property
    def words(self):
        return "".join(text for _, text in self.texts if text != "\N{BULLET}")


def render_markdown(text):
    return Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    rules = ({"metric": "bpsn_auc", "scope": "each", "floor": 0.999},)
    publish(folder, names=HOSTILE, candidates={"one": {}}, rules=rules)
    found = read_results(folder)
    decision = replace(found.summary.decisions[0], sentence=" ".join(HOSTILE))
    summary = replace(found.summary, decisions=[decision], evaluation=HOSTILE[0])
    return render_markdown(
        format_github_comment(replace(found, summary=summary), "https://example.org/1")
    )


def test_names_of_others_make_no_html_link_or_picture(hostile):
    known = {"h3", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong"}
    assert set(hostile.tags) <= known | {"a", "details", "summary"}
    assert hostile.links == ["https://example.org/1"]
    assert hostile.tags.count("details") == 1


def test_names_of_others_make_no_heading_and_no_second_outcome(hostile):
    assert hostile.tags.count("strong") == 1
    assert hostile.tags.count("h3") == 1


def test_nobody_is_mentioned_and_no_issue_is_closed(hostile):
    # GitHub looks at each text outside code by itself.
    outside = [text for in_code, text in hostile.texts if not in_code]
    assert not [text for text in outside if re.search(r"[@#]\w", text)]
    assert not [text for text in outside if re.search(r"[\u202a-\u202e\u2066-\u2069]", text)]


def test_names_are_read_as_they_were_written(hostile):
    assert "<script>alert(1)</script>" in hostile.words
    assert "a|b|c" in hostile.words
    assert "[click](https://evil.example)" in hostile.words
    assert "\\u202eabc" in hostile.words


@pytest.mark.parametrize("text", HOSTILE)
def test_an_inert_text_is_one_paragraph_of_plain_words(text):
    page = render_markdown(f"x {escape_github(text)}")
    assert page.tags == ["p"]
    assert "http://" not in escape_github(text)
    assert "www." not in escape_github(text)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    judged = publish(folder)
    return read_results(folder), judged


def test_it_says_first_what_was_decided_who_is_treated_worst_and_how_much(results):
    found, [(report, verdict, _), _] = results
    text = format_github_comment(found)
    lines = text.splitlines()
    assert lines[:2] == ["<!-- biasgate: models -->", "### biasgate: Blocked"]
    page = render_markdown(text)
    story = Story.from_report(report, verdict)
    assert f"{story.headline}\nWorst identity: {story.worst_text}." in page.words
    assert "biased" in page.words
    assert "Not a registered version: nothing to promote." in page.words


def test_it_is_never_longer_than_github_allows(results, monkeypatch):
    found, _ = results
    monkeypatch.setattr(ci, "_MOST", 900)
    text = format_github_comment(found)
    assert "<details>" not in text
    assert text.endswith("More checks that did not pass are in `summary.json`.\n")


@pytest.mark.parametrize("link", ["javascript:alert(1)", "file:///etc", "https:", "x) [y](z"])
def test_only_a_web_address_is_a_link(results, link):
    with pytest.raises(InputError, match="must be an address that starts with http"):
        format_github_comment(results[0], link)


def test_an_address_cannot_end_its_link(results):
    text = format_github_comment(results[0], "https://example.org/a)[b](c")
    assert render_markdown(text).links == ["https://example.org/a%29%5Bb%5D%28c"]
