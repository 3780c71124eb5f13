"""The picture of harm has the report's numbers, the worst first, and the champion's."""

import numpy as np
import pytest
from support.judged import judge, rows

from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import list_error_rates
from biasgate.tasks.reporting.harm import build_harm_panels

NAMES = ["gay", "muslim", "deaf"]
RATES = ("false_positive_rate", "false_negative_rate")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    columns = rows(NAMES, empty=["deaf"], champion=True)
    return judge(tmp_path_factory.mktemp("harm"), columns), columns


def test_the_rates_are_the_reports_with_the_highest_first(judged):
    (report, verdict, details), _ = judged
    at = report.thresholds["given"]
    for panel, rate in zip(build_harm_panels(report, verdict, details), RATES, strict=True):
        values = {row.name: row.value for row in panel.rows}
        known = {
            name: list_error_rates(at.subgroups[name])[rate].value for name in ("gay", "muslim")
        }
        assert values == pytest.approx(known)
        assert list(values.values()) == sorted(values.values(), reverse=True)
        assert panel.overall == pytest.approx(list_error_rates(at.overall)[rate].value)
        for row in panel.rows:
            assert row.low <= row.value <= row.high
        assert panel.hint == "at threshold 0.9"


def test_the_champions_rates_are_counted_at_its_own_threshold(judged):
    (report, verdict, details), columns = judged
    harmless, toxic = ~columns["label"], columns["label"]
    flagged = columns["score/champion"] >= verdict.champion.threshold
    flagged_panel, missed_panel = build_harm_panels(report, verdict, details)
    for row in flagged_panel.rows:
        mentions = columns[f"identity/{row.name}"]
        assert row.n == np.count_nonzero(harmless & mentions)
        assert row.champion == pytest.approx(flagged[harmless & mentions].mean())
    for row in missed_panel.rows:
        mentions = columns[f"identity/{row.name}"]
        assert row.n == np.count_nonzero(toxic & mentions)
        assert row.champion == pytest.approx(1 - flagged[toxic & mentions].mean())


def test_the_champions_rates_are_those_of_the_comments_that_it_scored(tmp_path):
    columns = rows(NAMES, champion=True)
    lacks = columns["identity/deaf"] | (np.arange(900) % 7 == 0)
    columns["score/champion"][lacks] = np.nan
    found = judge(tmp_path, columns)
    flagged_panel, missed_panel = build_harm_panels(*found)
    for panel, own in ((flagged_panel, ~columns["label"]), (missed_panel, columns["label"])):
        champion = {row.name: row.champion for row in panel.rows}
        assert champion["deaf"] is None
        for name in ("gay", "muslim"):
            scored = columns[f"identity/{name}"] & own & ~lacks
            flagged = (columns["score/champion"][scored] >= 0.9).mean()
            expected = flagged if panel is flagged_panel else 1 - flagged
            assert champion[name] == pytest.approx(expected)


def test_changed_decisions_are_counts_of_the_verdict(judged):
    found, columns = judged
    [row] = [row for row in build_harm_panels(*found)[0].rows if row.name == "gay"]
    harmless = ~columns["label"] & columns["identity/gay"]
    candidate, champion = (
        columns[f"score/{one}"][harmless] >= 0.9 for one in ("candidate", "champion")
    )
    assert row.changed.count == np.count_nonzero(candidate & ~champion)
    assert row.changed.n == harmless.sum()


@pytest.mark.parametrize("champion", [True, False])
def test_without_a_threshold_it_shows_the_two_aucs(tmp_path, champion):
    columns = rows(NAMES[:2], champion=champion)
    report, verdict, details = judge(tmp_path, columns, threshold=None)
    panels = build_harm_panels(report, verdict, details)
    assert [panel.title for panel in panels] == ["BPSN AUC", "BNSP AUC"]
    for panel, metric in zip(panels, ("bpsn_auc", "bnsp_auc"), strict=True):
        assert {row.name: row.value for row in panel.rows} == {
            name: report.bias[metric, name].value for name in NAMES[:2]
        }
        assert panel.rows[0].value <= panel.rows[-1].value
        assert panel.has_champion == champion
        assert panel.overall == report.bias.overall.auc.value
    evidence = EvidenceFile(tmp_path / "evidence.parquet")
    assert (details.champion is not None) == ("champion" in evidence.roles)


def test_the_axis_of_rates_begins_at_0_and_spans_every_interval(judged):
    found, _ = judged
    for panel in build_harm_panels(*found):
        ends = [row.high for row in panel.rows] + [row.champion for row in panel.rows]
        assert panel.axis.low == 0
        assert panel.axis.high >= max(ends)
