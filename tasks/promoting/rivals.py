"""The rivals of a candidate: the current champion, and a pinned reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from bias_metrics.gate import find_worst_outcome, list_needed_thresholds
from bias_metrics.metrics import GIVEN
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.evidence.answers import missing_threshold
from biasgate.tasks.evidence.file import RIVALS
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.ledger import CHAMPION, Ledger, find_alias_mismatch, find_champion
from biasgate.tasks.ledger.sound import require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.promoting.champion import make_decision, settle_stale_entries
from biasgate.tasks.promoting.pinned import refuse_other_policy
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.records import CandidateDecision, LoggedVerdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES, KINDS
from biasgate.tasks.scoring.kinds.score_file import RegisteredScores
from biasgate.tasks.store import Workplace
from biasgate.tasks.verifying.own_verdicts import (
    MLFLOW_OPTIONS,
    find_judged_options,
    find_judged_reports,
)

Rivals = dict[str, CandidateSettings]
"""Rivals by role: `champion` or `reference`."""
RivalScores = dict[str, str]
"""Folders of stored scores on a set, by role."""


def find_rivals(
    configured: Rivals,
    registered_model: str | None,
    policy: Policy,
    candidates: Sequence[CandidateSettings],
    gateway: Gateway,
) -> Rivals:
    """Return the rivals that candidates are compared with.

    With a registered model, the champion is the ledger's champion. Otherwise it is the champion in
    the evaluation file. A model may lack a champion. A registered rival is pinned to its current
    version. If a candidate is the same version, opened in the same way, both share their scores.
    A rival has its decision threshold, if it is known. Gaps of error rates are compared only if
    both models have a threshold.

    `policy`: its rules determine whether a rival must have a threshold.
    """
    rivals = dict(configured)
    if registered_model:
        champion = find_champion(Ledger(gateway, registered_model))
        own_settings = rivals.pop(CHAMPION, None)
        if champion is not None:
            rivals[CHAMPION] = (
                CANDIDATES.validate_python(
                    {"name": CHAMPION, **MLFLOW_OPTIONS, "model": champion.uri}
                )
                if own_settings is None
                else own_settings.pin_version(champion.uri)
            )
    opened = {role: _pin_rival(rival, candidates, gateway) for role, rival in rivals.items()}
    needed = list_needed_thresholds(policy.decision_rules()).get(GIVEN, set())
    for role, rival in opened.items():
        threshold = _find_threshold(rivals[role], rival, gateway)
        if threshold is None and role in needed:
            raise InputError(missing_threshold(role, rival.uri or rival.name))
        if threshold != rival.threshold:
            opened[role] = rival.model_copy(update={"threshold": threshold})
    return opened


def _find_threshold(
    rival: CandidateSettings, opened: CandidateSettings, gateway: Gateway
) -> float | None:
    """Return the decision threshold of a rival; None if it is unknown.

    The threshold in the evaluation file comes first. Otherwise a registered version has the
    threshold that it was judged with.
    """
    threshold = opened.threshold if rival.threshold is None else rival.threshold
    if threshold is not None or not opened.uri:
        return threshold
    for report in find_judged_reports(gateway.resolve(opened.uri), gateway):
        if GIVEN in report.thresholds:
            return report.thresholds[GIVEN].threshold
    return None


def _pin_rival(
    rival: CandidateSettings, candidates: Sequence[CandidateSettings], gateway: Gateway
) -> CandidateSettings:
    """Return a registered rival pinned to its current version, with the options of its verdict.

    A candidate of the same version replaces the rival only if it is opened in the same way.
    Otherwise a candidate in half precision, for example, would be compared with itself instead of
    the deployed model.
    """
    if not rival.uri:
        return rival
    version = gateway.resolve(rival.uri)
    matches = [candidate for candidate in candidates if candidate.uri == version.uri]
    if rival.kind != MLFLOW_OPTIONS["kind"]:  # the evaluation file sets how to open it
        same = (candidate for candidate in matches if candidate.opened_as() == rival.opened_as())
        return next(same, None) or rival.pin_version(version.uri)
    same = (candidate for candidate in matches if _is_opened_as_judged(candidate, version, gateway))
    return next(same, None) or _build_as_judged(rival, version, gateway)


def _is_opened_as_judged(
    candidate: CandidateSettings, version: ModelVersion, gateway: Gateway
) -> bool:
    """Return whether a candidate is opened as its version was judged; True if this is unknown."""
    try:
        return candidate.opened_as() == find_judged_options(version, gateway)
    except InputError:
        return True


def _build_as_judged(
    rival: CandidateSettings, version: ModelVersion, gateway: Gateway
) -> CandidateSettings:
    """Return the settings to open a version as it was judged.

    Settings in the evaluation file take precedence over the verdict. Without trusted keys, anyone
    with write access to the registry may forge a verdict. So a verdict may only choose kinds and
    options that do not run code of the model.
    """
    try:
        options = find_judged_options(version, gateway)
    except InputError:
        if not rival.model_fields_set - CandidateSettings.model_fields.keys() - {"model"}:
            raise
        options = MLFLOW_OPTIONS  # the evaluation file sets how to open it
    kind = str(options.get("kind"))
    shared = set(CandidateSettings.model_fields) - {"kind"}
    configured = rival.model_dump(
        include=shared if kind != rival.kind else None, exclude_unset=True
    )
    try:
        _refuse_options(options, version)
        settings = {**options, **configured, "kind": kind, "model": version.uri}
        if kind == "scores":
            return RegisteredScores.model_validate(settings)
        return CANDIDATES.validate_python(settings)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(_describe_refusal(version, problem, f"kind: {kind}")) from error


def _refuse_options(options: Mapping[str, JsonValue], version: ModelVersion) -> None:
    """Raise an error for options of a verdict that could run code of the model."""
    kind = str(options.get("kind"))
    try:
        allowed = KINDS.find_class(kind).opened_with if kind in KINDS.list_names() else None
    except ValueError as error:  # a package that cannot be imported
        raise InputError(_describe_refusal(version, str(error), f"kind: {kind}")) from error
    if allowed is None:
        raise InputError(
            _describe_refusal(version, f"got kind {kind!r:.100}", f"kind: {kind:.100}")
        )
    unknown = sorted(options.keys() - allowed - {"kind"})
    if unknown:
        raise InputError(_describe_refusal(version, f"got `{unknown[0]!s:.100}`", f"kind: {kind}"))


def _describe_refusal(version: ModelVersion, problem: str, kind: str) -> str:
    """Return an error message for a verdict that may not decide how to open a version."""
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
    """Look up the current champion and reference. A retry is safe.

    An interrupted promotion is settled first.
    """
    gateway = workplace.gateway
    if registered_model:
        ledger = Ledger(gateway, registered_model)
        require_sound(ledger)
        settle_stale_entries(ledger)
        warning = find_alias_mismatch(ledger)
        if warning is not None:
            log_message(warning)
        refuse_other_policy(registered_model, policy, gateway)
    rivals = {
        role: rival for role, rival in zip(RIVALS, (champion, reference), strict=True) if rival
    }
    return find_rivals(rivals, registered_model, policy, candidates, gateway)


def find_watched_champion(
    rivals: Rivals, candidates: Sequence[CandidateSettings]
) -> list[CandidateSettings]:
    """Return the champion with a unique name, if it exists and is not a candidate."""
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
        unused
        for unused in (
            champion.name,
            *(f"{champion.name[:90]}-{number}" for number in range(1, 999)),
        )
        if unused not in names
    )
    return [champion.model_copy(update={"name": name})]


def decide_watched_champion(verdicts: Sequence[LoggedVerdict]) -> CandidateDecision:
    """Return the decision on a champion that was measured without being a candidate.

    Its outcome is about the current rows. The version keeps its own verdict.
    """
    candidate = verdicts[0].candidate
    name, uri = candidate.name, candidate.model or candidate.name
    outcome = find_worst_outcome(
        [verdict.outcome for verdict in verdicts if verdict.evaluation_set.required]
    )
    word = WORDS[outcome].text.lower()
    sentence = (
        f"{uri} was {CHAMPION} when this evaluation began, and was measured again ({word}). "
        "Its own verdict is unchanged."
    )
    report_only = any(verdict.policy.report_only for verdict in verdicts)
    watched = make_decision("pass" if report_only else outcome, sentence, report_only=report_only)
    required = [verdict for verdict in verdicts if verdict.evaluation_set.required]
    return JudgedCandidate(name, required, None).complete_decision(watched)
