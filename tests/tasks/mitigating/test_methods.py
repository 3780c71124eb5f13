"""Each method changes a training set in the way it says."""

import numpy as np
import pyarrow as pa
import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.mitigating.methods.catalogue import ANY_METHOD, METHODS
from biasgate.tasks.mitigating.methods.method import MethodUndoneError
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.source import changed

TERMS = {"gay": ["gay", "gays"], "tall": ["tall", "talls"]}


def rows(texts, labels, name="comments", ids=None, terms=TERMS):
    matcher = TermMatcher(terms)
    found = matcher.mentions(texts).astype(float)
    table = pa.table(
        {
            "id": ids or [f"{name}-{at}" for at in range(len(texts))],
            "text": pa.array(texts, pa.large_string()),
            "label": np.array(labels, float),
            **{f"identity/{one}": found[:, at] for at, one in enumerate(terms)},
        }
    )
    return TrainingRows(name, table, 0.5, 0.5, tuple(terms), matcher)


TRAINING = rows(
    ["gay a", "gay b", "gay c", "plain a", "plain b", "plain c", "plain d", "plain e"],
    [1, 1, 0, 0, 0, 0, 1, 0],
)
POOL = rows([f"a gay sentence {at}" for at in range(9)], [0] * 9, "pool")


def method(kind, **options):
    return ANY_METHOD.validate_python({"kind": kind} | options)


def change(kind, seed=0, training=TRAINING, pool=POOL, **options):
    return changed(method(kind, **options), training, pool, seed)


def test_the_catalogue_has_the_methods_of_the_guide():
    assert METHODS.names() == ["pool", "random", "reweight", "swap"]


def test_pool_adds_rows_until_the_term_is_at_the_prior():
    table, said = change("pool")
    assert said.report["n_added"] == 3  # 2 of 3 become 2 of 6, the 3 of 8 of all rows
    assert table["label"].to_pylist()[8:] == [0] * 3
    assert table["identity/gay"].to_pylist()[8:] == [1] * 3


def test_added_rows_keep_their_ids_so_that_evaluating_on_them_is_refused():
    table, _ = change("pool")
    assert set(table["id"].to_pylist()[8:]) <= set(POOL.table["id"].to_pylist())


def test_an_id_that_is_taken_gets_a_prefix():
    pool = rows(POOL.texts, [0] * 9, "pool", ids=[f"comments-{at}" for at in range(9)])
    ids = change("pool", pool=pool)[0]["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    taken = [one for one in ids[8:] if one.startswith("pool/")]
    assert len(taken) >= 2  # eight of the nine ids are taken


def test_texts_of_the_training_set_are_not_added_again():
    pool = rows(["gay a", "gay a new one", "gay a new one"], [0] * 3, "pool")
    table, _ = change("pool", pool=pool)
    assert table["text"].to_pylist()[8:] == ["gay a new one"]


def test_a_pool_that_is_too_small_says_how_far_it_got():
    _, said = change("pool", pool=rows(["a gay sentence"], [0], "pool"))
    [cell] = said.report["unfilled"]
    assert (cell["term"], cell["added"], cell["lacking"]) == ("gay", 1, 2)
    assert "could not fill 1 of 1 pairs of term and length (gay)" in said.sentences[1]


def test_a_pool_with_toxic_rows_is_refused():
    pool = rows(["gay one", "gay two"], [0, 1], "pool")
    for kind in ("pool", "random"):
        with pytest.raises(InputError, match="pool 'pool' must not have toxic rows; 1 of 2"):
            change(kind, pool=pool)


def test_random_adds_as_many_rows_as_pool():
    assert change("random")[1].report["n_added"] == change("pool")[1].report["n_added"]


@pytest.mark.parametrize("kind", ["pool", "random", "swap", "reweight"])
def test_a_seed_gives_the_same_rows(kind):
    first, second = (change(kind, seed=3)[0] for _ in range(2))
    assert first.equals(second)


def test_another_seed_gives_other_rows():
    found = {tuple(change("pool", seed=seed)[0]["text"].to_pylist()) for seed in range(8)}
    assert len(found) > 1


def test_reweight_gives_weights_of_mean_1_and_adds_nothing():
    table, said = change("reweight")
    weights = table["weight"].to_numpy()
    labels, gay = TRAINING.labels, TRAINING.masks["gay"]
    assert table.num_rows == 8
    assert weights.mean() == pytest.approx(1)
    assert weights[labels & gay].sum() / weights[gay].sum() == pytest.approx(3 / 8)
    assert said.report["effective_rows"] < 8


def test_weights_are_not_put_on_weights():
    weighted = TRAINING.table.append_column("weight", pa.array(np.ones(8)))
    training = TrainingRows("w", weighted, 0.5, 0.5, ("gay",), TRAINING.matcher)
    with pytest.raises(InputError, match="must not have `weight` for method reweight"):
        change("reweight", training=training)


@pytest.mark.parametrize("kind", ["pool", "random", "reweight"])
def test_a_training_set_of_one_class_is_refused(kind):
    with pytest.raises(InputError, match="must have both classes; all 2 rows are positive"):
        change(kind, training=rows(["gay", "plain"], [1, 1]))


BAD, GOOD = ("stupid", "rotten", "vile", "nasty"), ("kind", "clever", "brave", "calm")
CALLED = [(f"{word} {at}", at % 2) for at in range(60) for word in (BAD if at % 2 else GOOD)]


def mislabelled(harmless="kind"):
    """Comments of one length about nobody, and about gays; all of the latter labelled toxic."""
    told = [f"they were gay and {word}" for word in (*BAD[:2], harmless, harmless) * 5]
    texts = [f"they were all so {word}" for word, _ in CALLED]
    return rows([*texts, *told], [label for _, label in CALLED] + [1] * len(told))


def test_swap_adds_each_mention_with_another_identity_and_the_same_label():
    table, said = change("swap")
    assert table["text"].to_pylist()[8:] == ["tall a", "tall b", "tall c"]
    assert table["label"].to_pylist()[8:] == [1, 1, 0]
    assert table["identity/tall"].to_pylist()[8:] == [1] * 3
    assert "without regard to grammar" in said.sentences[0]


@pytest.mark.parametrize("kind", ["pool", "random", "reweight"])
def test_a_term_that_never_occurs_changes_nothing(kind):
    """The same rows, with an identity more that nobody mentions."""
    rare = TERMS | {"rare": ["rare"]}
    known = mislabelled()
    more = rows(known.texts, known.labels, terms=rare)
    given = rows(POOL.texts, [0] * 9, "pool", terms=rare)
    before, after = change(kind, training=known)[0], change(kind, training=more, pool=given)[0]
    for column in before.column_names:
        assert before[column].to_pylist() == after[column].to_pylist()


def test_swap_needs_two_identities():
    alone = rows(["gay a", "plain"], [1, 0], terms={"gay": ["gay"]})
    with pytest.raises(MethodUndoneError, match="needs `terms` of at least two identities"):
        change("swap", training=alone)
    with pytest.raises(MethodUndoneError, match="left out"):
        method("swap").require(alone)
    method("swap").require(rows(["gay a"], [1], terms=TERMS))


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
