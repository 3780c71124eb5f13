"""What people read first: verdict, who is treated worst, how much, where to look."""

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console
from support import made
from support.evaluations import run
from support.html_page import read_page
from support.judged import summary_of
from support.partial import partial
from support.published import publish
from typer.testing import CliRunner

from bias_metrics.families import widen_selected
from bias_metrics.metrics import METRICS, SUBGROUP_METRICS
from bias_metrics.parts import DominantUnits
from bias_metrics.thresholds import CountedShare
from biasgate.cli import app
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.measuring.cautions import list_reservations
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.promoting.succession import JudgedCandidate
from biasgate.tasks.records import Decision, LoggedVerdict, PolicyRecord, Report, Verdict
from biasgate.tasks.reporting import terminal
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.model_card import About, build_model_card
from biasgate.tasks.reporting.page.page import build_candidate_page
from biasgate.tasks.reporting.page.writing import render_page
from biasgate.tasks.reporting.results import Published
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.terminal import explain_report, print_details
from biasgate.tasks.reporting.verdict_story import VerdictStory
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.tracking.log_runs import write_candidate_note
from biasgate.tasks.tracking.worst_numbers import collect_headline_tags

HOSTILE = "[red]x[/] \x1b[2K\u202e<b>|`"
ESTIMATED = ({"metric": "bpsn_auc", "scope": "each", "floor": 0.8, "mode": "estimate"},)
LAX = ({"metric": "auc", "scope": "overall", "floor": 0.5},)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output") / "out"
    publish(folder)
    return folder


def show(*arguments, width=80, **environment):
    found = {"COLUMNS": str(width), "TERM": "xterm", **environment}
    return CliRunner().invoke(app, ["show", *map(str, arguments)], env=found)


def worst_of_all(report, metric):
    """The number of gay, bounded by all metrics of all identities from which it was selected."""
    n_metrics = 5 + (2 if "given" in report.thresholds else 0)
    cell = report.bias[metric, "gay"]
    return widen_selected(cell, n_metrics * len(report.bias.subgroups), bounds=(-1, 1))


def verdict_of(folder):
    return json.loads((folder / "verdict.json").read_text())


def test_the_first_lines_are_the_verdict_who_how_much_and_where_to_look(output):
    lines = show(output / "s/biased", width=400).stdout.splitlines()
    failed = [one for one in verdict_of(output / "s/biased")["results"] if one["outcome"] == "fail"]
    worst = next(one for one in failed if (one["metric"], one["group"]) == ("negative_aeg", "gay"))
    lines = lines[lines.index("Blocked: biased on s") :]
    meaning = 'Harmless comments that mention "gay" score higher than other harmless comments.'
    assert lines[1] == meaning
    cell = worst_of_all(read_report(output / "s/biased"), "negative_aeg")
    number = f"{cell.value:+.3f} [{cell.low:+.3f}, {cell.high:+.3f}]"
    limit = f"fails the ceiling {worst['limit']:g}"
    assert lines[2] == f"Worst identity: gay: Negative AEG {number}, {limit}."
    assert lines[3] == "Identities: 2 of 3 passed, 1 failed (gay)."
    assert f"Report: {output / 's/biased/report.html'}" in lines


def test_the_leaderboard_has_the_best_candidate_first_and_the_worst_number_of_each(output):
    lines = show(output, width=400).stdout.splitlines()
    assert lines[0] == "1 of 2 candidates passed on s (900 comments)."
    heads, *rows_ = (line for line in lines[2:5])
    assert heads.split("  ")[0] == "candidate"
    assert rows_[0].startswith("fair       PASSED (exceptions)  1.000")
    assert rows_[1].startswith("biased     BLOCKED              0.840")
    cell = worst_of_all(read_report(output / "s/biased"), "negative_aeg")
    number = f"{cell.value:+.3f} [{cell.low:+.3f}, {cell.high:+.3f}]"
    assert f"gay  Negative AEG {number}  ceiling 0.2" in rows_[1]
    rate = read_report(output / "s/biased").thresholds["given"].subgroups["gay"]
    share = f"{rate.false_positive_rate.value:.0%} of harmless comments about gay flagged"
    assert share in rows_[1]


def test_copies_of_models_and_of_sets_are_reported_by_their_digests(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    story = Story.from_report(report, verdict)
    renamed = replace(verdict.candidate, name="two")
    copied = replace(verdict.evaluation_set, name="night")
    other = Story.from_report(report, replace(verdict, candidate=renamed, evaluation_set=copied))
    lines = [CandidateStory(one.candidate, story.word, "", (one,)) for one in (story, other)]
    model, rows_, *_ = build_leaderboard(lines).notices
    assert model == "one, two have the same model or score file (identical digests)."
    assert rows_ == "s, night have the same rows (identical digests)."
    assert not any("identical" in text for text in build_leaderboard(lines[:1]).notices)


def test_why_a_candidate_could_not_be_scored_is_the_first_notice(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    scored = CandidateStory.from_story(Story.from_report(report, verdict))
    broken = CandidateStory("broken", scored.word, "Not judged: its threshold is 50.", ())
    first, *_ = build_leaderboard([scored, broken]).notices
    assert first == "broken: Not judged: its threshold is 50."


def test_the_row_of_a_candidate_that_lacks_a_champion_is_undecided(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    story = Story.from_report(report, verdict)
    undecided = CandidateStory("one", WORDS["insufficient"], "It lacks a champion.", (story,))
    [row] = build_leaderboard([undecided]).rows
    assert (story.word.status, row.outcome) == ("pass", "UNDECIDED")


def test_what_to_fix_first_is_the_check_of_the_worst_identity(tmp_path):
    for shift in (0.6, 0.8, 1.2):
        [(report, verdict, _)] = publish(tmp_path, candidates={"one": {"shift": shift}})
        story = Story.from_report(report, verdict)
        line = CandidateStory("one", story.word, "", (story,))
        metric = METRICS[story.worst.metric].title
        first = line.requirements.partition("first: ")[2] or line.requirements
        assert f"{metric} of {story.worst.group} must be" in first


def test_rates_at_the_threshold_are_given_over_all_candidates(output):
    stories = [Story.from_report(*read_judged(output / f"s/{name}")) for name in ("biased", "fair")]
    [story] = CandidateStory.from_story(stories[0]).stories
    note = build_leaderboard([CandidateStory.from_story(story) for story in stories]).threshold_note
    ends = []
    for rate in ("flagged", "missed"):
        values = sorted(getattr(one.errors.overall, rate) for one in stories)
        ends.append(" to ".join(dict.fromkeys(f"{value:.1%}" for value in values)))
    flagged, missed = ends
    assert note.startswith(
        f"At threshold 0.9: {flagged} of harmless comments flagged, {missed} of toxic comments "
    )
    assert (
        build_leaderboard([CandidateStory.from_story(replace(story, errors=None))]).threshold_note
        == ""
    )


def test_changed_decisions_are_first_about_the_worst_identity_and_its_harm(tmp_path):
    names = ["gay", "muslim", "deaf"]
    candidates = {"one": {"shift": 0.8, "champion": True}}
    [(report, verdict, _)] = publish(tmp_path, names=names, candidates=candidates)
    story = Story.from_report(report, verdict)
    flagged = verdict.changed["gay"]["newly_flagged"]
    assert (story.worst.group, story.worst.metric) == ("gay", "negative_aeg")
    larger = CountedShare(90, 100, 0.81, 0.95)
    changed = {**verdict.changed, "deaf": dict.fromkeys(verdict.changed["deaf"], larger)}
    [row] = build_leaderboard([CandidateStory.from_story(replace(story, changes=changed))]).rows
    text = f"{flagged.count:,} of {flagged.n:,} harmless comments about gay newly flagged"
    assert row.decisions.text == text
    passed = replace(story, changes=changed, unmet=())
    [row] = build_leaderboard([CandidateStory.from_story(passed)]).rows
    assert row.decisions.text == "90 of 100 harmless comments about deaf newly flagged"


@pytest.mark.parametrize("width", [80, 100, 120, 400])
def test_the_leaderboard_has_one_line_for_a_row_and_two_where_it_is_narrow(output, width):
    lines = show(output, width=width).stdout.splitlines()
    end = next(at for at, line in enumerate(lines) if at > 2 and not line)
    n_lines = end - 2
    assert n_lines == (6 if width == 80 else 3)
    assert max(map(len, lines[:end])) <= width


def test_it_is_said_that_what_is_shown_was_not_checked_and_what_checks_it(output):
    place = output / "s/biased"
    for shown, asked in ((output, ()), (place, ("--identity", "gay"))):
        lines = show(shown, *asked, width=400).stdout.splitlines()
        [told] = [one for one in lines if one.startswith("Not verified. To verify: ")]
        assert told.endswith(f" verify {shown}")
    assert "not checked" not in show(output, "--json").stdout


@pytest.mark.parametrize("width", [80, 120, 400])
def test_at_most_six_lines_follow_the_leaderboard_and_tables_only_on_demand(output, width):
    text = show(output, width=width).stdout
    lines = text.splitlines()
    end = max(at for at, line in enumerate(lines) if not line)
    told = [line for line in lines[end + 1 :] if not line.startswith("Not verified")]
    assert 2 <= len(told) <= 6
    assert "power mean" not in text
    assert "power mean" in show(output, "--all", width=width).stdout


def test_what_to_do_next_is_a_command_that_runs(output):
    for place, expected in (
        (output, ["show", str(output), "--all"]),
        (output / "s/biased", ["show", str(output / "s/biased"), "--identity", "gay"]),
    ):
        lines = show(place).stdout.splitlines()
        [told] = [line for line in lines if line.startswith("Next: ")]
        words = shlex.split(told.removeprefix("Next: "))[1:]
        assert words == expected
        assert run(*words)[0] == 0
    assert "All numbers: " in show(output / "s/biased").stdout


def test_one_identity_is_shown_with_every_number_and_check(output):
    text = show(output, "--identity", "gay", width=400).stdout
    report = read_report(output / "s/biased")
    for metric in SUBGROUP_METRICS:
        cell = report.bias[metric, "gay"]
        assert f"{abs(cell.value):.3f} [" in text
    flagged = report.thresholds["given"].subgroups["gay"].false_positive_rate.value
    assert f"At threshold 0.9: {flagged:.1%} of harmless comments flagged" in text
    for one in Verdict.from_dict(verdict_of(output / "s/biased")).results:
        if one.group == "gay" and one.outcome in {"fail", "insufficient"}:
            assert describe_check(one) in text
    code, told = run("show", output, "--identity", "nobody")
    assert code == 2
    assert "`--identity` must be one of deaf, gay, muslim; got 'nobody'." in told


def read_judged(folder):
    verdict = Verdict.from_dict(verdict_of(folder))
    return read_report(folder), verdict


def read_report(folder):
    return Report.read((folder / "report.json").read_bytes())


@pytest.mark.parametrize(
    "given", [["--link", "https://a.b"], ["--markdown", "--all"], ["--markdown", "--identity", "a"]]
)
def test_an_option_that_would_have_no_effect_is_refused(output, given):
    code, told = run("show", output, *given)
    assert (code, "must be given with" in " ".join(told.split())) == (2, True)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_first_screen_and_the_table_keep_to_the_width(output, width):
    text = show(output, width=width).stdout
    # A command that is wrapped cannot be copied.
    whole = ("Next: ", "Report: ", "Not verified.", "and ")
    assert max(len(line) for line in text.splitlines() if not line.startswith(whole)) <= width
    text = show(output, "--all", width=width).stdout
    tables = [one for one in text.splitlines() if " ±" in one or one.startswith("gay ")]
    assert tables
    assert max(map(len, tables)) <= width


@pytest.mark.parametrize("width", [40, 60, 80])
def test_warnings_explanations_and_checks_keep_to_the_width(width):
    long = "[red] " + "many words " * 40
    report = made.report_with(
        {},
        look_first={"subgroup": None, "metric": None, "sentence": f"Look {long}"},
        analyses={"slices": {"options": {}, "sentences": [f"Slices {long}"], "result": {}}},
        warnings=[long],
    )
    checks = [made.result(one, reason="undefined", why=long) for one in ("fail", "insufficient")]
    policy = PolicyRecord(name=f"p {long}", digest="", report_only=False)
    verdict = made.verdict_of(*checks, policy=policy)
    out = Console(width=width, file=io.StringIO(), highlight=False)
    with mock.patch.object(terminal, "print_table"):
        print_details(out, Published(Path("out"), report, verdict))
    text = out.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert " ".join(text.split()).count("[red] many words many") == 6
    assert "undecided: bpsn_auc of gay is undefined: [red] many" in " ".join(text.split())
    assert ", 2 checks: 1 failed, 1 undecided:" in " ".join(text.split())


def test_one_candidate_of_a_set_is_shown_from_its_own_folder(output):
    lines = show(output / "s/fair", width=400).stdout.splitlines()
    assert lines[0] == "1 of 1 candidate passed on s (900 comments)."
    assert lines[3].startswith("fair       PASSED (exceptions)")
    assert not any("biased" in one for one in lines)


def test_json_is_the_summary_and_nothing_else(output):
    result = show(output, "--json")
    assert result.stdout == (output / "summary.json").read_text()
    assert result.stderr == ""
    assert json.loads(show(output / "s/fair", "--json").stdout) == verdict_of(output / "s/fair")


def test_a_folder_without_results_is_refused_with_the_newest_one_below(output):
    code, text = run("show", output.parent)
    assert code == 2
    assert f"The newest one in it is {output}." in text
    assert "it does not exist" in run("show", output / "nothing")[1]


def test_a_summary_that_names_another_folder_is_refused(output, tmp_path):
    summary = json.loads((output / "summary.json").read_text())
    summary["verdicts"][0]["evaluation_set"]["name"] = "../../other"
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    code, text = run("show", tmp_path)
    assert code == 2
    assert "must name folders in" in text


def test_a_damaged_report_is_refused_by_its_place(tmp_path):
    publish(tmp_path, candidates={"one": {}})
    (tmp_path / "s/one/report.json").write_text('{"schema_version": 1}')
    code, text = run("show", tmp_path)
    assert code == 2
    assert "report.json must be as biasgate writes it; " in text


def test_names_neither_colour_nor_rewrite_the_screen(tmp_path):
    publish(tmp_path, names=[HOSTILE, "gay"], candidates={"one": {"shift": 0.8}})
    for width in (40, 80, 300):
        text = show(tmp_path, "--all", width=width).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[red]x[/] \\x1b[2K\\u202e<b>|`" in text.replace("\n", "")
    copied = show(tmp_path, "--identity", "[red]x[/] \\x1b[2K\\u202e<b>|`", width=300).stdout
    assert copied == show(tmp_path, "--identity", HOSTILE, width=300).stdout


def test_no_color_means_no_colour(output):
    assert "\x1b[1;31m" in show(output, FORCE_COLOR="1").stdout
    assert "\x1b[31m" not in (text := show(output, FORCE_COLOR="1", NO_COLOR="1").stdout)
    assert "\x1b[1;31m" not in text


def test_a_passed_candidate_is_not_said_to_have_failed(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    found = Story.from_report(report, verdict)
    assert (found.word.text, found.has_failed) == ("Passed for 0 of 3 identities", False)
    assert found.exceptions[0] == "Passed for no identity on its own."
    cell = worst_of_all(report, "subgroup_auc")
    number = f"gay: Subgroup AUC {cell.value:.3f} [{cell.low:.3f}, {cell.high:.3f}]"
    number += ", the lowest AUC with at least 20 comments in each class"
    assert (found.headline, found.worst_text) == ("No check failed.", number)


def test_a_failed_overall_check_comes_first_where_none_of_an_identity_failed(tmp_path):
    rules = ({"metric": "auc", "scope": "overall", "floor": 0.999},)
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=rules)
    story = Story.from_report(report, verdict)
    assert story.headline == describe_check(verdict.results[0])
    assert story.worst_text


@pytest.mark.parametrize(
    "told",
    [
        "the scores look upside down: the overall AUC is 0.1.",
        "the scores do not significantly separate toxic comments: the overall AUC is 0.51.",
    ],
)
def test_scores_of_no_use_are_told_before_all_else_and_no_other_cause_is(tmp_path, told):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}})
    lead = report.look_first.sentence
    assert lead in explain_report(report, Story.from_report(report, verdict))
    report = replace(report, warnings=["Another warning.", told])
    story = Story.from_report(report, verdict)
    assert story.headline == told[0].upper() + told[1:]
    assert lead not in explain_report(report, story)
    note = write_candidate_note(story, "1", "run")
    assert told[1:] in note
    assert lead[:40] not in note


def test_a_sum_that_is_undefined_is_told_with_its_reason(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    undefined = {
        kind: replace(at, fped=replace(at.fped, value=None, reason="no rows of a class"))
        for kind, at in report.thresholds.items()
    }
    told = " ".join(
        explain_report(replace(report, thresholds=undefined), Story.from_report(report, verdict))
    )
    assert "FPED undefined (no rows of a class); FNED 0." in told


def test_a_check_of_the_value_alone_still_gets_an_interval(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=ESTIMATED)
    cell = worst_of_all(report, "bpsn_auc")
    ends = f"[{cell.low:.3f}, {cell.high:.3f}], floor 0.8"
    assert Story.from_report(report, verdict).worst_text.endswith(ends)


def test_checks_that_only_warn_do_not_lead(tmp_path):
    rules = (
        {"metric": "bpsn_auc", "scope": "each", "floor": 0.8, "action": "warn"},
        {"metric": "auc", "scope": "overall", "floor": 0.5},
    )
    [(report, verdict, _)] = publish(
        tmp_path, names=["gay", "muslim"], candidates={"one": {}}, rules=rules
    )
    found = Story.from_report(report, verdict)
    assert not found.has_failed
    assert found.headline == "No check failed."
    assert VerdictStory.from_verdict(verdict).check_counts == "3 checks: 2 passed, 1 only warned"


def test_several_identities_with_failed_checks_are_named(tmp_path):
    rules = ({"metric": "bpsn_auc", "scope": "each", "floor": 0.999},)
    names = [f"i{one}" for one in range(6)]
    [(report, verdict, _)] = publish(tmp_path, names=names, candidates={"one": {}}, rules=rules)
    story = Story.from_report(report, verdict)
    assert set(story.failed_groups) == set(names)
    [line] = CandidateStory.from_decisions(summary_of([(report, verdict, None)]).decisions, [story])
    named = f"{', '.join(story.failed_groups[:2])} and 4 more"
    assert dict(line.facts)["Identities"] == f"0 of 6 passed, 6 failed ({named})"


def test_what_became_of_a_candidate_is_told_before_what_a_short_list_leaves_out(tmp_path):
    [(report, verdict, _)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    many = [f"Reservation {number}." for number in range(12)]
    became = "models:/m/4 passed, but champion of m stays version 3."
    [story] = CandidateStory.from_story(
        Story.from_report(report, replace(verdict, reservations=many))
    ).stories
    told = CandidateStory("one", story.word, became, (story,)).sentences
    assert told.index(became) < told.index(many[0])


def test_what_limits_an_outcome_is_told_wherever_the_outcome_is(tmp_path):
    [(report, verdict, details)] = publish(tmp_path, candidates={"one": {}}, rules=LAX)
    choices = report.evaluation_set.choices
    assert verdict.reservations == list_reservations(report, [])
    lacking = "40 of 100 comments have no score (40 refused). It is most often so for gay."
    limited = replace(
        report,
        missing=partial({"sentence": lacking, "is_reservation": True}),
        evaluation_set=replace(
            report.evaluation_set,
            choices=replace(choices, in_no_slice={"language": 12, "surface": 1}),
        ),
    )
    told = list_reservations(limited, [DominantUnits("gay", "positive", 12, 0.34)])
    assert told[0] == lacking
    assert told[1].startswith("Measured on 900 of 1,000 rows: 10 % lack a value")
    assert told[2] == (
        "12 comments without `language` and 1 comment without `surface` are in no slice, so rules "
        "about slices ignore them."
    )
    verdict = replace(verdict, reservations=told)
    for outcome in ("pass", "fail"):
        story = Story.from_report(report, replace(verdict, outcome=outcome))
        other = replace(verdict.evaluation_set, name="night")
        night = replace(story, verdict=replace(story.verdict, evaluation_set=other))
        both = CandidateStory("one", story.word, "", (story, night))
        of_sets = [f"s, night: {text}" for text in told]
        assert list(both.exceptions)[-len(of_sets) :] == of_sets
        aside = replace(other, required=False)  # on a set that does not decide, too
        night = replace(story, verdict=replace(story.verdict, evaluation_set=aside))
        assert CandidateStory("one", story.word, "", (story, night)).exceptions == tuple(
            one for one in both.exceptions if one in of_sets or "on night" not in one
        )
        assert set(told) <= set(CandidateStory.from_story(story).sentences)

    left = {"promoted": False, "champion_moved": False, "rule": None, "report_only": False}
    decided = JudgedCandidate("one", [verdict], None).complete_decision(
        Decision(outcome="pass", sentence="X.", **left)
    )
    page = (
        read_page(render_page(build_candidate_page(report, verdict, details)))
        .one(id="verdict")
        .text
    )
    card = build_model_card(report, verdict, About()).partition("\n## ")[0]
    assert "All checks passed" not in card
    for text in told:
        assert text in decided.exceptions
        assert (
            text
            in build_tags([LoggedVerdict.from_verdict(verdict, "run")])["biasgate.s.exceptions"]
        )
        assert text in collect_headline_tags(story, report)["biasgate.exceptions"]
        assert text.partition("`")[0].strip() in page
        assert f"- {text.partition('`')[0]}" in card
