"""Measure candidates on sets: steps 3 and 4 of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from prefect import unmapped

from biasgate.flows.stages import stage
from biasgate.tasks.analysing.analyse import analyse_rows
from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evaluation_file import Evaluation
from biasgate.tasks.evidence.join import gather_evidence
from biasgate.tasks.measuring.diagnosis import explain_bias
from biasgate.tasks.measuring.identities import (
    count_missing,
    list_identities,
    measure_identity,
    summarise_identities,
)
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.promoting.spending import RivalScores
from biasgate.tasks.reporting.figures import draw_figures
from biasgate.tasks.reporting.publish import RESULTS, make_folder, write_submission_file
from biasgate.tasks.reporting.report import write_report
from biasgate.tasks.scoring.candidate import CandidateSettings


@stage("measure", spread=True)
def measure_candidates(
    candidates: Sequence[CandidateSettings],
    scored: Sequence[list[str]],
    evaluation: Evaluation,
    frozen: list[str],
    rivals: list[RivalScores],
    work: str,
    *,
    submission: bool,
) -> list[list[Measured]]:
    """Measure every candidate, `scored` on every set, in folders within `work`."""
    return [
        [
            measure_candidate(
                source,
                candidate,
                rows,
                scores,
                against,
                work,
                evaluation.analyses_of(source.name),
                submission=submission,
            )
            for source, rows, scores, against in zip(
                evaluation.evaluation_sets, frozen, of_candidate, rivals, strict=True
            )
        ]
        for candidate, of_candidate in zip(candidates, scored, strict=True)
    ]


def measure_candidate(
    source: SourceSettings,
    candidate: CandidateSettings,
    rows: str,
    scores: str,
    rivals: RivalScores,
    work: str,
    analyses: list[Analysis],
    *,
    submission: bool,
) -> Measured:
    """Measure one candidate on one set.

    - gather the rows, the candidate's scores and those of its rivals in one file, from which
      anyone can recompute the verdict; all that follows reads it
    - measure each identity in its own task; more than 32 identities share 32 tasks
    - compute overall and aggregate numbers
    - count the comments that have no score
    - name each identity's pattern of bias, count errors at thresholds
    - do the analyses that the file asks for, each in its own task
    - write the report and its table, draw the figures
    """
    folder = make_folder(work, RESULTS, source.name, candidate.name)
    evidence = gather_evidence(rows, scores, rivals, source, folder)
    shares = list_identities(evidence)
    measured = measure_identity.map(
        list(shares), list(shares.values()), evidence=unmapped(evidence)
    ).result()
    bias = summarise_identities(measured, evidence)
    missing = count_missing(evidence, scores)
    explained = explain_bias(bias, candidate.threshold, evidence)
    analysed = analyse_rows.map(
        analyses,
        evidence=unmapped(evidence),
        set_folder=unmapped(rows),
        source=unmapped(source),
    ).result()
    report = write_report(bias, explained, analysed, candidate, rows, scores, evidence, missing)
    draw_figures(report, evidence)
    evidence.release()
    if submission:
        write_submission_file(scores, folder)
    return Measured(source, candidate, rows, scores, folder, report)
