"""Every source, every kind of candidate, and options in pairs, up to verified verdicts.

Each road is `biasgate evaluate` on files that a user could have, and `biasgate verify` of every
version that it judged. `support/options.py` says what meets: the first roads see every option.
One road for each family of sources is fast.
"""

import json
import math

import pandas as pd
import pytest
import yaml
from support.cells import as_evaluated, cell
from support.covering import all_levels, levels_of, pairs_of
from support.options import (
    ALL,
    ALL_PAIRS,
    EVERY_OPTION,
    EVERY_OPTION_FAMILIES,
    FAST,
    SOURCES,
    named,
)
from support.partial import partial
from support.records import KINDS as RECORDS
from support.records import check_records
from support.road_rows import expected_report, expected_rows
from support.roads import analyses_of, possible_outcomes, write_road
from support.scorers import score

from bias_metrics.gate import USEFULNESS_RULE
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.outcomes import get_outcome_words
from biasgate.tasks.records import Verdict
from biasgate.tasks.scoring.kinds import catalogue

SALTS = {"scores": "a", "python": "python", "http": "http"}


def read(path):
    return json.loads(path.read_text("utf-8"))


def test_the_first_roads_see_every_option():
    assert all_levels(EVERY_OPTION_FAMILIES) == set().union(*map(levels_of, EVERY_OPTION))


def test_on_all_roads_every_two_options_meet():
    assert set().union(*map(pairs_of, ALL)) >= ALL_PAIRS


def test_each_family_of_sources_meets_every_kind_of_candidate():
    for family in SOURCES:
        met = {road["kind"] for road in ALL if road["source"] in family["source"]}
        assert met == catalogue.KINDS.own.keys()


def roads():
    return [pytest.param(one, id=named(one), marks=marks(one)) for one in ALL]


def marks(road):
    first = [pytest.mark.every_option] if road in EVERY_OPTION else []
    return first if road in FAST else [*first, pytest.mark.slow]


@pytest.mark.evaluates
@pytest.mark.usefixtures("shared_model")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of transformers
@pytest.mark.parametrize("road", roads())
def test_a_road_ends_in_numbers_and_a_verdict_that_hold(
    road, biasgate, inputs, served, tmp_path, request
):
    if road["kind"] == "transformer":
        request.getfixturevalue("encoder")
    if road["source"] == "table_repository":
        pytest.importorskip("datasets", reason="needs the extra `huggingface`")
    rows = expected_rows(road, inputs.rows)
    folder = tmp_path / f"road_{ALL.index(road):02d}"
    folder.mkdir()
    config = write_road(road, folder, rows, inputs, served)
    done = biasgate("evaluate", config, "--output", folder / "out", "--submission")
    assert done.exit_code in {0, 3, 4}, done.output + done.stderr
    summary = read(folder / "out" / "summary.json")
    assert done.exit_code == get_outcome_words(partial(summary)).exit_code
    verdict = summary["verdicts"][0]
    of_candidate = folder / "out" / "comments" / road["kind"]
    assert read(of_candidate / "verdict.json")["outcome"] == verdict["outcome"]
    auc = cell(read(of_candidate / "report.json")["bias"], "auc")
    useless = {"insufficient"} if auc["low"] is None or auc["low"] <= 0.5 else set()
    assert verdict["outcome"] in possible_outcomes(road) | useless, verdict["results"]
    if road["strictness"] == "lenient":
        results = Verdict.from_dict(read(of_candidate / "verdict.json")).results
        ruled = (one for one in results if one.rule != USEFULNESS_RULE)
        undecided = [one for one in ruled if one.outcome not in {"pass", "skipped"}]
        lacking = list(map(describe_check, undecided))
        assert all("clusters where 20 are needed" in one for one in lacking), lacking
    scores = submission(of_candidate)
    assert set(scores) == {row["id"] for row in rows}
    if road["kind"] in SALTS:
        assert scores == {row["id"]: score(row["text"], SALTS[road["kind"]]) for row in rows}
    report = read(of_candidate / "report.json")
    assert report["evaluation_set"]["choices"]["n_rows"] == len(rows)
    assert list(report.get("analyses", {})) == analyses_of(road)
    found, expected = map(flat, (as_evaluated(report["bias"]), expected_report(road, rows, scores)))
    assert found.keys() == expected.keys()
    assert [path for path in found if not same(found[path], expected[path])] == []
    assert set(check_records(folder / "out")) == set(RECORDS)
    verified(biasgate, verdict, yaml.safe_load(config.read_text("utf-8")), road)


def flat(value, path=""):
    """The leaves of nested values by their paths."""
    if isinstance(value, dict):
        return {k: v for key in value for k, v in flat(value[key], f"{path}/{key}").items()}
    if isinstance(value, list):
        return {k: v for at, one in enumerate(value) for k, v in flat(one, f"{path}/{at}").items()}
    return {path: value}


def same(found, expected):
    """Whether two leaves are equal, numbers but for rounding."""
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=0, abs_tol=1e-12)
    return found == expected


def submission(folder):
    frame = pd.read_csv(folder / "submission.csv", dtype=str)  # pandas 3.0 rounds numbers
    return dict(zip(frame["id"], frame["prediction"].astype(float), strict=True))


def verified(biasgate, verdict, config, road):
    """`verify` finds everything in order, but for a verdict that is no pass.

    A version keeps its earlier verdict where the evaluation decides nothing about it.
    """
    if "model" not in verdict["candidate"]:
        return
    name, version = verdict["candidate"]["model"].removeprefix("models:/").split("/")
    if name != config.get("registered_model") or road["report_only"] == "yes":
        return
    done = biasgate("verify", name, version, "--json")
    wrong = [one["sentence"] for one in json.loads(done.stdout) if not one["holds"]]
    if verdict["outcome"] == "pass":
        assert (wrong, done.exit_code) == ([], 0)
    else:
        assert len(wrong) == 1, wrong
        assert " on comments by policy " in wrong[0]
        assert " is not a pass" in wrong[0]
        assert done.exit_code == 3
