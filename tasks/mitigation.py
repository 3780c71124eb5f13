"""Checks of a mitigation before Prefect starts, and the evaluation file that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from biasgate.tasks.common.errors import SourceError
from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.evaluation_file import Evaluation, EvaluationFile
from biasgate.tasks.gating.policy import list_shipped_policies
from biasgate.tasks.included import find_evaluation_file
from biasgate.tasks.mitigating.blocked import Blocked, limit_to_failed, refuse_other_results
from biasgate.tasks.mitigating.proposing import choose_candidate, get_training_source
from biasgate.tasks.mitigating.sets import freeze_sets, refuse_unfit_sets
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.scoring.candidate import CandidateSettings


def check_mitigation(
    evaluation: Evaluation, candidate: str | None, store: Path, blocked: Blocked | None = None
) -> None:
    """Refuse a candidate, sets or results that a mitigation cannot work with.

    Freezes the sets in `store`, where the flow finds them. A source that fails is left to the
    flow, which retries it.
    """
    chosen = resolve_candidate(evaluation, candidate, blocked)
    mitigation = evaluation.mitigation or Mitigation()
    source = get_training_source(chosen)
    try:
        sets = freeze_sets(
            source,
            evaluation.evaluation_sets,
            mitigation,
            lambda source: str(freeze_source(source, store).folder),
        )
    except SourceError:
        return
    refuse_unfit_sets(sets, limit_to_failed(blocked, mitigation, sets))


def resolve_candidate(
    evaluation: Evaluation, candidate: str | None, blocked: Blocked | None = None
) -> CandidateSettings:
    """Return the candidate to train again.

    It is the named candidate, else that of `blocked`, else the only candidate that is trained.
    """
    if blocked is not None:
        names = [
            candidate.name
            for candidate in evaluation.candidates
            if candidate.training() is not None
        ]
        known_names = names if candidate is None else [*names, blocked.candidate]
        refuse_other_results(
            blocked,
            known_names,
            [evaluation_set.name for evaluation_set in evaluation.evaluation_sets],
        )
    named = candidate or (None if blocked is None else blocked.candidate)
    return choose_candidate(evaluation.candidates, named)


FILE = "evaluation.yaml"
_NOT_COPIED = {"candidates", "mitigation", "notifications", "outcome_of", "policy"}


@task(name="write evaluation file")
def write_evaluation_file(
    evaluation: Evaluation, candidates: Sequence[CandidateSettings], config: str, output: str
) -> str:
    """Write an evaluation file for the mitigated candidates; return its path. Safe to retry."""
    content = evaluation.model_dump(
        mode="json", by_alias=True, exclude=_NOT_COPIED, exclude_defaults=True
    )
    content["candidates"] = [
        candidate.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for candidate in candidates
    ]
    file = find_evaluation_file(config)
    policy = read_settings(file, EvaluationFile).policy
    is_shipped = policy in list_shipped_policies()
    place = file.resolve().parent / Path(policy).expanduser()
    content["policy"] = policy if is_shipped else str(place)
    path = Path(output) / "mitigation" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
    log_message(f"wrote {path}: the mitigated candidates, for `biasgate evaluate`", aside=True)
    return str(path)
