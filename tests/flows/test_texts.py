"""Comments are quoted on the one page that a user asked for, and nowhere else."""

import sqlite3
from contextlib import closing

import pytest
from support.contents import contents
from support.html_page import read_page

from biasgate.tasks.common.errors import InputError

pytestmark = pytest.mark.slow

SHIFTED = {"name": "shifted", "kind": "scores", "path": "shifted.csv"}


@pytest.fixture(scope="module")
def quoted(world):
    return world.evaluate("quoted", with_texts=True, candidates=[SHIFTED], registered_model=None)


def marks_in(world, text):
    return {row["mark"] for row in world.rows if row["mark"] in text}


def test_the_page_quotes_three_comments_of_each_identity_and_class(world, quoted):
    page = read_page((quoted.output / "report.html").read_bytes())
    shown = {}
    for one in page.one("details", class_="quotes").find("li"):
        shown[one.one("q").text] = one.one("b").text
    expected = set()
    for identity in ("gay", "muslim", "deaf"):
        of_identity = [row for row in world.rows if row["mention"] == identity]
        for label, order in ((0, -1), (1, 1)):
            ranked = sorted(
                (row for row in of_identity if row["label"] == label),
                key=lambda row: order * world.shifted[row["id"]],
            )
            expected |= {row["comment"] for row in ranked[:3]}
    assert shown.keys() == expected
    scores = {row["comment"]: world.shifted[row["id"]] for row in world.rows}
    assert all(float(text) == pytest.approx(scores[one], rel=5e-3) for one, text in shown.items())


def test_they_are_behind_a_warning_that_must_be_opened(quoted):
    page = read_page((quoted.output / "report.html").read_bytes())
    [box] = page.find("details", class_="quotes")
    assert "open" not in box.attributes
    assert "abusive" in box.one("summary").text
    assert "Content warning." in box.one("p", class_="warning").text


def test_no_other_file_has_a_comment(world, quoted):
    found = {name for name, text in contents(quoted.output) if marks_in(world, text)}
    assert found == {str(quoted.output / "report.html")}


def test_mlflow_has_none(world, quoted):
    assert quoted.runs
    with closing(sqlite3.connect(world.store / "mlflow.db")) as database:
        dump = "\n".join(database.iterdump())
    database.close()
    texts = [dump, *(text for _, text in contents(world.store / "mlartifacts"))]
    assert any("Verdict</h2>" in text for text in texts)  # the page is there
    assert not [text for text in texts if marks_in(world, text)]


def test_without_being_asked_the_page_has_none(world, quoted):
    del quoted
    found = world.evaluate("unquoted", candidates=[SHIFTED], registered_model=None)
    page = (found.output / "report.html").read_text("utf-8")
    assert "This page quotes none of them." in page
    assert not marks_in(world, page)


def test_a_set_without_texts_is_refused_before_any_work(world):
    rows = {"name": "comments", "source": "table", "path": "test.csv", "identities": ["label"]}
    found = world.evaluate(
        "no_texts",
        with_texts=True,
        candidates=[SHIFTED],
        registered_model=None,
        evaluation_sets=[rows],
        policy="report-only",
    )
    with pytest.raises(InputError, match=r"'comments' has none\. Name the column with `text`"):
        found.state.result()
    assert found.runs == []
