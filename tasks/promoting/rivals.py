"""The rivals of a candidate: the current champion, and a pinned reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from bias_metrics.gate import find_worst_outcome, list_needed_thresholds
from bias_metrics.metrics import GIVEN
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.evidence.answers import missing_threshold
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.ledger import CHAMPION, Ledger, alias_apart, champion_of_model
from biasgate.tasks.ledger.sound import require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.promoting.champion import decision, heal
from biasgate.tasks.promoting.pinned import refuse_other_policy
from biasgate.tasks.promoting.succession import Judged
from biasgate.tasks.records import CandidateDecision, LoggedVerdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES, KINDS
from biasgate.tasks.scoring.kinds.score_file import RegisteredScores
from biasgate.tasks.store import Workplace
from biasgate.tasks.verifying.own_verdicts import AS_MLFLOW, judged_options, judged_reports

Rivals = dict[str, CandidateSettings]
"""By role: `champion` or `reference`."""
RivalScores = dict[str, str]
"""Folders of kept scores on one set, by role."""


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
    both have the same scores. Each has the threshold that it is used with, if anything says it:
    losses in gaps of error rates are looked at where both models have one.

    `policy`: its rules decide whether a rival must have a threshold.
    """
    rivals = dict(named)
    if registered_model:
        champion = champion_of_model(Ledger(gateway, registered_model))
        as_named = rivals.pop(CHAMPION, None)
        if champion is not None:
            rivals[CHAMPION] = (
                CANDIDATES.validate_python({"name": CHAMPION, **AS_MLFLOW, "model": champion.uri})
                if as_named is None
                else as_named.pinned(champion.uri)
            )
    opened = {role: _opened_alike(one, candidates, gateway) for role, one in rivals.items()}
    needed = list_needed_thresholds(policy.decision_rules()).get(GIVEN, set())
    for role, rival in opened.items():
        threshold = _own_threshold(rivals[role], rival, gateway)
        if threshold is None and role in needed:
            raise InputError(missing_threshold(role, rival.uri or rival.name))
        if threshold != rival.threshold:
            opened[role] = rival.model_copy(update={"threshold": threshold})
    return opened


def _own_threshold(
    rival: CandidateSettings, opened: CandidateSettings, gateway: Gateway
) -> float | None:
    """Return the threshold that a rival is used with; None if nothing says it.

    It is the one in the evaluation file; else, for a registered version, the one that it was
    judged with.
    """
    named = opened.threshold if rival.threshold is None else rival.threshold
    if named is not None or not opened.uri:
        return named
    for report in judged_reports(gateway.resolve(opened.uri), gateway):
        if GIVEN in report.thresholds:
            return report.thresholds[GIVEN].threshold
    return None


def _opened_alike(
    rival: CandidateSettings, candidates: Sequence[CandidateSettings], gateway: Gateway
) -> CandidateSettings:
    """Return a registered rival pinned to its current version, with its original options.

    It is a candidate itself only if that is opened in the same way. Otherwise a version in half
    precision, say, would be compared with itself and not with what is in use.
    """
    if not rival.uri:
        return rival
    version = gateway.resolve(rival.uri)
    same = [candidate for candidate in candidates if candidate.uri == version.uri]
    if rival.kind != AS_MLFLOW["kind"]:  # the evaluation file says how it is opened
        alike = (one for one in same if one.opened_as() == rival.opened_as())
        return next(alike, None) or rival.pinned(version.uri)
    alike = (one for one in same if _is_opened_as_judged(one, version, gateway))
    return next(alike, None) or _as_judged(rival, version, gateway)


def _is_opened_as_judged(
    candidate: CandidateSettings, version: ModelVersion, gateway: Gateway
) -> bool:
    """Return whether a candidate is opened as its version was judged; also if nothing says how."""
    try:
        return candidate.opened_as() == judged_options(version, gateway)
    except InputError:
        return True


def _as_judged(
    rival: CandidateSettings, version: ModelVersion, gateway: Gateway
) -> CandidateSettings:
    """Return how to open a version: as it was judged, where the evaluation file says no kind.

    Without trusted keys, anyone with write access to the registry may forge a verdict; so it
    chooses only among kinds and options that run no code of the model. The evaluation file counts
    more.
    """
    try:
        options = judged_options(version, gateway)
    except InputError:
        if not rival.model_fields_set - CandidateSettings.model_fields.keys() - {"model"}:
            raise
        options = AS_MLFLOW  # the evaluation file says how
    kind = str(options.get("kind"))
    shared = set(CandidateSettings.model_fields) - {"kind"}
    said = rival.model_dump(include=shared if kind != rival.kind else None, exclude_unset=True)
    try:
        _refuse_options(options, version)
        made = {**options, **said, "kind": kind, "model": version.uri}
        if kind == "scores":
            return RegisteredScores.model_validate(made)
        return CANDIDATES.validate_python(made)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(_not_allowed(version, problem, f"kind: {kind}")) from error


def _refuse_options(options: Mapping[str, JsonValue], version: ModelVersion) -> None:
    """Refuse options that a verdict may not open a version with."""
    kind = str(options.get("kind"))
    try:
        allowed = KINDS.named(kind).opened_with if kind in KINDS.names() else None
    except ValueError as error:  # a package that cannot be imported
        raise InputError(_not_allowed(version, str(error), f"kind: {kind}")) from error
    if allowed is None:
        raise InputError(_not_allowed(version, f"got kind {kind!r:.100}", f"kind: {kind:.100}"))
    unknown = sorted(options.keys() - allowed - {"kind"})
    if unknown:
        raise InputError(_not_allowed(version, f"got `{unknown[0]!s:.100}`", f"kind: {kind}"))


def _not_allowed(version: ModelVersion, problem: str, kind: str) -> str:
    """Return what to do where a verdict may not decide how a version is opened."""
    return (
        f"the verdict on {version.uri} must name a kind that runs no code of the model, and its "
        f"plain options; {problem}. Set in the evaluation file how to open it: `champion: {{name: "
        f"champion, {kind}, model: models:/{version.name}@{CHAMPION}}}`, with `trusted: true` if "
        "you trust its author."
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
        apart = alias_apart(ledger)
        if apart is not None:
            say(apart)
        refuse_other_policy(registered_model, policy, gateway)
    named = {role: one for role, one in zip(RIVALS, (champion, reference), strict=True) if one}
    return find_rivals(named, registered_model, policy, candidates, gateway)


def champion_to_watch(
    rivals: Rivals, candidates: Sequence[CandidateSettings]
) -> list[CandidateSettings]:
    """Return the champion, if it exists and is not a candidate.

    Its name is another one than those of the candidates.
    """
    champion = rivals.get(CHAMPION)
    if champion is None:
        return []
    if any(
        candidate == champion or (candidate.uri and candidate.uri == champion.uri)
        for candidate in candidates
    ):
        return []
    names = {candidate.name for candidate in candidates}
    name = next(
        one
        for one in (champion.name, *(f"{champion.name[:90]}-{number}" for number in range(1, 999)))
        if one not in names
    )
    return [champion.model_copy(update={"name": name})]


def decision_on_watched(verdicts: Sequence[LoggedVerdict]) -> CandidateDecision:
    """Return what became of a champion that was measured without being a candidate: nothing.

    Its outcome says how it does on tonight's rows; the version keeps its own verdict.
    """
    candidate = verdicts[0].candidate
    name, uri = candidate.name, candidate.model or candidate.name
    outcome = find_worst_outcome([one.outcome for one in verdicts if one.evaluation_set.required])
    told = WORDS[outcome].text.lower()
    sentence = (
        f"{uri} was {CHAMPION} when this evaluation began, and was measured again ({told}). "
        "Its own verdict is unchanged."
    )
    report_only = any(one.policy.report_only for one in verdicts)
    made = decision("pass" if report_only else outcome, sentence, report_only=report_only)
    required = [verdict for verdict in verdicts if verdict.evaluation_set.required]
    return Judged(name, required, None).named(made)
