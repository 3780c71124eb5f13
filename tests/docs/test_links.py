"""Every link of a page points to a file of the repository and, with `#`, to a heading in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), ROOT / "bias_metrics" / "README.md", *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
PATH_OF_A_PAGE = re.compile(r"\bdocs/[\w/-]+\.(?:md|ipynb)\b")


def anchors(page):
    """Give the names that a page's headings have in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def broken_links(page):
    """Give the links of a page that lead nowhere."""
    for link in LINK.findall(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# One heading\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#one-heading) [b](other.md#two) [c](gone.md) [d](https://e.org)\n")
    assert list(broken_links(page)) == ["other.md#two", "gone.md"]


def test_every_page_that_code_names_exists():
    rooms = ["benchmarks", "bias_metrics", "tasks", "flows", "deployments", "biasgate", "tests"]
    files = [file for room in [*rooms, "docs"] for file in (ROOT / room).rglob("*.py")]
    files += [*(ROOT / "deployments").rglob("*.yaml"), ROOT / "pyproject.toml"]
    named = {path for file in files for path in PATH_OF_A_PAGE.findall(file.read_text("utf-8"))}
    assert {path for path in named if not (ROOT / path).exists()} == set()
