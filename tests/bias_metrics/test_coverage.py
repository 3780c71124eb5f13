"""The intervals of cells cover the true AUC as often as they say, by simulation."""

import math

import pytest

pytest.importorskip("sklearn")
coverage = pytest.importorskip("benchmarks._coverage")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", list(coverage.cell_cases(2000, 2000)), ids=str)
def test_an_interval_covers_the_true_auc(case):
    found = coverage.cover_cell(case)
    covered = 1 - found.below - found.above
    allowed = 2 * math.sqrt(0.05 * 0.95 / case.replicates)
    assert found.missing == 0
    assert covered >= 0.93 - allowed
    if min(case.n_positive, case.n_negative) >= 500:
        assert covered <= 0.97 + allowed
