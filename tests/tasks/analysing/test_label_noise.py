"""The analysis of labels by a few raters."""

import json

import numpy as np
import pytest

from bias_metrics import MetricValue, label_noise
from bias_metrics.raters.expected import FINAL, OVERALL
from biasgate.tasks.analysing.analyse import check_analyses
from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.analysing.labels import sentences_of
from biasgate.tasks.common.errors import InputError

GROUPS = ("black", "female", "muslim")


@pytest.fixture
def rated(frame):
    """The comments, with four to six raters each."""
    return frame.assign(asked=4 + np.arange(len(frame)) % 3)


def noise(table, **options):
    kept = table[table["black"].notna()]
    masks = {name: (kept[name] >= 0.5).to_numpy() for name in GROUPS}
    given = (kept["label"].to_numpy(), kept["asked"].to_numpy(), kept["prediction"].to_numpy())
    return label_noise(*given, masks, rng=np.random.default_rng(options.pop("seed", 0)), **options)


def fitting(found):
    """The same with panels that are drawn as they really are."""
    for key in (OVERALL, FINAL):
        found.redrawn[key[1]] = found.panel[key].value
    return found


def test_it_has_the_numbers_of_the_library(rated, measured):
    rows = measured(
        rated, raters="asked", label_threshold=0.4, cluster="thread", background="no_identity"
    )
    analysis = ANALYSES.validate_python({"kind": "label_noise", "draws": 3, "seed": 5})
    found = analysis.analyse(rows)
    threads = rated[rated["black"].notna()]["thread"].to_numpy()
    options = {"threshold": 0.4, "clusters": threads, "background": "no_identity"}
    expected = noise(rated, n_draws=3, seed=5, **options)
    assert found.result == expected.to_dict()
    assert found.table == expected.rows()
    json.dumps(found.result, allow_nan=False)


def test_power_means_cover_the_groups_of_the_set(rated, measured):
    rows = measured(rated, raters="asked", power_mean_groups=["black", "muslim"])
    found = ANALYSES.validate_python({"kind": "label_noise", "draws": 2}).analyse(rows)
    expected = noise(rated, n_draws=2, power_mean_groups=["black", "muslim"])
    assert found.result["panel"]["final_score"] == expected.panel[FINAL].to_dict()


def test_it_says_in_words_how_much_of_the_intervals_comes_from_raters(rated):
    found = fitting(noise(rated, n_draws=5))
    raters, shares, readings, fit = sentences_of(found)
    assert raters == (
        "Comments have 4 to 6 raters (median 5); two raters of a comment agree in "
        f"{found.agreement.value:.0%} of cases."
    )
    share = found.panel[OVERALL].rater_share.value
    assert shares.startswith(
        f"Of the variance behind each interval, raters cause {share:.0%} for the overall AUC and "
    )
    cells = {key: one.rater_share.value for key, one in found.panel.numbers.items() if key[0]}
    name, metric = max(cells, key=lambda key: cells[key])
    most = cells[name, metric]
    less = 1 - (1 - most) ** 0.5
    assert f"; the most for {metric} of {name}: {most:.0%}. Without it, that" in shares
    assert shares.endswith(f"interval would be {less:.0%} shorter.")
    assert f"overall AUC {found.expected[OVERALL].value}" in readings
    assert f"overall AUC {found.consensus[OVERALL].value}" in readings
    assert f"overall AUC of {found.redrawn['auc'].value:.3f}, the real ones" in fit


@pytest.mark.parametrize("number", ["auc", "final_score"])
def test_no_part_of_raters_is_said_where_the_model_does_not_fit(rated, number):
    found = noise(rated, n_draws=2)
    found.redrawn[number] = MetricValue(0.2)
    _, shares, _, fit = sentences_of(found)
    assert fit.endswith(": it does not fit well, so do not rely on its numbers.")
    assert shares.startswith("How much of each interval comes from raters is not said: the model")
    assert "%" not in shares


def test_one_rater_a_comment_leaves_the_part_of_raters_unknown(rated):
    told = sentences_of(noise(rated.assign(asked=1, label=rated["label"].round())))
    assert told[0] == "Comments have 1 raters."
    assert told[1] == (
        "How much of each interval comes from raters is unknown: 0 comments with two raters or "
        "more where 20 are needed."
    )
    assert len(told) == 3


def test_a_subgroup_without_positives_has_no_final_score_to_split(rated):
    rated.loc[rated["muslim"] >= 0.5, "label"] = 0.0
    told = sentences_of(fitting(noise(rated, n_draws=2)))
    assert "for the overall AUC; the most for" in told[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "must have the number of raters of each comment; name it with `raters`. Remove"),
        ({"raters": "asked", "label_threshold": 1}, "`label_threshold` below 1; it is 1."),
        (
            {"raters": "asked", "weight": "asked", "weight_kind": "frequency"},
            "must have no weights; its rows have some.",
        ),
    ],
)
def test_a_set_that_does_not_allow_it_is_refused(rated, frozen, options, told):
    source, rows = frozen(rated, identities=list(GROUPS), **options)
    with pytest.raises(InputError) as error:
        check_analyses.fn([ANALYSES.validate_python("label_noise")], source, str(rows.folder))
    assert told in str(error.value)
