"""One split: all methods on the same rows; rows that were learned are not evaluated."""

import json
from itertools import combinations

import pytest
from matplotlib.figure import Figure
from support.packages import install

from biasgate.tasks.common import code
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.mitigating.diagnosis import diagnose, sections
from biasgate.tasks.mitigating.page import Section, write_page
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import SetFolder, Sets, check_sets, rows_of, table_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigating.trials import split, trial, trial_key
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

PHRASES = {"source": "templates", "terms": ["gay", "tall"], "rows_per_term": 100}
PLANTED = {"planted_bias": {"terms": ["gay"], "strength": 0.9}}
TRAIN = PHRASES | {"name": "train", "part": "train"}
FAST = {"word_ngrams": (1, 1), "char_ngrams": (3, 3), "max_features": 500}
CANDIDATE = CANDIDATES.validate_python(
    {"name": "t", "kind": "tfidf", "train_on": TRAIN | PLANTED} | FAST
)
METHODS = Mitigation.model_validate(
    {"methods": ["reweight", {"kind": "threshold", "min_precision": 0.7}]}
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def frozen(store, **options):
    source = SOURCES.validate_python(PHRASES | options)
    return SetFolder(source, str(freeze(source, store).folder))


@pytest.fixture(scope="module")
def sets(store):
    return Sets(
        training=frozen(store, name="train", part="train", **PLANTED),
        evaluated=(frozen(store, name="phrases"),),
        clean=frozen(store, name="clean", part="train"),
    )


@pytest.fixture(scope="module")
def found(store, sets):
    return trial(CANDIDATE, METHODS, sets, 0, store)


def test_every_method_is_measured_on_every_set(found):
    assert set(found["methods"]) == {"baseline", "clean", "reweight", "threshold"}
    for numbers in found["methods"].values():
        assert numbers["sets"]["phrases"]["overall"]["fped"] is not None


def test_a_threshold_changes_no_auc(found):
    base, moved = (found["methods"][name] for name in ("baseline", "threshold"))
    assert base["general"]["auc"] == moved["general"]["auc"]
    assert base["threshold"] != moved["threshold"]


def test_weights_reduce_a_planted_bias(found):
    bias = {
        name: numbers["sets"]["phrases"]["identities"]["gay"]["bpsn_auc"]
        for name, numbers in found["methods"].items()
    }
    assert bias["baseline"] < bias["reweight"] <= bias["clean"] + 0.1


def test_no_text_is_left_in_the_store_or_in_the_numbers(found, store, sets):
    assert not list(store.glob(".baseline-*"))
    told = json.dumps(found)
    assert not any(text in told for text in table_of(sets.training)["text"].to_pylist())


def test_a_training_never_draws_by_the_seed_of_its_split(store, sets, monkeypatch):
    seeds = []
    fit = type(CANDIDATE).with_seed
    monkeypatch.setattr(
        type(CANDIDATE), "with_seed", lambda self, seed: seeds.append(seed) or fit(self, seed)
    )
    few = Mitigation.model_validate({"methods": ["calibrate"], "seeds": 1000})
    trial(CANDIDATE, few, Sets(sets.training, sets.evaluated), 3, store)
    assert len(seeds) == 1
    assert seeds[0] >= 1000


def test_an_encoder_is_fine_tuned_by_another_seed(tmp_path):
    options = {"name": "e", "kind": "transformer", "folder": str(tmp_path), "train_on": TRAIN}
    candidate = CANDIDATES.validate_python(options | {"fine_tuning": {"max_epochs": 7}})
    other = candidate.with_seed(1003)
    assert (other.fine_tuning.seed, other.fine_tuning.max_epochs) == (1003, 7)


def test_the_key_changes_with_the_seed_and_the_methods(sets):
    others = Mitigation.model_validate({"methods": ["reweight"]})
    keys = {trial_key(CANDIDATE, one, sets, seed) for one in (METHODS, others) for seed in (0, 1)}
    assert len(keys) == 4
    assert trial_key(CANDIDATE, METHODS, sets, 0) in keys


def test_the_key_changes_with_the_release(sets, monkeypatch):
    before = trial_key(CANDIDATE, METHODS, sets, 0)
    monkeypatch.setattr(code, "version", lambda _: "99.0")
    assert trial_key(CANDIDATE, METHODS, sets, 0) != before


LIGHTER = """\
from biasgate.extend import RowMethod

class Lighter(RowMethod):
    weight: float = 0.5
"""


def test_the_key_changes_with_the_code_of_a_package_and_with_its_release(
    sets, monkeypatch, tmp_path
):
    points = "[biasgate.mitigations]\nlighter = lighter_of_trials:Lighter\n"

    def key():
        lighter = Mitigation.model_validate({"methods": ["lighter"]})
        return trial_key(CANDIDATE, lighter, sets, 0)

    folder = install(tmp_path / "1", "of-trials", points, lighter_of_trials=LIGHTER)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(folder)
        keys = [key(), key()]
        (folder / "lighter_of_trials.py").write_text(f"{LIGHTER}# other\n", "utf-8")
        keys.append(key())
    monkeypatch.syspath_prepend(install(tmp_path / "2", "of-trials", points, version="2.0"))
    keys.append(key())
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_evaluating_on_training_rows_is_refused(store, sets):
    wrong = Sets(training=sets.training, evaluated=(sets.training,))
    with pytest.raises(InputError, match="was trained on rows of evaluation set 'train'"):
        trial(CANDIDATE, METHODS, wrong, 0, store)


def test_tuning_on_an_evaluation_set_is_refused(sets):
    wrong = Sets(sets.training, sets.evaluated, tune_on=sets.evaluated[0])
    with pytest.raises(InputError, match="`tune_on` must have other comments than"):
        check_sets.fn(wrong, METHODS)


def test_a_clean_set_needs_the_same_ids(store, sets):
    other = frozen(store, name="other", part="train", seed=5)
    with pytest.raises(InputError, match="`clean` must have the ids of the training set"):
        trial(CANDIDATE, METHODS, Sets(sets.training, sets.evaluated, clean=other), 0, store)


def test_parts_of_a_split_share_no_text(sets):
    parts = split(rows_of(sets.training, METHODS), 0, 0.3)
    texts = [set(one.texts) for one in parts]
    assert not any(one & other for one, other in combinations(texts, 2))
    whole = sets.training.load().n_rows
    assert sum(one.n for one in parts) == whole
    assert parts[0].n / whole == pytest.approx(0.7, abs=0.06)


def test_a_diagnosis_names_the_identity_that_is_out_of_line(sets, tmp_path):
    content = diagnose(rows_of(sets.training, METHODS))
    assert any("with gay are toxic in" in one for one in content["sentences"])
    assert not any("with tall" in one for one in content["sentences"])
    assert content["label_certainty"] is None
    write_page(tmp_path / "page.html", "Data", content["sentences"], sections(content))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "What is out of line" in page
    text = table_of(sets.training)["text"][0].as_py()
    assert text not in page + json.dumps(content)


def test_what_holds_for_nearly_all_lengths_is_told_once(sets):
    one_length = METHODS.model_copy(update={"edges": (1000,)})
    told = diagnose(rows_of(sets.training, one_length))["sentences"]
    assert len([one for one in told if "with gay are toxic in" in one]) == 1


def test_a_figure_with_an_emoji_is_drawn_without_a_warning(tmp_path):
    figure = Figure()
    figure.suptitle("\N{PERSON WITH FOLDED HANDS}")
    write_page(tmp_path / "page.html", "Data", [], [Section("A", pictures=[("it", figure)])])
    assert "image/png" in (tmp_path / "page.html").read_text("utf-8")


def test_contested_labels_are_counted_where_raters_are_known(sets):
    rows = rows_of(sets.training, METHODS)
    table = rows.table.set_column(2, "label", [[0.5] * 10 + [0.0] * 10 + [1.0] * (rows.n - 20)])
    part = TrainingRows("t", table, 0.5, 0.5, rows.identities, rows.edges, rows.matcher)
    overall = diagnose(part)["label_certainty"][0]
    assert (overall["identity"], overall["contested"]) == ("all comments", 10 / rows.n)


def test_an_identity_that_never_occurs_is_named(store):
    one = frozen(store, name="one", part="train", rows_per_term=20)
    rows = rows_of(one, METHODS)
    table = rows.table.set_column(
        rows.table.column_names.index("identity/gay"), "identity/gay", [[0.0] * rows.n]
    )
    part = TrainingRows("t", table, 0.5, 0.5, rows.identities, rows.edges, rows.matcher)
    assert "Never mentioned, so nothing is known of them: gay." in diagnose(part)["sentences"]
