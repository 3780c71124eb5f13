"""Which comments a page quotes, and that they are only text."""

import pyarrow as pa
import pytest
from support.hostile import NAMES as HOSTILE
from support.html_page import read_page
from support.judged import by_place, judge, rows, summary_of

from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.reporting.page.page import evaluation_page
from biasgate.tasks.reporting.page.texts import LONGEST, quote
from biasgate.tasks.reporting.page.writing import render

NAMES = ["gay", "muslim", "deaf"]


@pytest.fixture(scope="module")
def columns():
    return rows(NAMES, empty=["deaf"])


def frozen(folder, columns, texts):
    known = {"id": columns["id"], "label": pa.array(columns["label"].astype(float))}
    chunk = pa.table(known | {"text": pa.array(texts, pa.string())})
    return freeze_rows(
        [chunk.slice(450), chunk.slice(0, 450)], folder, name="s", split="all", source={}
    )


def quoted(tmp_path, columns, texts, shown=("gay",)):
    judged = judge(tmp_path / "judged", columns)
    evidence = EvidenceFile(tmp_path / "judged" / "evidence.parquet")
    return judged, quote(evidence, frozen(tmp_path / "set", columns, texts), shown)


def test_texts_belong_to_the_rows_of_their_ids(tmp_path, columns):
    _, [found] = quoted(tmp_path, columns, [f"text {one}" for one in range(900)])
    scores = columns["score/candidate"]
    for one in (*found.harmless, *found.toxic):
        row = int(one.text.removeprefix("text "))
        assert columns["identity/gay"][row]
        assert float(one.score) == pytest.approx(scores[row], rel=5e-3)
        assert columns["label"][row] == (one in found.toxic)


def test_the_same_text_is_quoted_once(tmp_path, columns):
    _, [found] = quoted(tmp_path, columns, ["the same"] * 900)
    assert [one.text for one in found.harmless] == ["the same"]


def test_a_long_text_is_cut_and_a_missing_one_is_empty(tmp_path, columns):
    texts = ["word " * 200 if number % 2 else None for number in range(900)]
    _, [found] = quoted(tmp_path, columns, texts)
    lengths = {len(one.text) for one in (*found.harmless, *found.toxic)}
    assert max(lengths) <= LONGEST + 2
    assert all(not one.text or one.text.endswith("…") for one in found.harmless)


def test_an_identity_without_comments_has_none(tmp_path, columns):
    _, [found] = quoted(tmp_path, columns, ["x"] * 900, ["deaf"])
    assert (found.harmless, found.toxic) == ((), ())


def test_hostile_comments_are_only_text(tmp_path, columns):
    texts = [HOSTILE[one % len(HOSTILE)] for one in range(900)]
    judged, found = quoted(tmp_path, columns, texts, NAMES)
    page = evaluation_page(summary_of([judged]), by_place([judged]), {("s", "c"): found})
    box = read_page(render(page)).one("details", class_="quotes")
    assert {one.tag for one in box.find()} <= {"summary", "p", "b", "h4", "bdi", "ul", "li", "q"}
    assert box.find("q")
