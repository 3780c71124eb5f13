"""The script of docs/evidence/mitigation.md: its statistics by hand, and a run of two splits."""

import math
import sys
from pathlib import Path

import mitigation_experiment
import numpy as np
import pytest
from mitigation_experiment import (
    MIN_ROWS,
    Numbers,
    Scored,
    _add_numbers,
    compute_harm,
    iter_tables,
    measure_overall,
    set_seed,
)
from over_splits import OverSplits, compute_covariance, compute_recovery

from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

FILES = Path(__file__).parents[2] / "docs" / "reproduce" / "mitigation"
T_2, T_3 = 4.302653, 3.182446  # Student's quantiles of 97.5 % with 2 and 3 degrees of freedom


def over(*values, left_out=None):
    return OverSplits(np.array(values), None if left_out is None else np.array(left_out))


def test_the_interval_is_that_of_the_delete_d_jackknife():
    found = (over(0.3, 0.3, 0.6) - over(0.4, 0.5, 0.6)).interval(test_share=0.25)
    error = math.sqrt(0.01 * (1 / 3 + 0.75 / 0.25))  # the differences are -.1, -.2 and 0
    assert found.value == pytest.approx(-0.1)
    assert found.high - found.value == pytest.approx(T_2 * error, rel=1e-6)


def test_the_variance_over_measured_rows_is_added():
    found = over(1.0, 1.0, 1.0, left_out=[[0.8, 1.2]] * 3).interval(0.25)
    assert found.high - 1 == pytest.approx(T_2 * 0.2, rel=1e-6)  # (g - 1) / g of .2^2 + .2^2


def test_one_split_has_no_interval():
    assert str(over(3.0).interval(0.3)) == "3.000"
    assert str(over(math.nan, 1.0).interval(0.3)) == "undefined"


def misses(part, n_out):
    """How often 95% intervals, and those of a plain t test, miss the mean of all data."""
    rng = np.random.default_rng(5)
    ours, plain = 0, 0
    for _ in range(200):
        data = rng.normal(0, 1, 60)
        orders = [rng.permutation(60) for _ in range(10)]
        means = [part(data[order[n_out:]], data[order[:n_out]]).mean() for order in orders]
        found = over(*means).interval(n_out / 60)
        ours += not found.low <= 0 <= found.high
        plain += not abs(np.mean(means)) <= np.std(means, ddof=1) / math.sqrt(10) * 2.262
    return ours / 200, plain / 200


def test_the_intervals_hold_for_what_depends_on_overlapping_training_rows():
    ours, plain = misses(lambda train, _: train, 18)
    assert ours <= 0.09
    assert plain > 0.4


@pytest.mark.parametrize(("n_out", "most"), [(18, 0.05), (42, 0.09)])
def test_they_hold_for_what_depends_on_the_rows_left_out(n_out, most):
    assert misses(lambda _, test: test, n_out)[0] <= most


def test_fiellers_interval_solves_its_equation():
    biased, mitigated = over(1.0, 1.1, 1.0, 1.1), over(0.5, 0.4, 0.6, 0.5)
    clean = over(0.1, 0.0, 0.1, 0.1)
    found = compute_recovery(biased, mitigated, clean, 0.4)
    gains, wholes = (biased - mitigated).values, (biased - clean).values
    spread = np.cov(gains, wholes) * (1 / 4 + 1.5)
    for end in (found.low, found.high):
        variance = spread[0, 0] - 2 * end * spread[0, 1] + end**2 * spread[1, 1]
        assert abs(gains.mean() - end * wholes.mean()) / math.sqrt(variance) == pytest.approx(
            T_3, rel=1e-5
        )


def test_a_bias_that_is_not_shown_cannot_be_recovered():
    nothing = over(0.0, 0.0, 0.0)
    assert math.isnan(compute_recovery(over(1.0, -1.0, 1.5), nothing, nothing, 0.2).value)
    assert math.isnan(compute_recovery(nothing, nothing, nothing, 0.2).value)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(2).normal(0, 1, 40)
    left_out = (values.sum() - values) / 39
    [[variance]] = compute_covariance(left_out[None])
    assert variance == pytest.approx(values.var(ddof=1) / 40)
    # What moves up on one split moves down on the other; and two quantities have a covariance.
    assert compute_covariance(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist() == [[0.0]]
    two = compute_covariance(np.array([[0.0, 1.0]]), np.array([[0.0, -2.0]]))
    assert two.tolist() == [[0.25, -0.5], [-0.5, 1.0]]


def test_a_set_is_measured_without_each_part_and_without_small_identities():
    labels, scores = np.array([0, 1, 0, 1] * 10, bool), np.linspace(0, 1, 40)
    masks = {"gay": np.ones(40, bool), "few": np.arange(40) < 2 * MIN_ROWS - 2}
    found, rows = Numbers(), Scored(labels, scores, masks, np.arange(40) % 4)
    _add_numbers(found, "set", rows, 0.5)
    assert {identity for _, identity, _ in found.identities} == {"gay"}
    assert found.left_out["auc/set"][1] == measure_overall(rows.without(1), 0.5)["auc"]
    assert {len(values) for values in found.left_out.values()} == {4}


def test_a_method_that_could_not_be_done_on_every_split_is_in_no_table():
    def numbers(bias):
        return Numbers({"fped/set": bias, "auc/general": 0.9})

    trials = [{"baseline": numbers(2.0), "random": numbers(1.0), "swap": numbers(1.0)}]
    trials.append({"baseline": numbers(2.2), "random": numbers(1.0)})
    mean, minus, *_ = iter_tables(trials)
    assert "swap" not in mean + minus
    assert "| baseline | 2.100 [" in mean
    assert "| random | -1.100 [" in minus


@pytest.mark.slow
def test_two_splits_of_the_planted_bias_show_it_and_remove_it(tmp_path, monkeypatch, capsys):
    costs = tmp_path / "costs.csv"
    options = ["--splits", "2", "--store", str(tmp_path / "store"), "--costs", str(costs)]
    monkeypatch.setattr(sys, "argv", ["experiment", str(FILES / "planted.yaml"), *options])
    mitigation_experiment.main()
    mean, minus, recovers = capsys.readouterr().out.split("\n\n")[:3]
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in mean.splitlines()[2:]}
    at = mean.splitlines()[0].split(" | ").index("fped/phrases")
    fped = {name: float(line[at].split()[0]) for name, line in cells.items()}
    # The page: 2.60, .49, 1.23 and .59 over ten splits.
    assert fped["clean"] < 0.8
    assert fped["swap 10"] < fped["reweight"] < fped["baseline"] > 2
    assert "| swap 10 | " in minus
    assert recovers.startswith("| recovered | fped/phrases")
    header, *lines = costs.read_text("utf-8").splitlines()
    assert header.endswith("worse_by,low_over_splits,high_over_splits")
    assert len({line.split(",")[2] for line in lines}) == 19


def test_the_other_files_can_be_read(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASGATE_REAL_DATA", str(real_data))
    found = mitigation_experiment.Experiment(FILES / "wikipedia.yaml", tmp_path)
    assert [one.source.name for one in found.pairs] == ["original_mentions", "swapped_mentions"]
    assert [one.source.name for one in found.sets.evaluated] == ["phrases", "real_mentions"]


def test_an_encoder_is_fine_tuned_by_another_seed(tmp_path):
    phrases = {"name": "t", "source": "templates", "terms": ["gay", "tall"]}
    options = {"name": "e", "kind": "transformer", "folder": str(tmp_path), "train_on": phrases}
    candidate = CANDIDATES.validate_python(options | {"fine_tuning": {"max_epochs": 7}})
    other = set_seed(candidate, 1003)
    assert (other.fine_tuning.seed, other.fine_tuning.max_epochs) == (1003, 7)


@pytest.mark.parametrize(
    ("metric", "before", "after", "worse"),
    [
        ("bpsn_auc", 0.9, 0.8, 0.1),
        ("false_negative_rate", 0.1, 0.3, 0.2),
        ("negative_aeg", -0.3, 0.1, -0.2),
    ],
)
def test_harm_is_above_0_if_a_number_became_worse(metric, before, after, worse):
    assert compute_harm(metric, before, after) == pytest.approx(worse)
