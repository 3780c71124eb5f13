"""Names and ids in tables and notes: no formula for a spreadsheet, no HTML for MLflow's page."""

import ast
import csv
import io
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from support.made import number, report_with, result, verdict_of

from biasgate.tasks.analysing.analyse import write_rows
from biasgate.tasks.common.csv_files import escape_cell
from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.markdown import format_candidates
from biasgate.tasks.reporting.report import format_metric_csv, write_submission
from biasgate.tasks.reporting.story import Story

FORMULAS = ["=cmd()", "=1+1", "+cmd|'/C calc'!A0", "-1+cmd|'/C calc'!A0", "@SUM(A1)", "\t=1", " =1"]
FORMULAS += ["-1+1", "+1-1", "-A1+B1", "-1-1"]
NO_FORMULAS = ["muslim", "-5", "-0.5", "+1e-5", "-1E+5", "-.5", "-dQw4w9WgXcQ", "-1-a", "-", "a=b"]
NO_FORMULAS += ["", "1-2"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text):
    assert escape_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [*NO_FORMULAS, -0.5, 3, None])
def test_numbers_and_other_text_stay_as_they_are(value):
    assert escape_cell(value) == value


@pytest.mark.parametrize("text", [*FORMULAS, *NO_FORMULAS, "'=1", "'a'", "''"])
def test_a_cell_without_its_first_quote_is_the_exact_text(text):
    assert escape_cell(text).removeprefix("'") == text


def test_identities_in_the_table_of_metrics_are_no_formulas():
    report = report_with({"=cmd()": {"bpsn_auc": number(0.5)}, "gay": {"bpsn_auc": number(-0.5)}})
    rows = csv.DictReader(io.StringIO(format_metric_csv(report)))
    of_groups = [(row["group"], row["value"]) for row in rows if row["metric"] == "bpsn_auc"]
    assert of_groups == [("", ""), ("'=cmd()", "0.5"), ("gay", "-0.5")]


def test_ids_in_a_submission_are_no_formulas(tmp_path):
    scores = pa.table({"id": ["=cmd()", "-5"], "score": [0.25, -1e-05]})
    write_submission(SimpleNamespace(table=lambda: scores), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,prediction\n'=cmd(),0.25\n-5,-1e-05\n"


def test_names_in_the_table_of_an_analysis_are_no_formulas(tmp_path):
    write_rows([{"pair": "=cmd() and gay", "=1": -0.5, "of": None}], tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "pair,'=1,of\n'=cmd() and gay,-0.5,\n"


ROOT = Path(__file__).parents[3]
WRITES = {"to_csv", "write_csv", "savetxt", "tofile"}


def find_writers(path):
    """Yield the lines in which a module could write CSV."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None), *(one.name for one in node.names)]
        # pyarrow.csv is read with; its writer is `write_csv`.
        if "csv" in names or (isinstance(node, ast.Attribute) and node.attr in WRITES):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_file_of_csv_is_written_by_the_one_writer():
    modules = [
        path
        for room in ("bias_metrics", "tasks", "flows", "deployments", "biasgate")
        for path in sorted((ROOT / room).rglob("*.py"))
    ]
    found = [one for path in modules for one in find_writers(path)]
    assert [one.partition(":")[0] for one in found] == ["tasks/common/csv_files.py"], found


def test_names_in_a_verdict_make_no_html_link_or_picture():
    named = result("fail", group="<script>alert(1)</script> ![a](http://host)")
    story = Story.from_report(report_with({}), verdict_of(named))
    shown = "\n".join(format_candidates([CandidateStory.from_story(story)]))
    assert r"\<script>alert(1)\</script> !\[a](http\://host) is 0.5" in shown
    assert escape_markdown("a `b` \\<c") == r"a \`b\` \\\<c"
