"""Comments that a model was trained on: few repeated texts are a reservation, more are refused."""

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.partial import partial

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_rows
from biasgate.tasks.measuring.cautions import describe_training_rows
from biasgate.tasks.records.report import TrainedOn
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training_rows import (
    FILE,
    REPEATED_TEXTS,
    find_training_rows,
    refuse_training_rows,
    write_training_rows,
)

N = 200
SHORT = "Thank you!"


def make_rows(folder, name, n_short=0, ids="", short=SHORT, **source):
    texts = [short] * n_short + [f"{name} {n}" for n in range(n_short, N)]
    table = pa.table({"id": [f"{ids or name}{n}" for n in range(N)], "text": texts})
    table = table.append_column("label", pa.array(np.arange(N) % 2 / 1))
    return freeze_rows([table], folder / name, name=name, split="all", source=source)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model").mkdir()
    write_training_rows(make_rows(tmp_path, "train", 3), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("share", [0.005, 0.01, 0.02, 0.05])
def test_few_repeated_texts_are_counted_and_not_refused(tmp_path, model, share):
    held_out = make_rows(tmp_path, "test", int(share * N))
    refuse_training_rows(model, held_out, "mine", None)
    assert find_training_rows(model, held_out) == TrainedOn(n_rows=0, n_texts=int(share * N))


def test_more_repeated_texts_are_refused_with_their_number_and_the_limit(tmp_path, model):
    with pytest.raises(InputError) as error:
        refuse_training_rows(model, make_rows(tmp_path, "test", 12), "mine", None)
    assert "0 of 200 rows by id and text (none allowed), 12 (6.0%) by text (at most 5%" in str(
        error.value
    )
    assert SHORT not in str(error.value)


@pytest.mark.parametrize("form", ["THANK YOU!", "Thank\u00a0you!\n", "\uff34hank you!"])
def test_texts_that_differ_in_form_only_are_the_same(tmp_path, model, form):
    with pytest.raises(InputError, match=r"20 \(10.0%\) by text"):
        refuse_training_rows(model, make_rows(tmp_path, "test", 20, short=form), "mine", None)
    one = make_rows(tmp_path, "other", 1, ids="train", short=form)
    with pytest.raises(InputError, match="1 of 200 rows by id and text"):
        refuse_training_rows(model, one, "mine", None)


def test_a_model_trained_before_is_compared_by_its_texts_as_they_are(tmp_path, model):
    digests = [
        blake2b(text.encode(), digest_size=8).digest() for text in (f"train0\n{SHORT}", SHORT)
    ]
    row, text = (np.frombuffer(digest, "<u8") for digest in digests)
    pq.write_table(pa.table({"row": row, "text": text}), model / FILE)
    same = make_rows(tmp_path, "test", 1, ids="train")
    assert find_training_rows(model, same) == TrainedOn(n_rows=1, n_texts=1)
    assert find_training_rows(model, make_rows(tmp_path, "other", 1, short="THANK YOU!")) is None


def test_one_row_by_id_and_text_is_refused(tmp_path, model):
    same = make_rows(tmp_path, "test", 1, ids="train")
    with pytest.raises(InputError, match=r"1 of 200 rows by id and text \(none allowed\), 1 \(0.5"):
        refuse_training_rows(model, same, "mine", None)


def test_a_row_number_is_no_id(tmp_path, model):
    numbered = make_rows(tmp_path, "test", 1, ids="train", id="row_number")
    refuse_training_rows(model, numbered, "mine", None)
    assert find_training_rows(model, numbered) == TrainedOn(n_rows=0, n_texts=1)


def test_nothing_is_known_of_a_model_from_elsewhere(tmp_path):
    assert find_training_rows(tmp_path, make_rows(tmp_path, "test")) is None
    assert find_training_rows(None, make_rows(tmp_path, "other")) is None


class Trained(Scorer):
    digest = "a" * 64

    def __init__(self, files):
        self.files = files

    def score(self, batch):
        return np.linspace(0, 1, batch.num_rows)


def test_the_number_is_kept_with_the_scores(tmp_path, model):
    candidate = CANDIDATES.validate_python({"name": "m", "kind": "scores", "path": "unused.csv"})
    held_out, scores = make_rows(tmp_path, "test", 2), str(tmp_path / "scores")
    kept = score_rows(Trained(model), held_out, candidate, scores)
    assert kept.record.trained_on == TrainedOn(n_rows=0, n_texts=2)
    assert score_rows(Trained(model), held_out, candidate, scores).record == kept.record


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, None),
        (
            TrainedOn(n_rows=0, n_texts=7),
            "7 of 2,000 comments (0.4%) have a text that the model was trained on.",
        ),
        (
            TrainedOn(n_rows=1500, n_texts=1600),
            (
                "The model was trained on 1,500 of 2,000 comments (75.0%): its numbers are "
                "optimistic (`allow_training_rows`)."
            ),
        ),
    ],
)
def test_the_result_says_what_the_model_was_trained_on(found, sentence):
    report = partial({"evaluation_set": {"choices": {"n_rows": 2000}}, "trained_on": None})
    report.trained_on = found
    assert describe_training_rows(report) == sentence


def test_the_limit_is_that_of_the_guide():
    assert REPEATED_TEXTS == 0.05
