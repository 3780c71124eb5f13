"""Whom a candidate is compared with: the champion of now, and a pinned reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bias_metrics.gate.decide import thresholds_needed
from bias_metrics.metrics import GIVEN
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.gating.named_thresholds import missing_threshold
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import CHAMPION, heal
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.score_file import registered_scores
from biasgate.tasks.scoring.training import trained_options
from biasgate.tasks.store import Workplace

ROLES = (CHAMPION, "reference")


def find_rivals(
    evaluation: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], gateway: Gateway
) -> dict[str, dict[str, Any]]:
    """Return the settings of `champion` and `reference`, as candidates are configured.

    The champion is the version under the alias where the evaluation guards a registered
    model, else the one that it names; there may be none yet. A registered rival is pinned
    to the version that it names now; where that is a candidate itself, it is opened as that
    candidate is, so that the two have the very same scores.
    """
    rivals = {role: dict(evaluation[role]) for role in ROLES if evaluation[role]}
    model = evaluation["registered_model"]
    if model:
        champion = gateway.alias(model, CHAMPION)
        options = rivals.pop(CHAMPION, {"name": CHAMPION, "kind": "mlflow"})
        if champion is not None:
            rivals[CHAMPION] = options | {"model": champion.uri}
    opened = {role: _opened_alike(one, candidates, gateway) for role, one in rivals.items()}
    for role in _roles_with_thresholds(evaluation):
        if role in opened:
            opened[role]["threshold"] = _own_threshold(role, rivals[role], opened[role], gateway)
    return opened


def _roles_with_thresholds(evaluation: Mapping[str, Any]) -> set[str]:
    """Return whose own threshold the rules of the evaluation's policy need."""
    if "policy" not in evaluation:
        return set()
    rules = Policy.model_validate(evaluation["policy"]).decision_rules()
    return thresholds_needed(rules).get(GIVEN, set())


def _own_threshold(
    role: str, rival: Mapping[str, Any], opened: Mapping[str, Any], gateway: Gateway
) -> float:
    """Return the threshold that a rival is used with.

    The one that the evaluation file names for it; else, of a registered version, the one that
    it was evaluated with.

    Raises
    ------
    InputError
        If it has none.
    """
    named: float | None = rival.get("threshold")
    named = opened.get("threshold") if named is None else named
    if named is not None:
        return named
    version = gateway.resolve(opened["model"]) if opened.get("model") else None
    for name, run_id in sorted(version.tags.items()) if version else ():
        if name.startswith("biasgate.") and name.endswith(".run_id"):
            report = gateway.read_json(run_id, "report.json")
            recorded: float | None = report["thresholds"].get(GIVEN, {}).get("threshold")
            if recorded is not None:
                return recorded
    raise InputError(missing_threshold(role, opened.get("model") or opened["name"]))


def _opened_alike(
    rival: dict[str, Any], candidates: Sequence[Mapping[str, Any]], gateway: Gateway
) -> dict[str, Any]:
    if not rival.get("model"):
        return rival
    version = gateway.resolve(rival["model"])
    same = next((one for one in candidates if one.get("model") == version.uri), None)
    if same is not None:
        return dict(same)
    options = registered_scores(version, gateway) or dict(rival)
    if options["kind"] == "mlflow" and (trained := trained_options(version)):
        options = {key: options[key] for key in CandidateSettings.model_fields if key in options}
        options |= trained
    return {"name": rival["name"], **options, "model": version.uri}


@task(name="find champion")
def pin_rivals(
    evaluation: dict[str, Any], candidates: list[dict[str, Any]], workplace: Workplace
) -> dict[str, dict[str, Any]]:
    """Look up champion and reference as they are now. Safe to retry.

    A promotion that died on the way is settled first.
    """
    gateway = workplace.gateway
    if evaluation["registered_model"]:
        heal(Ledger(gateway, evaluation["registered_model"]))
    return find_rivals(evaluation, candidates, gateway)
