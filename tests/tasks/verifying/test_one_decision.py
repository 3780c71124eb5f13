"""All readers refuse the same verdicts: of versions, deployments, files and folders."""

from datetime import date

import pytest
from support.promoted import MODEL, POLICY, TODAY

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.verify import NotVerifiedError, open_champion, verify_champion
from biasgate.tasks.reporting.results import read_results
from biasgate.tasks.signing.statement import FILE
from biasgate.tasks.verifying.attestation import verify_attestation
from biasgate.tasks.verifying.published import verify_results
from biasgate.tasks.verifying.version import verify_version

SETS = ("comments", "other")


def make_policy(**changes):
    return Policy.model_validate(POLICY.model_dump() | changes)


def except_until(day):
    return make_policy(not_measured=[{"identity": "gay", "reason": "few", "expires": day}])


STRICT = make_policy(rules=[{"metric": "auc", "scope": "overall", "floor": 0.999}])
LENIENT = make_policy(rules=POLICY.model_dump()["rules"][:1])
MIXED = "the verdicts on c share their evaluation, policy and champion."
# What each set is judged with, and what every reader then says.
REFUSED = {
    "blocked": ([{"policy": STRICT}], "on comments by policy p is not a pass."),
    "reported": ([{"policy": make_policy(report_only=True)}], "PASSED, by a report-only policy."),
    "ended": ([{"policy": except_until(TODAY)}], "An entry of `not_measured` ended on 2026-11-21"),
    "future": ([{"today": date(2099, 12, 31)}], "It is dated 2099-12-31"),
    "incomplete": ([{"required_sets": ("comments", "more")}], "comments, more. Missing: more."),
    "other policy": ([{}, {"policy": LENIENT}], MIXED),
    "other champion": ([{}, {"champion": True}], MIXED),
    "other sets": ([{}, {"required_sets": ("other",)}], MIXED),
}


def judge_sets(registry, each):
    """Judge a version on one or two sets, write its attestations, and return the version."""
    old, _, scores = registry.judge_next(seed=1)
    for options in each:
        if "champion" in options:
            options["champion"] = (old, scores)
    version, _ = registry.judge_sets(**dict(zip(SETS, each, strict=False)))
    registry.gateway.set_alias(MODEL, "champion", version.version)
    lines = [
        (registry.folder / name / FILE).read_text("utf-8").replace("\n", "")
        for name, _ in zip(SETS, each, strict=False)
    ]
    (registry.folder / "a.jsonl").write_text("\n".join(lines), "utf-8")
    return version


def collect_failures(registry, version, n_sets):
    """Return failed findings about verdicts by reader."""
    folder, gateway = registry.folder, registry.gateway
    findings = {
        "verify": verify_version(version, gateway),
        "deploy": verify_champion(version, gateway),
        "file": verify_attestation(folder / "a.jsonl", folder / "two"),
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
    [
        pytest.param(case, marks=[pytest.mark.mlflow] * (case in {"ended", "other policy"}))
        for case in REFUSED
    ],
)
def test_every_reader_refuses_the_same_verdicts_for_the_same_reason(registry, tmp_path, case):
    each, reason = REFUSED[case]
    version = judge_sets(registry, [dict(options) for options in each])
    failures = collect_failures(registry, version, len(each))
    if case in {"blocked", "reported"}:  # a folder has any outcome
        assert failures.pop("folder") == []
    sentences = {
        sentence for group in failures.values() for sentence in group if reason in sentence
    }
    assert len(sentences) == 1, failures
    assert all(sentences <= set(group) for group in failures.values()), failures
    with pytest.raises(NotVerifiedError, match="must not be deployed"):
        open_champion(MODEL, tmp_path, registry.gateway)
    if case != "blocked":  # a file may say that a version was
        with pytest.raises(InputError, match="must verify before it is attested"):
            write_attestation(MODEL, version.version, tmp_path / "b.jsonl", registry.gateway)
        assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("each", [[{}], [{}, {}], [{"policy": except_until(date.max)}]])
@pytest.mark.usefixtures("key")
def test_every_reader_accepts_what_holds(registry, tmp_path, each):
    version = judge_sets(registry, [dict(options) for options in each])
    failures = collect_failures(registry, version, len(each))
    assert not any(failures.values()), failures
    findings = verify_version(version, registry.gateway)
    named = [name for one in findings for name in SETS if f"verdict on {name} " in one.sentence]
    assert named == sorted(named)  # first all about the set that is named first
    write_attestation(MODEL, version.version, tmp_path / "b.jsonl", registry.gateway)
    assert len((tmp_path / "b.jsonl").read_text("utf-8").splitlines()) == len(each)
