"""Pages: what is in them and in which order, that their numbers are the report's."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from support.cells import with_number
from support.html_page import grid_of, read_page
from support.judged import RULES, by_place, judge, rows, summary_of

from bias_metrics import MetricValue
from bias_metrics.families import widen_selected
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.table import key_numbers
from biasgate.tasks.analysing.analysis import build_record
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.records import AnalysisRecord
from biasgate.tasks.reporting import tables
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.page import page as page_module
from biasgate.tasks.reporting.page.page import build_candidate_page, build_evaluation_page
from biasgate.tasks.reporting.page.writing import render_page
from biasgate.tasks.reporting.story import Story

NAMES = ["gay", "muslim", "deaf"]
SECTIONS = [
    "verdict",
    "harm",
    "metrics",
    "checks",
    "scores",
    "thresholds",
    "findings",
    "data",
    "reproduce",
]
# Of a page on 24 identities, five candidates and two sets.
LARGEST = 330_000


def render_candidate(judged):
    return read_page(render_page(build_candidate_page(*judged)))


def render_evaluation(judged):
    return read_page(render_page(build_evaluation_page(summary_of(judged), by_place(judged))))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A candidate that is worse than the champion for gay; no comment mentions deaf."""
    columns = rows(NAMES, empty=["deaf"], champion=True)
    return judge(tmp_path_factory.mktemp("judged"), columns)


@pytest.fixture(scope="module")
def page(judged):
    return render_candidate(judged)


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


def format_cell(cell, *, signed):
    """A number and its interval as text."""
    form = "{:+.3f}" if signed else "{:.3f}"
    texts = [form.format(getattr(cell, key)) for key in ("value", "low", "high")]
    return "{} [{}, {}]".format(*texts).replace("-", "\N{MINUS SIGN}")


@pytest.mark.parametrize("of", ["candidate", "evaluation"])
def test_sections_come_in_the_order_of_the_questions(judged, of):
    found = render_candidate(judged) if of == "candidate" else render_evaluation([judged])
    assert [one.attributes["id"] for one in found.find("section")] == SECTIONS


def test_every_number_of_the_grid_is_the_reports(judged, page):
    grid = grid_of(page.one("section", id="metrics").one("table", class_="grid"))
    subgroups = judged[0].bias.subgroups
    assert set(grid) == set(subgroups)
    for name in ("gay", "muslim"):
        for metric in SUBGROUP_METRICS:
            cell, known = grid[name][METRICS[metric].title], subgroups[name][metric]
            assert remove_marks(cell) == format_cell(known, signed=METRICS[metric].is_gap)


@pytest.mark.parametrize(
    ("rule", "titles"),
    [
        (RULES[1], ["BPSN AUC", "Subgroup AUC", "BNSP AUC", "Positive AEG", "Negative AEG"]),
        (RULES[2], ["Negative AEG", "Positive AEG", "Subgroup AUC", "BPSN AUC", "BNSP AUC"]),
    ],
)
def test_the_metric_that_decides_is_the_first_column(tmp_path, rule, titles):
    table = render_candidate(judge(tmp_path, rows(NAMES), rules=(RULES[0], rule))).one(
        "table", class_="grid"
    )
    assert list(grid_of(table)["gay"]) == titles
    assert ("gaps" in table.classes) == (titles[0] == "Negative AEG")  # where 0 is in the middle


def test_each_number_stands_beside_the_champions(judged, page):
    grid = grid_of(page.one("section", id="metrics").one("table", class_="grid"))
    low = read_axis(page)["BPSN AUC"]
    for name in ("gay", "muslim"):
        for metric in SUBGROUP_METRICS:
            cell, known = (
                grid[name][METRICS[metric].title],
                judged[2].champion.subgroups[name][metric].second,
            )
            form = "+.3f" if METRICS[metric].is_gap else ".3f"
            assert cell.attributes["data-r"] == f"{known:{form}}".replace("-", "\N{MINUS SIGN}")
        known = judged[2].champion.subgroups[name]["bpsn_auc"].second
        place = float(grid[name]["BPSN AUC"].one("circle", class_="c").attributes["cx"])
        assert place == pytest.approx(100 * (known - low) / (1 - low), abs=0.1)


def add_gain(details, *, p_holm):
    """Make the BPSN AUC of muslim higher than the champion's."""
    ends = {"first": 0.9, "second": 0.5, "value": 0.4, "low": 0.3, "high": 0.5}
    cell = replace(details.champion["bpsn_auc", "muslim"], **ends, p_holm=p_holm)
    champion = with_number(details.champion, cell, "bpsn_auc", "muslim")
    return replace(details, champion=champion)


def test_what_is_shown_to_be_worse_or_better_than_the_champions_is_marked(judged):
    report, verdict, details = judged
    losses = [one for one in verdict.worsened if not one.without]
    assert losses
    shared = replace(losses[0], group="muslim", without=("gay",))
    details = add_gain(details, p_holm=0.01)
    found = render_candidate((report, replace(verdict, worsened=losses), details))
    grid = grid_of(found.one("section", id="metrics").one("table", class_="grid"))
    assert "worse" in find_row(found, "gay").classes
    assert "worse" not in find_row(found, "muslim").classes
    for one in (one for one in losses if one.metric in SUBGROUP_METRICS):
        cell = grid[one.group][METRICS[one.metric].title]
        assert "worse" in cell.classes
        assert cell.one("em").text.startswith("▼ from ")
    assert "better" in grid["muslim"]["BPSN AUC"].classes
    facts = read_facts(found.one("details", class_="story"))
    assert facts["Better than the champion"] == "muslim BPSN AUC 0.500 → 0.900"
    first = losses[0]
    assert facts["Worse than the champion"].startswith(f"{first.group} ")
    bound = f", worse by at least {first.worse_by_at_least:.3f}"
    assert bound in facts["Worse than the champion"]
    both = render_candidate((report, replace(verdict, worsened=[*losses, shared]), details))
    assert "Better than the champion" not in read_facts(both.one("details", class_="story"))


def test_a_gain_that_holms_adjustment_does_not_show_is_not_told(judged):
    report, verdict, details = judged
    verdict = replace(verdict, worsened=[])
    found = render_candidate((report, verdict, add_gain(details, p_holm=0.06)))
    assert "Better than the champion" not in read_facts(found.one("details", class_="story"))


def test_a_number_that_is_worse_through_comments_of_another_says_so(judged):
    report, verdict, details = judged
    first = replace(verdict.worsened[0], group="gay", without=())
    worsened = [first, replace(first, group="muslim", without=("gay",))]
    found = render_candidate((report, replace(verdict, worsened=worsened), details))
    shared = "not without comments that mention gay"
    assert f"Also muslim, but {shared}." in found.one("section", id="checks").text
    assert (
        "muslim" not in read_facts(found.one("details", class_="story"))["Worse than the champion"]
    )


def test_each_check_that_did_not_pass_is_told_once(judged, page):
    results = [one for one in judged[1].results if one.outcome != "skipped"]
    unmet = [one for one in results if one.outcome != "pass"]
    told = [row[1] for row in page.one("table", class_="checks").rows()]
    assert sorted(told) == sorted(map(describe_check, unmet))
    for text in told:
        assert page.text.count(text) == told.count(text)
    assert f"{len(results)} checks: " in page.one("section", id="checks").text


def test_the_first_screen_says_who_is_treated_worst_for_whom_it_fails_and_holds(judged, page):
    facts = read_facts(page.one("details", class_="story"))
    story = Story.from_report(*judged[:2])
    focus = story.worst
    cell = judged[0].bias[focus.metric, focus.group]
    n_aucs_gaps_and_error_gaps = 5 + 2
    cell = widen_selected(cell, n_aucs_gaps_and_error_gaps * len(judged[0].bias.subgroups))
    value = format_cell(cell, signed=METRICS[focus.metric].is_gap)
    assert facts["Worst identity"].startswith(
        f"{focus.group}: {METRICS[focus.metric].title} {value}"
    )
    assert facts["Identities"] == "0 of 3 passed, 2 failed (gay, muslim), 1 undecided (deaf)"
    cure = "; or list identities that the set cannot measure ( not_measured )"
    assert facts["To pass"].endswith(cure)
    assert facts["Next"] == "biasgate show . --identity gay"
    assert story.headline in page.one("details", class_="story").one("summary").text


def test_whom_a_rule_can_judge_is_not_advised_to_be_named_as_not_measured(judged):
    report, verdict, _ = judged
    few = next(one for one in verdict.results if one.outcome == "insufficient")
    for one, advised in ((few, True), (replace(few, reason="undefined", rows_needed={}), False)):
        changed = replace(verdict, results=[replace(one, visible=None, n_negative=3)])
        line = CandidateStory.from_story(
            Story.from_report(report, replace(changed, outcome="insufficient"))
        )
        assert any("not_measured" in text for _, text in line.facts) == advised


def test_the_first_screen_says_who_is_flagged_how_many_times_as_often(judged, page):
    at = judged[0].thresholds["given"]
    own = 100 * at.subgroups["gay"].false_positive_rate.value
    gaps = judged[0].bias.select_threshold("given")
    gap = widen_selected(gaps["gay"]["fpr_gap"], 2 * len(gaps))
    low, high = 100 * gap.low, 100 * gap.high
    text = read_facts(page.one("details", class_="story"))["At threshold 0.9"]
    overall, harm = text.split(". ")
    flagged, missed = at.overall.false_positive_rate.value, at.overall.false_negative_rate.value
    closest = judged[0].thresholds["equal_errors"]
    assert overall.startswith(f"{flagged:.1%} of harmless comments are flagged, {missed:.1%} of")
    assert f"; the two rates are about equal at threshold {closest.threshold:.3g} (" in overall
    assert harm == (
        f'{own:.1f}% of harmless comments that mention "gay" are flagged (gap to others '
        f"[{low:+.1f}, {high:+.1f}] points)"
    )
    assert "no error rates" not in page.one("header").text


def add_gaps(report, gaps):
    """Return a report that has only these gaps at the given threshold, by group and metric."""
    others = {key: one for key, one in report.bias.items() if key.threshold != "given"}
    table = replace(report.bias, numbers={**others, **key_numbers(gaps, "given")})
    return replace(report, bias=table)


def test_both_kinds_of_errors_are_told_with_all_of_whom_they_are_shown(judged):
    report, verdict, _ = judged
    at = report.thresholds["given"]
    far, near = MetricValue(0.2, low=0.1, high=0.3), MetricValue(0.2, low=0.05, high=0.3)
    gaps = {
        "gay": {"fpr_gap": near, "fnr_gap": far},
        "muslim": {"fpr_gap": far, "fnr_gap": MetricValue(0.2, low=-0.1, high=0.5)},
    }
    overall = replace(at.overall, false_negative_rate=MetricValue(0.3))
    at = replace(at, overall=overall)
    found = Story.from_report(add_gaps(replace(report, thresholds={"given": at}), gaps), verdict)
    overall, flagged, missed = found.errors.text.split(". ")
    assert overall.endswith(", 30.0% of toxic comments missed")
    assert ' of harmless comments that mention "muslim" are flagged (gap' in flagged
    low, high = (20 + sign * 10 * 2.497705 / 1.959964 for sign in (-1, 1))  # of four gaps
    apart = f"(gap to others [{low:+.1f}, {high:+.1f}] points)"
    assert flagged.endswith(f"{apart}; also higher for gay")
    assert ' of toxic comments that mention "gay" are missed (gap' in missed
    assert missed.endswith(apart)


def test_errors_that_are_not_shown_to_be_more_are_not_told(judged):
    report, verdict, _ = judged
    unsure = {"fpr_gap": MetricValue(0.2, low=-0.1, high=0.5)}
    found = Story.from_report(add_gaps(report, dict.fromkeys(report.bias.groups, unsure)), verdict)
    no_error = ". No identity has a significantly higher error rate than other comments"
    assert found.errors.threshold == "0.9"
    assert found.errors.text.endswith(no_error)


def test_without_a_threshold_the_page_says_so(tmp_path):
    found = render_candidate(judge(tmp_path, rows(NAMES), threshold=None))
    assert "no threshold given" in found.one("header").text
    assert not [one for one in read_facts(found.one("details", class_="story")) if "At" in one]


def find_row(page, name):
    rows_ = page.one("section", id="metrics").one("tbody").find("tr")
    return next(row for row in rows_ if row.one("bdi").text == name)


def read_facts(section):
    return {one.one("dt").text: one.one("dd").text for one in section.one("dl").find("div")}


def remove_marks(cell):
    return re.sub(" [▼▲] from \\S+", "", re.sub("^[✕?!⊘~] ", "", cell.text))


def read_axis(page):
    """Return the start of the axis by column."""
    heads = list(page.one("section", id="metrics").one("thead").find("th"))[1:]
    ends = [one.one("small", class_="ends").text.split()[2] for one in heads]
    titles = [next(x for x in one.content if isinstance(x, str)) for one in heads]
    return {a: float(b.replace("\N{MINUS SIGN}", "-")) for a, b in zip(titles, ends, strict=True)}


def test_errors_at_the_given_threshold_are_the_reports(judged, page):
    table = page.one("div", class_="explorer").one("table")
    at = judged[0].thresholds["given"]
    for row in table.rows():
        name, flagged, gap = row[:3]
        rate = at.subgroups[name].false_positive_rate.value
        if rate is None:
            assert (flagged, gap) == ("\N{EN DASH}", "no evidence")
            continue
        cell = judged[0].bias.select_threshold("given")[name]["fpr_gap"]
        ends = [f"{100 * getattr(cell, key):+.1f}" for key in ("value", "low", "high")]
        n = judged[0].bias.counts[name].n_negative
        known = binomtest(round(rate * n), n).proportion_ci(0.95, "wilson")
        assert flagged == f"{rate:.1%} [{known.low:.1%}, {known.high:.1%}]"
        assert gap == "{} [{}, {}]".format(*ends).replace("-", "\N{MINUS SIGN}")
    overall = at.overall
    for kind in ("false_positive_rate", "false_negative_rate"):
        assert f"{getattr(overall, kind).value:.1%}" in page.one("p", class_="at").text


def test_counts_of_comments_are_the_reports(judged, page):
    bias = judged[0].bias
    first, *others = page.one("section", id="data").one("table").rows()
    n, n_toxic = bias.counts[None].n, bias.counts[None].n_positive
    assert first == ["all comments", str(n), str(n_toxic), str(n - n_toxic)]
    assert {name: numbers for name, *numbers in others} == {
        name: [str(getattr(bias.counts[name], key)) for key in ("n", "n_positive", "n_negative")]
        for name in bias.subgroups
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
    of_bpsn = ends[list(muslim).index("BPSN AUC")]
    low = float(of_bpsn.removeprefix("drawn from ").removesuffix(" to 1"))
    [limit] = muslim["BPSN AUC"].find("path", class_="l")
    assert limit.attributes["d"] == f"M{100 * (0.8 - low) / (1 - low):.3g} 0v10"
    assert len(list(muslim["Negative AEG"].find("path", class_="l"))) == 2
    assert not list(muslim["Subgroup AUC"].find("path", class_="l"))


def test_a_failed_check_is_marked_by_sign_words_and_shape(page):
    cell = grid_of(page.one("section", id="metrics").one("table"))["gay"]["BPSN AUC"]
    assert cell.classes == ["fail", "worse"]
    assert cell.text.startswith("✕")
    assert cell.one("span", class_="sr").content == ["fails a check: "]
    assert "l4 4-4 4" in cell.one("path", class_="d").attributes["d"]


@pytest.mark.parametrize(
    ("options", "status", "shape"),
    [
        ({"rules": (RULES[0], {**RULES[1], "action": "warn"})}, "warn", "l4 4-4 4-4-4z"),
        ({"rules": ({**RULES[1], "min_positives": 800},)}, "insufficient", "m-2 0h4v4h-4z"),
    ],
)
def test_the_mark_of_a_number_is_what_its_check_came_to(tmp_path, options, status, shape):
    found = render_candidate(judge(tmp_path, rows(NAMES), **options))
    cell = grid_of(found.one("section", id="metrics").one("table"))["gay"]["BPSN AUC"]
    assert cell.classes == [status]
    assert cell.one("path", class_="d").attributes["d"].endswith(shape)


def test_a_policy_that_only_reports_says_so(tmp_path):
    found = render_candidate(judge(tmp_path, rows(NAMES), report_only=True))
    assert [one.text for one in found.find("span", class_="badge")] == [
        "i REPORTED ONLY",
        "i Reported only",
    ]


def test_without_a_champion_the_page_says_so(tmp_path):
    found = render_candidate(judge(tmp_path, rows(NAMES)))
    assert "no champion" in found.one("header").text
    assert "champion" not in found.one("details", class_="story").text


def test_rows_with_weights_have_no_errors_at_thresholds(tmp_path):
    columns = rows(NAMES) | {"weight": np.linspace(0.5, 2, 900)}
    section = render_candidate(judge(tmp_path, columns)).one("section", id="thresholds")
    assert "need all rows, without sampling weights" in section.text
    assert not list(section.find("table"))


def test_analyses_are_told_in_their_own_words(judged):
    report, verdict, details = judged
    told = {
        "intersections": AnalysisRecord(options={}, sentences=["Gay and deaf: few."], result={})
    }
    found = render_candidate((replace(report, analyses=told), verdict, details))
    assert "Analysis: intersections Gay and deaf: few." in found.one("section", id="findings").text


def test_an_identity_stands_side_by_side_in_each_slice(judged):
    report, verdict, details = judged
    whole = {name: build_record(report.bias, name) for name in report.bias.subgroups}
    slices = {name: {"subgroups": whole} for name in ("language.german", "language.(others)")}
    told = {"slices": AnalysisRecord(options={}, sentences=[], result={"slices": slices})}
    found = render_candidate((replace(report, analyses=told), verdict, details))
    tables = [one.rows() for one in found.one("section", id="findings").find("table")]
    shown = next(one for one in tables if one[0][1].startswith("language."))
    assert [row[:2] for row in shown] == [
        [name, one]
        for name in ("gay", "muslim", "deaf")
        for one in ("language.german", "language.(others)")
    ]
    cell = report.bias.subgroups["gay"].bpsn_auc
    assert shown[0][4] == f"{cell.value:.3f} [{cell.low:.3f}, {cell.high:.3f}]"
    assert shown[-1][4] == "undefined"
    assert "rows; all are in" not in found.one("section", id="findings").text
    many = {f"language.{at:02}": {"subgroups": whole} for at in range(40)}
    told = {"slices": AnalysisRecord(options={}, sentences=[], result={"slices": many})}
    text = render_candidate((replace(report, analyses=told), verdict, details)).one("main").text
    assert ": the first 100 of 120 rows; all are in analyses/slices.csv" in text


def test_of_very_many_identities_the_worst_are_shown_and_the_page_says_so(judged, monkeypatch):
    monkeypatch.setattr(page_module, "CHECKS", 2)
    monkeypatch.setattr(tables, "ROWS", 2)
    found = render_candidate(judged)
    assert len(found.one("table", class_="checks").rows()) == 2
    assert "first 2; all are in verdict.json" in found.one("section", id="checks").text
    section = found.one("section", id="metrics")
    assert list(grid_of(section.one("table"))) == ["gay", "muslim"]
    assert "These are the worst 2 of 3 identities" in section.text


def test_a_page_of_24_identities_and_five_candidates_is_small(five):
    html = render_page(build_evaluation_page(summary_of(five), by_place(five)))
    assert len(html) < LARGEST / 2  # there is one set here
    assert render_evaluation(five).one("section", id="checks").text.count("/report.html") == 5


def test_pictures_of_all_candidates_share_their_axes(five):
    tables_ = list(render_evaluation(five).one("section", id="metrics").find("table"))
    assert len(tables_) == 5
    ends = {tuple(one.text for one in table.find("small", class_="ends")) for table in tables_}
    assert len(ends) == 1


def test_the_picture_of_the_worst_outcome_is_open_with_a_place_for_each_identity(five):
    parts_ = list(
        render_evaluation(five).one("section", id="metrics").find("details", class_="part")
    )
    opened = [one for one in parts_ if "open" in one.attributes]
    assert len(opened) == 1
    rows_ = list(opened[0].one("tbody").find("tr"))
    assert {one.attributes["id"] for one in rows_} == {f"identity_{at}" for at in range(24)}


def add_decision(sentence, judged):
    """Return the summary of candidates with this decision on each."""
    summary = summary_of(judged)
    decisions = [replace(one, sentence=sentence) for one in summary.decisions]
    return replace(summary, decisions=decisions)


def test_the_page_has_the_rows_of_the_leaderboard_in_its_order(five):
    page = build_evaluation_page(
        add_decision("Champion of m stays version 3.", five), by_place(five)
    )
    board = build_leaderboard(page.candidates)
    found = read_page(render_page(page)).one("section", id="verdict")
    rows_ = list(found.one("table", class_="board").one("tbody").find("tr"))
    assert len(rows_) == len(board.rows) == 5
    for row, known in zip(rows_, board.rows, strict=True):
        assert row.one("th").one("bdi").text == known.candidate
        assert row.one("span", class_="badge").text.endswith(known.outcome)
        assert f"{known.final_score.value:.3f}" in row.one("td", class_="score").text
        assert row.one("span", class_="long").text == " ".join(known.worst.text.split())
        place = row.one("a").attributes["href"].removeprefix("#")
        assert found.one("dl", id=place).find("dt")
    assert found.text.startswith("0 of 5 candidates passed on s (900 comments).")
    assert found.text.count("Champion of m stays version 3.") == 1  # the same of all


def test_an_identity_is_never_the_place_of_a_candidate(tmp_path):
    names = ["candidate-0", "gay"]
    report, verdict, details = judge(tmp_path, rows(names))
    page = build_candidate_page(report, verdict, details)
    assert not {*page.anchors.values()} & {*page.places.values()}


def test_the_commands_name_the_real_file_folder_and_store(five, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = str(tmp_path / "my store")
    summary = replace(summary_of(five), config=f"{tmp_path}/my file.yaml", store_path=store)
    page = build_evaluation_page(summary, by_place(five), output="results of x")
    found = read_page(render_page(page)).one("section", id="reproduce").one("pre")
    assert page.commands == [
        "biasgate evaluate 'my file.yaml' --output 'results of x' --store 'my store'",
        "biasgate verify './results of x'",
    ]
    assert found.text == " ".join(page.commands)
    changed = replace(summary, sample=500, outcome_of=summary.outcome_of[:1], store_path="")
    page = build_evaluation_page(changed, by_place(five), output="/elsewhere/x")
    [candidate] = changed.outcome_of
    repeat = "evaluate 'my file.yaml' --output /elsewhere/x --sample 500 --candidate"
    assert page.commands[0] == f"biasgate {repeat} {shlex.quote(candidate)}"


def test_a_candidate_is_verified_with_all_sets_that_its_verdict_requires(judged):
    report, verdict, details = judged
    own = f"out/{verdict.evaluation_set.name}/{verdict.candidate.name}"
    page = build_candidate_page(report, verdict, details, own)
    assert page.commands == [f"biasgate verify {own}"]
    several = replace(verdict, required_sets=[verdict.evaluation_set.name, "another"])
    page = build_candidate_page(report, several, details, own)
    assert page.commands == ["biasgate verify ./out"]


def test_sets_have_their_own_tables(tmp_path):
    both = [judge(tmp_path / one, rows(NAMES), of_set=one) for one in ("phrases", "comments")]
    section = render_evaluation(both).one("section", id="data")
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


def test_what_a_sentence_has_in_backticks_is_code_and_a_name_with_backticks_is_not(tmp_path):
    report, verdict, details = judge(tmp_path, rows(["a `b` c", "gay"]))
    report = replace(report, warnings=["Of a `b` c: say so in the policy (`not_measured`)."])
    found = render_candidate((report, verdict, details)).one("section", id="findings").one("p")
    assert found.text == "Of a `b` c: say so in the policy ( not_measured )."
    assert [one.text for one in found.find("code")] == ["not_measured"]


def test_an_identity_may_have_the_name_of_all_comments(tmp_path):
    report, *_ = judge(tmp_path, rows(["all comments", "gay"]))
    names = [row[0] for row in page_module.describe_set(report).counts.rows]
    assert names == ["all comments", "all comments", "gay"]
