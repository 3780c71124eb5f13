"""Each method changes a training set as documented."""

import numpy as np
import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.mitigating.methods.catalogue import ANY_METHOD, METHODS
from biasgate.tasks.mitigating.methods.method import MethodUndoneError
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.source import change_rows

TERMS = {"gay": ["gay", "gays"], "tall": ["tall", "talls"]}


def make_rows(texts, labels, name="comments", ids=None, terms=TERMS):
    matcher = TermMatcher(terms)
    mentions = matcher.mentions(texts).astype(float)
    table = pa.table(
        {
            "id": ids or [f"{name}-{i}" for i in range(len(texts))],
            "text": pa.array(texts, pa.large_string()),
            "label": np.array(labels, float),
            **{f"identity/{name}": mentions[:, i] for i, name in enumerate(terms)},
        }
    )
    return TrainingRows(name, table, 0.5, 0.5, tuple(terms), matcher)


TRAINING = make_rows(
    ["gay a", "gay b", "gay c", "plain a", "plain b", "plain c", "plain d", "plain e"],
    [1, 1, 0, 0, 0, 0, 1, 0],
)
POOL = make_rows([f"a gay sentence {at}" for at in range(9)], [0] * 9, "pool")


def make_method(kind, **options):
    return ANY_METHOD.validate_python({"kind": kind} | options)


def apply_method(kind, seed=0, training=TRAINING, pool=POOL, **options):
    return change_rows(make_method(kind, **options), training, pool, seed)


def test_the_catalogue_has_the_methods_of_the_guide():
    assert METHODS.list_names() == ["pool", "random", "reweight", "swap"]


def test_pool_adds_rows_until_the_term_is_at_the_prior():
    table, change = apply_method("pool")
    assert change.report["n_added"] == 3  # 2 of 3 become 2 of 6, the 3 of 8 of all rows
    assert table["label"].to_pylist()[8:] == [0] * 3
    assert table["identity/gay"].to_pylist()[8:] == [1] * 3


def test_added_rows_keep_their_ids_so_that_evaluating_on_them_is_refused():
    table, _ = apply_method("pool")
    assert set(table["id"].to_pylist()[8:]) <= set(POOL.table["id"].to_pylist())


def test_an_id_that_is_taken_gets_a_prefix():
    pool = make_rows(POOL.texts, [0] * 9, "pool", ids=[f"comments-{i}" for i in range(9)])
    ids = apply_method("pool", pool=pool)[0]["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    prefixed = [row_id for row_id in ids[8:] if row_id.startswith("pool/")]
    assert len(prefixed) >= 2  # eight of the nine ids are taken


def test_texts_of_the_training_set_are_not_added_again():
    pool = make_rows(["gay a", "gay a new one", "gay a new one"], [0] * 3, "pool")
    table, _ = apply_method("pool", pool=pool)
    assert table["text"].to_pylist()[8:] == ["gay a new one"]


def test_a_pool_that_is_too_small_says_how_far_it_got():
    _, change = apply_method("pool", pool=make_rows(["a gay sentence"], [0], "pool"))
    [cell] = change.report["unfilled"]
    assert (cell["term"], cell["added"], cell["lacking"]) == ("gay", 1, 2)
    assert "could not fill 1 of 1 pairs of term and length (gay)" in change.sentences[1]


def test_a_pool_with_toxic_rows_is_refused():
    pool = make_rows(["gay one", "gay two"], [0, 1], "pool")
    for kind in ("pool", "random"):
        with pytest.raises(InputError, match="pool 'pool' must not have toxic rows; 1 of 2"):
            apply_method(kind, pool=pool)


def test_random_adds_as_many_rows_as_pool():
    assert apply_method("random")[1].report["n_added"] == apply_method("pool")[1].report["n_added"]


@pytest.mark.parametrize("kind", ["pool", "random", "swap", "reweight"])
def test_a_seed_gives_the_same_rows(kind):
    first, second = (apply_method(kind, seed=3)[0] for _ in range(2))
    assert first.equals(second)


def test_another_seed_gives_other_rows():
    texts = {tuple(apply_method("pool", seed=seed)[0]["text"].to_pylist()) for seed in range(8)}
    assert len(texts) > 1


def test_reweight_gives_weights_of_mean_1_and_adds_nothing():
    table, change = apply_method("reweight")
    weights = table["weight"].to_numpy()
    labels, gay = TRAINING.labels, TRAINING.masks["gay"]
    assert table.num_rows == 8
    assert weights.mean() == pytest.approx(1)
    assert weights[labels & gay].sum() / weights[gay].sum() == pytest.approx(3 / 8)
    assert change.report["effective_rows"] < 8


def test_weights_are_not_put_on_weights():
    weighted = TRAINING.table.append_column("weight", pa.array(np.ones(8)))
    training = TrainingRows("w", weighted, 0.5, 0.5, ("gay",), TRAINING.matcher)
    with pytest.raises(InputError, match="must not have `weight` for method reweight"):
        apply_method("reweight", training=training)


@pytest.mark.parametrize("kind", ["pool", "random", "reweight"])
def test_a_training_set_of_one_class_is_refused(kind):
    with pytest.raises(InputError, match="must have both classes; all 2 rows are positive"):
        apply_method(kind, training=make_rows(["gay", "plain"], [1, 1]))


BAD, GOOD = ("stupid", "rotten", "vile", "nasty"), ("kind", "clever", "brave", "calm")
LABELLED = [(f"{word} {at}", at % 2) for at in range(60) for word in (BAD if at % 2 else GOOD)]


def make_mislabelled_rows(harmless="kind"):
    """Return comments of the same length without an identity, and toxic comments about gays."""
    mislabelled = [f"they were gay and {word}" for word in (*BAD[:2], harmless, harmless) * 5]
    texts = [f"they were all so {word}" for word, _ in LABELLED]
    return make_rows(
        [*texts, *mislabelled], [label for _, label in LABELLED] + [1] * len(mislabelled)
    )


def test_swap_adds_each_mention_with_another_identity_and_the_same_label():
    table, change = apply_method("swap")
    assert table["text"].to_pylist()[8:] == ["tall a", "tall b", "tall c"]
    assert table["label"].to_pylist()[8:] == [1, 1, 0]
    assert table["identity/tall"].to_pylist()[8:] == [1] * 3
    assert "without regard to grammar" in change.sentences[0]


@pytest.mark.parametrize("kind", ["pool", "random", "reweight"])
def test_a_term_that_never_occurs_changes_nothing(kind):
    """Compares with the same rows and an additional identity that no comment mentions."""
    rare = TERMS | {"rare": ["rare"]}
    rows = make_mislabelled_rows()
    more_rows = make_rows(rows.texts, rows.labels, terms=rare)
    pool = make_rows(POOL.texts, [0] * 9, "pool", terms=rare)
    before, after = (
        apply_method(kind, training=rows)[0],
        apply_method(kind, training=more_rows, pool=pool)[0],
    )
    for column in before.column_names:
        assert before[column].to_pylist() == after[column].to_pylist()


def test_swap_needs_two_identities():
    rows = make_rows(["gay a", "plain"], [1, 0], terms={"gay": ["gay"]})
    with pytest.raises(MethodUndoneError, match="needs `terms` of at least two identities"):
        apply_method("swap", training=rows)
    with pytest.raises(MethodUndoneError, match="left out"):
        make_method("swap").require(rows)
    make_method("swap").require(make_rows(["gay a"], [1], terms=TERMS))


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("Gay people", "Tall people"),
        ("GAYS and gay", "TALLS and tall"),
        ("nobody is named", None),
    ],
)
def test_swapped_terms_keep_their_place_and_their_capitals(text, swapped):
    assert TermMatcher(TERMS).swap_terms(text, np.random.default_rng(0)) == swapped
