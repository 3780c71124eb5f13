"""Verdicts on versions of a real registry, and the alias that moves only on a pass."""

import pytest

from bias_metrics.aggregates import FINAL_SCORE_PARTS
from bias_metrics.gate import SUBGROUP_METRICS
from tasks.errors import InputError
from tasks.gating import build_verdict, promote
from tasks.mlflow_gateway import KEY, Gateway
from tasks.policy import Policy
from tasks.tracking import metric_keys, metric_name

PASSED = {"outcome": "pass"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    return Gateway.of_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def versions(gateway, request, tmp_path):
    """Two versions of a model of the test's own."""
    (tmp_path / "file").write_text("x")
    experiment = gateway.experiment("test")
    name = f"model-{request.node.name}"[:60].replace("/", "-").replace(":", "-")
    made = []
    for number in (1, 2):
        run_id = gateway.run(experiment, f"{name}-{number}", "train")
        gateway.log_folder(run_id, tmp_path, "model")
        made.append(gateway.register(name, run_id, "model", {"made": str(number)}))
    return made


def move(gateway, verdicts, version, *, allow_first=True, model=None):
    return promote(verdicts, version, model or version.name, gateway, allow_first=allow_first)


def champion(gateway, version):
    found = gateway.alias(version.name, "champion")
    return None if found is None else found.version


@pytest.mark.parametrize("outcome", ["fail", "insufficient", "error"])
def test_the_alias_stays_on_anything_but_a_pass(gateway, versions, outcome):
    move(gateway, [PASSED], versions[0])
    decision = move(gateway, [PASSED, {"outcome": outcome}], versions[1])
    assert (decision["outcome"], decision["promoted"]) == (outcome, False)
    assert champion(gateway, versions[0]) == "1"


def test_a_pass_moves_the_alias_and_keeps_the_previous_champion(gateway, versions):
    assert "there was none before" in move(gateway, [PASSED], versions[0])["sentence"]
    decision = move(gateway, [PASSED], versions[1])
    assert decision["promoted"]
    assert "before: version 1" in decision["sentence"]
    assert champion(gateway, versions[0]) == "2"
    assert gateway.alias(versions[0].name, "previous_champion").version == "1"


def test_the_same_verdict_applied_twice_does_nothing_the_second_time(gateway, versions):
    move(gateway, [PASSED], versions[0])
    move(gateway, [PASSED], versions[1])
    again = move(gateway, [PASSED], versions[1])
    assert not again["promoted"]
    assert gateway.alias(versions[0].name, "previous_champion").version == "1"


def test_the_first_champion_needs_an_explicit_permission(gateway, versions):
    decision = move(gateway, [PASSED], versions[0], allow_first=False)
    assert (decision["outcome"], decision["promoted"]) == ("insufficient", False)
    assert champion(gateway, versions[0]) is None


def test_no_verdict_on_a_required_set_is_not_a_pass(gateway, versions):
    assert move(gateway, [], versions[0])["outcome"] == "insufficient"
    assert champion(gateway, versions[0]) is None


def test_a_version_of_another_model_is_not_promoted(gateway, versions):
    decision = move(gateway, [PASSED], versions[0], model="some_other_model")
    assert not decision["promoted"]
    assert champion(gateway, versions[0]) is None


def test_scores_without_a_version_are_judged_but_not_promoted(gateway):
    decision = promote([PASSED], None, "model", gateway, allow_first=True)
    assert (decision["outcome"], decision["promoted"]) == ("pass", False)


def test_an_alias_that_does_not_stick_is_a_crash(gateway, versions, monkeypatch):
    monkeypatch.setattr(Gateway, "set_alias", lambda *_: None)
    with pytest.raises(RuntimeError, match="must be version 1 now; it is not"):
        move(gateway, [PASSED], versions[0])


def test_a_run_is_found_by_its_key_and_not_made_twice(gateway):
    experiment = gateway.experiment("keys")
    first = gateway.run(experiment, "a/b on c", "name")
    assert gateway.run(experiment, "a/b on c", "name") == first
    assert gateway.run(experiment, "another", "name") != first
    assert gateway.client.get_run(first).data.tags[KEY] == "a/b on c"


def test_a_version_is_found_by_uri_alias_and_tag(gateway, versions):
    first, second = versions
    gateway.set_alias(first.name, "champion", "1")
    assert gateway.resolve(first.uri).version == "1"
    assert gateway.resolve(f"models:/{first.name}@champion").version == "1"
    assert gateway.find_version(first.name, "made", "2").version == second.version
    assert gateway.find_version(first.name, "made", "3") is None
    assert (gateway.download(first) / "file").read_text() == "x"


@pytest.mark.parametrize("uri", ["models:/nobody/1", "models:/nobody@champion"])
def test_a_model_that_is_not_registered_is_refused_with_what_to_write(gateway, uri):
    with pytest.raises(InputError, match=r"must be in the registry.*Write models:/NAME/VERSION"):
        gateway.resolve(uri)


def test_a_verdict_carries_the_digests_that_it_rests_on():
    policy = Policy.model_validate(
        {
            "version": 1,
            "name": "p",
            "rules": [{"metric": "auc", "scope": "overall", "floor": 0.5}],
        }
    )
    report = {
        "evaluation_set": {"name": "s", "digest": "d1", "choices": {}},
        "candidate": {"name": "c", "digest": "d2"},
        "bias": {"overall": {"n": 10, "n_positive": 5, "auc": {"value": 0.6}}, "subgroups": {}},
    }
    verdict = build_verdict(report, policy.model_dump(mode="json"), policy.digest)
    assert verdict["outcome"] == "pass"
    assert verdict["policy"] == {"name": "p", "digest": policy.digest}
    assert verdict["evaluation_set"] == {"name": "s", "digest": "d1"}
    assert verdict["candidate"] == {"name": "c", "digest": "d2"}
    changed = build_verdict(
        report | {"warnings": ["x"]}, policy.model_dump(mode="json"), policy.digest
    )
    assert changed["report_digest"] != verdict["report_digest"]


def test_a_policy_that_names_an_unknown_subgroup_is_refused():
    rules = [{"metric": "bpsn_auc", "scope": "martian", "floor": 0.5}]
    report = {
        "evaluation_set": {"name": "s", "digest": "d"},
        "candidate": {"name": "c", "digest": "d"},
        "bias": {"overall": {"n": 1, "n_positive": 1}, "subgroups": {"gay": {}}},
    }
    with pytest.raises(InputError, match=r"policy 'p': `scope` must name subgroups .*'martian'"):
        build_verdict(report, {"version": 1, "name": "p", "rules": rules}, "digest")


def bias(*names):
    cells = {metric: {"value": 0.5} for metric in SUBGROUP_METRICS}
    means = {metric: {"value": None, "reason": "r"} for metric in FINAL_SCORE_PARTS}
    return {
        "overall": {"n": 2, "n_positive": 1, "auc": {"value": 0.9}},
        "subgroups": dict.fromkeys(names, cells),
        "power_mean": means,
        "final_score": {"value": None, "reason": "r"},
    }


def test_metric_keys_group_by_metric_and_leave_undefined_numbers_out():
    keys = metric_keys(bias("muslim"))
    assert keys["bpsn_auc/muslim"] == 0.5
    assert keys["auc/overall"] == 0.9
    assert not [key for key in keys if key.startswith(("power_mean", "final"))]


def test_two_names_that_would_share_a_metric_key_are_refused():
    assert metric_name("men & boys") == metric_name("men / boys") == "men _ boys"
    with pytest.raises(ValueError, match="must give different MLflow keys"):
        metric_keys(bias("men & boys", "men / boys"))
