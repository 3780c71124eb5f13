"""The tutorial runs unchanged, from a CSV of scores to a comparison in ten lines."""

import csv
import json
import os
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import tutorial_scores
from nbclient import NotebookClient
from support.cells import cell

from bias_metrics import compare_bias, evaluate_bias

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def committed():
    return nbformat.read(NOTEBOOK, as_version=4)


def run(folder, cells, timeout):
    """The notebook as it is after these cells were run beside its file."""
    (folder / tutorial_scores.FILE.name).write_bytes(tutorial_scores.FILE.read_bytes())
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cells(cell)]
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=timeout, resources=resources).execute()


def is_command(cell):
    """Whether a cell runs a command for minutes, or reads its results."""
    return "commands" in cell.metadata.get("tags", [])


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook without its commands."""
    return run(tmp_path_factory.mktemp("docs"), lambda cell: not is_command(cell), 120)


def shown(notebook, kind):
    """What the cells put out in one MIME type, joined where it is text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    return [data[kind] for output in outputs if kind in (data := output.get("data", {}))]


def test_the_notebook_is_committed_without_outputs(committed):
    cells = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_a_table_a_heatmap_and_a_comparison_take_ten_lines(committed):
    cells = [cell for cell in committed.cells if "ten-lines" in cell.metadata.get("tags", [])]
    lines = [line for cell in cells for line in cell.source.splitlines() if line.strip()]
    assert len(lines) == 10
    assert any("read_csv" in line for line in lines)


@pytest.mark.evaluates
def test_it_shows_two_tables_and_three_pictures(executed):
    report, compared, frame = shown(executed, "text/html")
    assert "<th>bpsn_auc</th>" in report
    rows = pd.read_csv(tutorial_scores.FILE)
    toxic, identities = rows["toxicity"] >= 0.5, {"gay": rows["gay"] >= 0.5}
    old, new = rows["old_model"], rows["new_model"]
    # Harmless comments about gay people: the planted bias of the old model.
    bpsn = evaluate_bias(toxic, old, identities).subgroups["gay"].bpsn_auc
    gained = compare_bias(toxic, new, old, identities).subgroups["gay"]["bpsn_auc"]
    assert bpsn.value < 0.8
    assert f"<td>{bpsn}</td>" in report
    assert "first minus second" in compared
    assert gained.low > 0.1
    assert f"<td>{gained} *</td>" in compared
    assert "dataframe" in frame
    assert len(shown(executed, "image/png")) == 3


@pytest.mark.evaluates
def test_it_prints_the_worst_identity(executed):
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "gay: 0.775, below the floor: True" in printed


def test_its_scores_are_what_their_script_writes():
    with tutorial_scores.FILE.open(newline="", encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == tutorial_scores.make_rows()


@pytest.mark.slow
def test_the_biased_model_of_the_demo_is_blocked_and_less_biased_after_one_command(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = run(tmp_path, lambda _: True, 1800)
    shown(notebook, "text/html")  # no cell ended in an error
    verdict = json.loads(
        (tmp_path / "demo/templates/biased_labels/verdict.json").read_text("utf-8")
    )
    assert verdict["outcome"] == "fail"
    for method in ("reweight", "swap"):
        folder = tmp_path / "mitigated" / "templates" / f"biased_labels {method}"
        tables = [
            json.loads((one / "report.json").read_text("utf-8"))["bias"]
            for one in (tmp_path / "demo/templates/biased_labels", folder)
        ]
        for name in ("gay", "muslim"):
            before, again = (cell(one, "bpsn_auc", name)["value"] for one in tables)
            assert before + 0.2 < again
