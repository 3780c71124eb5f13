"""All readers refuse the same verdicts: of versions, deployments, files and folders."""

import json
from datetime import date

import pytest
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    TODAY,
    judge_version,
    judged_version,
    registered_version,
    scores_of,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.entry import TAG
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.verify import (
    NotVerifiedError,
    open_champion,
    require_champion,
    verify_champion,
    verify_model,
)
from biasgate.tasks.reporting.results import read_results
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.signing.statement import FILE
from biasgate.tasks.verifying.attestation import verify_attestation
from biasgate.tasks.verifying.published import verify_results
from biasgate.tasks.verifying.version import verify_version

SETS = ("comments", "other")


def make_policy(**changes):
    return Policy.model_validate(POLICY.model_dump() | changes)


def make_exception(day):
    return {"identity": "gay", "reason": "few", "expires": day}


STRICT = make_policy(rules=[{"metric": "auc", "scope": "overall", "floor": 0.999}])
LENIENT = make_policy(rules=POLICY.model_dump()["rules"][:1])
# What each set is judged with, and what every reader then says.
REFUSED = {
    "blocked": ([{"policy": STRICT}], "on comments by policy p is not a pass."),
    "reported": ([{"policy": make_policy(report_only=True)}], "PASSED, by a report-only policy."),
    "ended": (
        [{"policy": make_policy(not_measured=[make_exception(TODAY)])}],
        "An entry of `not_measured` ended on 2026-11-21",
    ),
    "future": ([{"today": date(2099, 12, 31)}], "It is dated 2099-12-31"),
    "incomplete": ([{"required_sets": ("comments", "more")}], "comments, more. Missing: more."),
    "other policy": ([{}, {"policy": LENIENT}], "share their evaluation, policy and champion"),
    "other champion": ([{}, {"champion": True}], "share their evaluation, policy and champion"),
    "other sets": ([{}, {"required_sets": ("other",)}], "share their evaluation, policy and"),
}


def judge_sets(gateway, store, folder, each):
    """Judge a version on one or two sets, write its attestations, and return the version."""
    old = judged_version(gateway, store, folder / "old", seed=1)
    version = registered_version(gateway, folder, "news")
    verdicts, lines = [], []
    for name, options in zip(SETS, each, strict=False):
        settings = {"required_sets": SETS[: len(each)]} | options
        if "champion" in settings:
            settings["champion"] = (old[0], old[2])
        verdict = judge_version(
            gateway,
            store,
            folder / name,
            version,
            scores_of(store, seed=0, noise=1.6),
            on=name,
            run_id=gateway.ensure_run(gateway.ensure_experiment("judged"), name, name),
            **settings,
        )
        verdicts.append(verdict)
        lines.append((folder / name / FILE).read_text("utf-8").replace("\n", ""))
    gateway.tag_version(version, build_tags(verdicts))
    gateway.set_alias(MODEL, "champion", version.version)
    (folder / "a.jsonl").write_text("\n".join(lines), "utf-8")
    return gateway.resolve(version.uri)


def collect_failures(gateway, version, folder, n_sets):
    """Return failed findings about verdicts by reader."""
    findings = {
        "verify": verify_version(version, gateway),
        "deploy": verify_champion(version, gateway),
        "file": verify_attestation(folder / "a.jsonl", folder / "news"),
    }
    if n_sets == 1:
        findings["folder"] = verify_results(read_results(folder / SETS[0]))
    return {
        reader: [
            finding.sentence for finding in group if finding.what == "verdict" and not finding.holds
        ]
        for reader, group in findings.items()
    }


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.mlflow] * (case == "ended")) for case in REFUSED],
)
def test_every_reader_refuses_the_same_verdicts_for_the_same_reason(gateway, store, tmp_path, case):
    each, reason = REFUSED[case]
    version = judge_sets(gateway, store, tmp_path, each)
    failures = collect_failures(gateway, version, tmp_path, len(each))
    if case in {"blocked", "reported"}:  # a folder has any outcome
        assert failures.pop("folder") == []
    sentences = {
        sentence for group in failures.values() for sentence in group if reason in sentence
    }
    assert len(sentences) == 1, failures
    assert all(sentences <= set(group) for group in failures.values()), failures
    with pytest.raises(NotVerifiedError, match="must not be deployed"):
        open_champion(MODEL, tmp_path, gateway)
    if case != "blocked":  # a file may say that a version was
        with pytest.raises(InputError, match="must verify before it is attested"):
            write_attestation(MODEL, version.version, tmp_path / "b.jsonl", gateway)
        assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize(
    "each", [[{}], [{}, {}], [{"policy": make_policy(not_measured=[make_exception(date.max)])}]]
)
@pytest.mark.usefixtures("key")
def test_every_reader_accepts_what_holds(gateway, store, tmp_path, each):
    version = judge_sets(gateway, store, tmp_path, each)
    failures = collect_failures(gateway, version, tmp_path, len(each))
    assert not any(failures.values()), failures
    write_attestation(MODEL, version.version, tmp_path / "b.jsonl", gateway)
    assert len((tmp_path / "b.jsonl").read_text("utf-8").splitlines()) == len(each)


def edit_last_entry(gateway):
    """Change the last entry of the ledger, but not its signature."""
    last = Ledger(gateway, MODEL).read_entries()[-1]
    tag = json.loads(last.record.tags[TAG])
    tag["payload"]["reason"] = "nothing to see"
    gateway.tag_version(last.record, {TAG: json.dumps(tag)})


MOVED = {
    "alias": lambda gateway: gateway.set_alias(MODEL, "champion", "1"),
    "previous": lambda gateway: gateway.set_alias(MODEL, "previous_champion", "2"),
    "removed entry": lambda gateway: gateway.client.delete_model_version(LEDGER, "2"),
    "edited entry": edit_last_entry,
    "policy": lambda gateway: gateway.tag_model(MODEL, {"biasgate.policy": "lenient 0"}),
}


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("case", MOVED)
def test_what_is_wrong_with_a_promotion_is_refused_by_whoever_reads_the_champion(
    gateway, store, promoted, tmp_path, case
):
    promoted()
    promoted()
    MOVED[case](gateway)
    assert not all(finding.holds for finding in verify_model(MODEL, None, gateway, store))
    with pytest.raises(NotVerifiedError):
        require_champion(MODEL, gateway)
    with pytest.raises(NotVerifiedError):
        open_champion(MODEL, tmp_path, gateway)
    with pytest.raises(InputError, match="must verify before it is attested"):
        write_attestation(MODEL, None, tmp_path / "b.jsonl", gateway)
    assert not (tmp_path / "b.jsonl").exists()
