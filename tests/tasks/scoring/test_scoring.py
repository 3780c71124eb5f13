"""Scores: joined by id, checked, kept, reused."""

import numpy as np
import pandas as pd
import pytest
from support.frozen import freeze_table

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.reporting.report import write_submission
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.kinds.score_file import RegisteredScores, ScoreFile, register_scores
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training import refuse_two_thresholds
from biasgate.tasks.store import Workplace

N = 60


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    ids = [f"c{i:03}" for i in rng.permutation(N)]
    return pd.DataFrame(
        {"id": ids, "label": rng.integers(0, 2, N), "group": rng.integers(0, 2, N)}
    ).assign(prediction=rng.random(N))


@pytest.fixture
def rows(frame, tmp_path) -> EvaluationSet:
    return freeze_table(frame, tmp_path)


@pytest.fixture
def score(rows, tmp_path):
    """Return a function that scores the rows with a file made from a table."""

    def score(table, name="scores.csv", **options):
        path = tmp_path / name
        table.to_csv(path, index=False)
        settings = {"name": "file", "kind": "scores", "path": path, **options}
        candidate = CANDIDATES.validate_python(settings)
        scorer = candidate.open(None)
        return score_rows(scorer, rows, candidate, str(tmp_path / "scores"))

    return score


def test_scores_are_joined_by_id_and_not_by_position(frame, score):
    scored = score(frame[["id", "prediction"]].sample(frac=1, random_state=3))
    table = scored.table().to_pandas()
    assert table["id"].tolist() == frame["id"].tolist()
    assert table["score"].tolist() == frame["prediction"].tolist()


def test_scores_come_back_as_a_kaggle_submission(frame, score, tmp_path):
    write_submission(score(frame), tmp_path / "submission.csv")
    back = pd.read_csv(tmp_path / "submission.csv")
    assert list(back) == ["id", "prediction"]
    pd.testing.assert_frame_equal(back, frame[["id", "prediction"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.iloc[1:],
            r"1 of the set has no score, such as id c\d+\. .* set `allow_missing: true`",
        ),
        (
            lambda t: pd.concat([t, t.head(1).assign(id="other")]),
            "1 has a score but is not in the set, such as id other",
        ),
        (lambda t: pd.concat([t, t.tail(1)]), r"ids must be unique; got a second c\d+ .*row 60"),
        (lambda t: t.assign(prediction=[*t.prediction[:-1], np.nan]), "got nothing .*row 59, id c"),
        (
            lambda t: t.assign(prediction=[*t.prediction[:-2], np.nan, np.nan]),
            r"row 58, .* 2 of the first 60 rows have none\. Score them, or remove them",
        ),
        (
            lambda t: t.assign(prediction=[f"{x:%}" for x in t.prediction]),
            "must be a number, true or false, without `%`",
        ),
        (lambda t: t.assign(prediction=[np.inf, *t.prediction[1:]]), "got inf .*row 0, id c"),
        (lambda t: t.assign(prediction=["x", *t.prediction[1:]]), "must be a number.*row 0, id c"),
        (lambda t: t.assign(id=["", *t.id[1:]]), "an id must not be empty .*row 0"),
        (lambda t: t.head(0), "must have rows"),
        (lambda t: t.assign(prediction=t.label), "all are 0 and 1, which looks like class labels"),
        (lambda t: t.assign(prediction=0.5), "all are 0.5, which looks like class labels"),
    ],
)
def test_a_wrong_score_file_is_refused_with_its_place(frame, score, change, message):
    with pytest.raises(InputError, match=message):
        score(change(frame))


@pytest.mark.parametrize(
    ("known", "said"), [([], "all are missing"), ([0.2], "only 1 have one"), ([0.2, 0.9], "only 2")]
)
def test_a_file_with_hardly_any_score_is_refused_where_scores_may_be_missing(
    frame, score, known, said
):
    partly = [*known, *[np.nan] * (N - len(known))]
    with pytest.raises(InputError, match=f"must have a score for some rows; of {N}, {said}"):
        score(frame.assign(prediction=partly), allow_missing=True)


def test_a_registered_file_of_scores_says_that_it_is_of_one_set_only(frame, rows, tmp_path):
    frame.iloc[1:].to_csv(tmp_path / "scores.csv", index=False)
    workplace = Workplace(tmp_path / "store")
    settings = ScoreFile(name="file", kind="scores", path=tmp_path / "scores.csv", register="m")
    version = register_scores(settings, "m", workplace.gateway)
    options = settings.opened_as() | {"name": "champion", "model": version.uri}
    with pytest.raises(InputError, match=r"such as id .* models:/m/1 is .* valid for a single set"):
        RegisteredScores.model_validate(options).open(workplace).check(rows)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("all.csv", "id,prediction,text\na,0.5,secret\n", "it has 1 more column\\."),
        ("all.jsonl", '{"id": "a", "prediction": 0.5}\n', "any line may hold more"),
    ],
)
def test_no_file_that_may_hold_comments_is_registered(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    settings = {"name": "file", "kind": "scores", "path": tmp_path / name}
    ScoreFile(**settings).check()
    with pytest.raises(InputError, match=f"no columns but id and prediction, .*{reason}") as error:
        ScoreFile(**settings, register="m").check()
    assert "secret" not in str(error.value)


def test_two_valued_scores_pass_when_allowed(frame, score):
    scored = score(frame.assign(prediction=frame.label), allow_two_valued=True)
    assert set(scored.table()["score"].to_pylist()) == {0.0, 1.0}


def test_a_threshold_beyond_all_probabilities_is_refused(frame, score):
    with pytest.raises(InputError, match=r"`threshold` of .* on the scale of its scores; it is 50"):
        score(frame, threshold=50)
    assert score(
        frame.assign(prediction=100 * frame.prediction), threshold=50
    ).table().num_rows == len(frame)


class _Broken(Scorer):
    """A scorer with invalid answers."""

    digest = "0" * 64
    columns = ("id",)

    def __init__(self, answer):
        self.answer = answer

    def score(self, rows):
        return self.answer(rows.num_rows)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda n: np.zeros((n, 2)),
            r"must return a single score per row; got shape \(60, 2\) for 60",
        ),
        (lambda n: np.zeros(n - 1), r"got shape \(59,\) for 60 rows"),
        (
            lambda n: np.where(np.arange(n) == 7, np.nan, 0.1),
            r"must be finite; got nan .row 7, id c",
        ),
    ],
)
def test_an_answer_that_is_no_score_is_refused(rows, tmp_path, answer, message):
    settings = {"name": "file", "kind": "scores", "path": "unused.csv"}
    candidate = CANDIDATES.validate_python(settings)
    with pytest.raises(InputError, match=message):
        score_rows(_Broken(answer), rows, candidate, str(tmp_path / "scores"))


def make_version(name, version, threshold):
    settings = {"name": name, "kind": "mlflow", "model": f"models:/words/{version}"}
    return CANDIDATES.validate_python(settings | {"threshold": threshold})


def test_one_version_at_two_thresholds_is_refused():
    two = [make_version("low", 1, 0), make_version("other", 2, 0.5), make_version("high", 1, 3)]
    with pytest.raises(InputError, match=r"low and high are both models:/words/1, with 0.0 and 3"):
        refuse_two_thresholds(two)


def test_one_version_may_be_two_candidates_at_one_threshold():
    refuse_two_thresholds([make_version("by tfidf", 1, None), make_version("by pyfunc", 1, None)])
