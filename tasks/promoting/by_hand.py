"""Manual work with the registry: promote, roll back, show the history, verify."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.champion import (
    Transition,
    champion_of_model,
    decision,
    heal,
    move_champion,
    no_first,
)
from biasgate.tasks.promoting.documents import logged_verdict, read_policy_of, read_verdict
from biasgate.tasks.promoting.entries import ListedEntry, RestsOn
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.ledger import CHAMPION, PREVIOUS, Ledger, is_ledger
from biasgate.tasks.promoting.pinned import objection_to_policy
from biasgate.tasks.promoting.sound import require_sound
from biasgate.tasks.promoting.succession import Judged
from biasgate.tasks.promoting.verify import require_alias, verify_champion
from biasgate.tasks.promoting.verify_files import VersionFiles
from biasgate.tasks.promoting.verify_version import verify_version
from biasgate.tasks.promoting.version_tags import with_whole_tags
from biasgate.tasks.records import Decision, champion_of
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.signing.trusted import TrustedKeys


class NotVerifiedError(InputError):
    """A model version whose verdict is missing or does not hold.

    Attributes
    ----------
    findings : list of Finding
        The results of all checks.
    """

    def __init__(self, version: ModelVersion, findings: list[Finding]) -> None:
        self.findings = findings
        wrong = [f"{one.what}: {one.sentence}" for one in findings if not one.holds]
        super().__init__(f"{version.uri} must not be deployed.\n  " + "\n  ".join(wrong))


def require_champion(model: str, gateway: Gateway, store: Path | None = None) -> ModelVersion:
    """Return the version under `champion` if its promotion holds; else raise an error.

    Parameters
    ----------
    store : Path, optional
        A store whose frozen sets are verified too.

    Raises
    ------
    NotVerifiedError
        If it has no passing verdict, the evidence or the verdict was changed, or no promotion
        made it champion.
    InputError
        If there is no champion.
    """
    require_known(model, gateway)
    champion = require_alias(model, gateway)
    _require_sound(champion, gateway, store)
    return champion


def open_champion(model: str, folder: Path, gateway: Gateway, store: Path | None = None) -> Path:
    """Copy the champion's files to an empty folder, and check the copy as `require_champion` does.

    Nobody else writes to the copy, so what was checked is what is loaded from it.

    Returns
    -------
    Path
        Where the files are, in `folder`.

    Raises
    ------
    NotVerifiedError
        As `require_champion`, and if the verdict records no files.
    InputError
        If there is no champion, or a file of it is missing or a symbolic link.
    """
    require_known(model, gateway)
    champion = require_alias(model, gateway)
    found = gateway.fetch(champion, folder)
    place = partial(gateway.place_of, champion)
    files = VersionFiles(champion, partial(Manifest.of, found), place, required=True)
    _require_sound(champion, gateway, store, files)
    return found


def _require_sound(
    champion: ModelVersion,
    gateway: Gateway,
    store: Path | None,
    files: VersionFiles | None = None,
) -> None:
    findings = verify_champion(champion, gateway, files, store)
    if not all(one.holds for one in findings):
        raise NotVerifiedError(champion, findings)


def verify(model: str, version: str | None, gateway: Gateway, store: Path) -> list[Finding]:
    """Verify the champion with its promotion, or only the verdicts of one version.

    Raises
    ------
    InputError
        If there is no champion, or no such version.
    """
    require_known(model, gateway)
    if version is None:
        found = require_alias(model, gateway)
        return verify_champion(found, gateway, store=store)
    return verify_version(gateway.resolve(f"models:/{model}/{version}"), gateway, store=store)


def promote_version(model: str, version: str, reason: str, gateway: Gateway) -> Decision:
    """Make a version champion, based on its existing verdicts.

    Returns
    -------
    dict
        `outcome`, `promoted`, `sentence`, as `biasgate.tasks.promoting.champion.promote`.

    Raises
    ------
    NotVerifiedError
        If its verdicts do not hold.
    InputError
        If the version does not exist, its policy only reports or is not the registered one, or it
        was compared with another champion.
    """
    ledger = _settled(model, gateway)
    found = gateway.resolve(f"models:/{model}/{version}")
    require_held(found, verify_version(found, gateway))
    verdicts, compared = recorded(found, gateway)
    chain = ledger.chain
    champion = champion_of_model(ledger, chain)
    if champion is not None and champion.version == found.version:
        alias = gateway.alias(model, CHAMPION)
        if alias is None or alias.version != found.version:
            gateway.set_alias(model, CHAMPION, found.version)
        return decision("pass", f"{found.uri} is champion.")
    policies = [_policy_of(one, gateway) for one in verdicts]
    for policy in policies:
        objection = objection_to_policy(policy.name, policy.digest, chain.policy, model)
        if policy.report_only:
            objection = f"policy {policy.name} of its verdict says `report_only: true`"
        if objection is not None:
            msg = f"{found.uri} must have a verdict that may move {CHAMPION}: {objection}."
            raise InputError(msg)
    if compared != {champion.uri if champion else None}:
        msg = (
            f"{found.uri} was compared with {_named(compared)}, but champion is "
            f"{champion.uri if champion else 'nobody'} now: evaluate it again."
        )
        raise InputError(msg)
    if champion is None and not all(one.allow_first for one in policies):
        return decision("insufficient", no_first(model))
    replaces = champion.version if champion else None
    judged = Judged(found.uri, [logged_verdict(one["run_id"], gateway) for one in verdicts], found)
    transition = Transition("promotion", found, replaces, verdicts, judged.because(reason))
    moved = move_champion(transition, gateway)
    return judged.named(moved)


def roll_back(model: str, reason: str, gateway: Gateway) -> Decision:
    """Make the version that the last promotion replaced champion again.

    Its verdicts must hold, except that they may compare it with an earlier champion.

    Returns
    -------
    dict
        As `promote_version`.

    Raises
    ------
    NotVerifiedError
        If its verdicts do not hold.
    InputError
        If there is no previous champion.
    """
    ledger = _settled(model, gateway)
    chain = ledger.chain
    champion, previous = champion_of_model(ledger, chain), gateway.alias(model, PREVIOUS)
    if chain.last_move is not None:
        replaced = chain.last_move.content["replaces"]
        previous = gateway.resolve(f"models:/{model}/{replaced}") if replaced else None
    if champion is None or previous is None or champion.version == previous.version:
        msg = f"model {model} must have a `{PREVIOUS}` to roll back to; it has none."
        raise InputError(msg)
    require_held(previous, verify_version(previous, gateway))
    verdicts, _ = recorded(previous, gateway)
    return move_champion(
        Transition("rollback", previous, champion.version, verdicts, reason), gateway
    )


def _settled(model: str, gateway: Gateway) -> Ledger:
    """Return the ledger of a model, unchanged and with nothing left open by others."""
    require_known(model, gateway)
    ledger = Ledger(gateway, model)
    require_sound(ledger)
    heal(ledger)
    return ledger


def require_held(version: ModelVersion, findings: list[Finding]) -> None:
    """Raise an error if a check of a version failed.

    Raises
    ------
    NotVerifiedError
        With every reason.
    """
    if not all(one.holds for one in findings):
        raise NotVerifiedError(version, findings)


def _policy_of(verdict: RestsOn, gateway: Gateway) -> Policy:
    return read_policy_of(verdict["run_id"], gateway)


def history(model: str, gateway: Gateway) -> list[ListedEntry]:
    """Return every entry of a model's ledger, latest first, with who signed it.

    Raises
    ------
    InputError
        If there is no such model.
    """
    require_known(model, gateway)
    entries, trusted = Ledger(gateway, model).entries(), TrustedKeys.here()
    standings = Chain.of(entries).standings(trusted)
    words = {
        one.number: f"{signed.words}{', accepted by a reset' if by == 'a reset' else ''}"
        for one, signed, by in standings
    }
    return [
        {**one.to_dict(), "signed": words.get(one.number, one.signed(trusted).words)}
        for one in reversed(entries)
    ]


def require_known(model: str, gateway: Gateway) -> None:
    """Raise an error if a model is not in the registry, or is a ledger; name the ones that are.

    Raises
    ------
    InputError
        With the most similar name, if there is one.
    """
    known = gateway.models()
    if model not in known or is_ledger(model):
        shown = [one for one in known if not is_ledger(one)]
        msg = f"model {model!r} must be in the registry at {gateway.registry_uri}; it is not "
        msg += f"(known: {', '.join(shown) or 'none'}).{did_you_mean(model, shown)}"
        if not shown:
            msg += (
                " An evaluation with `registered_model: NAME` registers the models that it trains, "
                "and files of scores with `register: NAME`."
            )
        raise InputError(msg)


def recorded(version: ModelVersion, gateway: Gateway) -> tuple[list[RestsOn], set[str | None]]:
    """Return the verdicts in a version's tags, and the champions that they compare it with."""
    version = with_whole_tags(version, gateway)
    verdicts: list[RestsOn] = []
    compared: set[str | None] = set()
    for name in version.tags["biasgate.required_sets"].split(","):
        tags = {key: version.tags[f"biasgate.{name}.{key}"] for key in ("run_id", "verdict_digest")}
        verdicts.append({"set": name, "run_id": tags["run_id"], "digest": tags["verdict_digest"]})
        verdict = read_verdict(tags["run_id"], gateway)
        compared.add(champion_of(verdict))
    return verdicts, compared


def _named(compared: set[str | None]) -> str:
    return ", ".join(sorted(one or "nobody" for one in compared))
