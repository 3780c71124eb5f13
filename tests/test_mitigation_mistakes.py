"""Plausible mistakes with `mitigate`: refused before Prefect."""

import pytest
import yaml
from support.evaluations import frame, run
from support.made import summary_of, verdict_of

from biasgate import cli
from biasgate.tasks.common.files import write_json
from biasgate.tasks.scoring.kinds import hugging_face

ROWS = {"source": "table", "path": "rows.csv", "text": "text", "identities": ["gay"]}
POOL = {"methods": ["pool"], "pool": ROWS | {"name": "pool", "path": "pool.csv"}}
TRAINING = ROWS | {"name": "training", "path": "train.csv"}


@pytest.fixture
def begun(monkeypatch):
    """What was begun: commands of this test must refuse before Prefect starts."""
    started = []
    monkeypatch.setattr(cli, "run_evaluation", lambda name, *_, **__: started.append(name))
    return started


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with sound training data, where the commands run."""
    monkeypatch.chdir(tmp_path)
    rows = frame().drop(columns="prediction")
    rows.to_csv("train.csv", index=False)
    rows.assign(text="other").to_csv("rows.csv", index=False)
    rows.assign(label=0).to_csv("pool.csv", index=False)
    return tmp_path


def write(mitigation=None, training=None, **candidate):
    """Write an evaluation file with one candidate that is trained here."""
    trained = {"name": "mine", "kind": "tfidf", "train_on": TRAINING | (training or {})}
    content = {
        "name": "street",
        "registered_model": "street",
        "evaluation_sets": [ROWS | {"name": "rows"}],
        "candidates": [trained | candidate],
    }
    if mitigation:
        content["mitigation"] = mitigation
    with open("file.yaml", "w", encoding="utf-8") as stream:  # noqa: PTH123 - here
        yaml.safe_dump(content, stream)


def alter(name, **columns):
    """Give columns of a table other values."""
    rows = frame().drop(columns="prediction").assign(**columns)
    rows.to_csv(name, index=False)


def refused(home, begun, *command):
    """Run a command that must be refused at once, and leave nothing; return what it says."""
    code, said = run(*command)
    assert (code, begun) == (2, []), said
    assert not (home / "new").exists()
    return said


ONE_CLASS = "training set 'training' must have both classes; all 400 rows are negative"


def test_training_rows_of_one_class_are_refused(home, begun):
    write()
    alter("train.csv", label=0)
    assert ONE_CLASS in refused(home, begun, "mitigate", "file.yaml", "--output", "new")


def test_identities_that_never_occur_are_refused(home, begun):
    write()
    alter("train.csv", gay=0)
    said = refused(home, begun, "mitigate", "file.yaml", "--output", "new")
    assert "none of gay occurs in its 400 comments" in said


def test_toxic_rows_of_the_pool_are_refused(home, begun):
    write(POOL)
    alter("pool.csv", label=[1] * 3 + [0] * 397)
    said = refused(home, begun, "mitigate", "file.yaml", "--output", "new")
    assert "pool 'pool' must not have toxic rows; 3 of 400 are labelled toxic" in said


def test_a_missing_torch_is_told_with_its_extra(home, begun, monkeypatch):
    monkeypatch.setattr(hugging_face, "find_spec", lambda _: None)
    (home / "encoder").mkdir()
    (home / "encoder" / "config.json").write_text("{}")
    (home / "encoder" / "model.safetensors").write_text("")
    write(kind="transformer", folder="encoder")
    said = refused(home, begun, "mitigate", "file.yaml", "--output", "new")
    assert 'need torch: pip install ".[text]" in a checkout' in said


def test_sound_input_starts_the_flow_and_its_sets_are_kept(home, begun):
    write(POOL)
    run("mitigate", "file.yaml", "--output", "new", "--store", "store")
    assert begun == ["mitigate"]
    assert len([one for one in (home / "store" / "sets").iterdir() if one.is_dir()]) == 3


@pytest.fixture
def blocked(home):
    """Write the results of a candidate on a set; return their folder."""

    def results(outcome="fail", candidate="mine", evaluation_set="rows"):
        folder = home / "out" / evaluation_set / candidate
        folder.mkdir(parents=True)
        verdict = verdict_of(name=candidate, of_set=evaluation_set, outcome=outcome)
        write_json(folder / "verdict.json", verdict)
        summary = summary_of([verdict], config=str(home / "file.yaml"))
        write_json(home / "out" / "summary.json", summary)
        return folder

    write()
    return results


def test_a_folder_that_holds_no_results_is_refused(home, begun):
    write()
    said = refused(home, begun, "mitigate", "--from", "nowhere", "--output", "new")
    assert "`--from` must be a folder of results, OUTPUT/SET/CANDIDATE" in said


def test_a_candidate_that_passed_is_refused(home, begun, blocked):
    said = refused(home, begun, "mitigate", "--from", blocked("pass"), "--output", "new")
    assert "`--from` must be a candidate that did not pass" in said


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"candidate": "theirs"}, "those of theirs (known: mine)"),
        ({"evaluation_set": "news"}, "those of news (known: rows)"),
    ],
)
def test_results_of_another_evaluation_are_refused(home, begun, blocked, other, message):
    said = refused(home, begun, "mitigate", "--from", blocked(**other), "--output", "new")
    assert message in said


@pytest.mark.parametrize("output", ["out", "out/rows", "out/rows/mine"])
def test_results_that_would_be_replaced_are_refused(home, begun, blocked, output):
    said = refused(home, begun, "mitigate", "--from", blocked(), "--output", output)
    assert "`--output` must be another folder than that of the blocked candidate" in said
