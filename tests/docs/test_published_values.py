"""Published values, each recomputed and compared at the precision that it was printed with.

`docs/evidence/numbers.md` lists them all, and the ones that nobody can recompute without the
authors' models or data.
"""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from normal_scores import column_of_table_2, heights
from published import COLUMNS

from bias_metrics import (
    evaluate_bias,
    pinned_auc,
    roc_auc,
    subgroup_auc,
    threshold_table,
)
from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.data.civil_comments import JIGSAW_NINE

MODELS = ("Rock:TOXICITY", "RockV6_2:TOXICITY")


@pytest.fixture(scope="module")
def values(reference):
    return json.loads((reference / "published_values.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def table_2(reference):
    return json.loads((reference / "borkan_table2.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def table_6(reference):
    with (reference / "borkan_table6_short.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def five(y_true, y_score, in_subgroup):
    cells = evaluate_bias(y_true, y_score, {"g": in_subgroup}, intervals=False).subgroups["g"]
    return {metric: getattr(cells, metric).value for metric in SUBGROUP_METRICS}


def as_printed(column):
    """The five numbers of a column; the table names the gaps of G in the other order."""
    gaps = column["aegs"][::-1] if column["aegs"][0] > 0 > column["aegs"][1] else column["aegs"]
    return dict(
        zip(SUBGROUP_METRICS, (*map(column.get, ("sub", "bpsn", "bnsp")), *gaps), strict=True)
    )


# Borkan et al. (2019).


def test_quantiles_of_every_distribution_of_table_2_have_its_population_values(table_2):
    assert len(table_2) == 9
    for name, column in table_2.items():
        found = five(*column_of_table_2(column, times=10))
        expected = {metric: column[metric] for metric in SUBGROUP_METRICS}
        assert found == pytest.approx(expected, abs=1e-5), name


def test_what_table_2_prints_is_a_sample_of_its_distributions_but_for_the_gaps_of_a(
    values, table_2
):
    astray = set()
    for letter, name in COLUMNS.items():
        column = table_2[name]
        n = min(column["sub_pos_n"], column["sub_neg_n"], 1000)
        for metric, printed in as_printed(values["table2_as_printed"][letter]).items():
            # Two digits; .99 stands for .9998 in E, as if cut and not rounded: hence the whole .01.
            auc = column[metric] + 0.5 * metric.endswith("_aeg")
            chance = 3 * np.sqrt(auc * (1 - auc) / n) if 0 < auc < 1 else 0
            if abs(printed - column[metric]) > 0.01 + min(chance, 0.04):
                astray.add((letter, metric))
    assert astray == {("A", "positive_aeg"), ("A", "negative_aeg")}


def test_a_shift_of_a_tenth_has_what_table_2_prints_for_a(values, table_2):
    column = table_2[COLUMNS["A"]]
    shifted = {"sub_pos": [0.7, 0.05], "sub_neg": [0.3, 0.05]}
    found = five(*column_of_table_2(column | {"params": column["params"] | shifted}, times=10))
    printed = as_printed(values["table2_as_printed"]["A"])
    for metric in ("subgroup_auc", "bnsp_auc", "positive_aeg", "negative_aeg"):
        assert round(found[metric], 2) == printed[metric]
    assert 0.99 < found["bpsn_auc"] < 1  # printed: .99


@pytest.mark.parametrize("model", [1, 6])
def test_the_public_phrases_with_one_term_come_near_table_3_but_are_not_its_phrases(
    real_data, reference, model
):
    printed = pd.read_csv(reference / "borkan_table3_transcribed.csv", index_col="subgroup")
    printed.index = printed.index.str.replace("_", " ")
    rows = pd.read_parquet(real_data / "perspective_templates.parquet")
    rows = rows[rows["template"].str.contains("_identity")]
    masks = {term: rows["phrase"].str.contains(rf"\b{term}\b").to_numpy() for term in printed.index}
    toxic, score = rows["toxicity"] == "toxic", rows[f"TOXICITY@{model}"]
    found = evaluate_bias(toxic, score, masks, intervals=False).subgroups
    ours = pd.DataFrame(
        {m: {t: getattr(b, m).value for t, b in found.items()} for m in SUBGROUP_METRICS}
    )
    theirs = printed[[f"T{model}_{metric}" for metric in SUBGROUP_METRICS]]
    theirs.columns = ours.columns
    assert len(ours) == 50
    same = ((ours - theirs).abs() <= 0.00501).sum()
    ranks = ours.rank().corrwith(theirs.rank())
    for gap in ("positive_aeg", "negative_aeg"):
        assert ranks[gap] > 0.85
        assert same[gap] < 10
    if model == 6:
        assert same[["subgroup_auc", "bpsn_auc"]].min() >= 40


def test_table_5_prints_percentages_of_whole_counts(reference):
    table = pd.read_csv(reference / "borkan_table5.csv", dtype={"percent_toxic": str})
    assert len(table) == 25
    for name, n, printed in table.itertuples(index=False):
        n_toxic = round(n * float(printed) / 100)
        decimals = len(printed.partition(".")[2])
        assert round(100 * n_toxic / n, decimals) == float(printed), name


@pytest.mark.parametrize("model", MODELS)
def test_our_undefined_cells_are_those_that_table_6_leaves_empty(table_6, model):
    labels, members, names = [0, 1], [0, 0], [row["subgroup"] for row in table_6]
    for number, row in enumerate(table_6, start=1):
        n = int(row["subset_size"])
        # A group whose Subgroup AUC is empty has no toxic comment; one of each will do else.
        n_positive = int(row[f"{model}_subgroup_auc"] != "")
        labels += [1] * n_positive + [0] * (n - n_positive)
        members += [number] * n
    groups = {name: np.array(members) == number for number, name in enumerate(names, start=1)}
    found = evaluate_bias(labels, np.linspace(0, 1, len(labels)), groups, intervals=False)
    empty = {
        (row["subgroup"], metric)
        for row in table_6
        for metric in SUBGROUP_METRICS
        if row[f"{model}_{metric}"] == ""
    }
    undefined = {
        (name, metric)
        for name, bias in found.subgroups.items()
        for metric in SUBGROUP_METRICS
        if getattr(bias, metric).value is None
    }
    assert undefined == empty
    assert len(empty) == 5 + 5 + 3 + 3


def ranked(n_positive, n_negative, half_wins):
    """Labels and scores whose positives win `half_wins` / 2 of their pairs."""
    wins = [min(2 * n_negative, max(0, half_wins - 2 * n_negative * i)) for i in range(n_positive)]
    positive = [won / 2 - 0.5 for won in wins]  # ties the negative `won / 2 - .5` if odd
    return [1] * n_positive + [0] * n_negative, positive + list(range(n_negative))


def test_subgroup_aucs_of_the_small_groups_of_table_6_are_fractions_of_pairs(table_6):
    sizes = {}
    for row in table_6:
        n, printed = int(row["subset_size"]), [row[f"{model}_subgroup_auc"] for model in MODELS]
        if n > 60 or "" in printed or printed == ["1.0", "1.0"]:
            continue
        sizes[row["subgroup"]] = []
        for n_positive in range(1, n // 2 + 1):
            half_pairs = 2 * n_positive * (n - n_positive)
            found = [
                ranked(n_positive, n - n_positive, round(float(auc) * half_pairs))
                for auc in printed
            ]
            aucs = [round(subgroup_auc(*rows, np.ones(n)).value, 6) for rows in found]
            if aucs == [float(auc) for auc in printed]:
                sizes[row["subgroup"]].append(n_positive)
    assert len(sizes) == 6
    # Both models agree on one division of each group into toxic and other comments.
    assert all(len(divisions) == 1 for divisions in sizes.values()), sizes


# Dixon et al. (2018).


def test_table_3_is_what_shifted_normal_scores_give(values):
    printed = values["dixon2018"]["table3_pinned"]
    y_true, y_score, groups = heights(2000)
    assert round(roc_auc(y_true, y_score).value, 2) == printed["combined_auc"]
    assert {
        name: [
            round(roc_auc(y_true[mask], y_score[mask]).value, 2),
            round(pinned_auc(y_true, y_score, mask).value, 2),
        ]
        for name, mask in groups.items()
    } == {name: printed[name] for name in groups}


# The authors' own unit test, and the reference scores of a public model.


def test_the_twelve_rows_of_the_reference_implementation_are_exact(values):
    case = values["unit_case_model_bias_analysis_test"]
    cells = ("bg_neg", "sub_neg", "bg_pos", "sub_pos")
    labels = np.repeat([name.endswith("pos") for name in cells], 3)
    members = np.repeat([name.startswith("sub") for name in cells], 3)
    scores = [score for name in cells for score in case[name]]
    expected = {metric: case[metric] for metric in SUBGROUP_METRICS}
    assert five(labels, scores, members) == pytest.approx(expected, abs=1e-15)
    assert roc_auc(labels, scores).value == 17 / 18


def test_every_column_of_the_toxic_bert_table_is_recomputed(real_data, reference):
    expected = pd.read_csv(reference / "toxic_bert_expected.csv", index_col="subgroup")
    rows = pd.read_parquet(real_data / "civil_comments_test_identities.parquet")
    rows = rows.merge(pd.read_csv(real_data / "toxic_bert_submission.csv"), on="id")
    y_true, y_score = (rows["toxicity"] >= 0.5).to_numpy(), rows["prediction"].to_numpy()
    masks = {name: (rows[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}
    found = evaluate_bias(y_true, y_score, masks, intervals=False)
    errors = threshold_table(y_true, y_score, masks, thresholds=[0.5]).subgroups
    table = pd.DataFrame.from_dict(
        {
            name: {
                "n": found.counts[name].n,
                "n_pos": found.counts[name].n_positive,
                "n_neg": found.counts[name].n_negative,
                "bg_pos": y_true.sum() - found.counts[name].n_positive,
                "bg_neg": (~y_true).sum() - found.counts[name].n_negative,
                **{metric: bias[metric].value for metric in SUBGROUP_METRICS},
                "fpr_at_0_5": errors[name].get_rates(0).false_positive_rate.value,
                "fnr_at_0_5": errors[name].get_rates(0).false_negative_rate.value,
            }
            for name, bias in found.subgroups.items()
        },
        orient="index",
    )
    assert list(table.columns) == list(expected.columns)
    pd.testing.assert_frame_equal(
        table, expected, check_dtype=False, check_names=False, rtol=0, atol=1e-12
    )
