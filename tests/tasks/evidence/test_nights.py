"""The rows of several nights in one file of evidence, and the verdict on all of them."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm, t
from support import judging
from support.judging import CHAMPION, TODAY, evidence_of, policy_of, write_evidence

from bias_metrics import always_valid_confidence, compare_bias, evaluate_bias, night_clusters
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.evidence.file import RECORD, EvidenceFile
from biasgate.tasks.evidence.nights import judged_nights, new_because, pool
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.reporting.verdict_story import VerdictStory

PLANNED = 1000
CHOICES = judging.CHOICES | {"planned_rows": PLANNED}
RULES = policy_of(
    {"metric": "auc", "scope": "overall", "margin": 0.05},
    {"metric": "bpsn_auc", "scope": "each", "margin": 0.2, "min_negatives": 150},
)
RIVALS = {"champion": CHAMPION}


def columns_of(number, n=400):
    rng = np.random.default_rng(number)
    label, gay = rng.random(n) < 0.4, rng.random(n) < 0.3
    common, shift = 2 * label + rng.normal(0, 1, n), 0.1 * (number % 3 - 1)
    return {
        "id": [f"{number}-{row}" for row in range(n)],
        "label": label,
        "identity/gay": gay,
        "score/candidate": common + rng.normal(0, 0.2, n) + shift * (gay & ~label),
        "score/champion": common + rng.normal(0, 0.2, n),
    }


def night(folder, number, columns=None, **record):
    """The evidence of one night, as it is before nights are pooled."""
    place = folder / f"{number}"
    place.mkdir(exist_ok=True)
    known = {"set_digest": f"set {number}", "choices": CHOICES}
    return evidence_of(place, columns or columns_of(number), **known | record)


def pooled(folder, n_nights, columns=columns_of):
    """The evidence of the last of some nights."""
    earlier = None
    for number in range(1, n_nights + 1):
        earlier = pool(night(folder, number, columns(number)), earlier, "it was new")
    return earlier


def joined(*numbers):
    each = [columns_of(number) for number in numbers]
    return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def report_of(number, columns=columns_of):
    one = columns(number)
    gay = {"gay": one["identity/gay"]}
    bias = evaluate_bias(one["label"], one["score/candidate"], gay, power_mean_groups=["gay"])
    candidate = {"kind": "mlflow", "digest": "digest of candidate"}
    of_set = {"on": "comments", "digest": f"set {number}", "choices": CHOICES}
    return judging.report_of(bias.to_dict(), candidate=candidate, **of_set)


def verdict_of(evidence, number, policy=RULES, columns=columns_of):
    report = report_of(number, columns)
    return build_verdict(report, policy, evidence, RIVALS, n_candidates=1, today=TODAY)


def test_numbers_are_those_of_the_rows_of_all_nights_at_an_always_valid_confidence(tmp_path):
    verdict = verdict_of(pooled(tmp_path, 5), 5)
    rows = joined(1, 2, 3, 4, 5)
    level = always_valid_confidence(0.9, 2000, planned_rows=PLANNED)
    scores = rows["score/candidate"], rows["score/champion"]
    given = (rows["label"], *scores, {"gay": rows["identity/gay"]})
    expected = compare_bias(*given, confidence=level)
    nights = night_clusters(np.repeat(np.arange(5), 400), rows["label"])
    by_night = compare_bias(*given, confidence=level, clusters=nights)
    few = t.ppf((1 + level) / 2, 4) / norm.ppf((1 + level) / 2)
    auc, bpsn = verdict.results
    factors = []
    for found, cell, of_nights in (
        (auc, expected.overall.auc, by_night.overall.auc),
        (bpsn, expected.subgroups["gay"].bpsn_auc, by_night.subgroups["gay"].bpsn_auc),
        (verdict.objective, expected.final_score, by_night.final_score),
    ):
        excess = max((of_nights.std_error / cell.std_error) ** 2 - 1, 0.0)
        factors.append(math.sqrt(1 + excess * few**2))
        for end in ("low", "high"):
            reach = factors[-1] * (getattr(cell, end) - cell.value)
            assert getattr(found, end) == pytest.approx(cell.value + reach, abs=1e-9)
    assert auc.value == pytest.approx(expected.overall.auc.first, abs=1e-12)
    assert auc.confidence == 0.95
    assert max(factors) > 1 == min(factors)


@pytest.mark.parametrize(("n_nights", "has_bounds"), [(4, False), (5, True)])
def test_how_nights_differ_is_not_known_before_the_fifth(tmp_path, n_nights, has_bounds):
    verdict = verdict_of(pooled(tmp_path, n_nights), n_nights)
    assert [one.low is not None for one in verdict.results] == [has_bounds, has_bounds]
    if not has_bounds:
        assert verdict.outcome == "insufficient"
        assert "not known before night 5" in verdict.results[0].sentence


FLOORS = policy_of(
    {"metric": "auc", "scope": "overall", "floor": 0.65, "margin": 0.9, "id": "all"},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.65, "min_negatives": 25},
    {"metric": "subgroup_auc", "scope": "each", "margin": 0.9},
    {"metric": "bnsp_auc", "scope": "each", "floor": 0.65, "action": "warn"},
)
GOOD_NIGHTS = 25


def getting_worse(number):
    """What a night has: after some good ones the candidate's scores say nothing of harm."""
    columns = columns_of(number)
    if number > GOOD_NIGHTS:
        shuffled = np.random.default_rng(number).permutation(columns["score/candidate"])
        columns["score/candidate"] = shuffled
    return columns


def test_a_floor_that_the_last_seven_nights_are_shown_to_miss_blocks(tmp_path):
    evidence = pooled(tmp_path, GOOD_NIGHTS + 6, getting_worse)
    verdict = verdict_of(evidence, GOOD_NIGHTS + 6, FLOORS, getting_worse)
    results = {(one.rule, one.kind): one for one in verdict.results}
    slice_ = "last 7 nights' rows"
    for rule, lately in (("all", f"all/{slice_}"), ("bpsn_auc/each", f"bpsn_auc/each/{slice_}")):
        assert results[rule, "floor"].outcome == "pass"
        assert results[lately, "floor"].outcome == "fail"
        assert results[lately, "floor"].value < 0.6 < results[rule, "floor"].value
        assert "over 7 nights" in results[lately, "floor"].sentence
    others = [one for one in verdict.results if one.slice is not None]
    assert (len(others), verdict.outcome) == (2, "fail")  # no margin, and nothing that only warns
    # Of all nights: four floors and margins that block, and the floor that only warns.
    assert verdict.bounds.separately == 5


def test_the_last_nights_are_not_told_where_they_show_nothing(tmp_path):
    evidence = pooled(tmp_path, 9)
    verdict = verdict_of(evidence, 9, FLOORS)
    assert verdict.outcome == "pass"
    assert all(one.slice is None for one in verdict.results)
    told, untold = (
        VerdictStory.of_verdict(one).basis for one in (verdict, verdict_of(evidence, 9))
    )
    assert "looked at on the last 7 nights' rows too, with bounds for one look" in " ".join(told)
    assert "last 7 nights" not in " ".join(untold)


def test_a_floor_that_all_nights_miss_is_told_once(tmp_path):
    def bad(number):
        return getting_worse(number + GOOD_NIGHTS)

    verdict = verdict_of(pooled(tmp_path, 9, bad), 9, FLOORS, bad)
    assert verdict.outcome == "fail"
    assert all(one.slice is None for one in verdict.results)


def test_support_is_counted_over_all_nights(tmp_path):
    outcomes = [verdict_of(pooled(tmp_path, n), n).results[1].outcome for n in (1, 5)]
    assert outcomes == ["insufficient", "pass"]


def test_a_verdict_says_which_nights_it_pools(tmp_path):
    verdict = verdict_of(pooled(tmp_path, 3), 3)
    nights = verdict.nights
    assert (nights.number, nights.n_rows, nights.planned_rows) == (3, 1200, PLANNED)
    assert (nights.bound, nights.began) == ("normal mixture", "it was new")
    assert [one.set_digest for one in nights.each] == ["set 1", "set 2", "set 3"]
    assert "overall auc over 3 nights " in verdict.results[0].sentence
    [basis] = VerdictStory.of_verdict(verdict).basis
    assert "Night 3: judged by the 1,200 rows of all nights" in basis


def test_the_first_night_says_why_it_is_the_first(tmp_path):
    verdict = verdict_of(pooled(tmp_path, 1), 1)
    assert "It is the first: it was new." in VerdictStory.of_verdict(verdict).basis[0]
    assert "over 1 night" not in verdict.results[0].sentence


def test_a_verdict_on_one_set_says_nothing_of_nights(tmp_path):
    verdict = verdict_of(night(tmp_path, 1), 1)
    assert verdict.nights is None
    assert VerdictStory.of_verdict(verdict).basis == ()


def test_the_list_of_worsened_numbers_holds_at_every_night_together(tmp_path):
    found = pooled(tmp_path, 5).losses("champion", 0.05)
    assert found.n_bounds == 5  # of the rows of all nights
    assert found.confidence > always_valid_confidence(0.9, 2000, planned_rows=PLANNED)


def test_where_nights_are_pooled_each_class_of_an_identity_needs_20_rows(tmp_path):
    n_bounds = []
    for n_toxic in (19, 20):
        folder, found = tmp_path / str(n_toxic), None
        folder.mkdir()
        for number in range(1, 6):
            columns = columns_of(number)
            toxic = np.flatnonzero(columns["label"])
            columns["identity/gay"] = np.arange(400) >= 300
            n_tonight = n_toxic if number == 1 else 0
            columns["identity/gay"][toxic] = np.arange(toxic.size) < n_tonight
            found = pool(night(folder, number, columns), found, "it was new")
        n_bounds.append(found.losses("champion", 0.05).n_bounds)
    assert n_bounds == [2, 5]  # BPSN AUC and Negative AEG take harmless rows only


def test_rows_that_an_earlier_night_has_are_refused(tmp_path):
    earlier = pooled(tmp_path, 2)
    columns = columns_of(3)
    columns["id"][5], columns["id"][7] = "1-0", "2-9"
    text = (
        "2 of tonight's 400 were in the 2 nights before, first id 1-0 in night 1. Give every "
        "comment an id of its own"
    )
    with pytest.raises(InputError, match=text):
        pool(night(tmp_path, 3, columns), earlier, "")


def test_the_same_night_again_counts_once(tmp_path):
    earlier = pooled(tmp_path, 2)
    again = tmp_path / "again"
    again.mkdir()
    found = pool(night(again, 2), earlier, "it was new")
    assert judged_nights(found) == judged_nights(earlier)
    retried = pool(EvidenceFile(found.path), earlier, "it was new")
    assert judged_nights(retried) == judged_nights(earlier)
    assert retried.digest == found.digest


def test_the_first_night_again_is_the_first(tmp_path):
    earlier = pooled(tmp_path, 1)
    again = tmp_path / "again"
    again.mkdir()
    assert judged_nights(pool(night(again, 1), earlier, "it was new")) == judged_nights(earlier)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"scores": {"candidate": "x", "champion": "digest of champion"}}, "the candidate is"),
        ({"scores": {"candidate": "digest of candidate", "champion": "x"}}, "the champion is"),
        ({"choices": CHOICES | {"planned_rows": 5}}, "options of the set are others"),
        ({"choices": CHOICES | {"background": "no_identity"}}, "options of the set are others"),
        ({"choices": CHOICES | {"n_rows": 5}}, None),
        ({"power_mean_groups": None}, "options of the set are others"),
    ],
)
def test_what_begins_a_new_sequence_of_nights(tmp_path, change, reason):
    earlier = pooled(tmp_path, 1)
    found = new_because(night(tmp_path, 2, **change), earlier)
    assert (found is None) if reason is None else found.startswith(reason)


@pytest.mark.parametrize("had_champion", [True, False])
def test_a_candidate_that_became_champion_is_judged_by_all_its_nights(tmp_path, had_champion):
    columns, scores = columns_of(1), {"candidate": "itself", "champion": "another"}
    if not had_champion:
        del columns["score/champion"], scores["champion"]
    earlier = pool(night(tmp_path, 1, columns, scores=scores), None, "it was new")
    own = dict.fromkeys(("candidate", "champion"), "itself")
    columns = columns_of(2)
    columns["score/champion"] = columns["score/candidate"]
    tonight = night(tmp_path, 2, columns, scores=own)
    assert new_because(tonight, earlier) is None
    verdict = verdict_of(pool(tonight, earlier, "it was new"), 2)
    assert verdict.nights.number == 2
    assert [one.outcome for one in verdict.results] == ["pass", "pass"]
    assert {(one.low, one.high) for one in verdict.results} == {(0.0, 0.0)}


def test_other_columns_begin_a_new_sequence(tmp_path):
    earlier = pooled(tmp_path, 1)
    columns = columns_of(2) | {"identity/deaf": np.zeros(400, dtype=bool)}
    assert new_because(night(tmp_path, 2, columns), earlier) == "the set has other columns"


def test_evidence_of_one_set_is_never_pooled(tmp_path):
    reason = "earlier rows were not kept to be pooled"
    assert new_because(night(tmp_path, 2), night(tmp_path, 1)) == reason


def rewritten(evidence, change):
    """Evidence whose rows or record somebody changed."""
    table = pq.ParquetFile(evidence.path).read()
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    record = json.loads(table.schema.metadata[RECORD])
    change(columns, record)
    write_evidence(columns, record, evidence.path)
    return EvidenceFile(evidence.path)


def flip_label(columns, record):
    del record
    columns["label"] = columns["label"].copy()
    columns["label"][3] = ~columns["label"][3]


def move_to_other_night(columns, record):
    del record
    columns["night"] = columns["night"].copy()
    columns["night"][3] = 2


def add_unnamed_night(columns, record):
    del record
    for name, values in columns.items():
        columns[name] = np.append(values, values[:1])
    columns["id"][-1], columns["night"] = "new", columns["night"].copy()
    columns["night"][-1] = 3


def rename_last(columns, record):
    del columns
    record["nights"]["each"][-1]["set_digest"] = "another"


def name_no_night(columns, record):
    del columns
    record["nights"]["each"] = []


def repeat_row(columns, record):
    """The first night again as the second, with its digest."""
    for name, values in columns.items():
        columns[name] = np.concatenate([values[:400], values[:400]])
    columns["night"] = np.repeat(np.array([1, 2], dtype=np.int32), 400)
    first, second = record["nights"]["each"]
    second["rows_digest"] = first["rows_digest"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (flip_label, "the rows of night 1 must be those that the evidence names"),
        (move_to_other_night, "the rows of night 1 must be those"),
        (add_unnamed_night, "each row of the evidence must be of one night"),
        (repeat_row, "each row of the evidence must be of one night"),
        (rename_last, "the last of the nights in the evidence must be that of the evaluated set"),
        (name_no_night, "the last of the nights in the evidence must be that of the evaluated"),
    ],
)
def test_a_verdict_is_not_decided_from_rows_that_are_not_those_of_its_nights(
    tmp_path, change, text
):
    evidence = rewritten(pooled(tmp_path, 2), change)
    with pytest.raises(InputError, match=text):
        verdict_of(evidence, 2)


def test_a_row_repeated_by_its_frequency_is_one_row_of_its_night(tmp_path):
    columns = columns_of(1)
    twice = {name: np.concatenate([values, values[:9]]) for name, values in columns.items()}
    found = pool(night(tmp_path, 1, twice), None, "")
    assert judged_nights(found).n_rows == 409


def test_small_identities_are_judged_over_all_nights_too(tmp_path):
    policy = policy_of(
        {"metric": "bpsn_auc", "scope": "each", "margin": 0.2, "min_negatives": 300},
        roll_up={"any": ["gay"]},
    )
    verdict = verdict_of(pooled(tmp_path, 2), 2, policy)
    assert verdict.results[0].outcome == "insufficient"
    assert "over 2 nights" in verdict.results[0].sentence


@pytest.mark.parametrize(
    ("column", "value"), [("cluster", 99), ("weight", 0.5), ("id", 999), ("label", None)]
)
def test_the_digest_of_rows_covers_every_kind_of_column(tmp_path, column, value):
    columns = columns_of(1) | {
        "cluster": np.arange(400) // 4,
        "weight": np.ones(400),
        "id": np.arange(400),
    }
    [before] = pool(night(tmp_path, 1, columns), None, "").record.nights.each
    columns[column][0] = not columns[column][0] if value is None else value
    [after] = pool(night(tmp_path, 1, columns), None, "").record.nights.each
    assert before.rows_digest != after.rows_digest
    assert before.n_rows == after.n_rows == 400
