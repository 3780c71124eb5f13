"""Steps that check and run analyses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from biasgate.tasks.analysing.analysis import Analysis, MeasuredRows, Row
from biasgate.tasks.common.csv_files import format_csv
from biasgate.tasks.common.errors import AnalysisError, withhold_message
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import WEIGHT, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import AnalysisRecord

FOLDER = "analyses"


@task(name="check analyses", task_run_name="check analyses of {source.name}")
def check_analyses(analyses: list[Analysis], source: SourceSettings, set_folder: str) -> None:
    """Refuse analyses that a set does not allow, before training or scoring. Only reads."""
    frozen = EvaluationSet.load(Path(set_folder))
    for analysis in analyses:
        if WEIGHT in frozen.columns and source.weight_kind == "probability":
            analysis.refuse(frozen, "no sampling weights", "its rows have some")
        place = f"analysis {analysis.kind!r}, which checks evaluation set {source.name!r},"
        withhold_message(partial(analysis.check, frozen, source), place, AnalysisError)


@task(name="analyse", task_run_name="{analysis.kind} of {evidence.folder!m}")
def analyse_rows(
    analysis: Analysis, evidence: EvidenceFile, set_folder: str, source: SourceSettings
) -> tuple[str, AnalysisRecord]:
    """Run an analysis of a candidate on a set, and write its table as CSV. Safe to retry."""
    frozen = EvaluationSet.load(Path(set_folder))
    rows = MeasuredRows(evidence, frozen, source)
    place = f"analysis {analysis.kind!r} of evaluation set {source.name!r}"
    findings = withhold_message(partial(analysis.analyse, rows), place, AnalysisError)
    write_rows(findings.table, evidence.folder / FOLDER / f"{analysis.kind}.csv")
    return analysis.kind, AnalysisRecord(
        options=analysis.model_dump(mode="json", exclude={"kind", "sets"}),
        sentences=list(findings.sentences),
        warnings=list(findings.warnings),
        result=findings.result,
    )


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write records as CSV, with the union of their columns; undefined numbers are empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = ([row.get(column) for column in columns] for row in rows)
    with whole_file(path) as temporary:
        temporary.write_bytes(format_csv(columns, cells).encode())
