"""Foreign text in Markdown: a parser finds exactly the text, without markup."""

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.hostile import NAMES

from biasgate.tasks.common.markdown import escape_html_tags, escape_markdown, format_table_row
from biasgate.tasks.common.printable import escape_invisible

# It lets HTML through, and has what GitHub, MLflow and Prefect add to CommonMark.
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
PIECES = st.sampled_from([*"\\`*_[]()<>|~&;$#+-=.:@!/\"'ab1 \n\t\u202e", "://", "www.", "&lt;"])
TEXTS = st.lists(PIECES, min_size=1).map("".join)


def plain(text):
    """Return a text in the form that a reader should see."""
    return escape_invisible(" ".join(text.split()))


def read(rendered):
    return html.unescape(rendered).strip()


@given(TEXTS)
@example("&lt;b&gt;")
@example("-5\n\n# head")
@example("1. x")
@example("a\\|b")
def test_a_reader_finds_the_text_in_a_line_of_its_own(text):
    html = READER.render(escape_markdown(text))
    assert read(html.removeprefix("<p>").strip().removesuffix("</p>")) == plain(text)


@given(TEXTS)
def test_a_reader_finds_the_text_in_a_list(text):
    html = READER.render(f"- {escape_markdown(text)}\n- second")
    items = re.findall("<li>(.*?)</li>", html)
    assert [read(item) for item in items] == [plain(text), "second"]


@given(TEXTS, TEXTS)
def test_a_reader_finds_the_texts_in_a_table(first, second):
    row = format_table_row([escape_markdown(first), escape_markdown(second), "3"])
    html = READER.render("\n".join([format_table_row("abc"), format_table_row(["---"] * 3), row]))
    cells = re.findall("<td>(.*?)</td>", html)
    assert [read(cell) for cell in cells] == [plain(first), plain(second), "3"]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_make_no_element(name):
    assert re.findall("<[^>]*>", READER.render(escape_markdown(name))) == ["<p>", "</p>"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("http://host and HTTPS://host", r"http\://host and HTTPS\://host"),
        ("www.host", r"www\.host"),
        ("me@host", r"me\@host"),
        ("$x$", r"\$x\$"),
        ("bpsn_auc of a_b: -0.5", "bpsn_auc of a_b: -0.5"),
    ],
)
def test_addresses_become_no_links_and_usual_words_stay_readable(text, escaped):
    assert escape_markdown(text) == escaped


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("See <script>alert(1)</script>", "See &lt;script>alert(1)&lt;/script>"),
        ("\\<img src=x>", "\\&lt;img src=x>"),
        ("a [link](https://host) *and* 1 < 2", "a [link](https://host) *and* 1 < 2"),
        ("```\ncode", "```\ncode\n```"),
        ("~~~\ncode\n~~~", "~~~\ncode\n~~~"),
        ("\u202eabc", "\\u202eabc"),
    ],
)
def test_markdown_of_an_owner_keeps_links_and_loses_html(given, shown):
    assert escape_html_tags(given) == shown
