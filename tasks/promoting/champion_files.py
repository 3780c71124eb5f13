"""Whether a candidate was compared with the champion as it was judged.

Somebody who weakens the champion's files while a candidate is compared with them would get a worse
model promoted, and could put the files back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import plain
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.documents import read_verdict
from biasgate.tasks.promoting.entries import MOVES, RestsOn
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.verify_files import VersionFiles
from biasgate.tasks.records import Verdict, champion_of
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.signing.statement import verdict_digest


def champion_files(
    verdict: Verdict, name: str, chain: Chain, gateway: Gateway
) -> Iterator[Finding]:
    """Yield whether the champion's files were, in a comparison, those of its own verdicts.

    Its own verdicts are those that the ledger names for its promotion. Nothing is yielded if there
    was no champion of this ledger.
    """
    champion, uri = verdict.champion, champion_of(verdict)
    if champion is None or uri is None:
        return
    model, _, number = uri.removeprefix("models:/").rpartition("/")
    moves = [one.content for one in chain.links if one.content["action"] in MOVES]
    rests_on = [rests for one in moves if one["version"] == number for rests in one["verdicts"]]
    text = f"the champion that was compared with on {name}, {uri}, had the files it was judged by."
    recorded = [_verdict(one, gateway) for one in rests_on]
    known = [one for one in recorded if one is not None]
    if len(known) < len(recorded):
        missing = f"{text} A verdict behind its promotion is missing or changed."
        yield Finding("model", holds=False, sentence=missing)
        return
    if not known:
        return
    version = ModelVersion(model, number, None, {})
    read = partial(Manifest.from_dict, plain(champion.bound.files))
    files = VersionFiles(version, read, lambda: "the comparison")
    findings = [files.compare(one, one.evaluation_set.name) for one in known]
    holds = any(one.holds for one in findings)
    sentence = text if holds else f"{text} {findings[-1].sentence}"
    yield Finding("model", holds=holds, sentence=sentence)


def _verdict(one: RestsOn, gateway: Gateway) -> Verdict | None:
    """Return a verdict that the ledger names; None if it is not there as it was."""
    try:
        found = read_verdict(one["run_id"], gateway)
    except InputError:
        return None
    return found if verdict_digest(found) == one["digest"] else None
