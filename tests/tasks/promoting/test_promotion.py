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


def make_verdict(outcome="pass", champion=None, *, report_only=False):
    """Return a verdict, with or without a compared champion, than which it is better by 0.01."""
    objective = {"metric": "final_score", "confidence": 0.95, "value": 0.9}
    if champion is not None:
        objective |= {"change": 0.01, "low": 0.005, "high": 0.015, "rival": 0.89}
    return partial(
        {
            "outcome": outcome,
            "champion": champion and {"model": champion.uri},
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


def find_champion(gateway, version):
    champion = gateway.get_alias(version.name, "champion")
    return champion and champion.version


STAYS, MOVED = "Not promoted: champion of NAME stays version 1.", "moved while"
REPORTED = "The policy has `report_only: true`"


@pytest.mark.parametrize(
    ("outcomes", "outcome", "sentence"),
    [
        # Outcome and compared version of each verdict.
        ([("pass", 0), ("fail", 0)], "fail", STAYS),
        ([("pass", 0), ("insufficient", 0)], "insufficient", STAYS),
        ([("pass", 0), ("error", 0)], "error", STAYS),
        ([("pass", None)], "insufficient", MOVED),
        ([("pass", 1)], "insufficient", MOVED),
        ([("pass", 0), ("pass", None)], "insufficient", MOVED),
    ],
)
def test_the_alias_stays_on_anything_but_a_pass_against_the_champion(
    gateway, versions, outcomes, outcome, sentence
):
    first, second = versions
    move(gateway, [make_verdict()], first)
    verdicts = [make_verdict(one, at if at is None else versions[at]) for one, at in outcomes]
    decision = move(gateway, verdicts, second)
    assert (decision.outcome, decision.promoted) == (outcome, False)
    assert decision.champion_moved == (sentence == MOVED)
    assert sentence.replace("NAME", first.name) in decision.sentence
    assert find_champion(gateway, first) == "1"


@pytest.mark.parametrize(
    ("verdicts", "options", "outcome", "sentence"),
    [
        ([make_verdict("fail")], {}, "fail", "Not promoted: NAME has no champion yet."),
        ([make_verdict()], {"allow_first": False}, "insufficient", ""),
        ([], {}, "insufficient", ""),  # no verdict on a required set
        ([make_verdict()], {"model": "some_other_model"}, "pass", ""),
        ([make_verdict(report_only=True)], {}, "pass", f"The verdict is: passed. {REPORTED}"),
        ([make_verdict("fail", report_only=True)], {}, "pass", f"is: blocked. {REPORTED}"),
    ],
)
def test_a_verdict_alone_makes_no_first_champion(
    gateway, versions, verdicts, options, outcome, sentence
):
    decision = move(gateway, verdicts, versions[0], **options)
    assert (decision.outcome, decision.promoted) == (outcome, False)
    assert sentence.replace("NAME", versions[0].name) in decision.sentence
    assert find_champion(gateway, versions[0]) is None


def test_what_did_not_pass_is_told_the_version_that_became_champion_beside_it(gateway, versions):
    judged = [
        JudgedCandidate(outcome, [make_verdict(outcome)], version)
        for outcome, version in zip(("pass", "fail"), versions, strict=True)
    ]
    newer, name = SuccessionRule("newer", allow_first=True), versions[0].name
    _, blocked = promote_candidates(judged, name, gateway, newer)
    assert blocked.sentence == f"Not promoted: champion of {name} is version 1 now."


def test_a_pass_moves_the_alias_and_keeps_the_previous_champion(gateway, versions):
    first = move(gateway, [make_verdict()], versions[0])
    assert "There was none before" in first.sentence
    decision = move(gateway, [make_verdict(champion=versions[0])], versions[1])
    assert decision.promoted
    assert (first.rule, decision.rule) == ("first", "newer")
    entries = Ledger(gateway, versions[0].name).read_entries()
    assert [item.content.rule for item in entries] == ["first", "newer"]
    assert "It replaced version 1" in decision.sentence
    assert find_champion(gateway, versions[0]) == "2"
    assert gateway.get_alias(versions[0].name, "previous_champion").version == "1"


def test_scores_without_a_version_are_judged_but_not_promoted(gateway):
    decision = promote_one([make_verdict()], None, gateway)
    assert (decision.outcome, decision.promoted) == ("pass", False)


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
