"""Whether the verdicts of a version hold, on all sets that promotion requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.champion_files import champion_files
from biasgate.tasks.promoting.decided_shares import objection_to_share
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.promoting.verify_files import VersionFiles
from biasgate.tasks.promoting.verify_verdict import verify_on_set
from biasgate.tasks.promoting.version_tags import interrupted, with_whole_tags
from biasgate.tasks.records import Verdict, champion_of
from biasgate.tasks.signing.trusted import TrustedKeys

_MOST_SETS = 1000


def verify_version(
    version: ModelVersion,
    gateway: Gateway,
    *,
    today: date | None = None,
    files: VersionFiles | None = None,
    store: Path | None = None,
) -> list[Finding]:
    """Recompute a version's verdicts and compare them with the recorded ones.

    The sets on which a pass is required are those that the verdicts themselves name; a tag only
    says where to find them.

    Parameters
    ----------
    today : date, optional
        The day on which waivers must be valid. Default: today.
    files : VersionFiles, optional
        The version's files. Default: those in the registry.
    store : Path, optional
        A store whose frozen rows are compared with those of the verdicts.

    Returns
    -------
    list of Finding
        The checks on every required set; the version may be promoted if all hold.
    """
    version = with_whole_tags(version, gateway)
    tagged = [one for one in version.tags.get("biasgate.required_sets", "").split(",") if one]
    if not tagged:
        text = f"{version.uri} has no verdict: evaluate it first."
        return [Finding("verdict", holds=False, sentence=text)]
    day, now = today or datetime.now(UTC).date(), files or VersionFiles.of(version, gateway)
    chain = Ledger(gateway, version.name).chain
    vouched = chain.vouched_verdicts(TrustedKeys.here())
    findings: list[Finding] = interrupted(version)
    verdicts: dict[str, Verdict] = {}
    left, seen = tagged[::-1], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        if len(seen) == _MOST_SETS:
            text = f"promotion must require at most {_MOST_SETS:,} sets; more are named."
            findings.append(Finding("tags", holds=False, sentence=text))
            break
        seen.add(name)
        found, verdict = verify_on_set(version, name, gateway, day, now, vouched, store)
        findings += found
        if verdict is not None:
            findings += champion_files(verdict, name, chain, gateway)
            findings += _spent(verdict, name, version, chain)
            verdicts[name] = verdict
            left += [one for one in verdict.required_sets[::-1] if one not in seen]
    return [*findings, *_of_one_evaluation(version, tagged, verdicts, chain)]


def _spent(verdict: Verdict, name: str, version: ModelVersion, chain: Chain) -> Iterator[Finding]:
    """Check that the ledger counted the decision before it was made, at its level."""
    if verdict.online is None:
        return
    objection = objection_to_share(verdict, version.version, chain)
    text = f"the ledger counted the decision on {name}, with the share of alpha that it had."
    text = text if objection is None else f"{text} But {objection}."
    yield Finding("ledger", holds=objection is None, sentence=text)


def _of_one_evaluation(
    version: ModelVersion, tagged: list[str], verdicts: Mapping[str, Verdict], chain: Chain
) -> Iterator[Finding]:
    """Check that the verdicts were made together, and that none is out of date."""
    known = list(verdicts.values())
    if not known:
        return
    required = sorted({name for one in known for name in one.required_sets})
    holds = all(sorted(one.required_sets) == required for one in known)
    text = (
        f"the tags of {version.uri} require the sets that its verdicts do: {', '.join(required)}."
    )
    yield Finding("tags", holds=holds and sorted(tagged) == required, sentence=text)
    contexts = [(one.policy.digest, champion_of(one), one.ledger) for one in known]
    if len(known) > 1:
        holds = all(one == contexts[0] for one in contexts)
        text = f"the verdicts of {version.uri} were made together, by one policy."
        yield Finding("verdict", holds=holds, sentence=text)
    heads = [one.ledger for one in known]
    holds = all(one is None or chain.has(one) for one in heads)
    text = f"the ledger still has the entries that the verdicts of {version.uri} were made after."
    yield Finding("ledger", holds=holds, sentence=text)
    blocked = chain.blocked(version.version)
    first = min(0 if one is None else one["number"] for one in heads)
    if blocked and all(one.outcome == "pass" for one in known):
        text = f"{version.uri} passed after entry {blocked} of the ledger said that it did not."
        yield Finding("verdict", holds=first >= blocked, sentence=text)
