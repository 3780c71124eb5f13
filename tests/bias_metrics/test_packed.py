"""Packed masks give the same numbers as masks, even with more subgroups than the cache holds."""

import numpy as np
import pytest

from bias_metrics import compare_bias, evaluate_bias, threshold_report
from bias_metrics._core.masks import MAX_CACHED, LazyMapping, PackedMasks

N = 1501
RNG = np.random.default_rng(4)
LABEL = RNG.random(N) < 0.4
SCORE, OTHER = RNG.normal(LABEL, 1.0), RNG.normal(LABEL, 1.2)
MASKS = {f"group {one}": RNG.random(N) < 0.1 for one in range(MAX_CACHED + 6)}
PACKED = PackedMasks.from_masks(MASKS.items(), N)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_reports_and_comparisons_are_the_same(background):
    few = list(MASKS)[:5]
    masks = {name: MASKS[name] for name in few}
    packed = PackedMasks.from_masks(masks.items(), N)
    options = {"background": background}
    assert evaluate_bias(LABEL, SCORE, packed, **options) == evaluate_bias(
        LABEL, SCORE, masks, **options
    )
    assert compare_bias(LABEL, SCORE, OTHER, packed, **options) == compare_bias(
        LABEL, SCORE, OTHER, masks, **options
    )


def test_more_subgroups_than_are_kept_have_the_numbers_of_each_alone():
    table = evaluate_bias(LABEL, SCORE, PACKED)
    for name in list(MASKS)[:: MAX_CACHED // 4]:
        alone = evaluate_bias(LABEL, SCORE, {name: MASKS[name]})
        assert table.subgroups[name] == alone.subgroups[name]


def test_errors_at_a_threshold_are_the_same():
    one, other = (threshold_report(LABEL, SCORE, masks, threshold=0.5) for masks in (MASKS, PACKED))
    assert one == other


def test_packed_masks_are_unpacked_by_name():
    assert list(PACKED) == list(MASKS)
    assert len(PACKED) == len(MASKS)
    assert PACKED["group 3"].tolist() == MASKS["group 3"].tolist()
    assert PACKED.find_any_member().tolist() == np.logical_or.reduce(list(MASKS.values())).tolist()
    part = PACKED.select_rows(LABEL)
    assert (part.n_rows, part["group 3"].tolist()) == (
        int(LABEL.sum()),
        MASKS["group 3"][LABEL].tolist(),
    )


def test_without_subgroups_no_row_belongs_to_any():
    assert PackedMasks.from_masks([], 3).find_any_member().tolist() == [False, False, False]


def test_packed_masks_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"`subgroups` must have 10 rows like `y_true`; got 1501"):
        evaluate_bias(LABEL[:10], SCORE[:10], PACKED)


def test_bits_must_fit_names_and_rows():
    with pytest.raises(ValueError, match=r"`bits` must have shape \(2, 1\), for different names"):
        PackedMasks(["a", "a"], np.zeros((2, 1), dtype=np.uint8), 8)


def test_a_value_is_made_once_while_it_is_kept():
    made = []
    lazy = LazyMapping(["a", "b"], lambda name: made.append(name) or name)
    assert [lazy["a"], lazy["a"], lazy["b"]] == ["a", "a", "b"]
    assert (made, list(lazy), len(lazy)) == (["a", "b"], ["a", "b"], 2)
    with pytest.raises(KeyError):
        lazy["c"]
