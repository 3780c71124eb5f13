"""Pages: what is in them and in which order, that their numbers are the report's."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from support.html_page import grid_of, read_page
from support.judged import RULES, by_place, judge, rows, summary_of
from support.made import number

from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.report.report import Assistance
from biasgate.tasks.records import AnalysisRecord, JudgedNights
from biasgate.tasks.reporting import tables
from biasgate.tasks.reporting.page import parts
from biasgate.tasks.reporting.page.page import candidate_page, evaluation_page
from biasgate.tasks.reporting.page.rendering import render
from biasgate.tasks.reporting.story import Story

NAMES = ["gay", "muslim", "deaf"]
SECTIONS = [
    "verdict",
    "worst",
    "metrics",
    "champion",
    "scores",
    "thresholds",
    "diagnosis",
    "data",
    "reproduce",
]
# Of a page on 24 identities and five candidates. With a champion it has about a third of this.
LARGEST = 3_000_000


def page_of(judged):
    return read_page(render(candidate_page(*judged)))


def page_of_all(judged):
    return read_page(render(evaluation_page(summary_of(judged), by_place(judged))))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A candidate that is worse than the champion for one identity; nothing mentions another."""
    columns = rows(NAMES, empty=["deaf"], champion=True)
    return judge(tmp_path_factory.mktemp("judged"), columns)


@pytest.fixture(scope="module")
def page(judged):
    return page_of(judged)


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """Five candidates and 24 identities, eight of which are never mentioned."""
    folder = tmp_path_factory.mktemp("five")
    names = [f"identity_{number}" for number in range(24)]
    candidates = [("first", 1.0, 0.8), ("second", 1.4, 0.0), ("third", 0.8, 0.3)]
    candidates += [("fourth", 1.1, 0.5), ("fifth", 0.6, 0.0)]
    return [
        judge(
            folder / name,
            rows(names, empty=names[16:], quality=quality, shift=shift, seed=seed),
            name=name,
            rules=({"metric": "bpsn_auc", "scope": "each", "floor": 0.8},),
        )
        for seed, (name, quality, shift) in enumerate(candidates)
    ]


def shown(cell, *, signed):
    """A number and its interval as text."""
    form = "{:+.3f}" if signed else "{:.3f}"
    texts = [form.format(getattr(cell, key)) for key in ("value", "low", "high")]
    return "{} [{}, {}]".format(*texts).replace("-", "\N{MINUS SIGN}")


@pytest.mark.parametrize("of", ["candidate", "evaluation"])
def test_sections_come_in_the_order_of_the_questions(judged, of):
    found = page_of(judged) if of == "candidate" else page_of_all([judged])
    assert [one.attributes["id"] for one in found.find("section")] == SECTIONS
    links = [one.attributes["href"] for one in found.one("nav").find("a")]
    assert links == [f"#{name}" for name in SECTIONS]


def test_every_number_of_the_grid_is_the_reports(judged, page):
    grid = grid_of(page.one("section", id="metrics").one("table", class_="grid"))
    subgroups = judged[0].bias.subgroups
    assert set(grid) == set(subgroups)
    for name in ("gay", "muslim"):
        for metric, cell in zip(SUBGROUP_METRICS, grid[name].values(), strict=True):
            known = getattr(subgroups[name], metric)
            assert re.sub("^[✕?!○~] ", "", cell.text) == shown(known, signed=METRICS[metric].is_gap)


def test_every_difference_from_the_champion_is_the_librarys(judged, page):
    grid = grid_of(page.one("section", id="champion").one("table", class_="grid"))
    for name in ("gay", "muslim"):
        for metric, cell in zip(SUBGROUP_METRICS, grid[name].values(), strict=True):
            known = judged[2].champion["subgroups"][name][metric]
            difference = number(*(known[key] for key in ("value", "low", "high")))
            assert re.sub("^([✕?●] )*", "", cell.text) == shown(difference, signed=True)
            is_shown = known["p_holm"] <= 0.05 and not known["low"] <= 0 <= known["high"]
            assert ("●" in cell.text) == is_shown
    assert "●" in grid["gay"]["BPSN AUC"].text


def test_a_difference_that_holms_adjustment_does_not_show_has_no_dot(judged):
    report, verdict, details = judged
    cells = details.champion["subgroups"]["gay"]
    doubtful = {**cells, "bpsn_auc": {**cells["bpsn_auc"], "p_holm": 0.06}}
    subgroups = {**details.champion["subgroups"], "gay": doubtful}
    champion = {**details.champion, "subgroups": subgroups}
    found = page_of((report, verdict, replace(details, champion=champion)))
    grid = grid_of(found.one("section", id="champion").one("table", class_="grid"))
    assert "●" not in grid["gay"]["BPSN AUC"].text


def test_a_number_that_is_worse_through_comments_of_another_says_so(judged):
    report, verdict, details = judged
    first = replace(verdict.worsened[0], group="gay", without=())
    worsened = [first, replace(first, group="muslim", without=("gay",))]
    found = page_of((report, replace(verdict, worsened=worsened), details))
    section = found.one("section", id="champion")
    shared = "not without comments that mention gay"
    assert f"Also muslim, but {shared}." in section.text
    [table, _] = section.find("table")
    assert [(row[0], row[-1]) for row in table.rows()] == [("gay", "its own"), ("muslim", shared)]


def test_what_got_worse_is_listed_with_its_bound(judged, page):
    [table, _] = page.one("section", id="champion").find("table")
    worsened = judged[1].worsened
    assert worsened
    assert [row[-3:-1] for row in table.rows()] == [
        [f"{one.worse_by:.3f}", f"{one.worse_by_at_least:.3f}"]
        for one in sorted(worsened, key=lambda one: -one.worse_by_at_least)
    ]


def test_the_largest_shown_loss_leads_both_tables_beside_the_champion(judged):
    report, verdict, details = judged
    names = list(reversed(report.bias.subgroups))
    losses = {name: 0.1 + at / 10 for at, name in enumerate(reversed(names))}
    worsened = [
        replace(
            verdict.worsened[0],
            group=name,
            worse_by=0.9 - losses[name],
            worse_by_at_least=losses[name],
        )
        for name in names
    ]
    page = page_of((report, replace(verdict, worsened=worsened), details))
    [table, grid] = page.one("section", id="champion").find("table")
    assert [row[0] for row in table.rows()] == names
    assert list(grid_of(grid)) == names


def test_the_verdict_says_how_many_checks_did_not_pass_and_quotes_the_worst(judged, page):
    results = [one for one in judged[1].results if one.outcome != "skipped"]
    unmet = [one for one in results if one.outcome != "pass"]
    failed = [one for one in unmet if one.outcome == "fail"]
    text = page.one("ul", class_="verdicts").text
    assert f"{len(results)} checks: {len(failed)} failed, " in text
    for one in failed:
        assert one.sentence in text
    told = [row[1] for row in page.one("table", class_="checks").rows()]
    assert sorted(told) == sorted(one.sentence for one in unmet)


def test_more_than_five_checks_that_did_not_pass_are_counted(five):
    results = five[4][1].results
    unmet = [one.sentence for one in results if one.outcome not in {"pass", "skipped"}]
    text = page_of(five[4]).one("ul", class_="verdicts").text
    assert sum(one in text for one in unmet) == 5
    assert f"And {len(unmet) - 5} more, listed below." in text


def test_who_is_treated_worst_starts_with_the_check_that_failed(judged, page):
    worst = Story.of(judged[0], judged[1]).worst
    assert worst.startswith("Worst: ")
    assert page.one("section", id="worst").one("p", class_="first").text.startswith(worst)


def test_the_worst_identity_is_named_with_its_number_and_what_it_means(judged, page):
    section = page.one("section", id="worst")
    assert judged[0].look_first.sentence in section.text
    rows_ = {row[0]: row[1:] for row in section.one("table").rows()}
    worst = judged[0].bias.worst["bpsn_auc"]
    known = judged[0].bias.subgroups[worst.subgroup].bpsn_auc
    assert rows_["BPSN AUC"][:2] == [worst.subgroup, shown(known, signed=False)]
    assert "score like toxic ones" in rows_["BPSN AUC"][2]


def test_errors_at_the_given_threshold_are_the_reports(judged, page):
    table = page.one("div", class_="explorer").one("table")
    at = judged[0].thresholds["given"]
    for row in table.rows():
        name, flagged, gap = row[:3]
        rate = at.subgroups[name].false_positive_rate.value
        if rate is None:
            assert (flagged, gap) == ("\N{EN DASH}", "no evidence")
            continue
        cell = at.gaps[name]["fpr_gap"]
        ends = [f"{100 * getattr(cell, key):+.1f}" for key in ("value", "low", "high")]
        n = judged[0].bias.subgroups[name].n_negative
        known = binomtest(round(rate * n), n).proportion_ci(0.95, "wilson")
        assert flagged == f"{rate:.1%} [{known.low:.1%}, {known.high:.1%}]"
        assert gap == "{} [{}, {}]".format(*ends).replace("-", "\N{MINUS SIGN}")
    overall = at.overall
    for kind in ("false_positive_rate", "false_negative_rate"):
        assert f"{getattr(overall, kind).value:.1%}" in page.one("p", class_="at").text


def test_counts_of_comments_are_the_reports(judged, page):
    bias = judged[0].bias
    first, *others = page.one("section", id="data").one("table").rows()
    n, n_toxic = bias.overall.n, bias.overall.n_positive
    assert first == ["all comments", str(n), str(n_toxic), str(n - n_toxic)]
    assert {name: numbers for name, *numbers in others} == {
        name: [str(getattr(one, key)) for key in ("n", "n_positive", "n_negative")]
        for name, one in bias.subgroups.items()
    }


def test_an_identity_without_comments_is_one_grey_cell_with_the_reason(page):
    [cell] = grid_of(page.one("section", id="metrics").one("table"))["deaf"].values()
    assert cell.classes == ["none"]
    assert cell.attributes["colspan"] == "5"
    assert cell.text.startswith("no evidence no subgroup negatives and no subgroup positives")
    panels = {one.one("bdi").text: one for one in page.one("ul", class_="panels").find("li")}
    assert "no evidence" in panels["deaf"].text
    assert not list(panels["deaf"].find("svg"))


def test_the_threshold_is_drawn_where_its_score_is(judged, page):
    [line] = page.one("ul", class_="panels").one("svg").find("path", class_="limit")
    edges = np.array(judged[2].scores.edges)
    place = float(re.match(r"M([\d.]+) 0V60", line.attributes["d"])[1])
    below = int(place // 5)  # 40 bins of width 5
    assert edges[below] <= 0.9 <= edges[below + 1]


def test_limits_of_the_policy_are_drawn_on_the_axis_of_the_column(page):
    table = page.one("section", id="metrics").one("table")
    muslim = grid_of(table)["muslim"]
    ends = [one.text for one in table.one("thead").find("small", class_="ends")]
    low = float(ends[1].removesuffix(" to 1"))
    [limit] = muslim["BPSN AUC"].find("path", class_="limit")
    assert limit.attributes["d"] == f"M{100 * (0.8 - low) / (1 - low):.4g} 0V10"
    assert len(list(muslim["Negative AEG"].find("path", class_="limit"))) == 2
    assert not list(muslim["Subgroup AUC"].find("path", class_="limit"))


def test_a_failed_check_is_marked_by_sign_words_and_shape(page):
    cell = grid_of(page.one("section", id="metrics").one("table"))["gay"]["BPSN AUC"]
    assert cell.classes == ["fail"]
    assert cell.text.startswith("✕")
    assert cell.one("span", class_="sr").content == ["fails a check: "]
    assert "l4 4l-4 4" in cell.one("path", class_="dot").attributes["d"]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"rules": (RULES[0], {**RULES[1], "action": "warn"})}, "warn"),
        ({"rules": ({**RULES[1], "min_positives": 800},)}, "insufficient"),
    ],
)
def test_the_mark_of_a_number_is_what_its_check_came_to(tmp_path, options, status):
    found = page_of(judge(tmp_path, rows(NAMES), **options))
    cell = grid_of(found.one("section", id="metrics").one("table"))["gay"]["BPSN AUC"]
    assert cell.classes == [status]


def test_a_policy_that_only_reports_says_so(tmp_path):
    found = page_of(judge(tmp_path, rows(NAMES), report_only=True))
    assert found.one("span", class_="badge").text == "i Reported only"


def test_without_a_champion_the_page_says_so(tmp_path):
    found = page_of(judge(tmp_path, rows(NAMES)))
    assert "There was no champion to compare with." in found.one("section", id="champion").text


def test_rows_with_weights_have_no_errors_at_thresholds(tmp_path):
    columns = rows(NAMES) | {"weight": np.linspace(0.5, 2, 900)}
    section = page_of(judge(tmp_path, columns)).one("section", id="thresholds")
    assert "not counted for rows with sampling weights" in section.text
    assert not list(section.find("table"))


def test_analyses_are_told_in_their_own_words(judged):
    report, verdict, details = judged
    told = {
        "intersections": AnalysisRecord(options={}, sentences=["Gay and deaf: few."], result={})
    }
    found = page_of((replace(report, analyses=told), verdict, details))
    assert "Analysis: intersections Gay and deaf: few." in found.one("section", id="diagnosis").text


def test_of_very_many_identities_the_worst_are_shown_and_the_page_says_so(judged, monkeypatch):
    monkeypatch.setattr(parts, "_CHECKS", 2)
    monkeypatch.setattr(tables, "ROWS", 2)
    found = page_of(judged)
    assert len(found.one("table", class_="checks").rows()) == 2
    assert "first 2; all are in verdict.json" in found.one("section", id="verdict").text
    section = found.one("section", id="metrics")
    assert list(grid_of(section.one("table"))) == ["gay", "muslim"]
    assert "These are the worst 2 of 3 identities" in section.text


def test_a_page_of_24_identities_and_five_candidates_is_small(five):
    html = render(evaluation_page(summary_of(five), by_place(five)))
    assert len(html) < LARGEST / 2  # there is no champion here


def test_candidates_stand_side_by_side_by_metric_and_identity(five):
    found = page_of_all(five)
    first, *_ = found.one("section", id="metrics").find("table")
    grid = grid_of(first)
    assert len(grid) == 24
    for judged_ in five:
        report = judged_[0]
        for name in ("identity_0", "identity_9"):
            cell = grid[name][report.candidate.name]
            known = report.bias.subgroups[name].subgroup_auc
            assert cell.text == shown(known, signed=False)
    [lack] = grid["identity_20"].values()
    assert lack.attributes["colspan"] == "5"


def test_every_candidate_has_a_line_with_its_verdict_and_what_became_of_it(five):
    lines = list(page_of_all(five).one("ul", class_="verdicts").find("li"))
    assert [one.one("bdi").text for one in lines] == [one[0].candidate.name for one in five]
    words = {"pass": "✓ Passed", "fail": "✕ Blocked", "insufficient": "? Not enough evidence"}
    for line, (_, verdict, _) in zip(lines, five, strict=True):
        assert line.one("span", class_="badge").text == words[verdict.outcome]
        assert "Not a registered version: nothing to promote." in line.text


def test_sets_have_their_own_tables(tmp_path):
    both = [judge(tmp_path / one, rows(NAMES), of_set=one) for one in ("phrases", "comments")]
    section = page_of_all(both).one("section", id="data")
    assert [one.text for one in section.find("h3")] == ["phrases", "comments"]
    assert len(list(section.find("table"))) == 2


def test_without_javascript_the_table_is_there_and_the_slider_is_not(page):
    explorer = page.one("div", class_="explorer")
    assert "hidden" in explorer.one("div", class_="controls").attributes
    assert explorer.one("table").rows()


def test_everything_that_scrolls_takes_the_focus_and_has_a_name(page):
    scrolling = list(page.find("div", class_="scroll"))
    assert scrolling
    for one in scrolling:
        assert one.attributes["tabindex"] == "0"
        assert one.attributes["aria-label"]


def test_every_table_has_headings_for_its_rows_and_columns(page):
    for table in page.find("table"):
        assert all(one.attributes["scope"] for one in table.find("th"))


def test_the_digests_of_a_verdict_are_there_to_reproduce_it(judged, page):
    text = page.one("section", id="reproduce").text
    for key in ("report_digest", "evidence_digest"):
        assert getattr(judged[1], key) in text
    assert judged[1].policy.digest in text
    assert judged[1].code.version in text


def test_a_verdict_on_the_comments_of_several_nights_says_so(judged):
    report, verdict, details = judged
    nights = JudgedNights(number=3, n_rows=2700, planned_rows=5000, bound="b", began="", each=[])
    found = page_of((report, replace(verdict, nights=nights), details))
    assert "judged by the 2,700 rows of all nights" in found.one("section", id="verdict").text


def test_what_terms_add_is_told_by_identity_and_metric(judged):
    report, verdict, details = judged
    subgroups = dict(report.bias.subgroups)
    helped = {one: Assistance(weight=1.0, gain=2.345) for one in SUBGROUP_METRICS}
    subgroups["gay"] = replace(subgroups["gay"], assisted=helped)
    agreement = {"gay": {"recall": {"value": 0.851}, "precision": {"value": None}}}
    report = replace(
        report,
        bias=replace(report.bias, subgroups=subgroups),
        label_agreement={"n": 300, "identities": agreement},
    )
    page = read_page(render(candidate_page(report, verdict, details)))
    table = page.one("section", id="diagnosis").one("table")
    assert table.one("caption").text.startswith("What terms add to human labels")
    assert table.rows() == [["gay", *["2.3"] * 5, "85.1%", "\N{EN DASH}"]]


def test_a_set_without_terms_has_no_table_of_gains(page):
    assert "What terms add" not in page.text
