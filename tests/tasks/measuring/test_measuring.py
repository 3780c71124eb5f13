"""Measurement of the chosen rows, with the same numbers as a call of `evaluate_bias`."""

import csv
import io
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.cells import cell, n_of
from support.partial import partial

from bias_metrics import evaluate_bias
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.measuring.cautions import warn_of_misjoin
from biasgate.tasks.measuring.explaining import explain_numbers
from biasgate.tasks.measuring.identities import (
    list_identities,
    measure_identities,
    summarise_identities,
    summarise_rows,
)
from biasgate.tasks.records import Bound
from biasgate.tasks.reporting.report import build_metric_table, build_report, format_metric_csv
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 400
BOUND = Bound(what="nothing", digest=None, files=[], not_bound="A test.")
OF_FILE = {"url": "scores", "candidate_digest": "d", "record": partial({"bound": BOUND})}


@pytest.fixture
def frame():
    """Rows with a quarter that was not shown to identity raters."""
    rng = np.random.default_rng(5)
    label = rng.choice([0.0, 0.3, 0.5, 0.9], N)
    rated = np.arange(N) % 4 != 0
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "label": label,
            "gay": np.where(rated, rng.choice([0, 0.4, 0.5, 1.0], N), np.nan),
            "muslim": np.where(rated, rng.choice([0, 0.4, 0.5, 1.0], N), np.nan),
            "prediction": np.round(0.3 * label + rng.random(N), 2),
        }
    )


@pytest.fixture
def measure(tmp_path):
    def measure(table, **options):
        path = tmp_path / "rows.csv"
        table.to_csv(path, index=False)
        settings = {"name": "rows", "source": "table", "path": path}
        missing = {key: options.pop(key) for key in ["allow_missing"] if key in options}
        source = SOURCES.validate_python(settings | {"identities": ["gay", "muslim"]} | options)
        rows = freeze_source(source, tmp_path / "store")
        file = {"name": "file", "kind": "scores", "path": path} | missing
        candidate = CANDIDATES.validate_python(file)
        scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
        evidence = write_evidence(rows, scored, {}, source, tmp_path / FILE)
        measured = [
            measure_identities(evidence, part) for part in list_identities(evidence).values()
        ]
        bias = summarise_identities.fn(measured, evidence)
        return rows, scored, evidence, bias

    return measure


def expected(table, threshold=0.5):
    groups = {name: table[name] >= threshold for name in ("gay", "muslim")}
    return evaluate_bias(table["label"] >= 0.5, table["prediction"], groups).to_dict()


def test_rated_rows_are_measured_and_exactly_half_counts_as_positive(frame, measure):
    _, _, evidence, bias = measure(frame)
    assert bias.to_dict() == expected(frame[frame["gay"].notna()])
    assert evidence.record.choices.n_rows_measured == 300
    assert bias.to_dict() != expected(frame[frame["gay"].notna()], threshold=0.51)


def test_all_rows_are_measured_when_asked_and_null_is_not_mentioned(frame, measure):
    _, _, evidence, bias = measure(frame, identity_rows="all")
    assert bias.to_dict() == expected(frame)
    assert evidence.record.choices.n_rows_measured == 400
    assert bias.to_dict()["numbers"] != expected(frame[frame["gay"].notna()])["numbers"]


def test_rows_are_read_and_ranked_once_in_a_process_and_again_in_another(frame, measure):
    evidence = measure(frame)[2]
    assert evidence.measurement is evidence.measurement
    elsewhere = pickle.loads(pickle.dumps(evidence))  # noqa: S301 - made here
    assert elsewhere == evidence
    assert len(pickle.dumps(evidence)) < 1000
    first, second = (one.measurement.ranked.position for one in (evidence, elsewhere))
    assert first.tolist() == second.tolist()


def test_identities_stand_in_the_order_of_the_set_whichever_task_measured_them(frame, measure):
    evidence = measure(frame)[2]
    found = summarise_rows(evidence, measure_identities(evidence, ["muslim", "gay"]))
    assert list(found.subgroups) == list(found.covered) == ["gay", "muslim"]


def test_the_choices_stand_in_the_report(frame, measure):
    rows, scored, evidence, bias = measure(frame, identity_rows="all", identity_threshold=0.4)
    candidate = CANDIDATES.validate_python({"name": "file", "kind": "scores", "path": "x.csv"})
    explained = explain_numbers(evidence, bias)
    report = build_report(rows, evidence.record.choices, candidate, scored.record, explained)
    assert all(getattr(report, key) == value for key, value in vars(explained).items())
    assert report.analyses is None
    choices = report.evaluation_set.choices
    assert choices.identity_rows == "all"
    assert choices.identity_threshold == 0.4
    assert (choices.n_rows, choices.n_rows_rated) == (400, 300)
    assert report.evaluation_set.digest == rows.digest
    own = {key: one for key, one in report.bias.items() if key.threshold is None}
    assert convert_to_plain(replace(bias, numbers=own, thresholds={})) == expected(
        frame, threshold=0.4
    )


def test_a_cluster_column_widens_the_intervals_as_in_one_call(frame, measure):
    table = frame.assign(article=lambda t: "article " + (t["id"] % 40).astype(str))
    _, _, evidence, bias = measure(table, cluster="article")
    rated = table[table["gay"].notna()]
    groups = {name: rated[name] >= 0.5 for name in ("gay", "muslim")}
    one_call = evaluate_bias(
        rated["label"] >= 0.5,
        rated["prediction"],
        groups,
        clusters=pd.factorize(rated["article"])[0],
    )
    assert bias.to_dict() == one_call.to_dict()
    assert bias.overall.auc.row_std_error is not None
    assert evidence.record.choices.n_clusters == 30


def test_clusters_are_those_of_one_call_if_some_have_no_scores(frame, measure):
    table = frame.assign(article=lambda t: "article " + (t["id"] % 80).astype(str))
    table.loc[table["id"] % 2 == 0, "prediction"] = np.nan  # of every second article
    _, _, evidence, bias = measure(table, cluster="article", allow_missing=True)
    rows = table[table["gay"].notna() & table["prediction"].notna()]
    groups = {name: rows[name] >= 0.5 for name in ("gay", "muslim")}
    one_call = evaluate_bias(
        rows["label"] >= 0.5, rows["prediction"], groups, clusters=rows["article"]
    )
    assert bias.overall.auc.std_error == pytest.approx(one_call.overall.auc.std_error, rel=1e-12)
    assert bias.overall.final_score.low == pytest.approx(
        one_call.overall.final_score.low, rel=1e-12
    )
    assert evidence.record.choices.n_clusters == rows["article"].nunique()


@pytest.mark.parametrize("identity_rows", ["rated", "all"])
def test_a_background_without_identities_is_that_of_one_call(frame, measure, identity_rows):
    _, _, evidence, bias = measure(frame, identity_rows=identity_rows, background="no_identity")
    rows = frame if identity_rows == "all" else frame[frame["gay"].notna()]
    groups = {name: rows[name] >= 0.5 for name in ("gay", "muslim")}
    one_call = evaluate_bias(
        rows["label"] >= 0.5, rows["prediction"], groups, background="no_identity"
    )
    assert bias.to_dict() == one_call.to_dict()
    assert bias.to_dict()["numbers"] != expected(rows)["numbers"]
    assert evidence.record.choices.background == "no_identity"


def test_membership_is_of_measured_rows(frame, measure):
    _, _, evidence, _ = measure(frame)
    rated = frame[frame["gay"].notna()]
    assert evidence.rows.members["gay"].tolist() == (rated["gay"] >= 0.5).tolist()


def test_row_order_of_scores_changes_nothing(frame, measure, tmp_path):
    rows, scored, _, bias = measure(frame)
    table = scored.table().to_pandas().sample(frac=1, random_state=1)
    scored = SimpleNamespace(table=lambda: pa.Table.from_pandas(table), **OF_FILE)
    source = SOURCES.validate_python(
        {"name": "rows", "source": "table", "path": tmp_path / "rows.csv"}
        | {"identities": ["gay", "muslim"]}
    )
    evidence = write_evidence(rows, scored, {}, source, tmp_path / FILE)
    assert summarise_rows(evidence, measure_identities(evidence, ["gay", "muslim"])) == bias


def test_scores_of_other_rows_are_refused(frame, measure, tmp_path):
    rows, scored, _, _ = measure(frame)
    table = scored.table().to_pandas().assign(id=lambda t: "x" + t["id"])
    scored = SimpleNamespace(table=lambda: pa.Table.from_pandas(table), **OF_FILE)
    source = SOURCES.validate_python(
        {"name": "rows", "source": "table", "path": tmp_path / "rows.csv"}
        | {"identities": ["gay", "muslim"]}
    )
    with pytest.raises(InputError, match="must have the ids of evaluation set 'rows'"):
        write_evidence(rows, scored, {}, source, tmp_path / FILE)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"label": 0.2}, {}, r"300 measured rows have no positives .label >= 0.5"),
        ({"label": 0.9}, {}, "have no negatives"),
        ({"gay": np.nan, "muslim": np.nan}, {}, "the column of .gay., .muslim. is empty"),
        ({}, {"power_mean_groups": ["gay", "martian"]}, "got martian .known: gay, muslim"),
    ],
)
def test_a_set_that_cannot_be_measured_is_refused(frame, measure, change, options, message):
    with pytest.raises(InputError, match=message):
        measure(frame.assign(**change), **options)


def test_an_undefined_group_is_null_with_a_reason_and_never_dropped(frame, measure):
    _, _, _, bias = measure(frame.assign(muslim=lambda t: t["muslim"] * 0))
    found = bias.to_dict()
    assert n_of(found, "muslim") == 0
    undefined = cell(found, "bpsn_auc", "muslim")
    assert (undefined["value"], undefined["reason"]) == (None, "no subgroup negatives")
    assert cell(found, "final_score")["value"] is None
    assert "muslim" in cell(found, "final_score")["reason"]


def test_named_power_mean_groups_leave_an_undefined_group_out(frame, measure):
    table = frame.assign(muslim=lambda t: t["muslim"] * 0)
    _, _, _, bias = measure(table, power_mean_groups=["gay"])
    assert bias.to_dict()["covered"] == ["gay"]
    assert bias.overall.final_score.value is not None


def test_guessed_scores_draw_a_warning_and_informed_ones_do_not():
    rng = np.random.default_rng(0)
    y_true, mask = rng.random(5000) < 0.5, rng.random(5000) < 0.5
    guessed = evaluate_bias(y_true, rng.random(5000), {"gay": mask})
    informed = evaluate_bias(y_true, rng.random(5000) + 0.3 * y_true, {"gay": mask})
    assert "as if the scores were random" in warn_of_misjoin(guessed)
    assert warn_of_misjoin(informed) is None


@pytest.fixture
def reported(frame, measure):
    """A report on rows that do not mention `muslim`."""
    rows, scored, evidence, bias = measure(frame.assign(muslim=lambda t: t["muslim"] * 0))
    candidate = CANDIDATES.validate_python({"name": "f", "kind": "scores", "path": "x.csv"})
    explained = explain_numbers(evidence, bias, threshold=0.5)
    return build_report(rows, evidence.record.choices, candidate, scored.record, explained)


def test_the_metric_table_has_one_row_per_identity_and_empty_cells_where_undefined(reported):
    table = build_metric_table(reported)
    assert table["subgroup"] == ["gay", "muslim"]
    assert table["bpsn_auc"] == [reported.bias["bpsn_auc", "gay"].value, None]
    for name, errors in reported.thresholds.items():
        at = {"equal_errors": "at_equal_errors", "given": "at_threshold"}[name]
        gaps = reported.bias.select_threshold(name)["gay"]
        for metric in ("fpr_gap", "fnr_gap"):
            columns = [f"{metric}_{at}{end}" for end in ("", "_low", "_high")]
            assert [table[one][0] for one in columns] == [
                getattr(gaps[metric], key) for key in ("value", "low", "high")
            ]
        rate = errors.subgroups["gay"].false_positive_rate.value
        assert table[f"false_positive_rate_{at}"] == [rate, None]
    assert {len(column) for column in table.values()} == {2}


def test_the_csv_file_has_a_row_for_each_number_and_its_reason_where_undefined(reported):
    rows = list(csv.DictReader(io.StringIO(format_metric_csv(reported))))
    assert list(rows[0]) == [
        *("metric", "group", "threshold", "at", "value", "std_error", "low", "high"),
        *("confidence", "n_positive", "n_negative", "n_clusters", "reason"),
    ]
    found = {(row["metric"], row["group"], row["threshold"]): row for row in rows}
    assert len(found) == len(rows)
    for key, one in reported.bias.items():
        row = found.pop((key.metric, key.group or "", key.threshold or ""))
        for end in ("value", "low", "high"):
            assert row[end] == ("" if getattr(one, end) is None else str(getattr(one, end)))
        counts = reported.bias.counts[key.group]
        assert (row["n_positive"], row["n_negative"]) == (
            str(counts.n_positive),
            str(counts.n_negative),
        )
        assert row["reason"] == (one.reason or "")
    rates = {
        (f"false_{kind}_rate", group, name)
        for kind in ("positive", "negative")
        for group in ("", "gay", "muslim")
        for name in ("equal_errors", "given")
    }
    assert found.keys() == rates
    rate = reported.thresholds["given"].overall.false_negative_rate.value
    assert found["false_negative_rate", "", "given"]["value"] == str(rate)
