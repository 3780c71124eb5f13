"""The outcome of a candidate in a few words, as Prefect and a morning's message show it."""

from dataclasses import replace

import numpy as np
import pytest
import typer
from support.judged import judge, rows
from support.made import candidate_of, decision_of, loss, report_with, result, rival_of, verdict_of

from bias_metrics import MetricValue, RowCounts
from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import USEFULNESS_RULE, ShareLimits, judge_missing, judge_truncated
from bias_metrics.gate.exceptions import PassException
from bias_metrics.thresholds import MarkedRows, MarkedShare
from biasgate.cli import app
from biasgate.tasks.check_messages import describe_check
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.records import HoldsFor
from biasgate.tasks.reporting.candidates import CandidateStory, _list_lacks
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.page.grids import LIMITS, build_grid
from biasgate.tasks.reporting.story import Story, WorstNumber, _write_headline
from biasgate.tasks.reporting.verdict_story import Change, VerdictStory
from biasgate.tasks.wording import summarize_outcome


def make_check(why, outcome, **parts):
    """Return a result with this reason in its message."""
    return result(outcome, reason="undefined", why=why, **parts)


def make_verdict(candidate, *checks, required=True):
    return verdict_of(*checks, name=candidate, required=required)


MANY = {"n_positive": 100, "n_negative": 100}
FAILED = make_check("too far", "fail")
VERDICTS = [
    make_verdict("a", make_check("On a set that decides nothing", "fail"), required=False),
    make_verdict(
        "a", make_check("few rows", "insufficient"), FAILED, FAILED, make_check("Fine", "pass")
    ),
    make_verdict("b", make_check("Warned", "fail", action="warn"), make_check("Fine", "pass")),
    make_verdict("c", make_check("few rows", "insufficient")),
]


@pytest.mark.parametrize(
    ("candidate", "outcome", "said"),
    [
        (
            "a",
            "fail",
            "Blocked. bpsn_auc of gay is undefined: too far. 1 more such check. X.",
        ),
        ("b", "pass", "Passed. X."),
        ("c", "insufficient", "Undecided. bpsn_auc of gay is undefined: few rows. X."),
        ("d", "error", "Error. X."),
    ],
)
def test_the_outcome_is_told_with_the_first_check_behind_it(candidate, outcome, said):
    assert summarize_outcome(decision_of(candidate, outcome, "X."), VERDICTS) == said


def make_pass(of_set, *names, required=True, outcome="pass", **parts):
    """Return a pass that is proven only for the first identity."""
    exceptions = [PassException(name, "no_rule", 1, groups=(name,)) for name in names[1:]]
    extent = HoldsFor(identities=list(names[:1]), of=len(names))
    parts |= {"outcome": outcome, "holds_for": extent, "exceptions": exceptions}
    return verdict_of(of_set=of_set, required=required, **parts)


def make_candidate(*verdicts, outcome="pass"):
    """Return a candidate with these verdicts."""
    stories = tuple(map(VerdictStory.from_verdict, verdicts))
    return CandidateStory("c", WORDS[outcome], "X.", stories)


def test_with_several_sets_each_exception_names_its_set():
    assert make_candidate(make_pass("news", "gay", "deaf")).exceptions == (
        "Passed only for gay.",
        "Exception: no blocking rule covers deaf.",
    )
    both = make_candidate(make_pass("news", "gay", "deaf"), make_pass("forum", "deaf", "gay"))
    assert both.exceptions == (
        "Passed on news only for gay.",
        "Exception on news: no blocking rule covers deaf.",
        "Passed on forum only for deaf.",
        "Exception on forum: no blocking rule covers gay.",
    )


def test_exceptions_are_those_of_the_sets_that_decide():
    failed = make_pass("extra", "gay", "deaf", required=False, outcome="fail")
    assert make_candidate(make_pass("news", "gay", "deaf"), failed).exceptions == (
        "Passed on news only for gay.",
        "Exception on news: no blocking rule covers deaf.",
    )
    blocked = make_pass("forum", "gay", "deaf", outcome="fail")
    assert (
        make_candidate(make_pass("news", "gay", "deaf"), blocked, outcome="fail").exceptions == ()
    )


SKIPPED = result("skipped", blind=0.1)
OPEN = [("e", "shown_worse"), ("d", "not_measured"), ("f", "blind"), ("b", "blind")]


def build_candidate(names, *checks, **parts):
    """Return a candidate whose first identity passes."""
    known = {"holds_for": HoldsFor(identities=list(names[:1]), of=len(names))}
    found = verdict_of(make_check("Fine", "pass", group=names[0]), *checks, **known | parts)
    return CandidateStory.from_story(
        Story.from_report(report_with({name: {} for name in names}), found)
    )


def test_every_identity_is_counted_once():
    known = [("b", "fail"), ("c", "insufficient")]
    checks = [make_check("X", outcome, group=group, **MANY) for group, outcome in known]
    exceptions = [PassException(group, why, 1, check=SKIPPED) for group, why in OPEN]
    facts = dict(build_candidate("abcdefg", *checks, exceptions=exceptions).facts)
    assert facts["Identities"] == (
        "1 of 7 passed, 1 failed (b), 1 undecided (c), 1 not measured (d), "
        "1 significantly worse (e), 1 excepted (f), 1 without a check of their own (g)"
    )


@pytest.mark.parametrize(
    ("outcome", "held"),
    [
        (
            "insufficient",
            "0 of 4 passed, 3 undecided (c, a and 1 more), 1 without a check of their own (d)",
        ),
        (
            "fail",
            "0 of 4 passed, 1 failed (c), 2 undecided (a, b), 1 without a check of their own (d)",
        ),
    ],
)
def test_who_passed_alone_is_not_settled_by_a_rule_on_the_worst(outcome, held):
    worst = make_check("X", outcome, group="c", scope="worst", **MANY)
    passed = [make_check("Fine", "pass", group=name) for name in "abc"]
    none = HoldsFor(identities=[], of=4)
    story = build_candidate("abcd", *passed, worst, holds_for=none, outcome=outcome)
    assert dict(story.facts)["Identities"] == held


@pytest.mark.parametrize(
    ("slices", "who"),
    [
        (["language.de"], "b (slice language.de)"),
        (["language.de", "language.fr", "language.de"], "b (slice language.de, language.fr)"),
        (["language.de", None], "b"),
    ],
)
def test_what_is_not_settled_in_slices_alone_names_them(slices, who):
    unsettled = [make_check("X", "insufficient", group="b", slice=one, **MANY) for one in slices]
    warned = make_check("X", "insufficient", group="b", action="warn")
    [one] = build_candidate("ab", *unsettled, warned, outcome="insufficient").stories
    assert one.headline == f"No check failed, but the evidence is insufficient for {who}."


def test_a_loss_is_told_before_what_is_not_settled_and_is_no_gain():
    unsettled = make_check("X", "insufficient", group="b", **MANY)
    story = build_candidate("ab", unsettled, worsened=[loss("b")], outcome="insufficient")
    assert dict(story.facts)["Identities"] == "1 of 2 passed, 1 significantly worse (b)"
    [one] = story.stories
    better = tuple(Change(group, "bpsn_auc", 0.8, 0.9) for group in "ba")
    both = replace(story, stories=(replace(one, gains=better),))
    assert dict(both.facts)["Better than the champion"] == "a BPSN AUC 0.800 → 0.900"


def test_of_several_sets_the_headline_names_the_one_that_it_is_about():
    [one] = build_candidate("ab", make_check("X", "fail", group="b")).stories
    other = replace(one, evaluation_set="forum", word=WORDS["pass"])
    both = CandidateStory("c", WORDS["fail"], "X.", (other, one))
    assert both.headline == f"{one.headline.removesuffix('.')} (on s)."


def test_a_pass_names_for_whom_it_holds():
    exceptions = [PassException(group, "not_measured", 1, check=SKIPPED) for group in "bcd"]
    facts = dict(build_candidate("abcd", outcome="pass", exceptions=exceptions).facts)
    assert facts["Identities"] == "1 of 4 passed (a), 3 not measured (b, c and 1 more)"
    assert dict(build_candidate("a", outcome="pass").facts)["Identities"] == "all 1 passed"


REGISTERED = candidate_of(model="models:/toxicity/3")


@pytest.mark.parametrize(
    ("story", "following"),
    [
        (CandidateStory("c", WORDS["error"], "X.", ()), "doctor"),
        (build_candidate("ab", make_check("X", "fail", group="b")), "show out/s/c --identity b"),
        (build_candidate("ab", worsened=[loss("b")], outcome="pass"), "show out/s/c --identity b"),
        # A check of a category: `show` knows identities.
        (build_candidate("ab", make_check("X", "fail", group="category")), "show out --all"),
        (
            build_candidate(
                "ab", make_check("X", "insufficient", group="b"), outcome="insufficient"
            ),
            "policy plan out/s/c/policy.json out/s/c",
        ),
        (build_candidate("a", outcome="pass"), "show out --all"),
        (build_candidate("a", outcome="pass", candidate=REGISTERED), "verify toxicity 3"),
    ],
)
def test_what_to_do_next_is_a_command_of_biasgate(story, following):
    found = story.suggest_command("out")
    assert " ".join(found) == following
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *found = found
        command = command.commands[name]
    command.make_context(command.name, found)  # which refuses an option that is not known


def make_undecided(**parts):
    """Return an undecided check; `parts` are of its result."""
    return make_check("It is open", "insufficient", **parts)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            [make_undecided(group="deaf", rows_needed={"positive": 134})],
            "more comments or clusters for 1 check (deaf)",
        ),
        (
            [make_undecided(bound=0.79)] * 2,
            "more comments for 2 checks that are too close to the limit (gay)",
        ),
        (
            [make_undecided(kind="champion", bound=-0.02)],
            "more comments for 1 check that is too close to the margin (gay)",
        ),
        ([make_undecided(group=None)] * 2, "more evidence for 2 checks on all comments"),
    ],
)
def test_what_a_pass_takes_is_no_more_than_is_known(results, said):
    assert "; ".join(_list_lacks(results)) == said


def test_a_warning_is_told_before_numbers_that_the_first_screen_may_leave_out():
    [one] = build_candidate("ab", outcome="pass").stories
    warned = replace(one, warnings=("Look.",), unjudged_metrics=("fpr_gap",))
    labels = [label for label, _ in CandidateStory.from_story(warned).facts]
    assert labels.index("Warning") + 1 == labels.index("No limit in the policy")


NO_RIVAL = {"outcome": "insufficient", "kind": "champion", **MANY}


def test_a_champion_that_is_missing_is_not_told_as_too_few_comments():
    checks = [make_check("No champion", group=name, **NO_RIVAL) for name in "ab"]
    story = build_candidate("ab", *checks, outcome="insufficient")
    assert story.headline == "No champion to compare with."
    needed = "a champion for 2 checks (or `allow_first: true` in the policy)"
    assert dict(story.facts)["To pass"] == needed
    assert story.suggest_command("out") == ["show", "out", "--all"]
    useless = make_check(
        "No use", "insufficient", group=None, rule=USEFULNESS_RULE, metric="auc", scope="overall"
    )
    story = build_candidate("ab", *checks, useless, outcome="insufficient")
    assert story.suggest_command("out") == ["show", "out", "--all"]
    few = make_check("few rows", "insufficient", group="b", rows_needed={"positive": 3}, **MANY)
    both = build_candidate("ab", *checks, few, outcome="insufficient")
    assert both.headline == "No check failed, but the evidence is insufficient for a, b."
    told = f"{needed}; more comments or clusters for 1 check (b)"
    assert dict(both.facts)["To pass"] == told
    assert both.suggest_command("out")[:2] == ["policy", "plan"]


@pytest.mark.parametrize("outcome", ["insufficient", "skipped"])
def test_allow_first_is_not_advised_where_every_rule_needs_a_champion(outcome):
    checks = [make_check("None", **NO_RIVAL | {"outcome": outcome}, group=name) for name in "ab"]
    scored = make_check("All", "pass", rule="max_missing", kind="ceiling", group=None)
    warned = make_check("Warned", "fail", action="warn", group="a")
    found = verdict_of(*checks, scored, warned, outcome="insufficient")
    story = CandidateStory.from_story(Story.from_report(report_with({"a": {}, "b": {}}), found))
    assert story.headline == "No champion to compare with."
    needed = dict(story.facts)["To pass"]
    assert needed.startswith("a champion for 2 checks (no other rule blocks, so `allow_first` has")
    assert "`biasgate promote NAME VERSION --reset --reason TEXT`" in needed
    passed = verdict_of(*checks, make_check("Fine", "pass", group="a"), outcome="pass")
    assert not VerdictStory.from_verdict(passed).needs_champion


def test_with_a_champion_its_checks_may_lack_comments():
    few = make_check("few rows", group="b", **NO_RIVAL)
    story = build_candidate("ab", few, outcome="insufficient", champion=rival_of())
    assert dict(story.facts)["To pass"] == "more comments or clusters for 1 check (b)"


def test_a_reference_that_is_missing_is_named_by_its_key():
    lacking = make_check("No reference", group="b", **NO_RIVAL | {"kind": "reference"})
    story = build_candidate("ab", lacking, outcome="insufficient", champion=rival_of())
    assert story.headline == "No reference to compare with."
    assert dict(story.facts)["To pass"] == "a reference for 1 check (`reference:`)"


def test_scores_that_are_missing_without_a_limit_are_told_with_what_to_do():
    found = MarkedRows(MarkedShare(90, 3, MetricValue(3 / 90)), {})
    story = build_candidate("a", *judge_missing(found, None), outcome="insufficient")
    needed = "a score for every comment, or `max_missing` in the policy"
    assert dict(story.facts)["To pass"] == needed


def test_truncation_that_is_unknown_is_told_with_what_to_do():
    story = build_candidate(
        "a", *judge_truncated(None, ShareLimits(each=0.1)), outcome="insufficient"
    )
    needed = "a model whose truncation is known, or a policy without `max_truncated`"
    assert dict(story.facts)["To pass"] == needed


@pytest.mark.parametrize(
    ("metric", "rule", "marked"),
    [
        ("missing_rate", "max_missing", "have no score"),
        ("missing_gap", "max_missing", "have no score"),
        ("truncated_rate", "max_truncated", "were truncated"),
        ("truncated_gap", "max_truncated", "were truncated"),
    ],
)
def test_a_failed_limit_of_marked_comments_is_told_as_it_is_written(metric, rule, marked):
    limit = {"group": "b", "metric": metric, "kind": "ceiling", "limit": 0.3, "value": 0.4}
    said = {"rule": rule, "reason": "share", "n_marked": 4, "n_rows": 10}
    story = build_candidate("ab", result("fail", **limit, **said), outcome="fail")
    assert story.stories[0].headline == (
        f"{metric} of b is 0.4000, significantly above the limit 0.3: 4 of 10 comments {marked}."
    )
    needed = f"{metric.replace('_', ' ')} of b must be significantly below 0.3"
    assert dict(story.facts)["To pass"] == needed
    [row] = build_leaderboard([story]).rows
    words = "without a score" if rule == "max_missing" else "truncated"
    is_gap = metric.endswith("gap")
    brief = f"comments {words} +40.0 points" if is_gap else f"40.0% of comments {words}"
    assert row.worst.text == f"b: {brief}"


def test_a_pass_with_a_shown_loss_is_told_and_coloured_as_one_with_exceptions():
    lost = make_pass("news", "gay", champion=rival_of(), worsened=[loss("gay")])
    story = VerdictStory.from_verdict(lost)
    assert _write_headline(story, None, []) == (
        "Passed with exceptions: worse than the champion for gay, which the policy permits."
    )
    assert (make_candidate(lost).badge, make_candidate(make_pass("news", "gay")).badge) == (
        "except",
        "pass",
    )
    blocked = replace(lost, outcome="fail")
    assert _write_headline(VerdictStory.from_verdict(blocked), None, []) == (
        "Worse than the champion for gay."
    )
    assert make_candidate(blocked, outcome="fail").badge == "fail"


def make_worst(group, value, low):
    """Return a worst number that fails a floor."""
    return WorstNumber(group, "bpsn_auc", MetricValue(value, low=low, high=0.9), result("fail"))


@pytest.mark.parametrize(
    ("worst", "said"),
    [
        ([None], None),
        ([None, make_worst("a", 0.7, 0.6)], ["a: BPSN AUC 0.700 [0.600, 0.900]"]),
        (
            [make_worst("a", 0.7, 0.6), make_worst("b", 0.6, 0.5)],
            ["a: BPSN AUC 0.700 [0.600, 0.900]", "b: BPSN AUC 0.600 [0.500, 0.900]"],
        ),
        ([make_worst("a", 0.7, 0.6)] * 5, ["a: BPSN AUC 0.700 [0.600, 0.900]"] * 3),
    ],
)
@pytest.mark.parametrize(("shown", "label"), [(True, "Worst identity"), (False, "Lowest AUC")])
def test_who_is_treated_worst_is_told_of_each_set(worst, said, shown, label):
    [story] = build_candidate("a").stories
    stories = [
        replace(story, evaluation_set=f"s{at}", worst=one, is_worst_significant=shown)
        for at, one in enumerate(worst, 1)
    ]
    told = dict(CandidateStory("c", WORDS["pass"], "X.", tuple(stories)).facts).get(label)
    if said is None:
        assert told is None
        return
    first = 1 if worst[0] else 2
    limit = f"fails the floor {result('fail').limit:g}"
    texts = [f"{one}, {limit} on s{at}" for at, one in enumerate(said, first)]
    more = ["and on 2 more sets"] if len(worst) == 5 else []
    assert told == "; ".join([*texts, *more])


def test_a_failed_number_whose_interval_has_the_limit_names_the_bound_of_its_check():
    worst = make_worst("a", 0.75, 0.7)  # its interval ends at 0.9
    limit = result("fail").limit
    assert worst.limit == f"fails the floor {limit:g}"
    bounded = replace(worst, check=replace(worst.check, bound=0.79))
    assert worst.number.low <= limit <= worst.number.high
    assert bounded.limit == f"fails the floor {limit:g} (bound of this check: 0.790)"
    clear = replace(bounded, number=replace(worst.number, high=0.78))
    assert clear.limit == f"fails the floor {limit:g}"


def test_a_headline_on_one_set_says_which_sets_ended_the_same():
    [story] = build_candidate("ab", make_check("X", "fail"), outcome="fail").stories
    [passed] = build_candidate("ab", outcome="pass").stories
    stories = [
        replace(one, evaluation_set=f"s{at}") for at, one in enumerate([story, passed, story], 1)
    ]
    found = CandidateStory("c", WORDS["fail"], "X.", tuple(stories))
    assert found.headline == f"{story.headline.removesuffix('.')} (on s1; also blocked on s3)."


def test_a_loss_that_no_rule_lets_pass_asks_for_no_proof_of_its_absence():
    known = {"rule": HARM, "kind": "champion", "limit": 0.02, "metric": "bpsn_auc", "group": "b"}
    said = dict(build_candidate("ab", make_check("X", "fail", **known), outcome="fail").facts)[
        "To pass"
    ]
    assert (
        said == "BPSN AUC of b must not be significantly more than 0.02 worse than the champion's"
    )


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ([()], None),
        ([("a", "b", "c")], "a, b and 1 more (no number has an interval)"),
        ([(), ("b",)], "b on s2 (no number has an interval)"),
    ],
)
def test_for_whom_there_is_no_interval_is_said(unknown, said):
    [story] = build_candidate("abc").stories
    stories = [
        replace(story, evaluation_set=f"s{at}", groups_without_interval=one)
        for at, one in enumerate(unknown, 1)
    ]
    found = CandidateStory("c", WORDS["pass"], "X.", tuple(stories))
    assert dict(found.facts).get("No interval for") == said


def test_a_loss_against_the_champion_says_who_got_worse_not_who_is_treated_worst():
    cells = {"subgroup_auc": MetricValue(0.7, low=0.6, high=0.8)}
    report = report_with({"a": cells, "b": {}}, counts={"a": RowCounts(100, 100)})
    loss_of_b = make_check("X", "fail", rule=HARM, kind="champion", metric="bpsn_auc", group="b")
    story = Story.from_report(report, verdict_of(loss_of_b))
    assert story.worst_text == (
        "a: Subgroup AUC 0.700 [0.557, 0.843], the lowest AUC with at least 20 comments in each "
        "class"
    )
    assert not story.is_worst_significant
    assert (story.worst.group, story.worst.metric) == ("a", "subgroup_auc")


def test_who_is_treated_worst_in_a_slice_is_what_the_check_says():
    worst = result("fail", group="gay", value=0.68, slice="language.ar")
    story = Story.from_report(report_with({"gay": {}}), verdict_of(worst))
    assert story.worst_text == describe_check(worst)


def test_every_list_begins_with_the_identity_that_is_called_treated_worst(tmp_path):
    columns = rows(("a", "b", "c"), shift=0.3, n=3000)
    columns["score/candidate"] = np.round(
        columns["score/candidate"] + 0.6 * (columns["identity/c"] & ~columns["label"]), 3
    )
    rules = [{"metric": "bpsn_auc", "scope": "each", "floor": 0.95}]
    report, verdict, _ = judge(tmp_path, columns, rules=rules)
    failed = [one.group for one in verdict.results if one.outcome == "fail"]
    assert failed[0] == "a"  # the first in the order of the set
    found = CandidateStory.from_story(Story.from_report(report, verdict))
    facts = dict(found.facts)
    assert facts["Worst identity"].startswith("c: ")
    assert "first: BPSN AUC of c " in facts["To pass"]
    assert found.suggest_command("out")[-1] == "c"
    assert build_grid(report, verdict, LIMITS).rows[0].name == "c"
