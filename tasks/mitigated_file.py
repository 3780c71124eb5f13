"""The evaluation file of mitigated candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from biasgate.tasks.common.files import whole_file
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.evaluation_file import Evaluation, EvaluationFile
from biasgate.tasks.gating.policy import SHIPPED
from biasgate.tasks.scoring.candidate import CandidateSettings

FILE = "evaluation.yaml"
_NOT_COPIED = {"candidates", "mitigation", "notifications", "outcome_of", "policy"}


@task(name="write evaluation file")
def write_evaluation_file(
    evaluation: Evaluation, candidates: Sequence[CandidateSettings], config: str, output: str
) -> str:
    """Write an evaluation file of the mitigated candidates; return its path. Safe to retry."""
    content = evaluation.model_dump(
        mode="json", by_alias=True, exclude=_NOT_COPIED, exclude_defaults=True
    )
    content["candidates"] = [
        candidate.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for candidate in candidates
    ]
    content["policy"] = _policy_of(Path(config))
    path = Path(output) / "mitigation" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
    say(f"wrote {path}: the mitigated candidates, for `biasgate evaluate`", aside=True)
    return str(path)


def _policy_of(config: Path) -> str:
    """Return the policy as the file names it, with an absolute path if it is a path."""
    named = read_settings(config, EvaluationFile).policy
    if (SHIPPED / f"{named}.yaml").exists():
        return named
    return str(config.resolve().parent / Path(named).expanduser())
