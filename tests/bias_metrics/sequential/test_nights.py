"""The rows of several nights as one set."""

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias, pool_nights


def night(seed, n=200, first_id=0):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.3
    return {
        "id": np.arange(first_id, first_id + n),
        "y_true": labels,
        "y_score_a": labels + rng.normal(0, 1, n),
        "y_score_b": labels + rng.normal(0, 1, n),
        "subgroups": {"gay": rng.random(n) < 0.2, "deaf": rng.random(n) < 0.05},
    }


def test_pooled_rows_are_the_concatenated_ones():
    first, second = night(1), night(2, n=50, first_id=1000)
    found = compare_bias(**pool_nights([first, second]))
    arrays = {
        name: np.concatenate([first[name], second[name]])
        for name in ("y_true", "y_score_a", "y_score_b")
    }
    masks = {
        name: np.concatenate([first["subgroups"][name], second["subgroups"][name]])
        for name in ("gay", "deaf")
    }
    assert found == compare_bias(**arrays, subgroups=masks)


def test_the_order_of_nights_does_not_matter():
    nights = [night(seed, first_id=1000 * seed) for seed in range(3)]
    forward, backward = (compare_bias(**pool_nights(one)) for one in (nights, nights[::-1]))
    assert forward.subgroups["gay"].bpsn_auc.low == pytest.approx(
        backward.subgroups["gay"].bpsn_auc.low, abs=1e-12
    )


def test_a_group_too_small_each_night_has_an_interval_over_all():
    deaf = np.array([True, True, False, False, False, False])
    label = np.array([True, False, True, False, True, False])
    nights = [
        {
            "id": [f"{number}-{row}" for row in range(6)],
            "y_true": label,
            "y_score": label + np.random.default_rng(number).normal(0, 1, 6),
            "subgroups": {"deaf": deaf},
        }
        for number in range(8)
    ]
    [one] = nights[:1]
    alone = evaluate_bias(**pool_nights([one])).subgroups["deaf"].bpsn_auc
    assert (alone.low, alone.reason is None) == (None, False)
    assert evaluate_bias(**pool_nights(nights)).subgroups["deaf"].bpsn_auc.low is not None


def test_clusters_keep_their_name_over_nights():
    first = night(1) | {"clusters": np.repeat(np.arange(50), 4)}
    second = night(2, first_id=1000) | {"clusters": np.repeat(np.arange(25, 75), 4)}
    found = compare_bias(**pool_nights([first, second]))
    assert found.first.subgroups["gay"].bnsp_auc.n_clusters <= 75


def test_a_data_frame_of_subgroups_is_taken_by_column():
    pd = pytest.importorskip("pandas")
    one = night(1)
    framed = one | {"subgroups": pd.DataFrame(one["subgroups"])}
    assert list(pool_nights([framed])["subgroups"]) == ["gay", "deaf"]


def test_nights_without_subgroups_are_pooled_too():
    found = pool_nights([{"id": [1], "y_true": [1]}, {"id": [2], "y_true": [0]}])
    assert {name: list(values) for name, values in found.items()} == {"y_true": [1, 0]}


@pytest.mark.parametrize(
    ("nights", "text"),
    [
        ([], "`nights` must have at least one night; got none"),
        ([{"y_true": [1]}], "must have an `id` for each row; night 1 has none"),
        (
            [{"id": [7, 8], "y_true": [0, 1]}, {"id": [9, 8], "y_true": [0, 1]}],
            "each given once; 1 are given again, first id 8 of night 1 in night 2",
        ),
        (
            [{"id": ["a", "b", "a"], "y_true": [0, 1, 1]}],
            "first id a of night 1 in night 1",
        ),
        (
            [{"id": [1], "y_true": [0]}, {"id": [2], "y_true": [0], "subgroups": {"gay": [1]}}],
            r"not both of 1 and 2 have subgroups\['gay'\]",
        ),
        (
            [{"id": [1, 2], "y_true": [0]}],
            r"`y_true` of night 1 must have a value for each of its 2 ids; got shape \(1,\)",
        ),
        (
            [{"id": [1, 2], "subgroups": {"gay": [[0, 1]]}}],
            r"`subgroups\['gay'\]` of night 1 must have a value for each",
        ),
        ([{"id": 5}], r"got shape \(\)"),
    ],
)
def test_what_cannot_be_pooled_is_refused(nights, text):
    with pytest.raises(ValueError, match=text):
        pool_nights(nights)
