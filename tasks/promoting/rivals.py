"""The rivals of a candidate: the current champion, and a pinned reference."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from bias_metrics.gate.decide import thresholds_needed
from bias_metrics.metrics import GIVEN
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.gating.evidence import RIVALS
from biasgate.tasks.gating.named_thresholds import missing_threshold
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.champion import champion_of_model, heal
from biasgate.tasks.promoting.ledger import CHAMPION, Ledger
from biasgate.tasks.promoting.pinned import refuse_other_policy
from biasgate.tasks.promoting.sound import require_sound
from biasgate.tasks.records import Report
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES, KINDS
from biasgate.tasks.scoring.kinds.score_file import registered_scores
from biasgate.tasks.scoring.training import OPENED_AS, trained_options
from biasgate.tasks.store import Workplace

AS_MLFLOW = {"name": CHAMPION, "kind": "mlflow"}
"""How to open a version without a description."""
Rivals = dict[str, CandidateSettings]
"""By role: `champion` or `reference`."""


def find_rivals(
    named: Rivals,
    registered_model: str | None,
    policy: Policy,
    candidates: Sequence[CandidateSettings],
    gateway: Gateway,
) -> Rivals:
    """Return the rivals that candidates are compared with.

    With a registered model, the champion is the version under its alias; else the one that
    the evaluation names. There may be none yet. A registered rival is pinned to its current
    version; if that is also a candidate, it is opened with the candidate's options, so that
    both have the same scores.

    Parameters
    ----------
    named : dict of str to CandidateSettings
        The rivals that the evaluation file names.
    registered_model : str or None
        The model whose champion may be replaced.
    policy : Policy
        Its rules decide whether thresholds are needed.
    candidates : sequence of CandidateSettings
        All candidates of the evaluation, pinned.
    gateway : Gateway
        Registry.

    Raises
    ------
    InputError
        If a rival has no threshold where a rule needs it.
    """
    rivals = dict(named)
    if registered_model:
        champion = champion_of_model(Ledger(gateway, registered_model))
        as_named = rivals.pop(CHAMPION, None)
        if champion is not None:
            rivals[CHAMPION] = (
                CANDIDATES.validate_python(AS_MLFLOW | {"model": champion.uri})
                if as_named is None
                else as_named.pinned(champion.uri)
            )
    opened = {role: _opened_alike(one, candidates, gateway) for role, one in rivals.items()}
    for role in thresholds_needed(policy.decision_rules()).get(GIVEN, set()) & opened.keys():
        threshold = _own_threshold(role, rivals[role], opened[role], gateway)
        opened[role] = opened[role].model_copy(update={"threshold": threshold})
    return opened


def _own_threshold(
    role: str, rival: CandidateSettings, opened: CandidateSettings, gateway: Gateway
) -> float:
    """Return the threshold that a rival is used with.

    It is the one in the evaluation file; else, for a registered version, the one that it was
    evaluated with.

    Raises
    ------
    InputError
        If it has none.
    """
    named = opened.threshold if rival.threshold is None else rival.threshold
    if named is not None:
        return named
    version = gateway.resolve(opened.uri) if opened.uri else None
    for name, run_id in sorted(version.tags.items()) if version else ():
        if name.startswith("biasgate.") and name.endswith(".run_id"):
            report: Report = gateway.read_json(run_id, "report.json")
            if GIVEN in report["thresholds"]:
                return report["thresholds"][GIVEN]["threshold"]
    raise InputError(missing_threshold(role, opened.uri or opened.name))


def _opened_alike(
    rival: CandidateSettings, candidates: Sequence[CandidateSettings], gateway: Gateway
) -> CandidateSettings:
    """Return a registered rival pinned to its current version, with its original options."""
    if not rival.uri:
        return rival
    version = gateway.resolve(rival.uri)
    same = next((one for one in candidates if one.uri == version.uri), None)
    return same or _as_made(rival, version) or rival.pinned(version.uri)


def _as_made(rival: CandidateSettings, version: ModelVersion) -> CandidateSettings | None:
    """Return how to open a version from this pipeline, by its tags; None for any other.

    A tag is written by whoever may write to the registry, so it chooses only among kinds and
    options that run no code of the model. What the evaluation file says counts more.
    """
    scores = registered_scores(version, rival)
    if scores is not None or rival.kind != AS_MLFLOW["kind"]:
        return scores
    tagged = trained_options(version)
    if tagged is None:
        return None
    kind = str(tagged.get("kind"))
    try:
        allowed = KINDS.named(kind).opened_by_tag if kind in KINDS.names() else None
    except ValueError as error:  # a package that cannot be imported
        raise InputError(_not_by_tag(version, str(error), f"kind: {kind}")) from error
    if allowed is None:
        raise InputError(_not_by_tag(version, f"got kind {kind!r:.100}", f"kind: {kind:.100}"))
    unknown = sorted(tagged.keys() - allowed - {"kind"})
    if unknown:
        raise InputError(_not_by_tag(version, f"got `{unknown[0]!s:.100}`", f"kind: {kind}"))
    shared = set(CandidateSettings.model_fields) - {"kind"}
    said = rival.model_dump(include=shared if kind != rival.kind else None, exclude_unset=True)
    try:
        return CANDIDATES.validate_python({**tagged, **said, "kind": kind, "model": version.uri})
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(_not_by_tag(version, problem, f"kind: {kind}")) from error


def _not_by_tag(version: ModelVersion, problem: str, kind: str) -> str:
    """Return what to do where a tag of the registry may not decide how a version is opened."""
    return (
        f"tag {OPENED_AS} of {version.uri} must name a kind that runs no code of the "
        f"model, and its plain options; {problem}. Whoever can tag a version must not decide more. "
        f"Say in the evaluation file how to open it: `champion: {{name: champion, {kind}, model: "
        f"models:/{version.name}@{CHAMPION}}}`, with `trusted: true` if you trust its author."
    )


@task(name="find champion")
def pin_rivals(
    champion: CandidateSettings | None,
    reference: CandidateSettings | None,
    registered_model: str | None,
    policy: Policy,
    candidates: list[CandidateSettings],
    workplace: Workplace,
) -> Rivals:
    """Look up the current champion and reference. Safe to retry.

    A promotion that was interrupted is settled first.
    """
    gateway = workplace.gateway
    if registered_model:
        ledger = Ledger(gateway, registered_model)
        require_sound(ledger)
        heal(ledger)
        refuse_other_policy(registered_model, policy, gateway)
    named = {role: one for role, one in zip(RIVALS, (champion, reference), strict=True) if one}
    return find_rivals(named, registered_model, policy, candidates, gateway)
