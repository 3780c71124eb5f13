"""Student's tails and quantiles, against the closed forms and against scipy."""

import math

import pytest

from bias_metrics._core.intervals import (
    compute_p_value,
    compute_student_tails,
    student_quantile,
)

student = pytest.importorskip("scipy.stats").t
FREEDOM = (1.0, 2.0, 3.7, 10.0, 19.0, 500.0, 1e5, 1e7, math.inf)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 1.7320508, 1.74, 2.5, 8.0, 30.0])
def test_tails_with_one_and_two_degrees_of_freedom_are_those_of_the_closed_forms(t):
    assert compute_student_tails(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, rel=1e-9)
    assert compute_student_tails(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)


@pytest.mark.parametrize("freedom", FREEDOM)
def test_tails_are_those_of_scipy(freedom):
    for t in (0.0, 0.5, 1.5, 2.0, 3.0, 6.0):
        assert compute_student_tails(t, freedom) == pytest.approx(
            2 * student.sf(t, freedom), rel=1e-5
        )


@pytest.mark.parametrize("freedom", FREEDOM)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.9999, 1 - 1e-6, 1 - 1e-9])
def test_quantiles_are_those_of_scipy(confidence, freedom):
    expected = student.isf((1 - confidence) / 2, freedom)
    assert student_quantile(confidence, freedom) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("freedom", FREEDOM)
def test_a_p_value_is_one_minus_the_confidence_at_the_end_of_the_interval(freedom):
    for confidence in (0.8, 0.95, 0.999):
        reach = 0.3 * student_quantile(confidence, freedom)
        assert compute_p_value(reach, 0.3, freedom) == pytest.approx(1 - confidence, rel=1e-6)
        assert compute_p_value(-reach, 0.3, freedom) == pytest.approx(1 - confidence, rel=1e-6)
