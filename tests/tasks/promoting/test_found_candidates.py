"""Candidates that are found in the registry, and the champion measured with them."""

import numpy as np
import pandas as pd
import pytest
from support.evaluations import change
from support.judging import NOTHING_SAID
from support.partial import partial
from support.promoted import MODEL

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.rivals import decide_watched_champion, find_watched_champion
from biasgate.tasks.reading_evaluation import read_evaluation, with_found
from biasgate.tasks.scoring.kinds.mlflow_model import MlflowModel

FILE = """\
name: found
registered_model: toxicity
registered_candidates: {tags: {stage: candidate}, aliases: [canary]}
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, text: text, identities: [gay]}
policy: default
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = {"id": np.arange(9), "label": np.arange(9) % 2, "gay": 1, "text": "a"}
    pd.DataFrame(rows).to_csv("rows.csv", index=False)
    (tmp_path / "file.yaml").write_text(FILE)
    return tmp_path / "file.yaml"


def tagged(gateway, **tags):
    return gateway.record_version(MODEL, None, tags).version


def found(file, gateway, *, watch_champion=False):
    evaluation = with_found(read_evaluation(file), gateway, watch_champion=watch_champion)
    return {candidate.name: candidate.uri for candidate in evaluation.candidates}


def test_versions_with_the_tag_and_under_the_alias_are_candidates(file, gateway):
    for stage in ("candidate", "archived", "archived"):
        tagged(gateway, stage=stage)
    gateway.set_alias(MODEL, "canary", "3")
    assert found(file, gateway) == {
        "toxicity-1": "models:/toxicity/1",
        "toxicity-3": "models:/toxicity/3",
    }


def test_a_version_that_is_new_since_last_night_is_found(file, gateway):
    tagged(gateway, stage="candidate")
    assert list(found(file, gateway)) == ["toxicity-1"]
    tagged(gateway, stage="candidate")
    assert list(found(file, gateway)) == ["toxicity-1", "toxicity-2"]


def test_a_version_must_have_every_tag(file, gateway):
    change("file.yaml", "{stage: candidate}", "{stage: candidate, team: a}")
    tagged(gateway, stage="candidate")
    tagged(gateway, stage="candidate", team="a", other="x")
    assert list(found(file, gateway)) == ["toxicity-2"]


def test_the_newest_versions_can_be_judged_alone(file, gateway):
    change("file.yaml", "aliases: [canary]", "newest: 2")
    for _ in range(4):
        tagged(gateway, stage="candidate")
    gateway.set_alias(MODEL, "champion", "4")
    assert list(found(file, gateway)) == ["toxicity-2", "toxicity-3"]


def test_a_version_that_the_file_names_is_judged_once(file, gateway):
    tagged(gateway, stage="candidate")
    gateway.set_alias(MODEL, "mine", "1")
    candidates = "candidates: [{name: mine, kind: mlflow, model: models:/toxicity@mine}]\n"
    change("file.yaml", "policy:", f"{candidates}policy:")
    assert list(found(file, gateway)) == ["mine"]


def test_two_candidates_of_one_name_are_refused(file, gateway):
    tagged(gateway, stage="candidate")
    pd.DataFrame({"id": np.arange(9), "prediction": 0.5}).to_csv("scores.csv", index=False)
    candidates = "candidates: [{name: toxicity-1, kind: scores, path: scores.csv}]\n"
    change("file.yaml", "policy:", f"{candidates}policy:")
    with pytest.raises(InputError, match="candidate toxicity-1 must have another name"):
        found(file, gateway)


def test_without_any_version_the_champion_is_enough_to_measure(file, gateway):
    with pytest.raises(
        InputError, match="must have the tags stage=candidate or an alias of canary"
    ):
        found(file, gateway, watch_champion=True)
    tagged(gateway, stage="candidate")
    gateway.set_alias(MODEL, "champion", "1")
    assert found(file, gateway, watch_champion=True) == {}
    with pytest.raises(InputError, match="there is nothing to judge"):
        found(file, gateway)


def test_found_versions_are_opened_as_the_file_says(file, gateway):
    change("file.yaml", "tags:", "open_as: {trusted: true, threshold: 0.4}, tags:")
    tagged(gateway, stage="candidate")
    [one] = with_found(read_evaluation(file), gateway, watch_champion=False).candidates
    assert (one.kind, one.trusted, one.threshold) == ("mlflow", True, 0.4)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("registered_candidates: {", "registered_candidates: {}\n# {", "`tags` or `aliases`"),
        ("registered_model: toxicity\n", "", "`registered_candidates` needs `registered_model`"),
        ("{tags", "{open_as: {name: a}, tags", "`open_as` must not have `name`"),
        ("{tags", "{open_as: {kind: tfdif}, tags", "`open_as"),
        ("{tags", "{open_as: {trusty: 1}, tags", r"`open_as.trusty`: unknown key.*'trusted'"),
        (
            "{tags",
            "{open_as: {kind: http, url: 'http://[::1]/'}, tags",
            "a registered version.*http",
        ),
        ("{tags", "{newest: 0, tags", "newest: .*greater than or equal to 1"),
        ("{stage: candidate}", "{stage: 7}", "tags.stage: must be text; got 7"),
        (", text: text,", ",", "must have text for candidate 'toxicity-1'"),
        ("registered_candidates", "# registered", "`candidates` must list a model"),
    ],
)
@pytest.mark.usefixtures("file")
def test_what_cannot_be_found_or_opened_is_refused_when_the_file_is_read(old, new, text, tmp_path):
    change("file.yaml", old, new)
    with pytest.raises(InputError, match=text):
        read_evaluation(tmp_path / "file.yaml")


def mlflow(name, version):
    return MlflowModel(name=name, kind="mlflow", model=f"models:/toxicity/{version}")


def test_the_champion_is_watched_unless_it_is_a_candidate():
    champion = mlflow("champion", 3)
    rivals = {"champion": champion}
    assert find_watched_champion(rivals, [mlflow("new", 4)]) == [champion]
    assert find_watched_champion(rivals, [mlflow("same", 3)]) == []
    assert find_watched_champion({}, [mlflow("new", 4)]) == []


def test_a_watched_champion_has_a_name_of_its_own():
    [one] = find_watched_champion({"champion": mlflow("champion", 3)}, [mlflow("champion", 4)])
    assert (one.name, one.uri) == ("champion-1", "models:/toxicity/3")
    long = "c" * 100
    [one] = find_watched_champion({"champion": mlflow(long, 3)}, [mlflow(long, 4)])
    assert type(one).model_validate(one.model_dump()).name == f"{long[:90]}-1"


@pytest.mark.parametrize(("report_only", "outcome"), [(False, "fail"), (True, "pass")])
def test_nothing_is_decided_about_a_watched_champion(report_only, outcome):
    verdicts = partial(
        [
            {
                "candidate": {"name": "champion", "kind": "mlflow", "model": "models:/toxicity/3"},
                "evaluation_set": {"name": name, "digest": "0", "required": name != "extra"},
                "policy": {"name": "p", "digest": "0", "report_only": report_only},
                "outcome": found,
                **NOTHING_SAID,
            }
            for name, found in (("a", "pass"), ("b", "fail"), ("extra", "error"))
        ]
    )
    decision = decide_watched_champion(verdicts)
    assert (decision.outcome, decision.promoted) == (outcome, False)
    assert "models:/toxicity/3 was champion" in decision.sentence
    assert "measured again (blocked). Its own verdict is unchanged" in decision.sentence
    assert decide_watched_champion(verdicts[:1]).outcome == "pass"
