"""Intervals have their nominal coverage, and floors at the truth rarely pass.

The cases are a part of those in docs/evidence/intervals.md, with fewer samples.
"""

import numpy as np
import pytest

pytest.importorskip("sklearn")
campaign = pytest.importorskip("benchmarks.coverage.campaign")
cells = pytest.importorskip("benchmarks.coverage.cells")
clustered = pytest.importorskip("benchmarks.coverage.clustered")
rare = pytest.importorskip("benchmarks.coverage.rare")

# Some cases miss a limit by three Monte Carlo errors by chance.
ALLOWED = 4.0
MORE = 10
DRAWS = {"cells": 1_000, "spreads": 1_000}
OF_SECTION = 6
# No interval can know of heavy rows that the sample has none of.
UNKNOWABLE = "1 of 50 low scores"
# Ceilings for error rates pass too often where clusters are very unequal: see the page.
MISS = {"rates": lambda case: case.unequal}


def select_cases(section):
    """Select a few of a section's cases, from first to last; the campaign draws all cases."""
    misses = MISS.get(section.name, lambda case: getattr(case, "design", None) == UNKNOWABLE)
    cases = [case for case in section.cases if not misses(case)]
    return [cases[round(at)] for at in np.linspace(0, len(cases) - 1, min(OF_SECTION, len(cases)))]


CASES = [
    pytest.param(case, DRAWS.get(section.name, 100), id=f"{section.name}-{case}")
    for section in campaign.SECTIONS
    if section.name not in {"power", "large", "rare", "wide"}
    for case in select_cases(section)
]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "draws"), CASES)
def test_intervals_hold(case, draws):
    faults = _find_faults(case.measure_coverage(draws))
    if faults:  # by chance, or because intervals are too short: more samples tell
        faults = _find_faults(case.measure_coverage(MORE * draws))
    assert faults == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [rare.Rare(100, largest=0.33), rare.Rare(50, one_in=8), rare.Rare(50, one_in=20)],
    ids=str,
)
def test_where_few_decide_nearly_every_sample_is_warned_of(case):
    every, unwarned = case.measure_coverage(100).values()
    assert every.missing == 0
    assert unwarned.missing >= 0.9


@pytest.mark.slow
def test_where_threads_are_alike_no_sample_is_warned_of():
    every, unwarned = rare.Rare(100).measure_coverage(50).values()
    assert every == unwarned


def _find_faults(results):
    faults = {name: list(result.find_faults(0, ALLOWED)) for name, result in results.items()}
    return {name: texts for name, texts in faults.items() if texts}


@pytest.mark.evaluates
def test_a_floor_at_the_truth_rarely_passes_where_few_positives_are_widely_spread():
    found = cells.Cell(0.95, 25, 1_000, spread=5.0).measure_coverage(200)["auc"]
    assert found.passed <= 0.12
    assert found.covered >= 0.9


def test_intervals_are_not_too_wide_where_positives_rank_almost_alike():
    found = cells.Cell(0.6, 25, 1_000, spread=0.2).measure_coverage(100)["auc"]
    assert found.ratio <= 1.3
    assert found.covered >= 0.88


@pytest.mark.evaluates
def test_positives_in_few_clusters_are_no_evidence():
    case = clustered.Clustered(200, 0.9, unequal=False, few=10)
    assert {number.missing for number in case.measure_coverage(20).values()} == {1.0}


def test_a_campaign_resumes_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "coverage.json")
    both = [cells.Cell(0.7, 20, 30), cells.Cell(0.8, 20, 30)]
    first = campaign.Section("cells", "", cells.HEAD, both[:1], draws=10)
    known = campaign.draw_cases([first], workers=1)
    stored = (tmp_path / "coverage.json").read_text()
    (tmp_path / "coverage.json").write_text(stored.replace('"draws": 10', '"draws": 11'))
    again = campaign.draw_cases(
        [campaign.Section("cells", "", cells.HEAD, both, draws=10)], workers=1
    )
    assert len(known) == 1
    assert [number["auc"].draws for number in again.values()] == [11, 10]
