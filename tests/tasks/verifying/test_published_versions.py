"""Published results of registered versions, and their comparison."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from support.promoted import MODEL, registered_version

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.reporting.comparing import compare_published
from biasgate.tasks.verifying.documents import read_run_policy
from biasgate.tasks.verifying.own_verdicts import find_published


def test_two_versions_are_compared_by_the_rows_of_their_verdicts(gateway, registry):
    names = tuple(registry.promote_next()[0].uri for _ in range(2))
    with ExitStack() as kept:
        sides = [find_published(name, gateway, kept) for name in names]
        [found] = compare_published(*sides, names)
    assert (found.evaluation_set, found.paired) == ("comments", True)
    assert found.comparison.counts[None].n == 600
    alias = f"models:/{MODEL}@champion"
    with ExitStack() as kept:
        [same] = compare_published(sides[1], find_published(alias, gateway, kept), names)
    assert same.comparison.overall.auc.value == 0


def test_a_version_without_a_verdict_has_nothing_to_attest_or_compare(gateway, tmp_path):
    version = registered_version(gateway, tmp_path, "new")
    with pytest.raises(InputError, match=rf"{version.uri} must have a verdict; it has none: eval"):
        write_attestation(MODEL, version.version, tmp_path / "a.jsonl", gateway)
    assert not (tmp_path / "a.jsonl").exists()
    with (
        ExitStack() as kept,
        pytest.raises(InputError, match=r"must have a verdict.* none of its verdicts co"),
    ):
        find_published(version.uri, gateway, kept)


def test_a_policy_that_cannot_be_read_or_is_none_is_told_with_its_run():
    def gone(*_):
        raise FileNotFoundError(2, "No such file or directory")

    with pytest.raises(InputError, match="policy in run r must be readable; got: No such file"):
        read_run_policy("r", SimpleNamespace(read_json=gone))
    with pytest.raises(InputError, match="policy in run r must be a policy; it is not"):
        read_run_policy("r", SimpleNamespace(read_json=lambda *_: {"rules": 3}))


def test_an_unknown_version_is_refused(gateway, registry):
    none = r"must be in the registry .* \(known: none\)\. .* `registered_model: NAME` registers"
    with ExitStack() as kept, pytest.raises(InputError, match=none):
        find_published("models:/toxic/1", gateway, kept)
    registry.promote_next()
    other = rf"must be in the registry .* \(known: {MODEL}\)\. Did you mean '{MODEL}'\?$"
    with ExitStack() as kept, pytest.raises(InputError, match=other):
        find_published("models:/toxic/1", gateway, kept)
