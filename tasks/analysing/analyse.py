"""The steps: which analyses a set gets, refused or done."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from biasgate.tasks.analysing.analysis import Analysis, MeasuredRows, Row
from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import SOURCES
from biasgate.tasks.measuring.arrays import Layout

FOLDER = "analyses"


def analyses_of(evaluation: Mapping[str, Any], source: Mapping[str, Any]) -> list[Analysis]:
    """Return the analyses that an evaluation file asks for on one set."""
    asked: list[Analysis] = [ANALYSES.validate_python(one) for one in evaluation["analyses"]]
    return [one for one in asked if one.is_for(source["name"])]


@task(name="check analyses", task_run_name="check analyses of {source[name]}")
def check_analyses(evaluation: dict[str, Any], set_folder: str, source: dict[str, Any]) -> None:
    """Refuse, before anything is trained or scored, what cannot be done on a set. Reads only."""
    frozen, settings = EvaluationSet.load(Path(set_folder)), SOURCES.validate_python(source)
    for analysis in analyses_of(evaluation, source):
        analysis.check(frozen, settings)


@task(name="analyse", task_run_name="{analysis.kind} of {layout!m}")
def analyse_rows(
    analysis: Analysis, layout: str, set_folder: str, source: dict[str, Any], folder: str
) -> dict[str, Any]:
    """Do one analysis of one candidate on one set; write its table, return what it found.

    Safe to retry.

    Returns
    -------
    dict
        `kind`, `options`, `sentences` and `result`, all JSON-ready.
    """
    frozen, settings = EvaluationSet.load(Path(set_folder)), SOURCES.validate_python(source)
    findings = analysis.analyse(MeasuredRows(Layout(Path(layout)), frozen, settings))
    write_rows(findings.table, Path(folder) / FOLDER / f"{analysis.kind}.csv")
    return {
        "kind": analysis.kind,
        "options": analysis.model_dump(mode="json", exclude={"kind", "sets"}),
        "sentences": list(findings.sentences),
        "result": findings.result,
    }


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write records as CSV, with the columns of all of them; an undefined number is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
