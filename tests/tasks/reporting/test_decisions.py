"""Errors by term and changed decisions on screens, pages and in CSV, with hostile names."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from support.hostile import NAMES, OVERRIDE
from support.html_page import read_page
from support.judged import by_place, judge, rows, summary_of

from bias_metrics import Rows
from bias_metrics.thresholds import errors_by_term
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.records import Report
from biasgate.tasks.reporting import terminal
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.decisions import (
    build_change_table,
    build_term_table,
    format_changes_csv,
    format_terms_csv,
)
from biasgate.tasks.reporting.page.page import build_candidate_page, build_evaluation_page
from biasgate.tasks.reporting.page.writing import render_page
from biasgate.tasks.reporting.results import Published, Results
from biasgate.tasks.reporting.story import Story

GROUPS = ("gay", "muslim", "deaf")
BY_TERM, CHANGED = "Errors by term", "Decisions that differ from the champion's"


@pytest.fixture(scope="module")
def columns():
    return rows(GROUPS, empty=["deaf"], champion=True, n=4000)


@pytest.fixture(scope="module")
def judged(columns, tmp_path_factory):
    return judge(tmp_path_factory.mktemp("judged"), columns)


def add_terms(judged, names, worst=(), n=4000):
    """Add errors by term to a report; the worst terms flag every comment."""
    report, verdict, details = judged
    codes = np.arange(n) % len(names)
    y_true = np.arange(n) // len(names) % 2 == 1
    flags = y_true | np.isin(codes, [names.index(one) for one in worst])
    terms = {("gay", term): np.flatnonzero(codes == at) for at, term in enumerate(names)}
    found = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5)
    return replace(report, terms=found), verdict, details


def find_table(page, caption):
    """Return the rows of the table with this caption."""
    tables = page.find("table")
    return next(one for one in tables if one.content and caption in one.text).rows()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def count_changes(columns, name):
    """Count newly flagged harmless and newly missed toxic comments, each with its class."""
    toxic, own = columns["label"], columns[f"identity/{name}"]
    first, second = (columns[f"score/{role}"] >= 0.9 for role in ("candidate", "champion"))
    found = (
        own & ~toxic & first & ~second,
        own & ~toxic,
        own & toxic & second & ~first,
        own & toxic,
    )
    return [int(one.sum()) for one in found]


def test_the_page_has_the_changed_decisions_of_every_identity_as_counted_by_hand(columns, judged):
    of_all = build_evaluation_page(summary_of([judged]), by_place([judged]))
    for page in (build_candidate_page(*judged), of_all):
        shown = {name: cells for name, *cells in find_table(read_page(render_page(page)), CHANGED)}
        assert set(shown) == set(GROUPS)
        for name in GROUPS:
            flagged, n_harmless, missed, n_toxic = count_changes(columns, name)
            counts, share, missed_counts, _ = shown[name]
            assert counts == f"{flagged:,} of {n_harmless:,}"
            assert missed_counts == f"{missed:,} of {n_toxic:,}"
            if n_harmless:
                one = judged[1].changed[name]["newly_flagged"]
                ends = f"[{one.low:.1%}, {one.high:.1%}]"
                assert share == f"{flagged / n_harmless:.1%} {ends}"
    assert judged[1].changed["gay"]["newly_flagged"].count > 10


def test_the_csv_of_changed_decisions_has_the_same_numbers(columns, judged):
    changed = judged[1].changed
    for row in read_csv(format_changes_csv(changed)):
        flagged, n_harmless, missed, n_toxic = count_changes(columns, row["subgroup"])
        assert (int(row["n_newly_flagged"]), int(row["n_negative"])) == (flagged, n_harmless)
        assert (int(row["n_newly_missed"]), int(row["n_positive"])) == (missed, n_toxic)
        known = changed[row["subgroup"]]["newly_missed"]
        found = [row[key] for key in ("newly_missed", "newly_missed_low", "newly_missed_high")]
        expected = [known.value, known.low, known.high]
        assert found == ["" if one is None else str(one) for one in expected]


def test_without_a_champion_or_terms_a_page_has_no_such_table(tmp_path):
    judged = judge(tmp_path, rows(GROUPS))
    text = read_page(render_page(build_candidate_page(*judged))).text
    assert BY_TERM not in text
    assert CHANGED not in text
    assert "Worst terms" not in text
    assert "terms" not in judged[0].to_dict()


def test_the_first_screen_names_the_terms_that_are_shown_and_where_all_are(judged):
    names = [f"word{at}" for at in range(20)]
    report, verdict, details = add_terms(judged, names, worst=names[4:9])
    one = next(one for one in report.terms.terms if one.term == "word4").rates
    [flagged, _] = one.values()
    overall = report.terms.overall["false_positive_rate"]
    facts = dict(CandidateStory.from_story(Story.from_report(report, verdict)).facts)
    assert facts["Worst terms"] == (
        f'100 of 100 harmless comments with "word4" (gay) are flagged (100.0% '
        f"[{100 * flagged.low:.1f}, 100.0]; {100 * overall.value:.1f}% of all), "
        'also "word5", "word6", "word7" and 1 more; all terms are in terms.csv'
    )
    page = read_page(render_page(build_candidate_page(report, verdict, details)))
    assert 'with "word4" (gay) are flagged' in page.one("section", id="verdict").text
    first, *others = find_table(page, BY_TERM)
    assert first[0] == "all comments"
    assert {row[1] for row in others[:5]} == set(names[4:9])
    assert others[0][3] == "100 of 100"
    assert len(others) == 20
    assert Report.from_dict(report.to_dict()) == report


def test_without_a_threshold_the_first_screen_says_at_which_terms_are_counted(judged):
    report, verdict, _ = add_terms(judged, ["oak", "elm", "ash"], worst=["elm"])
    equal = report.thresholds["equal_errors"]
    report = replace(report, thresholds={"equal_errors": equal})
    facts = dict(CandidateStory.from_story(Story.from_report(report, verdict)).facts)
    assert '"elm" (gay) are flagged at equal errors (100.0% [' in facts["Worst terms"]


def test_a_candidates_own_page_has_every_section_however_many_identities(tmp_path):
    many = judge(tmp_path, rows([f"group{at}" for at in range(50)], champion=True))
    page = read_page(render_page(build_candidate_page(*many)))
    assert len(find_table(page, CHANGED)) == 50
    assert {"scores", "thresholds"} <= {one.attributes.get("id") for one in page.find("section")}
    of_all = read_page(render_page(build_evaluation_page(summary_of([many]), by_place([many]))))
    assert CHANGED not in of_all.text
    assert "s/c/report.html" in of_all.text


def test_a_fair_model_has_the_table_and_no_line(judged):
    report, verdict, _ = add_terms(judged, ["oak", "elm"])
    assert "Worst terms" not in dict(
        CandidateStory.from_story(Story.from_report(report, verdict)).facts
    )
    assert {row["shown_worse"] for row in read_csv(format_terms_csv(report.terms))} == {""}


def test_long_tables_have_the_worst_and_say_where_all_are(judged):
    names = [f"word{at}" for at in range(80)]
    report, verdict, _ = add_terms(judged, names, worst=["word70"])
    table = build_term_table(report.terms)
    assert len(table.rows) == 60
    assert table.rows[1][1] == "word70"
    assert table.caption.endswith(": the worst 59 of 80 terms; all are in terms.csv")
    assert len(read_csv(format_terms_csv(report.terms))) == 81
    many = {f"group{at}": verdict.changed["gay"] for at in range(61)}
    table = build_change_table(many)
    assert len(table.rows) == 60
    assert table.caption.endswith("61 identities; all are in changed_decisions.csv")


@pytest.fixture(scope="module")
def hostile(judged):
    """Hostile terms, all significantly worse, and fair terms."""
    fair = [f"word{at}" for at in range(len(NAMES) * 3)]
    return add_terms(judged, [*NAMES, *fair], worst=NAMES, n=20_000)


def test_hostile_terms_are_no_formulas_in_the_csv_and_can_be_read_back(hostile):
    found = read_csv(format_terms_csv(hostile[0].terms))
    assert [row["term"].removeprefix("'") for row in found[1 : len(NAMES) + 1]] == NAMES
    assert not [row for row in found if row["term"].startswith(("=", "+", "-1+", "@"))]
    worse = {row["term"].removeprefix("'") for row in found if row["shown_worse"]}
    assert worse == set(NAMES)


def test_hostile_terms_are_text_on_the_page(hostile):
    of_all = build_evaluation_page(summary_of([hostile]), by_place([hostile]))
    for page in (build_candidate_page(*hostile), of_all):
        html = render_page(page).decode()
        read_back = read_page(html)
        assert {escape_invisible(one) for one in NAMES} <= {
            one.text for one in read_back.find("bdi")
        }
        assert OVERRIDE not in html
        for one in read_back.find():
            assert one.tag != "img"
            if one.tag == "a":  # the page has no links but to its own places
                assert one.attributes["href"].startswith("#")
            assert not [name for name in one.attributes if name.startswith(("on", "src"))]
        assert not [one for one in read_back.find("script") if "alert" in str(one.content)]


def test_the_terminal_shows_the_terms_of_an_identity_as_text(hostile, tmp_path, capsys):
    report, verdict, _ = hostile
    results = Results(tmp_path, None, [Published(tmp_path, report, verdict)])
    terminal.print_results(results, identity="gay")
    printed = capsys.readouterr().out
    assert BY_TERM in printed
    for name in NAMES:
        assert name.replace("\u202e", "\ufffd") in printed
    terminal.print_results(results, identity="muslim")
    assert BY_TERM not in capsys.readouterr().out
    terminal.print_results(results, everything=True)
    printed = capsys.readouterr().out
    assert BY_TERM in printed
    assert CHANGED in printed
    assert re.search(r"Worst terms: .* harmless comments with", printed)
    assert OVERRIDE not in printed
