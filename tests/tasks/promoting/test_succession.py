"""Replacement of a champion: the policy's rule, and nightly runs without new versions."""

from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
from support.judging import NOTHING_SAID
from support.partial import partial
from support.promoted import (
    MODEL,
    POLICY,
    entry_content,
    judge_against_now,
    judge_version,
    local,
    registered_version,
    scores_of,
)

from bias_metrics.gate.objective import Objective
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.ledger.entry import Entry, VerdictReference
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.outcomes import get_outcome_words
from biasgate.tasks.promoting import decisions as last_step
from biasgate.tasks.promoting.by_hand import promote_version, read_history, roll_back
from biasgate.tasks.promoting.decisions import make_decisions, promote_best, promote_candidates
from biasgate.tasks.promoting.succession import JudgedCandidate, PromotionHistory, SuccessionRule
from biasgate.tasks.records import Decision
from biasgate.tasks.wording import get_verdict_words

NEWER, BETTER, NEVER = (
    SuccessionRule(rule, allow_first=True) for rule in ("newer", "better", "never")
)
WITHHELD = SuccessionRule("newer", allow_first=True, withheld="not tonight")
FIRST_LOOK = SuccessionRule("newer", allow_first=True, is_first_look=True)
NOTHING = PromotionHistory(frozenset({1}), {})
NOBODY = PromotionHistory(frozenset(), {})


def make_judged(number, *changes, value=0.9, half=0.005, values=(), samples=MappingProxyType({})):
    """Return a passed version with changes of its objective by set; margin: `half`.

    `values`: the objective on each set. Default: `value` on each. `samples`: rows of
    the sample by number of the set; the other sets were judged whole.
    """
    verdicts = []
    for at, change in enumerate(changes or (0.01,)):
        ends = {"low": None, "high": None}
        if change is not None and half is not None:
            ends = {"low": change - half, "high": change + half}
        own = values[at] if values else value
        objective = {"metric": "final_score", "confidence": 0.95, "value": own}
        objective |= {"rival": 0.9, "change": change} | ends
        verdicts.append(
            partial(
                {
                    "evaluation_set": {"name": f"set {at}", "sample": samples.get(at)},
                    "objective": Objective(**objective),
                }
            )
        )
    return JudgedCandidate(f"c{number}", verdicts, ModelVersion(MODEL, str(number), None, {}))


# ------------------------------------------------------------------ the rule


def make_references(*samples):
    """Return references to the verdicts behind a promotion, one per set."""
    return [
        VerdictReference(set=f"set {at}", run_id="r", digest="d", sample=sample)
        for at, sample in enumerate(samples)
    ]


@pytest.mark.parametrize(
    ("samples", "of_champion", "words"),
    [
        ({}, (None, None), None),
        ({}, (5000, 5000), None),
        ({0: 5000}, (None, None), "5,000 comments of set 0, and the champion on the whole set"),
        ({1: 5000}, (5000, None), "comments of set 1, and the champion on the whole set"),
        ({0: 5000}, (5001, None), "set 0, and the champion on a sample of 5,001"),
        ({0: 5000}, (5000, None), None),
        ({0: 5000, 1: 9000}, (4000, 9000), None),
        ({0: 5000}, (), "comments of set 0, and the champion on the whole set"),
    ],
)
def test_a_verdict_on_a_sample_replaces_no_champion_that_was_judged_on_more(
    samples, of_champion, words
):
    past = PromotionHistory(frozenset({1}), {}, make_references(*of_champion))
    objection = NEWER.find_objection(make_judged(2, 0.01, 0.01, samples=samples), "1", past)
    assert objection is None if words is None else words in objection


@pytest.mark.parametrize(
    ("rule", "changes", "words"),
    [
        (FIRST_LOOK, (0.01,), "for a first look"),
        (NEWER, (0.01,), None),
        (NEWER, (-0.004,), None),
        (NEWER, (None,), None),
        (NEWER, (-0.006,), "significantly lower, final_score is lower by 0.0060"),
        (
            NEWER,
            (0.01, -0.01),
            "lower by 0.0100 (one-sided 95% bounds -0.0150 to -0.0050) on set 1",
        ),
        (BETTER, (0.006,), None),
        (BETTER, (0.004,), "not significantly higher, final_score is higher by 0.0040"),
        (BETTER, (0.01, 0.004), "final_score is higher by 0.0040"),
        (BETTER, (None,), "final_score has no difference"),
        (NEVER, (0.3,), "the policy has `promote: never`"),
        (WITHHELD, (0.3,), "not tonight"),
    ],
)
def test_a_later_version_replaces_the_champion_if_the_rule_allows(rule, changes, words):
    objection = rule.find_objection(make_judged(2, *changes), "1", NOTHING)
    assert objection is None if words is None else words in objection


@pytest.mark.parametrize(
    ("rule", "samples", "is_chosen"),
    [
        (NEWER, {}, True),
        (NEWER, {0: 5000}, True),
        (BETTER, {}, True),
        (FIRST_LOOK, {}, True),
        (WITHHELD, {}, False),
        (NEVER, {}, False),
        (SuccessionRule("newer", allow_first=False), {}, False),
    ],
)
def test_the_first_champion_is_the_best_where_the_policy_allows_one(rule, samples, is_chosen):
    passed = [make_judged(1, value=0.91, samples=samples), make_judged(2, value=0.90)]
    assert rule.choose(passed, None, NOBODY) == (passed[0] if is_chosen else None)


def test_better_needs_bounds():
    objection = BETTER.find_objection(make_judged(2, 0.3, half=None), "1", NOTHING)
    assert "higher by 0.3000, without bounds" in objection


@pytest.mark.parametrize("past", [{3}, {3, 5}])
def test_newer_means_later_than_every_version_that_was_champion(past):
    objection = NEWER.find_objection(make_judged(2), "3", PromotionHistory(frozenset(past), {}))
    assert f"version {max(past)}, a current or former champion, is newer" in objection
    assert BETTER.find_objection(make_judged(2), "3", PromotionHistory(frozenset(past), {})) is None


@pytest.mark.parametrize("rule", [NEWER, BETTER])
@pytest.mark.parametrize("champion", ["3", None])
def test_what_was_replaced_or_left_aside_does_not_come_back(rule, champion):
    past = PromotionHistory(frozenset({2, 3}), {4: 3})
    replaced = rule.find_objection(make_judged(2, 0.3), champion, past)
    assert replaced == "version 2 was champion before, and is not promoted automatically again"
    aside = rule.find_objection(make_judged(4, 0.3), champion, past)
    assert aside == "version 4 passed before, and version 3 was promoted instead"


@pytest.mark.parametrize(
    ("passed", "best"),
    [
        ([make_judged(2, value=0.91), make_judged(3, value=0.90)], 2),
        ([make_judged(2, value=0.9), make_judged(3, value=0.9)], 3),
        ([make_judged(2, value=0.9), make_judged(3, value=None)], 2),
        ([make_judged(2, -0.2, value=0.95), make_judged(3, value=0.90)], 3),
        # The mean over the sets, which is unknown where it is unknown on one of them.
        ([make_judged(2, 0.01, 0.01), make_judged(3, 0.01, 0.01, values=(0.99, 0.80))], 2),
        ([make_judged(2, 0.01, 0.01), make_judged(3, 0.01, 0.01, values=(0.99, None))], 2),
    ],
)
def test_of_several_that_may_the_best_is_chosen(passed, best):
    assert NEWER.choose(passed, "1", NOTHING).number == best
    assert NEWER.choose(passed[::-1], "1", NOTHING).number == best


def test_why_a_version_is_preferred_to_another():
    better, other = make_judged(3, value=0.95), make_judged(2, value=0.9)
    assert (
        better.explain_preference(other)
        == "its final_score is 0.9500, against 0.9000 for version 2"
    )
    assert (
        make_judged(3).explain_preference(other)
        == "version 3 has the same final_score and is newer"
    )
    unknown = make_judged(2, value=None)
    assert better.explain_preference(unknown) == "final_score of version 2 is undefined"


@pytest.mark.parametrize(
    ("rule", "champion", "change", "words"),
    [
        (NEWER, None, 0.01, "`allow_first`"),
        (NEWER, "1", 0.01, "`promote: newer`: not significantly lower, final_score is higher by"),
        (BETTER, "1", 0.01, "`promote: better`: significantly higher, final_score is higher by"),
        (NEWER, "1", None, "`promote: newer`: the objective could not be compared, final_score"),
    ],
)
def test_the_rule_by_which_a_version_replaces_the_champion_is_told(rule, champion, change, words):
    assert rule.describe_rule(make_judged(2, change), champion).startswith(words)


@pytest.mark.parametrize(
    ("outcome", "report_only", "has_word"),
    [("pass", False, True), ("pass", True, False), ("insufficient", False, False)],
)
def test_what_limits_an_outcome_is_told_also_where_the_decision_is_not_of_the_verdict(
    outcome, report_only, has_word
):
    verdict = {**NOTHING_SAID, "outcome": "pass", "reservations": ["Measured on 9 of 10 rows."]}
    verdict |= {"evaluation_set": {"name": "comments"}, "policy": {"report_only": report_only}}
    candidate = JudgedCandidate("c", partial([verdict]), None)
    states = {"promoted": False, "champion_moved": False, "report_only": report_only}
    completed = candidate.complete_decision(
        Decision(outcome=outcome, rule=None, sentence="So it is.", **states)
    )
    assert (completed.word is not None) is has_word
    assert completed.exceptions == ["Measured on 9 of 10 rows."]


def test_the_former_champion_is_not_said_to_be_champion_still():
    policy = {"report_only": False, "name": "p", "digest": "d"}
    passed = [make_judged(2), make_judged(3, value=0.95)]
    for one in passed:
        for verdict in one.verdicts:
            verdict.update(partial({"outcome": "pass", "policy": policy, **NOTHING_SAID}))
    sentences = [decision.sentence for decision in make_decisions(passed, MODEL, "2", [], NEWER)]
    assert (
        sentences[0] == "models:/toxicity/2 passed, and was champion until version 3 replaced it."
    )
    assert sentences[1].startswith("models:/toxicity/3 is champion now.")


@pytest.mark.parametrize("rule", [NEWER, BETTER])
@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_of_the_champion_promotes_nothing_and_its_first_line_says_so(
    registry, tmp_path, rule, is_copy
):
    first, _, scores = registry.promote_next()
    version = registered_version(registry.gateway, tmp_path, "copy") if is_copy else first
    place = registry.gateway, registry.store, tmp_path / "again"
    same = judge_version(*place, version, scores, (first, scores), copy_of=first)
    copied = "Passed as a copy of the champion: not promoted"
    words = copied if is_copy else "Passed for 0 of 1 identities"
    assert (same.outcome, get_verdict_words(same).text) == ("pass", words)
    judged = [JudgedCandidate("c", [same], version)]
    [decision] = promote_candidates(judged, MODEL, registry.gateway, rule)
    assert (decision.outcome, decision.promoted) == ("pass", False)
    assert registry.find_alias() == "1"
    if not is_copy:
        assert decision.sentence == f"{first.uri} is champion already."
        return
    assert decision.sentence.endswith(
        "stays version 1: it has the champion's own scores, since its files and options are the "
        "same."
    )
    assert get_outcome_words(decision).text == copied
    with pytest.raises(InputError, match="must be another model than the champion: it has the"):
        promote_version(MODEL, version.version, "please", registry.gateway)


def test_a_reset_leaves_nobody_aside():
    old = entry_content(action="reset", version="2", replaces="1", state="done")
    new = entry_content(version="4", replaces="2", passed_over=["3"], state="done")
    entries = [
        Entry(1, old, None),
        Entry(2, replace(old, version="9", replaces="2", state="abandoned"), None),
        Entry(3, new, None),
    ]
    assert PromotionHistory.from_entries(entries, "7") == PromotionHistory(
        frozenset({1, 2, 4, 7}), {3: 4}
    )


# ------------------------------------------------------------------ nights


class Nights:
    """A registry whose versions are judged every night against the current champion."""

    def __init__(self, store, folder):
        self.gateway, self.store, self.folder = local(store), store, folder
        self.scores, self.verdicts, self.said = {}, {}, []

    def register(self, *, noise=1.6):
        """Register the next version; more noise makes it worse."""
        number = len(self.scores) + 1
        version = registered_version(self.gateway, self.folder, f"v{number}")
        self.scores[version.version] = scores_of(self.store, seed=number, noise=noise)
        return version

    def night(self, *versions, rule=NEWER):
        """Judge versions and promote the best; verdicts that cannot differ are made once."""
        candidates = [
            JudgedCandidate(f"c{version.version}", [self.verdict(version)], version)
            for version in versions
        ]
        return promote_candidates(candidates, MODEL, self.gateway, rule)

    def verdict(self, version):
        key = version.version, self.champion
        if key not in self.verdicts:
            place = self.folder / "-".join(map(str, key))
            arguments = self.gateway, self.store, place, version, self.scores[version.version]
            self.verdicts[key] = judge_against_now(*arguments)
            assert self.verdicts[key].outcome == "pass"
        return self.verdicts[key]

    @property
    def champion(self):
        version = self.gateway.get_alias(MODEL, "champion")
        return None if version is None else version.version

    @property
    def moves(self):
        """Versions that became champion, in order, with the rule."""
        entries = [item.content for item in Ledger(self.gateway, MODEL).read_entries()]
        return [(item.version, item.replaces, item.rule) for item in entries]


@pytest.fixture
def nights(store, tmp_path, monkeypatch):
    made = Nights(store, tmp_path / "made")

    def say(sentence, *, aside):
        made.said.append((sentence, aside))

    monkeypatch.setattr(last_step, "log_message", say)
    return made


@pytest.mark.parametrize("rule", [NEWER, BETTER], ids=lambda rule: rule.promote)
@pytest.mark.slow
def test_a_hundred_unchanged_nights_with_two_passing_versions_move_nothing(nights, rule):
    first, second = nights.register(), nights.register(noise=1.4)
    nights.night(first, rule=rule)
    nights.night(first, second, rule=rule)
    moves, champion = nights.moves, nights.champion
    for _ in range(100):
        decisions = nights.night(first, second, rule=rule)
        assert {decision.outcome for decision in decisions} == {"pass"}
        assert not any(decision.promoted or decision.champion_moved for decision in decisions)
    assert (nights.moves, nights.champion) == (moves, champion)
    assert [decision.sentence for decision in decisions] == [
        (
            "models:/toxicity/1 passed, but champion of toxicity stays version 2: "
            "version 1 was champion before, and is not promoted automatically again."
        ),
        "models:/toxicity/2 is champion already.",
    ]


@pytest.mark.slow
def test_of_ten_nights_with_a_new_version_each_promotes_what_is_not_shown_to_be_worse(nights):
    versions, stayed = [], {}
    for _ in range(10):
        versions.append(nights.register())
        decision = nights.night(*versions[-2:])[-1]
        if not decision.promoted:
            stayed[versions[-1].version] = decision.sentence
    champions = [version for version, _, _ in nights.moves]
    assert champions == [str(number) for number in range(1, 11) if str(number) not in stayed]
    assert [before for _, before, _ in nights.moves] == ["", *champions[:-1]]
    assert {rule for _, _, rule in nights.moves[1:]} == {"newer"}
    assert len(champions) > 5
    assert all(
        ": significantly lower, final_score is lower by" in sentence for sentence in stayed.values()
    )


@pytest.mark.slow
def test_ten_nights_under_better_promote_only_what_is_shown_to_be_better(nights):
    versions = []
    for night in range(10):
        versions.append(nights.register(noise=1.5 if night == 6 else 1.6))
        nights.night(*versions[-2:], rule=BETTER)
    assert ("7", "1", "better") in nights.moves
    assert [item for item in nights.moves if int(item[0]) > 7] == []


def test_of_two_new_versions_the_better_moves_once_and_the_other_is_left_aside(nights):
    nights.night(nights.register())
    worse, better, worst = (nights.register(noise=one) for one in (1.5, 1.4, 1.59))
    decisions = nights.night(worse, better, worst)
    assert [decision.promoted for decision in decisions] == [False, True, False]
    assert decisions[1].sentence.startswith(
        "models:/toxicity/3 is champion now. It replaced version 1 (`promote: newer`: not "
        "significantly lower, final_score is higher by "
    )
    assert "passed, but champion of toxicity is version 3 now: its final_score is" in (
        decisions[2].sentence
    )
    assert "`promote: newer`" not in decisions[0].sentence
    [last, _] = read_history(MODEL, nights.gateway)
    assert (last.rule, last.passed_over) == ("newer", ["2", "4"])
    assert "final_score is higher by" in last.reason
    for _ in range(3):
        assert "version 3 was promoted instead" in nights.night(worse, better, worst)[2].sentence
    assert len(nights.moves) == 2


@pytest.mark.parametrize("rule", [NEWER, BETTER], ids=lambda rule: rule.promote)
def test_after_a_rollback_unchanged_nights_move_nothing_and_a_new_version_does(nights, rule):
    first = nights.register()
    nights.night(first, rule=rule)
    second, third = nights.register(noise=1.5), nights.register(noise=1.52)
    nights.night(first, second, third, rule=rule)
    assert nights.champion == "2"
    nights.verdicts.clear()
    judge_against_now(
        nights.gateway, nights.store, nights.folder / "again", first, nights.scores[first.version]
    )
    roll_back(MODEL, "complaints", nights.gateway)
    moves = nights.moves
    assert moves[-1] == ("1", "2", "by hand")
    for _ in range(3):
        nights.night(first, second, third, rule=rule)
    assert nights.moves == moves
    nights.night(first, second, third, nights.register(noise=1.5), rule=rule)
    assert nights.moves[len(moves) :] == [("4", "1", rule.promote)]


def test_where_somebody_else_promotes_meanwhile_all_that_passed_are_judged_again(
    nights, monkeypatch
):
    first = nights.register()
    nights.night(first)
    second, third, other = (nights.register() for _ in range(3))
    nights.verdict(other)
    open_entry = Ledger.open

    def late(self, *arguments):
        monkeypatch.undo()
        assert nights.night(other)[0].promoted
        return open_entry(self, *arguments)

    monkeypatch.setattr(Ledger, "open", late)
    decisions = nights.night(second, third)
    assert [decision.champion_moved for decision in decisions] == [True, True]
    states = [item.state for item in Ledger(nights.gateway, MODEL).read_entries()]
    assert states == ["done", "done", "abandoned"]
    again = nights.night(second, third)
    assert not any(decision.promoted or decision.champion_moved for decision in again)
    assert nights.champion == other.version


def untagged(nights, *, noise=1.6):
    """A version with a verdict, whose tags are not written yet."""
    version = nights.register(noise=noise)
    folder = nights.folder / f"judged {version.version}"
    arguments = nights.gateway, nights.store, folder, version, nights.scores[version.version]
    verdict = judge_version(*arguments)
    for name in nights.gateway.resolve(version.uri).tags:
        nights.gateway.client.delete_model_version_tag(MODEL, version.version, name)
    return version, verdict


def run_last_step(nights, *found, model=MODEL, policy=POLICY):
    """Return the decisions of an evaluation's last step on versions or files of scores."""
    candidates = [
        SimpleNamespace(name=f"c{at}", uri=version and version.uri, promote=True)
        for at, (version, _) in enumerate(found)
    ]
    verdicts = [[verdict] for _, verdict in found]
    place = SimpleNamespace(gateway=nights.gateway)
    decisions = promote_best.fn(candidates, verdicts, model, policy, place)
    assert nights.said == [
        (f"{decision.candidate}: {decision.sentence}", True) for decision in decisions
    ]
    return decisions


def build_tags(nights, version):
    return nights.gateway.resolve(version.uri).tags


def test_the_last_step_tags_versions_blocks_what_did_not_pass_and_moves_the_alias(nights):
    (good, passed), (bad, failed) = untagged(nights), untagged(nights, noise=50)
    assert [passed.outcome, failed.outcome] == ["pass", "fail"]
    decisions = run_last_step(nights, (None, failed), (good, passed), (bad, failed))
    assert [(decision.outcome, decision.promoted) for decision in decisions] == [
        ("fail", False),
        ("pass", True),
        ("fail", False),
    ]
    assert not any(decision.champion_moved or decision.report_only for decision in decisions)
    assert decisions[0].sentence == "Not a registered version: nothing to promote."
    for version, verdict in ((good, passed), (bad, failed)):
        assert build_tags(nights, version)["biasgate.comments.run_id"] == verdict.run_id
    blocked, moved = [item.content for item in Ledger(nights.gateway, MODEL).read_entries()]
    assert (blocked.action, blocked.blocked) == ("blocked", [bad.version])
    assert [verdict.run_id for verdict in blocked.verdicts] == [failed.run_id]
    assert (moved.action, moved.version) == ("promotion", good.version)


def test_where_all_passed_no_version_is_blocked(nights):
    good, passed = untagged(nights)
    run_last_step(nights, (good, passed))
    assert [item.content.action for item in Ledger(nights.gateway, MODEL).read_entries()] == [
        "promotion"
    ]


@pytest.mark.parametrize(
    ("model", "policy", "tagged"),
    [
        (None, POLICY, False),
        ("another", POLICY, False),
        (MODEL, POLICY.model_copy(update={"report_only": True}), True),
    ],
)
def test_an_evaluation_that_decides_nothing_about_a_version_writes_nothing_to_the_ledger(
    nights, model, policy, tagged
):
    bad, failed = untagged(nights, noise=50)
    [told] = run_last_step(nights, (bad, failed), model=model, policy=policy)
    assert not told.promoted
    assert ("biasgate.comments.run_id" in build_tags(nights, bad)) is tagged
    for name in (MODEL, "another"):
        assert Ledger(nights.gateway, name).read_entries() == []


def test_an_interrupted_evaluation_tells_the_same_as_one_that_was_not(nights):
    first = nights.register()
    nights.night(first)
    versions = [nights.register(noise=one) for one in (1.4, 1.5)]
    candidates = [
        JudgedCandidate(f"c{version.version}", [nights.verdict(version)], version)
        for version in versions
    ]
    before = Ledger(nights.gateway, MODEL).read_entries()
    decisions = promote_candidates(candidates, MODEL, nights.gateway, NEWER)
    assert decisions == make_decisions(candidates, MODEL, "1", before, NEWER)
