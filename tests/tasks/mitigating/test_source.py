"""A mitigated training set is frozen with a digest, and cannot be evaluated on."""

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.training_rows import refuse_training_rows, write_training_rows

BASE = {"name": "train", "source": "templates", "part": "train", "rows_per_term": 20}
BASE |= {"terms": ["gay", "muslim"], "rows_without_term": 20}
BASE |= {"planted_bias": {"terms": ["gay"], "strength": 0.9}}


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool.csv"
    lines = [f"p{i},A gay neighbour waters the {i} roses,0" for i in range(40)]
    path.write_text("\n".join(["id,text,toxic", *lines]), "utf-8")
    return {"name": "pool", "source": "table", "path": str(path), "text": "text"} | {
        "label": "toxic",
        "terms": ["gay", "muslim"],
    }


def make_source(method, **options):
    section = {"name": "mitigated", "source": "mitigated", "base": BASE, "method": method}
    return SOURCES.validate_python(section | options)


def test_the_same_seed_gives_the_same_digest_and_another_one_another(tmp_path, pool):
    digests = [
        freeze_source(make_source("pool", pool=pool, seed=seed), tmp_path / f"store{i}").digest
        for i, seed in enumerate((1, 1, 2))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_the_record_says_what_the_method_did(tmp_path, pool):
    frozen = freeze_source(make_source("pool", pool=pool), tmp_path)
    record = EvaluationSet.load(frozen.folder).record["mitigation"]
    assert record["report"]["n_added"] > 0
    assert "roses" not in str(frozen.record)


def test_another_pool_is_another_set(tmp_path, pool):
    first = freeze_source(make_source("pool", pool=pool), tmp_path)
    path = tmp_path / "pool.csv"
    path.write_text(path.read_text("utf-8").replace("roses", "trees"), "utf-8")
    assert freeze_source(make_source("pool", pool=pool), tmp_path).digest != first.digest


def test_evaluating_on_rows_of_the_pool_is_refused(tmp_path, pool):
    frozen = freeze_source(make_source("pool", pool=pool), tmp_path)
    write_training_rows(frozen, tmp_path)
    whole = freeze_source(SOURCES.validate_python(pool), tmp_path)
    with pytest.raises(InputError, match="was trained on rows of evaluation set 'pool'"):
        refuse_training_rows(tmp_path, whole, "mine", None)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("pool", {}, "method pool needs a `pool`"),
        ("swap", {"label_threshold": 0.7}, "`label_threshold` must be that of `base`, 0.5"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message):
        make_source(method, **options)


def test_an_unknown_identity_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"got gya .known: gay, muslim.. Did you mean 'gay'"):
        freeze_source(make_source("reweight", only=["gya"]), tmp_path)


def test_a_model_that_does_not_learn_weights_refuses_weighted_rows(tmp_path, monkeypatch):
    frozen = freeze_source(make_source("reweight"), tmp_path)
    options = {"name": "t", "kind": "tfidf", "train_on": BASE}
    candidate = CANDIDATES.validate_python(options)
    assert candidate.training_labels(frozen).size == frozen.n_rows
    monkeypatch.setattr(type(candidate), "learns_weights", False)
    with pytest.raises(InputError, match="must learn from weighted rows, as method reweight"):
        candidate.training_labels(frozen)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"methods": ["pool"]}, "method pool takes rows from a `pool`"),
        ({"methods": ["swap", "swap"]}, "`methods` must have different names; swap"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"methods": ["swop"]}, "expected tags: 'pool'"),
    ],
)
def test_a_section_that_cannot_work_is_refused(section, message):
    with pytest.raises(ValueError, match=message):
        Mitigation.model_validate(section)
