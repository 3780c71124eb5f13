"""Training writes each version's files once: nobody else's training changes them."""

import os
from functools import partial
from typing import Literal

import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import freeze_rows
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.training import check_training_set, train_and_register
from biasgate.tasks.store import Workplace

MEANWHILE = []  # what happens while a candidate is trained


class Random(CandidateSettings):
    """A kind whose trainings all write different bytes, as most libraries do."""

    kind: Literal["random"] = "random"

    def training_key(self, training_set):
        return training_set.digest

    def fit(self, training_set, folder, log):
        del training_set, log
        if MEANWHILE:
            MEANWHILE.pop()()
        folder.mkdir()
        (folder / "weights").write_bytes(os.urandom(8))


def freeze_texts(folder, name, texts=("x",)):
    columns = {"id": [f"{name}-{at}" for at in range(len(texts))], "label": [1.0] * len(texts)}
    table = pa.table(columns | ({"text": texts} if texts[0] else {}))
    return freeze_rows([table], folder / name, name=name, split="all", source={})


@pytest.fixture
def train(tmp_path):
    rows = freeze_texts(tmp_path, "rows")
    gateway = Gateway.from_store(tmp_path / "store")

    def train(model):
        version = train_and_register(
            Random(name="one"), rows, gateway, experiment="e", registered_model=model
        )
        return version, partial(gateway.read_manifest, version)

    return train


def test_the_same_training_for_another_model_leaves_the_first_ones_files_alone(train):
    first, files = train("first")
    before = files().digest
    second, of_second = train("second")
    assert (second.name, files().digest) == ("second", before)
    assert of_second().digest != before
    assert train("first")[0].uri == first.uri


def test_a_version_that_another_process_registered_meanwhile_is_used_as_it_is(train):
    made = []

    def train_again():
        version, files = train("one")
        made.append((version.uri, files().digest))

    MEANWHILE.append(train_again)
    version, files = train("one")
    assert made == [(version.uri, files().digest)]


def test_a_training_set_that_shares_rows_is_refused_before_training(tmp_path, train):
    training, apart, shared, blank = (
        str(freeze_texts(tmp_path, name, texts).folder)
        for name, texts in (("train", "xy"), ("apart", "z"), ("test", "zX"), ("blank", (None,)))
    )
    workplace = Workplace(tmp_path / "store")

    def check(*sets, training=training, model="one", **options):
        check_training_set.fn(Random(name="one", **options), training, sets, workplace, model)

    check(apart, blank)
    check(apart, shared, allow_training_rows=True)
    check(shared, training=blank)
    with pytest.raises(InputError) as error:
        check(apart, shared)
    assert str(error.value).startswith(
        "candidate 'one' would be trained on rows of evaluation set 'test': 0 of 2 rows by id and "
        "text (none allowed), 1 (50.0%) by text (at most 5% allowed)."
    )
    seen = str(tmp_path / "rows")
    with pytest.raises(InputError, match="would be trained on rows of evaluation set 'rows'"):
        check(seen, training=seen)
    train("one")  # from then on it is refused when it is opened
    check(seen, training=seen)
