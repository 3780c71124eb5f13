"""Later evaluations: reused results, moves of `champion`, and refusals."""

import re

import pytest
import yaml

from biasgate.flows import evaluate
from biasgate.flows.score import train
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import reset_ledger
from biasgate.tasks.promoting.verify import require_champion
from biasgate.tasks.scoring.scored_set import ScoredSet

pytestmark = pytest.mark.evaluates


# Each evaluation finds the store as the one above it left it.
@pytest.fixture(scope="module")
def kept(world, first):
    """Time at which the scores of the first evaluation were written."""
    del first
    files = (world.store / "scores").rglob("*.parquet")
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def again(world, kept):
    del kept
    return world.evaluate("again")


@pytest.fixture(scope="module")
def registered(world, again):
    del again
    model = {"name": "registered", "kind": "mlflow", "model": "models:/toxicity@champion"}
    return world.evaluate("registered", candidates=[model])


@pytest.fixture(scope="module")
def challenger(world):
    return world.candidate | {"name": "challenger", "regularization": 0.5}


@pytest.fixture(scope="module")
def blocked(world, registered, challenger):
    del registered
    return world.evaluate("blocked", candidates=[challenger], policy="unreachable.yaml")


@pytest.fixture(scope="module")
def unsupported(world, blocked, challenger):
    del blocked
    return world.evaluate("unsupported", candidates=[challenger], policy="many_rows.yaml")


@pytest.fixture(scope="module")
def promoted(world, unsupported, challenger):
    del unsupported
    return world.evaluate("promoted", candidates=[challenger])


@pytest.fixture(scope="module")
def outside(world, promoted):
    """An evaluation without `registered_model` that blocks the champion."""
    del promoted
    champion = {"name": "tried", "kind": "mlflow", "model": "models:/toxicity@champion"}
    changes = {"candidates": [champion], "policy": "unreachable.yaml", "registered_model": None}
    return world.evaluate("outside", **changes)


@pytest.fixture(scope="module")
def only_reported(world, outside):
    del outside
    champion = {"name": "tried", "kind": "mlflow", "model": "models:/toxicity@champion"}
    policy = yaml.safe_load((world.folder / "unreachable.yaml").read_text("utf-8"))
    policy |= {"name": "report", "report_only": True}
    (world.folder / "report.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    return world.evaluate("only_reported", candidates=[champion], policy="report.yaml")


@pytest.mark.parametrize(
    ("evaluation", "name"),
    [
        ("first", "Blocked"),
        ("registered", "Passed"),
        ("blocked", "Blocked"),
        ("unsupported", "Undecided"),
        ("promoted", "Passed"),
    ],
)
def test_the_flow_completes_under_the_name_of_its_outcome(request, evaluation, name):
    state = request.getfixturevalue(evaluation).state
    assert (state.name, state.type.value) == (name, "COMPLETED")


def test_an_unchanged_evaluation_scores_nothing_again(kept, first, again):
    assert len(kept) == 2
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for candidate in ("words", "shifted"):
        report = f"comments/{candidate}/report.json"
        assert again.read(report) == first.read(report)


def test_an_unchanged_evaluation_finds_the_version_that_was_trained(first, again):
    assert "train words" in {run.info.run_name for run in first.runs}
    assert "train words" not in {run.info.run_name for run in again.runs}
    assert (first.registry["versions"], again.registry["versions"]) == (1, 1)


def test_an_alias_is_pinned_to_the_version_it_names(registered, blocked):
    report = registered.read("comments/registered/report.json")
    assert report["candidate"]["model"] == "models:/toxicity/1"
    params = registered.run("registered on comments").data.params
    assert params["candidate.model"] == "models:/toxicity/1"
    assert blocked.read("comments/challenger/report.json")["candidate"]["model"][-1] == "2"


def test_a_version_scores_the_same_through_mlflows_own_interface(world, first, registered):
    native = scores_of(world, first.read("comments/words/report.json"))
    pyfunc = scores_of(world, registered.read("comments/registered/report.json"))
    assert native.keys() == pyfunc.keys()
    assert native == pytest.approx(pyfunc, abs=1e-12, rel=0)


def test_the_first_candidate_that_passes_becomes_champion(first):
    assert first.registry == {"champion": "1", "versions": 1}
    decisions = {
        decision["candidate"]: decision for decision in first.read("summary.json")["decisions"]
    }
    assert decisions["words"]["promoted"]
    assert not decisions["shifted"]["promoted"]


def test_a_champion_that_passes_again_stays(registered):
    assert registered.registry["champion"] == "1"
    [decision] = registered.read("summary.json")["decisions"]
    assert decision["sentence"] == "models:/toxicity/1 is champion already."


def test_a_blocked_challenger_is_registered_and_does_not_move_the_alias(blocked):
    assert blocked.registry == {"champion": "1", "versions": 2}


def test_too_little_evidence_does_not_move_the_alias(unsupported):
    assert unsupported.registry == {"champion": "1", "versions": 2}


def test_a_challenger_that_passes_becomes_champion(promoted):
    assert promoted.registry == {"champion": "2", "previous_champion": "1", "versions": 2}


def test_a_version_carries_the_verdict_it_got(world, promoted):
    tags = world.gateway.resolve("models:/toxicity@champion").tags
    assert tags["biasgate.comments.verdict"] == "pass"
    assert tags["biasgate.comments.run_id"] == promoted.run("challenger on comments").info.run_id


@pytest.mark.parametrize("evaluation", ["outside", "only_reported"])
def test_a_champion_keeps_its_verdict_where_nothing_is_decided_about_it(
    request, world, promoted, evaluation
):
    result = request.getfixturevalue(evaluation)
    assert result.read("summary.json")["verdicts"][0]["outcome"] == "fail"
    champion = world.gateway.resolve("models:/toxicity@champion")
    judged_in = promoted.run("challenger on comments").info.run_id
    assert champion.tags["biasgate.comments.run_id"] == judged_in
    assert require_champion("toxicity", world.gateway, world.store) == champion
    described = world.gateway.client.get_model_version("toxicity", champion.version).description
    assert "challenger" in described
    assert "tried" not in described


def test_an_evaluation_without_a_registered_model_says_that_the_version_keeps_its_verdict(outside):
    [decision] = outside.read("summary.json")["decisions"]
    assert decision["outcome"] == "fail"
    assert decision["sentence"] == (
        "models:/toxicity/2 keeps its own verdict: an evaluation without "
        "`registered_model: toxicity` does not change it."
    )


def test_a_wrong_second_candidate_leaves_no_results_no_version_and_no_running_run(world, first):
    del first
    before = world.aliases()
    (world.folder / "few.csv").write_text("id,prediction\ntest-0,0.5\n", "utf-8")
    few = {"name": "few", "kind": "scores", "path": "few.csv", "register": "toxicity"}
    failed = world.evaluate("few", candidates=[world.candidate, few])
    with pytest.raises(InputError, match=r"few\.csv must be those of evaluation set 'comments'"):
        failed.state.result()
    assert not failed.output.exists()
    assert world.runs("attributes.status = 'RUNNING'") == []
    assert failed.registry == before


@pytest.mark.slow
def test_results_that_cannot_be_published_move_no_alias(world, promoted):
    assert promoted.registry["champion"] == "2"
    (world.folder / "output" / "in_the_way").mkdir()
    (world.folder / "output" / "in_the_way" / "comments").write_text("a file, not a folder")
    failed = world.evaluate("in_the_way", candidates=[world.candidate])
    with pytest.raises(FileExistsError):
        failed.state.result()
    assert failed.registry == promoted.registry
    assert {run.info.status for run in failed.runs} == {"FAILED", "FINISHED"}


def test_an_evaluation_on_training_rows_is_refused(world, first):
    del first
    rows = world.candidate["train_on"] | {"name": "seen"}
    failed = world.evaluate("seen", evaluation_sets=[rows], candidates=[world.candidate])
    with pytest.raises(InputError, match="'words' was trained on rows of evaluation set 'seen'"):
        failed.state.result()
    assert not failed.output.exists()


def test_a_model_that_would_be_trained_on_the_rows_is_neither_trained_nor_registered(world):
    rows = world.candidate["train_on"] | {"name": "seen"}
    new = world.candidate | {"name": "new", "regularization": 0.25}
    before = world.aliases(), len(world.runs())
    for candidates in ([new], [world.candidate | {"regularization": 0.3}, new]):
        failed = world.evaluate("seen", evaluation_sets=[rows], candidates=candidates)
        with pytest.raises(InputError, match="would be trained on rows of evaluation set 'seen'"):
            failed.state.result()
    with pytest.raises(InputError, match="would be trained on rows of evaluation set 'seen'"):
        train(str(world.folder / "seen.yaml"), str(world.store))
    assert (world.aliases(), len(world.runs())) == before


def test_a_failure_in_mlflow_leaves_no_run_running(world, first, monkeypatch):
    del first

    def refuse(*_, **__):
        raise InputError("the server has no room")

    monkeypatch.setattr(Gateway, "log_inputs", refuse)
    failed = world.evaluate("no_room")
    with pytest.raises(InputError, match="no room"):
        failed.state.result()
    statuses = {run.info.run_name: run.info.status for run in failed.runs}
    assert statuses == {"evaluate small": "FAILED", "words on comments": "FAILED"}
    assert not failed.output.exists()


@pytest.mark.slow
def test_a_connection_lost_while_logging_is_tried_again_in_the_same_run(world, first, monkeypatch):
    del first
    log, calls = Gateway.log_inputs, []

    def log_at_second_try(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("lost")
        log(*arguments, **options)

    monkeypatch.setattr(Gateway, "log_inputs", log_at_second_try)
    result = world.evaluate("lost", candidates=[world.candidate])
    assert result.state.name == "Passed"
    assert len(calls) == 2
    statuses = {run.info.run_name: run.info.status for run in result.runs}
    assert statuses == {"evaluate small": "FINISHED", "words on comments": "FINISHED"}
    assert len(result.runs) == 2


def scores_of(world, report):
    folders = report["evaluation_set"]["digest"][:16], report["candidate"]["digest"][:16]
    table = ScoredSet.open(str(world.store.joinpath("scores", *folders))).table()
    return dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))


def test_a_candidate_is_judged_again_where_the_champion_moved_meanwhile(
    world, promoted, challenger, monkeypatch
):
    del promoted
    world.gateway.set_alias("toxicity", "champion", "2")
    real, calls = evaluate.promote_best, []

    def promote_late(candidates, verdicts, *options, **named):
        calls.append(verdicts[0][0].champion.model)
        if len(calls) == 1:  # somebody else is faster
            reset_ledger("toxicity", "1", "meanwhile", world.gateway)
        return real(candidates, verdicts, *options, **named)

    monkeypatch.setattr(evaluate, "promote_best", promote_late)
    late = challenger | {"name": "late", "regularization": 0.25}
    found = world.evaluate("late", candidates=[late])
    assert calls == ["models:/toxicity/2", "models:/toxicity/1"]
    assert found.read("comments/late/verdict.json")["champion"]["model"] == "models:/toxicity/1"
    assert found.read("summary.json")["decisions"][0]["promoted"]
    assert found.registry["previous_champion"] == "1"


# ------------------------------------------------------------------ files of scores


@pytest.fixture(scope="module")
def score_files(world):
    """A separate registry in which files of scores become champion."""
    better = dict(world.shifted)
    for row in world.rows:
        better[row["id"]] = 0.35 * row["label"] + 0.5 * (int(row["mark"], 16) % 1000) / 1000
    lines = [f"{key},{score!r}" for key, score in better.items()]
    (world.folder / "better.csv").write_text("id,prediction\n" + "\n".join(lines) + "\n", "utf-8")

    def run(name, file):
        candidate = {"name": "file", "kind": "scores", "path": file, "register": "filed"}
        return world.evaluate(name, candidates=[candidate], registered_model="filed")

    return (
        run("filed", "better.csv"),
        run("filed_again", "better.csv"),
        run("filed_worse", "shifted.csv"),
    )


def test_a_registered_file_of_scores_becomes_champion_and_is_registered_once(world, score_files):
    first, again, worse = score_files
    decision = first.read("summary.json")["decisions"][0]
    assert decision["promoted"], decision["sentence"]
    assert "is champion already" in again.read("summary.json")["decisions"][0]["sentence"]
    assert len(world.gateway.list_versions("filed")) == 2
    assert world.gateway.get_alias("filed", "champion").version == "1"
    assert worse.read("summary.json")["outcome"] == "fail"


def test_a_registered_file_of_scores_is_compared_with_as_champion(score_files):
    verdict = score_files[2].read("comments/file/verdict.json")
    assert verdict["champion"]["model"] == "models:/filed/1"
    assert verdict["champion"]["kind"] == "scores"
    assert ("bpsn_auc", "gay") in {(loss["metric"], loss["group"]) for loss in verdict["worsened"]}


# ------------------------------------------------------------------ two that both pass


@pytest.fixture(scope="module")
def pair(world):
    """Two files of scores that both pass, evaluated on two nights without changes."""
    candidates = []
    for name, noise in (("finer", 0.4), ("coarser", 0.45)):
        rows = [
            f"{row['id']},{0.35 * row['label'] + noise * (int(row['mark'], 16) % 1000) / 1000!r}"
            for row in world.rows
        ]
        (world.folder / f"{name}.csv").write_text("\n".join(["id,prediction", *rows]), "utf-8")
        candidate = {"name": name, "kind": "scores", "path": f"{name}.csv", "register": "pair"}
        candidates.append(candidate)
    return [
        world.evaluate(f"pair_{night}", candidates=candidates, registered_model="pair")
        for night in range(2)
    ]


def test_of_two_that_pass_the_better_becomes_champion_once(world, pair):
    first, second = pair
    assert {result.state.name for result in pair} == {"Passed"}
    assert world.gateway.get_alias("pair", "champion").version == "1"
    finer, coarser = first.read("summary.json")["decisions"]
    assert finer["promoted"]
    assert (
        "passed, but champion of pair is version 1 now: its final_score is" in (coarser["sentence"])
    )
    again = second.read("summary.json")["decisions"]
    assert not any(decision["promoted"] for decision in again)
    assert again[1]["sentence"].endswith(
        "version 2 passed before, and version 1 was promoted instead."
    )


def test_all_candidates_are_compared_with_the_champion_of_now(pair):
    for night, model in zip(pair, (None, "models:/pair/1"), strict=True):
        for name in ("finer", "coarser"):
            champion = night.read(f"comments/{name}/verdict.json")["champion"]
            assert (champion or {}).get("model") == model


def test_a_champion_trained_on_the_rows_is_refused_before_any_candidate_is_scored(world, first):
    """The message names the setting that allows the replacement."""
    del first
    rows = world.candidate["train_on"] | {"name": "seen"}
    lines = (f"train-{number},{number % 7}" for number in range(300))
    (world.folder / "seen.csv").write_text("\n".join(["id,prediction", *lines]), "utf-8")
    before = set((world.store / "scores").rglob("*"))
    candidate = {"name": "made_elsewhere", "kind": "scores", "path": "seen.csv"}
    settings = {"evaluation_sets": [rows], "candidates": [candidate]}
    failed = world.evaluate("seen_by_champion", **settings)
    with pytest.raises(InputError, match="'champion' was trained on rows") as refused:
        failed.state.result()
    assert set((world.store / "scores").rglob("*")) == before
    message = str(refused.value)
    written = re.search("`allow_training_rows` in the evaluation file: `([^`]*)`", message)
    allowed = world.evaluate("allowed", **settings, **yaml.safe_load(written[1]))
    assert allowed.state.name in {"Passed", "Blocked", "Undecided"}
