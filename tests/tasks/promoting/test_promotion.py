"""Versions of a registry, and the alias that moves only on a pass."""

import pytest
from support.judging import NO_FILES, NOTHING_SAID
from support.memory import in_memory
from support.partial import partial
from support.promoted import promote_one

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import KEY, Gateway
from biasgate.tasks.promoting import decisions
from biasgate.tasks.promoting.decisions import promote_candidates
from biasgate.tasks.promoting.succession import JudgedCandidate, SuccessionRule


def make_verdict(outcome="pass", champion=None, *, report_only=False, value=0.9, change=0.01):
    """Return a verdict, with or without a compared champion; margin of a change: 0.005."""
    compared = None if champion is None else {"model": champion.uri}
    objective = {"metric": "final_score", "confidence": 0.95, "value": value}
    if champion is not None:
        ends = {"change": change, "low": change - 0.005, "high": change + 0.005}
        objective |= {"rival": value - change} | ends
    return partial(
        {
            "outcome": outcome,
            "champion": compared,
            "policy": {"name": "p", "digest": "d", "report_only": report_only},
            "evaluation_set": {"name": "comments"},
            "candidate": {"bound": NO_FILES, "digest": "own"},
            "objective": objective,
            **NOTHING_SAID,
            "run_id": RUN[0],
        }
    )


@pytest.fixture(autouse=True)
def _champions_without_files(monkeypatch):
    """Skip the comparison of files: these champions lack own verdicts."""
    monkeypatch.setattr(decisions, "check_champion_files", lambda *_: [])


RUN = [""]  # of the newest `versions`: what a verdict says its run is


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    return in_memory(tmp_path_factory.mktemp("store"))


@pytest.fixture
def versions(gateway, request, tmp_path):
    """Two versions of a model that no other test uses."""
    (tmp_path / "file").write_text("x")
    experiment = gateway.ensure_experiment("test")
    name = f"model-{request.node.name}"[:60].replace("/", "-").replace(":", "-")
    made = []
    for number in (1, 2):
        run_id = gateway.ensure_run(experiment, f"{name}-{number}", "train")
        gateway.log_folder(run_id, tmp_path, "model")
        made.append(gateway.register(name, run_id, "model", {"made": str(number)}))
    RUN[0] = made[0].run_id
    return made


def move(gateway, verdicts, version, *, model=None, **options):
    return promote_one(verdicts, version, gateway, model=model or version.name, **options)


def champion(gateway, version):
    found = gateway.get_alias(version.name, "champion")
    return None if found is None else found.version


@pytest.mark.parametrize("outcome", ["fail", "insufficient", "error"])
def test_the_alias_stays_on_anything_but_a_pass(gateway, versions, outcome):
    first, second = versions
    move(gateway, [make_verdict()], first)
    decision = move(gateway, [make_verdict(champion=first), make_verdict(outcome, first)], second)
    assert (decision.outcome, decision.promoted) == (outcome, False)
    assert champion(gateway, versions[0]) == "1"


def test_where_there_is_no_champion_none_is_said_to_stay(gateway, versions):
    first, second = versions
    blocked = move(gateway, [make_verdict("fail")], first)
    assert blocked.sentence == f"Not promoted: {first.name} has no champion yet."
    move(gateway, [make_verdict()], first)
    blocked = move(gateway, [make_verdict("fail", first)], second)
    assert blocked.sentence == f"Not promoted: champion of {first.name} stays version 1."


def test_what_did_not_pass_is_told_the_version_that_became_champion_beside_it(gateway, versions):
    first, second = versions
    judged = [
        JudgedCandidate("a", [make_verdict()], first),
        JudgedCandidate("b", [make_verdict("fail")], second),
    ]
    _, blocked = promote_candidates(
        judged, first.name, gateway, SuccessionRule("newer", allow_first=True)
    )
    assert blocked.sentence == f"Not promoted: champion of {first.name} is version 1 now."


def test_of_two_that_could_be_the_first_champion_the_other_is_left_aside(gateway, versions):
    first, second = versions
    judged = [
        JudgedCandidate("a", [make_verdict()], first),
        JudgedCandidate("b", [make_verdict()], second),
    ]
    told = promote_candidates(
        judged, first.name, gateway, SuccessionRule("newer", allow_first=True)
    )
    assert [one.promoted for one in told] == [False, True]
    [entry] = Ledger(gateway, first.name).read_entries()
    assert (entry.content.version, entry.content.passed_over) == ("2", ["1"])


def test_a_pass_moves_the_alias_and_keeps_the_previous_champion(gateway, versions):
    first = move(gateway, [make_verdict()], versions[0])
    assert "There was none before" in first.sentence
    decision = move(gateway, [make_verdict(champion=versions[0])], versions[1])
    assert decision.promoted
    assert (first.rule, decision.rule) == ("first", "newer")
    entries = Ledger(gateway, versions[0].name).read_entries()
    assert [item.content.rule for item in entries] == ["first", "newer"]
    assert "It replaced version 1" in decision.sentence
    assert champion(gateway, versions[0]) == "2"
    assert gateway.get_alias(versions[0].name, "previous_champion").version == "1"


def test_the_same_verdict_applied_twice_does_nothing_the_second_time(gateway, versions):
    first, second = versions
    move(gateway, [make_verdict()], first)
    move(gateway, [make_verdict(champion=first)], second)
    again = move(gateway, [make_verdict(champion=second)], second)
    assert not again.promoted
    assert gateway.get_alias(versions[0].name, "previous_champion").version == "1"


def test_the_first_champion_needs_an_explicit_permission(gateway, versions):
    decision = move(gateway, [make_verdict()], versions[0], allow_first=False)
    assert (decision.outcome, decision.promoted) == ("insufficient", False)
    assert champion(gateway, versions[0]) is None


def test_no_verdict_on_a_required_set_is_not_a_pass(gateway, versions):
    assert move(gateway, [], versions[0]).outcome == "insufficient"
    assert champion(gateway, versions[0]) is None


def test_a_version_of_another_model_is_not_promoted(gateway, versions):
    decision = move(gateway, [make_verdict()], versions[0], model="some_other_model")
    assert not decision.promoted
    assert champion(gateway, versions[0]) is None


def test_scores_without_a_version_are_judged_but_not_promoted(gateway):
    decision = promote_one([make_verdict()], None, gateway)
    assert (decision.outcome, decision.promoted) == ("pass", False)


def test_a_verdict_against_another_champion_moves_nothing(gateway, versions):
    first, second = versions
    move(gateway, [make_verdict()], first)
    for stale in (
        [make_verdict()],
        [make_verdict(champion=second)],
        [make_verdict(champion=first), make_verdict()],
    ):
        decision = move(gateway, stale, second)
        assert (decision.outcome, decision.champion_moved) == ("insufficient", True)
        assert "moved while" in decision.sentence
    assert champion(gateway, first) == "1"


def test_a_policy_that_only_reports_neither_moves_nor_fails(gateway, versions):
    for outcome, word in (("pass", "passed"), ("fail", "blocked")):
        decision = move(gateway, [make_verdict(outcome, report_only=True)], versions[0])
        assert (decision.outcome, decision.promoted) == ("pass", False)
        assert f"The verdict is: {word}. The policy has `report_only: true`" in decision.sentence
    assert champion(gateway, versions[0]) is None


def test_an_alias_that_does_not_stick_is_a_crash(gateway, versions, monkeypatch):
    monkeypatch.setattr(Gateway, "set_alias", lambda *_: None)
    with pytest.raises(RuntimeError, match="must be version 1 now; it is not"):
        move(gateway, [make_verdict()], versions[0])


def test_a_run_is_found_by_its_key_and_not_made_twice(gateway):
    experiment = gateway.ensure_experiment("keys")
    first = gateway.ensure_run(experiment, "a/b on c", "name")
    assert gateway.ensure_run(experiment, "a/b on c", "name") == first
    assert gateway.ensure_run(experiment, "another", "name") != first
    assert gateway.client.get_run(first).data.tags[KEY] == "a/b on c"


def test_a_version_is_found_by_uri_alias_and_tag(gateway, versions):
    first, second = versions
    gateway.set_alias(first.name, "champion", "1")
    assert gateway.resolve(first.uri).version == "1"
    assert gateway.resolve(f"models:/{first.name}@champion").version == "1"
    assert gateway.find_version(first.name, "made", "2").version == second.version
    assert gateway.find_version(first.name, "made", "3") is None
    with gateway.open_download(first) as folder:
        assert (folder / "file").read_text() == "x"


@pytest.mark.parametrize("uri", ["models:/nobody/1", "models:/nobody@champion"])
def test_a_model_that_is_not_registered_is_refused_with_what_to_write(gateway, uri):
    with pytest.raises(
        InputError, match=r"must be in the registry.* not found\. Write models:/NAME/VERSION"
    ):
        gateway.resolve(uri)
