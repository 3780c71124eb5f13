"""A weight column of an evaluation set: frozen, measured, and refused if it is wrong."""

import numpy as np
import pandas as pd
import pytest
from support.judging import policy_of

from bias_metrics import Rows, evaluate_bias, evaluate_slices
from bias_metrics.table import Key
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.gating.policy_check import check_policy
from biasgate.tasks.measuring.cautions import warn_of_weights
from biasgate.tasks.measuring.explaining import explain_numbers
from biasgate.tasks.measuring.identities import (
    list_identities,
    measure_identities,
    summarise_identities,
)
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 300
OPTIONS = {"identities": ["gay", "muslim"], "weight": "times"}


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "label": label,
            "gay": rng.integers(0, 2, N),
            "muslim": np.where(np.arange(N) % 5 == 0, np.nan, rng.integers(0, 2, N)),
            "short": rng.integers(0, 2, N),
            "thread": np.arange(N) // 4,
            "times": rng.integers(0, 4, N),
            "prediction": np.round(0.3 * label + rng.random(N), 2),
        }
    )


@pytest.fixture
def source(tmp_path):
    def source(table, **options):
        table.to_csv(tmp_path / "rows.csv", index=False)
        settings = {"name": "rows", "source": "table", "path": tmp_path / "rows.csv"}
        return SOURCES.validate_python(settings | OPTIONS | options)

    return source


@pytest.fixture
def measure(tmp_path, source):
    """Measure rows as the pipeline does; return set, scores, evidence and report."""

    def measure(table, **options):
        chosen = source(table, **options)
        rows = freeze_source(chosen, tmp_path / "store")
        candidate = CANDIDATES.validate_python(
            {"name": "file", "kind": "scores", "path": chosen.path}
        )
        scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
        evidence = write_evidence(rows, scored, {"champion": scored}, chosen, tmp_path / FILE)
        parts = [measure_identities(evidence, part) for part in list_identities(evidence).values()]
        return rows, scored, evidence, summarise_identities.fn(parts, evidence)

    return measure


def arguments(table):
    """Return the arguments of `evaluate_bias` for the measured rows."""
    rated = table[table["muslim"].notna()]
    groups = {name: rated[name] == 1 for name in ("gay", "muslim")}
    return rated, (rated["label"] == 1, rated["prediction"], groups)


@pytest.mark.parametrize("kind", ["probability", "frequency"])
@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_the_pipeline_measures_weighted_rows_as_the_library_does(
    frame, measure, kind, clustered, background
):
    options = {"weight_kind": kind, "background": background}
    _, _, evidence, bias = measure(frame, **options, **({"cluster": "thread"} if clustered else {}))
    rated, given = arguments(frame)
    clusters = rated["thread"] if clustered else None
    expected = evaluate_bias(*given, sample_weight=rated["times"], clusters=clusters, **options)
    assert bias == expected
    assert evidence.record.choices.weights == kind


def test_rates_at_a_threshold_are_refused_for_sampling_weights_alone(frame, source, tmp_path):
    rule = {"metric": "fpr_gap", "scope": "each", "ceiling": 0.2, "threshold": "given"}
    chosen = source(frame)
    folder = str(freeze_source(chosen, tmp_path / "store").folder)
    repeated = chosen.model_copy(update={"weight_kind": "frequency"})
    check_policy.fn(policy_of(rule), repeated, folder)
    with pytest.raises(InputError, match="not measured for sampling weights, as evaluation set"):
        check_policy.fn(policy_of(rule), chosen, folder)


@pytest.mark.parametrize("kind", ["probability", "frequency"])
def test_a_verdict_is_recomputed_from_weighted_evidence(frame, measure, kind):
    evidence = measure(frame, weight_kind=kind, cluster="thread", slices=["short"])[2]
    found = evidence.measure([(None, 0.9), ("short", 0.9)])
    rated, given = arguments(frame)
    options = {"sample_weight": rated["times"], "weight_kind": kind, "clusters": rated["thread"]}
    options["confidence"] = 0.9
    slices = {"short": rated["short"] == 1}
    whole = evaluate_bias(*given, **options)
    assert {key: found[None, 0.9].table[key] for key in whole} == dict(whole)
    labels, scores, groups = given
    confidence = options.pop("confidence")
    rows = Rows(labels, groups, **options)
    short = evaluate_slices(rows, scores, slices=slices, confidence=confidence)["short"]
    table = found["short", 0.9].table
    assert {key: table[key] for key in short} == dict(short)
    change = found[None, 0.9].table[Key("final_score", against="champion")]
    assert 0 < change.high < 0.002


def test_the_digest_covers_the_weights(frame, source, tmp_path):
    one = freeze_source(source(frame), tmp_path / "store").digest
    frame.loc[3, "times"] += 1
    assert freeze_source(source(frame), tmp_path / "store").digest != one


def test_a_set_without_weights_is_frozen_as_before(frame, source):
    assert "weight" not in source(frame, weight=None).provenance()
    assert "weight_kind" not in source(frame).provenance()


WRONG = {
    "negative": (-1, r"got -1\.0"),
    "infinite": (np.inf, "got inf"),
    "missing": (np.nan, "got nothing"),
    "enormous": (1e200, r"got 1e\+200"),
    "a word": ("many", "must be a number"),
}


@pytest.mark.parametrize(("value", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_weight_is_refused_with_its_place(frame, source, tmp_path, value, told):
    frame["times"] = frame["times"].astype(object)
    frame.loc[7, "times"] = value
    place = rf"{told}.*\(file \S*rows\.csv, column times, row 7, id 7\)"
    with pytest.raises(InputError, match=place):
        freeze_source(source(frame), tmp_path / "store")


def test_a_fraction_is_no_frequency(frame, source, tmp_path):
    frame["times"] = frame["times"].astype(float)
    frame.loc[7, "times"] = 1.5
    told = r"whole number if `weight_kind` is `frequency`; got 1\.5 \(file .*row 7"
    with pytest.raises(InputError, match=told):
        freeze_source(source(frame, weight_kind="frequency"), tmp_path / "store")


def test_fractions_that_are_frozen_already_are_no_frequencies_either(frame, source, tmp_path):
    frame["times"] += 0.5
    frozen = freeze_source(source(frame), tmp_path / "store")
    with pytest.raises(InputError, match=r"weights of evaluation set 'rows' .*whole numbers"):
        choose_rows(frozen, source(frame, weight_kind="frequency"))


def test_weights_that_are_all_0_are_refused(frame, source, tmp_path):
    frame["times"] = 0
    told = r"at least one weight must be above 0; all are 0 \(file .*column times\)"
    with pytest.raises(InputError, match=told):
        freeze_source(source(frame), tmp_path / "store")


def test_a_class_of_rows_that_do_not_count_is_refused(frame, source, tmp_path):
    frame.loc[frame["label"] == 1, "times"] = 0
    frozen = freeze_source(source(frame), tmp_path / "store")
    with pytest.raises(InputError, match="no positives"):
        choose_rows(frozen, source(frame))


def test_the_column_of_weights_must_exist(frame, source):
    with pytest.raises(InputError, match="must have the column 'tims'"):
        source(frame, weight="tims").check()


def test_sampling_weights_have_no_thresholds(frame, measure):
    _, _, evidence, bias = measure(frame)
    found = explain_numbers(evidence, bias, 0.5)
    assert found.thresholds == {}
    assert "sampling weights" in warn_of_weights(evidence.record.choices)


def test_frequencies_are_counted_as_repeated_rows(frame, measure):
    _, _, evidence, bias = measure(frame, weight_kind="frequency")
    found = explain_numbers(evidence, bias)
    rated, _ = arguments(frame)
    errors = found.thresholds["equal_errors"].overall
    counts = [value for key, value in vars(errors).items() if key.startswith("n_")]
    assert sum(counts) == rated["times"].sum()
    assert warn_of_weights(evidence.record.choices) is None
