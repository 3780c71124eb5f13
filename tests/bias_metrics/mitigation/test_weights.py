"""Weights that make labels independent of identities."""

import numpy as np
import pytest

from bias_metrics.mitigation import weights
from bias_metrics.mitigation.weights import REST, balancing_weights

LABELS = [1, 1, 1, 0, 1, 0, 0, 0]
GAY = {"gay": [1, 1, 1, 1, 0, 0, 0, 0]}


def test_disjoint_groups_get_the_weights_of_kamiran_and_calders():
    balancing = balancing_weights(LABELS, GAY)
    expected = [1 / 2 * 1 / 2 / (3 / 8)] * 3 + [1 / 2 * 1 / 2 / (1 / 8)]
    assert balancing.weights[:4] == pytest.approx(expected)
    assert balancing.weights.mean() == pytest.approx(1)
    rare, common = (8 * 1 / 2 * 1 / 2 / n for n in (1, 3))  # 2 rows, and 6
    assert balancing.effective_rows == pytest.approx(8**2 / (2 * rare**2 + 6 * common**2))


def test_after_weighting_each_identity_is_as_toxic_as_all():
    balancing = balancing_weights(LABELS, GAY)
    assert [balancing.before[name].value for name in ("gay", REST)] == [3 / 4, 1 / 4]
    assert [share.value for share in balancing.after.values()] == pytest.approx([1 / 2, 1 / 2])


def test_overlapping_identities_are_raked_to_the_prior():
    rng = np.random.default_rng(0)
    masks = {name: rng.random(400) < 0.3 for name in "abc"}
    labels = rng.random(400) < 0.1 + 0.3 * masks["a"] + 0.2 * masks["b"]
    balancing = balancing_weights(labels, masks)
    for share in balancing.after.values():  # many rounds
        assert share.value == pytest.approx(balancing.prior, abs=1e-6)


def test_equal_weights_give_each_pair_of_identity_and_label_the_same_total():
    balancing = balancing_weights(LABELS, GAY, scheme="equal")
    labels, gay = np.array(LABELS, bool), np.array(GAY["gay"], bool)
    totals = [
        balancing.weights[cell].sum() for cell in (labels & gay, ~labels & gay, labels & ~gay)
    ]
    assert totals == pytest.approx([2, 2, 2])


def test_a_row_with_two_identities_has_the_mean_of_their_weights():
    """Of 7 rows, each of four cells has 7/4; a has 2 toxic rows and 1 other, b has 3 and 2."""
    a, b = [1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]
    balancing = balancing_weights([1, 0, 1, 0, 1, 1, 0], {"a": a, "b": b}, scheme="equal")
    expected = np.array([1 / 2, 1, (1 / 2 + 1 / 3) / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 2])
    assert balancing.weights == pytest.approx(expected / expected.mean())


def test_an_identity_that_lacks_a_class_stays_as_it_is():
    balancing = balancing_weights([1, 1, 1, 0, 0], {"gay": [1, 1, 0, 0, 0], "none": [0] * 5})
    assert balancing.after["gay"].value == 1
    assert balancing.after["none"].reason == "no rows"
    # Of the others, two toxic rows and a harmless one, two fifths shall be toxic.
    harmless = balancing_weights([1, 1, 0, 0, 0], {"gay": [0, 0, 1, 1, 0]})
    assert harmless.weights == pytest.approx([2 / 5 * 3 / 2] * 2 + [1, 1] + [3 / 5 * 3])
    assert harmless.after["gay"].value == 0
    equal = balancing_weights([1, 0, 1, 0], {"gay": [1, 0, 0, 0]}, scheme="equal")
    # Of the others, one toxic row counts as much as two harmless ones; all have a mean of 1.
    assert equal.weights == pytest.approx(np.array([1, 1, 2, 1]) / (5 / 4))


def test_a_largest_weight_limits_what_rare_rows_count():
    labels = np.arange(200) % 2 == 0
    gay = (np.arange(200) < 100) & (labels | (np.arange(200) < 2))
    free, limited = (balancing_weights(labels, {"gay": gay}, most=most) for most in (1000, 1.5))
    assert free.weights.max() / free.weights.min() > limited.weights.max() / limited.weights.min()
    assert limited.effective_rows > free.effective_rows
    assert limited.after["gay"].value > free.after["gay"].value
    # By Kamiran and Calders: 50 toxic rows of 51, one harmless one; 50 toxic of the others' 149.
    cells = [gay & labels, gay & ~labels, ~gay & labels, ~gay & ~labels]
    expected = np.select(cells, [51 / 2 / 50, 51 / 2, 149 / 2 / 50, 149 / 2 / 99])
    for balancing, most in ((free, 1000), (limited, 1.5)):
        clipped = np.clip(expected, 1 / most, most)
        assert balancing.weights == pytest.approx(clipped / clipped.mean())
    # Each of four cells has a weight of 2, of three rows or of one.
    equal = balancing_weights(LABELS, GAY, scheme="equal", most=1.5).weights
    clipped = np.array([2 / 3, 2 / 3, 2 / 3, 1.5, 1.5, 2 / 3, 2 / 3, 2 / 3])
    assert equal == pytest.approx(clipped / clipped.mean())


def test_plain_values_leave_the_weights_out():
    content = balancing_weights(LABELS, GAY).to_dict()
    assert set(content) == {"prior", "largest_weight", "effective_rows", "identities"}
    assert content["identities"][0] == {
        "identity": "gay",
        "before": 0.75,
        "after": pytest.approx(0.5),
        "reason": None,
    }


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([1] * 8, {}, "`y_true` must have both classes; all 8 rows"),
        (LABELS, {"scheme": "best"}, "`scheme` must be one of prior, equal"),
        (LABELS, {"most": 1}, "`most` must be above 1"),
    ],
)
def test_wrong_input_is_refused(labels, options, message):
    with pytest.raises(ValueError, match=message):
        balancing_weights(labels, GAY, **options)


def test_without_identities_every_weight_is_one():
    assert balancing_weights(LABELS, {}).weights.tolist() == [1.0] * 8


def test_raking_ends_after_some_rounds(monkeypatch):
    monkeypatch.setattr(weights, "_ROUNDS", 1)
    masks = {"a": [1] * 8 + [0] * 4, "b": [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]}
    balancing = balancing_weights([1] * 7 + [0] * 5, masks)
    assert balancing.after["a"].value != pytest.approx(balancing.prior, abs=1e-6)
