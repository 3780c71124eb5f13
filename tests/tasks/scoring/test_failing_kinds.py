"""A kind of another package that fails is named; its message may quote a comment."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Literal

import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import CandidateError
from biasgate.tasks.data.evaluation_set import freeze_rows
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import check_candidate, score_rows
from biasgate.tasks.scoring.scorer import Scorer
from biasgate.tasks.scoring.training import train_and_register

QUOTED = "a secret comment"


class Failing(CandidateSettings, Scorer):
    """A class that is both settings and scorer."""

    kind: Literal["failing"] = "failing"
    digest: str = "d" * 64

    def check(self, evaluation_set=None):
        if evaluation_set is not None:
            raise KeyError(QUOTED)

    def open(self, workplace):
        del workplace
        return nullcontext(self)

    def training_key(self, training_set):
        return training_set.digest

    def fit(self, *_):
        raise ValueError(QUOTED)

    def score(self, rows):
        raise NotImplementedError(rows)


@pytest.fixture
def rows(tmp_path):
    table = pa.table({"id": ["1"], "text": ["x"], "label": [1.0]})
    return freeze_rows([table], tmp_path / "rows", name="rows", split="all", source={})


@pytest.mark.parametrize(
    "step",
    [
        lambda one, rows: check_candidate.fn(one, [str(rows.folder)], None),
        lambda one, rows: score_rows(one, rows, one, str(rows.folder)),
    ],
    ids=["before any work", "when it scores"],
)
def test_what_it_says_of_a_set_that_it_checks_is_withheld(rows, step):
    with pytest.raises(CandidateError, match=r"'one', which checks .* 'rows', failed") as told:
        step(Failing(name="one"), rows)
    assert QUOTED not in str(told.value)


def test_what_it_says_when_training_fails_is_withheld(rows):
    gateway = SimpleNamespace(
        find_version=lambda *_: None,
        ensure_experiment=lambda name: name,
        ensure_run=lambda *_: "run",
        fail_on_error=lambda _: nullcontext(),
        log=lambda *_, **__: None,
    )
    with pytest.raises(CandidateError, match=r"^training of candidate 'one' failed with V") as told:
        train_and_register(Failing(name="one"), rows, gateway, experiment="e", registered_model="m")
    assert QUOTED not in str(told.value)
