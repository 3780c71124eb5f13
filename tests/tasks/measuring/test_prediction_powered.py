"""A set whose human identity labels are helped by terms: rows, report, evidence and refusals."""

import numpy as np
import pandas as pd
import pytest
from support.judging import policy_of

from bias_metrics import Rows, compare_prediction_powered, prediction_powered_bias
from bias_metrics.gate.targets import targets_of
from biasgate.tasks.analysing.labels import AgreementAnalysis
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import IDENTITY, MATCHED
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.evidence.powered import agreement_of
from biasgate.tasks.gating.policy_check import check_policy
from biasgate.tasks.measuring.identities import summarise
from biasgate.tasks.reporting.report import bias_table
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 1500
NAMES = ("gay", "old")
SET = {
    "name": "rows",
    "source": "table",
    "text": "text",
    "identities": list(NAMES),
    "terms": {"gay": ["gay"], "old": ["old", "older"]},
    "prediction_powered": True,
}


class Home:
    """A table in a folder, and what becomes of it."""

    def __init__(self, folder):
        rng = np.random.default_rng(3)
        self.folder = folder
        toxic, gay, old, short = (rng.random(N) < share for share in (0.3, 0.2, 0.25, 0.5))
        self.human = {"gay": gay, "old": old}
        self.matched = {
            name: rng.random(N) < np.where(one, 0.85, 0.01) for name, one in self.human.items()
        }
        self.labelled, self.toxic = rng.random(N) < 0.3, toxic
        self.table = pd.DataFrame({"id": np.arange(N), "label": toxic, "short": short})
        words = zip(*self.matched.values(), strict=True)
        self.table["text"] = [
            f"{'gay' if one else ''} secretword {'Older' if two else ''}" for one, two in words
        ]
        self.table["thread"] = rng.integers(0, 200, N)
        for name, one in self.human.items():
            self.table[name] = np.where(self.labelled, one, np.nan)
        self.table["prediction"] = rng.normal(1.5 * toxic).round(3)
        self.table["other"] = (self.table["prediction"] + rng.normal(0, 0.5, N)).round(3)

    def source(self, **options):
        path = self.folder / "rows.csv"
        self.table.to_csv(path, index=False)
        return SOURCES.validate_python(SET | {"path": path} | options)

    def frozen(self, **options):
        return freeze(self.source(**options), self.folder / "store")

    def written(self, **options):
        source, frozen = self.source(**options), self.frozen(**options)
        scored = [
            score_rows(one.open(None), frozen, one, str(self.folder / one.name))
            for one in (
                CANDIDATES.validate_python(
                    {"name": name, "kind": "scores", "path": source.path, "score": name}
                )
                for name in ("prediction", "other")
            )
        ]
        rivals = {"champion": scored[1]}
        return frozen, write_evidence(frozen, scored[0], rivals, source, self.folder / FILE)

    def known(self, **options):
        """The report of the library on the same rows."""
        y_score = self.table["prediction"].to_numpy()
        how = {"confidence": options.pop("confidence", 0.95)}
        rows = Rows(self.toxic, self.human, **options)
        return prediction_powered_bias(rows, y_score, self.matched, self.labelled, **how)

    def clusters(self):
        """The threads, numbered as in the evidence: sums in another order differ by rounding."""
        return pd.factorize(self.table["thread"])[0]


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_frozen_rows_have_human_labels_and_matches(home):
    frozen = home.frozen()
    assert frozen.identities == list(NAMES)
    for name in NAMES:
        assert frozen.column(IDENTITY + name).null_count == N - home.labelled.sum()
        assert frozen.column(MATCHED + name).to_pylist() == home.matched[name].tolist()


def test_a_rule_on_what_terms_do_not_help_is_refused_before_anything_is_scored(home):
    source, folder = home.source(), str(home.frozen().folder)
    helped = {"metric": "bpsn_auc", "scope": "each", "floor": 0.5}
    alone = {"metric": "calibration_gap", "scope": "each", "ceiling": 0.2}
    check_policy.fn(policy_of(helped), source, folder)
    with pytest.raises(InputError, match="calibration_gap, which is not measured with terms"):
        check_policy.fn(policy_of(helped, alone), source, folder)


def test_the_option_freezes_other_rows_and_its_default_the_same(home):
    known = {"terms": {}, "prediction_powered": False}
    assert "prediction_powered" not in home.source(**known).provenance()
    assert home.source().provenance()["prediction_powered"] is True


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_the_pipeline_gives_the_report_of_the_library(home, clustered):
    _, evidence = home.written(**({"cluster": "thread"} if clustered else {}))
    clusters = home.clusters() if clustered else None
    found = summarise(evidence, {})
    assert found.to_dict() == home.known(clusters=clusters).to_dict()
    choices = evidence.record.choices
    assert choices.prediction_powered is True
    assert (choices.n_rows_measured, choices.n_rows_rated) == (N, home.labelled.sum())


def test_the_table_has_the_gain_of_each_metric(home):
    known = home.known()
    gains = [known.subgroups[name].assisted["bpsn_auc"].gain for name in NAMES]
    assert bias_table(known)["bpsn_auc_gain"] == gains


def test_agreement_of_terms_and_raters_is_that_of_the_labelled_rows(home):
    frozen, evidence = home.written()
    found = agreement_of(evidence.rows())
    assert found.n == home.labelled.sum()
    both = home.human["gay"] & home.matched["gay"] & home.labelled
    assert found.identities["gay"].n_both == both.sum()
    analysis = AgreementAnalysis.model_validate({"kind": "agreement", "terms": SET["terms"]})
    analysis.check(frozen, home.source())


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
def test_evidence_gives_the_same_report_and_paired_differences(home, background):
    _, evidence = home.written(background=background, cluster="thread")
    clusters = home.clusters()
    options = {"clusters": clusters, "background": background}
    found = evidence.measure([(None, 0.9)])[None, 0.9]
    assert found.report == home.known(confidence=0.9, **options).to_dict()
    scores = home.table["prediction"].to_numpy(), home.table["other"].to_numpy()
    rows = Rows(home.toxic, home.human, **options)
    change = compare_prediction_powered(rows, *scores, home.matched, home.labelled, confidence=0.9)
    assert found.champion == change.to_dict()
    if background == "no_identity":
        outside = home.labelled & ~home.human["gay"] & ~home.human["old"]
        assert found.background["positive"] == (outside & home.toxic).sum()


def test_rules_count_labelled_rows_of_the_background(home):
    _, evidence = home.written()
    found = evidence.measure([(None, 0.9)])[None, 0.9].report
    assert found["overall"]["n"] == N
    positive = (home.labelled & home.toxic).sum()
    assert found["overall"]["labelled"]["positive"] == positive
    rule = {"metric": "bpsn_auc", "scope": "each", "floor": 0.5}
    [rule] = policy_of(rule | {"min_positives": 5000}).decision_rules()
    own = (home.labelled & home.toxic & home.human["gay"]).sum()
    target = next(targets_of(found, rule, None))
    assert target.background["positive"] == positive - own


def test_categories_join_labels_and_matches(home):
    _, evidence = home.written()
    found = evidence.measure_with(0.9, {"any": list(NAMES)}).report["categories"]["any"]
    human, matched = (
        {"any": masks["gay"] | masks["old"]} | masks for masks in (home.human, home.matched)
    )
    scores = home.table["prediction"].to_numpy()
    known = prediction_powered_bias(
        Rows(home.toxic, human), scores, matched, home.labelled, confidence=0.9
    )
    assert found == known.to_dict()["subgroups"]["any"]


def test_slices_keep_labels_and_matches(home):
    _, evidence = home.written(slices=["short"])
    found = evidence.measure([("short", 0.9)])["short", 0.9].report
    rows = home.table["short"].to_numpy()
    human, matched = (
        {name: one[rows] for name, one in masks.items()} for masks in (home.human, home.matched)
    )
    scores = home.table["prediction"].to_numpy()[rows]
    known = prediction_powered_bias(
        Rows(home.toxic[rows], human), scores, matched, home.labelled[rows], confidence=0.9
    )
    assert found == known.to_dict()


def test_all_numbers_are_compared_together(home):
    _, evidence = home.written()
    found = evidence.losses("champion", 0.05)
    assert found.n_bounds == 10  # two identities
    assert found.confidence == pytest.approx(1 - 2 * 0.05 / 10)


def test_few_identities_are_measured_with_their_matches(home):
    _, evidence = home.written()
    few = evidence._measuring(None, {}).alone(["old"], 0.9)
    assert few.report["subgroups"].keys() == {"old"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"identity_rows": "all"}, "`prediction_powered` and `identity_rows` must not be set"),
        ({"weight": "label"}, "`prediction_powered` and `weight` must not be set together"),
        (
            {"population": "these_rows", "cluster": "thread"},
            "`prediction_powered` and `population` must not be set together",
        ),
        ({"terms": {"gay": ["gay"]}}, "for every identity; old has only one of the two"),
        (
            {"prediction_powered": False},
            "unless `prediction_powered: true` uses terms beside human",
        ),
        ({"pool_nights": {"rows": 10_000}}, "`prediction_powered` and `pool_nights` must not"),
        ({"min_raters": 2}, "`prediction_powered` and `min_raters` must not be set together"),
    ],
)
def test_bad_combinations_are_refused_with_the_file(home, options, text):
    with pytest.raises(ValueError, match="rediction_powered") as error:
        home.source(**options)
    assert text in str(error.value)


def test_civil_comments_are_refused(tmp_path):
    options = {"name": "test", "source": "civil_comments", "folder": tmp_path}
    with pytest.raises(ValueError, match="needs rows that were labelled at random"):
        SOURCES.validate_python(options | {"prediction_powered": True})


def test_rows_labelled_by_what_they_mention_are_refused_before_scoring(home):
    rng = np.random.default_rng(0)
    labelled = rng.random(N) < np.where(home.matched["gay"], 0.8, 0.1)
    for name in NAMES:
        home.table[name] = np.where(labelled, home.human[name], np.nan)
    with pytest.raises(InputError, match="must be a random sample of the rows of each class") as no:
        choose_rows(home.frozen(), home.source())
    told = str(no.value)
    assert told.startswith(
        "evaluation set 'rows' is `prediction_powered`, and rows with a value in every column of "
        "`identities` must be a random sample"
    )
    assert "got a share of rows with a term of gay of " in told
    assert "labelled`" not in told
    assert "matched" not in told
    assert "remove `prediction_powered`" in str(no.value)
    assert "secretword" not in str(no.value)


def test_an_identity_without_any_label_is_told_what_to_write(home):
    home.table["gay"] = np.nan
    with pytest.raises(InputError, match=r"a value for every identity\. Write 0 where people"):
        choose_rows(home.frozen(), home.source())


def test_rows_labelled_by_their_score_are_refused(home):
    rng = np.random.default_rng(0)
    labelled = rng.random(N) < np.where(home.table["prediction"] > 1, 0.7, 0.1)
    for name in NAMES:
        home.table[name] = np.where(labelled, home.human[name], np.nan)
    _, evidence = home.written()
    with pytest.raises(InputError, match="got a mean score of"):
        summarise(evidence, {})


def test_a_source_without_matches_is_refused(home):
    frozen = home.frozen(prediction_powered=False, terms={})
    with pytest.raises(InputError, match=r"must have terms and human labels .* gay, old has none"):
        choose_rows(frozen, home.source())
