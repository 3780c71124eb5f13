"""Training writes each version's files once: nobody else's training changes them."""

import os
from functools import partial
from typing import Literal

import pyarrow as pa
import pytest

from biasgate.tasks.data.freezing import freeze_rows
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.training import train_and_register

MEANWHILE = []  # what happens while a candidate is trained


class Random(CandidateSettings):
    """No two trainings write the same bytes, as with most libraries."""

    kind: Literal["random"] = "random"

    def training_key(self, training_set):
        return training_set.digest

    def fit(self, training_set, folder, log):
        del training_set, log
        if MEANWHILE:
            MEANWHILE.pop()()
        folder.mkdir()
        (folder / "weights").write_bytes(os.urandom(8))


@pytest.fixture
def train(tmp_path):
    table = pa.table({"id": ["1"], "text": ["x"], "label": [1.0]})
    rows = freeze_rows([table], tmp_path / "rows", name="rows", split="all", source={})
    gateway = Gateway.of_store(tmp_path / "store")

    def train(model):
        version = train_and_register(
            Random(name="one"), rows, gateway, experiment="e", registered_model=model
        )
        return version, partial(gateway.manifest, version)

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

    def another():
        version, files = train("one")
        made.append((version.uri, files().digest))

    MEANWHILE.append(another)
    version, files = train("one")
    assert made == [(version.uri, files().digest)]
