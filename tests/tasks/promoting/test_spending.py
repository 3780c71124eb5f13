"""The ledger counts the decisions of a year, and each spends its share of alpha once."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from support.partial import partial
from support.promoted import (
    MODEL,
    POLICY,
    entry_content,
    judge_version,
    judged_version,
    promote_one,
    rewrite,
    wrong,
)

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import LEAST_LEVEL, OnlineSettings
from biasgate.tasks.ledger.alpha import Asked, Year, objection_to_entry, objection_to_share
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Spending, Spent
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting import spending
from biasgate.tasks.promoting.spending import count_decisions, spend
from biasgate.tasks.records import OnlineRecord

YEAR = datetime.now(UTC).year
RULES = POLICY.model_dump(mode="json") | {"correction": "online"}


def online(**settings):
    return Policy.model_validate(RULES | {"online": settings})


TEN = online(decisions=10)


def asked(version, rows="r", policy=TEN):
    return Asked(str(version), policy.digest, {"comments": [rows, f"s{version}", None, None]})


@pytest.fixture
def ledger(gateway):
    gateway.create_model(MODEL)
    return Ledger(gateway, MODEL)


def spent(number, *decisions, year=YEAR, settings=None):
    """An entry that counts decisions: each a version, a number and a share."""
    known = {"policy": "p", "bounds": "any_wrong", "planned": 10, "year": year}
    return link(
        number,
        action="spent",
        spent=[
            Spent(version=str(v), subject=f"{v}{n}", number=n, share=share)
            for v, n, share in decisions
        ],
        spending=Spending(**known | (settings or {})),
    )


def link(number, **said):
    content = entry_content(state="done", **said)
    return Entry(number, content, ModelVersion("m", str(number), None, {}))


def promotion(number, version):
    return link(number, version=str(version))


def test_a_year_has_its_own_decisions_and_the_promotions_that_they_led_to():
    other = spent(9, (5, 4, 0.09))
    chain = Chain(
        [
            spent(1, (1, 1, 0.5), year=YEAR - 1),
            promotion(2, 1),
            spent(3, (2, 1, 0.09), (3, 2, 0.09)),
            promotion(4, 3),
            promotion(5, 3),  # by hand, again: its decision counts once
            promotion(6, 9),  # of a version without a decision
            spent(7, (3, 3, 0.09)),
            promotion(8, 3),
            # Another action counts nothing, whatever it says.
            replace(other, content=replace(other.content, action="blocked")),
        ]
    )
    assert Year.of(chain, YEAR) == Year(YEAR, [0.09] * 3, [2, 3])
    assert Year.of(chain, YEAR - 1) == Year(YEAR - 1, [0.5], [1])


def test_decisions_by_other_settings_leave_less():
    settings = OnlineSettings(decisions=2)
    assert Year(YEAR, [0.4], []).next(settings) == 0.45
    assert Year(YEAR, [0.9], []).next(settings) == pytest.approx(0.1)
    assert Year(YEAR, [0.7, 0.3], []).next(settings) == 0


def test_promotions_earn_more_where_the_share_of_wrong_ones_is_bounded():
    settings = OnlineSettings(bounds="share_wrong")
    assert Year(YEAR, [0.01] * 5, [5]).next(settings) > 4 * Year(YEAR, [0.01] * 5).next(settings)
    assert Year(YEAR, [0.5, 0.499], []).next(settings) == pytest.approx(0.001)


def test_an_entry_that_spends_more_than_its_settings_give_is_found():
    due = spent(2, (2, 2, 0.09))
    before = spent(1, (1, 1, 0.09))
    assert objection_to_entry(due, Chain([before, due])) is None
    greedy = spent(2, (2, 2, 0.5))
    assert objection_to_entry(greedy, Chain([before, greedy])) == (
        "entry 2 spends 0.5 of alpha, where 0.09 is due"
    )
    skipped = spent(2, (2, 3, 0.09))
    assert objection_to_entry(skipped, Chain([before, skipped])) is not None


def test_decisions_are_numbered_and_written_before_they_are_made(ledger):
    found = spend([asked(1), asked(2)], TEN, ledger)
    assert [(one.number, one.planned, one.share, one.year) for one in found.values()] == [
        (1, 10, 0.09, YEAR),
        (2, 10, 0.09, YEAR),
    ]
    [entry] = ledger.entries()
    assert (entry.state, entry.content.action, entry.content.note) == (
        "done",
        "spent",
        f"decisions 1 to 2 of {YEAR}",
    )


def test_where_the_share_of_wrong_promotions_is_bounded_no_number_of_decisions_is_planned(ledger):
    found = spend([asked(1)], online(bounds="share_wrong"), ledger)["1"]
    assert (found.bounds, found.number, found.planned) == ("share_wrong", 1, None)


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        ({}, None),
        ({"evaluation_set": {"name": "other", "digest": "x"}}, None),  # it decides nothing here
        ({"nights": {"number": 2}, "evaluation_set": {"name": "comments", "digest": "x"}}, None),
        ({"evaluation_set": {"name": "comments", "digest": "x"}}, "other rows or scores"),
        ({"candidate": {"digest": "x"}}, "other rows or scores"),
        ({"champion": {"digest": "x"}}, "other rows or scores"),
        ({"reference": {"digest": "x"}}, "other rows or scores"),
        ({"nights": {"number": 2}, "candidate": {"digest": "x"}}, "other rows or scores"),
    ],
)
def test_a_share_is_of_the_rows_and_scores_that_a_verdict_is_about(ledger, changes, objection):
    compared = {"comments": ["r", "s1", "s of champion", None]}
    [share] = spend([Asked("1", TEN.digest, compared)], TEN, ledger).values()
    about = {
        "policy": {"digest": TEN.digest},
        "evaluation_set": {"name": "comments", "digest": "r"},
        "candidate": {"digest": "s1"},
        "champion": {"digest": "s of champion"},
    }
    verdict = partial(about | changes)
    verdict["online"] = OnlineRecord(**vars(share), level=0.0045)
    found = objection_to_share(verdict, "1", ledger.chain)
    assert found is None if objection is None else objection in found


@pytest.mark.parametrize(("names", "numbers"), [(["old"], {}), (["old", "new"], {"new": 1})])
def test_every_candidate_but_the_champion_has_a_share(ledger, monkeypatch, names, numbers):
    on_sets = {name: [SimpleNamespace(candidate=SimpleNamespace(name=name))] for name in names}
    decisions = {"old": None, "new": asked(1)}
    monkeypatch.setattr(
        spending, "asked_of", lambda measured, *_: decisions[measured[0].candidate.name]
    )
    place, told = SimpleNamespace(gateway=ledger.gateway), []
    monkeypatch.setattr(spending, "say", told.append)
    shares = count_decisions.fn([*on_sets.values()], {}, [], ledger.model, TEN, place)
    assert {name: one.number for name, one in shares.items()} == numbers
    assert len(ledger.entries()) == len(numbers)
    assert told == [f"{name}: decision 1 of {YEAR}, 0.09 of alpha" for name in numbers]


def test_the_same_decision_is_not_spent_twice_and_other_rows_are_another_decision(ledger):
    first = spend([asked(1)], TEN, ledger)
    assert spend([asked(1)], TEN, ledger) == first
    assert len(ledger.entries()) == 1
    again = spend([asked(1, rows="others")], TEN, ledger)
    assert again["1"].number == 2


def test_a_decision_of_last_year_made_again_is_still_the_same(ledger, monkeypatch):
    class LastYear(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz).replace(year=YEAR - 1, day=1)

    with monkeypatch.context() as patch:
        patch.setattr(spending, "datetime", LastYear)
        first = spend([asked(1)], TEN, ledger)
    assert first["1"].year == YEAR - 1
    assert spend([asked(1)], TEN, ledger) == first
    assert spend([asked(2)], TEN, ledger)["2"].number == 1  # a new year


def test_a_clock_that_is_set_back_does_not_begin_another_year(ledger, monkeypatch):
    spend([asked(1)], TEN, ledger)

    class LastYear(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz).replace(year=YEAR - 1, day=1)

    monkeypatch.setattr(spending, "datetime", LastYear)
    found = spend([asked(2)], TEN, ledger)["2"]
    assert (found.year, found.number) == (YEAR, 2)


def test_another_process_that_counts_the_same_decision_meanwhile_counts_it_once(
    ledger, monkeypatch
):
    turn = spending.take_turn
    others = []

    def slower(own, entry):
        if not others:
            others.append(True)
            entry_of_other = replace(entry, number=entry.number)
            own.close(entry_of_other, "abandoned", "for the test")
            spend([asked(1)], TEN, own)
        turn(own, entry)

    monkeypatch.setattr(spending, "take_turn", slower)
    with pytest.raises(RuntimeError, match="must still be queued; it is abandoned"):
        spend([asked(1)], TEN, ledger)
    assert spend([asked(1)], TEN, ledger)["1"].number == 1
    assert [one.state for one in ledger.entries()] == ["abandoned", "done"]


def test_who_finds_the_decision_counted_when_its_turn_comes_closes_its_entry(ledger, monkeypatch):
    opened, others = Ledger.open, iter([True])

    def later(own, *given):
        if next(others, False):
            spend([asked(1)], TEN, own)
        return opened(own, *given)

    monkeypatch.setattr(Ledger, "open", later)
    assert spend([asked(1)], TEN, ledger)["1"].entry == 1
    assert [(one.state, one.content.note) for one in ledger.entries()] == [
        ("done", f"decision 1 of {YEAR}"),
        ("abandoned", "another entry spent the same"),
    ]


def test_more_decisions_than_an_entry_holds_are_put_into_several(ledger):
    found = spend([asked(one) for one in range(1, 46)], online(decisions=100), ledger)
    assert [one.number for one in found.values()] == list(range(1, 46))
    assert [len(one.content.spent) for one in ledger.entries()] == [20, 20, 5]
    spend([asked(46)], online(decisions=100), ledger)
    assert [one.content.note for one in ledger.entries()] == [
        f"decisions 1 to 20 of {YEAR}",
        f"decisions 21 to 40 of {YEAR}",
        f"decisions 41 to 45 of {YEAR}",
        f"decision 46 of {YEAR}",
    ]


def test_a_ledger_of_which_a_part_cannot_be_read_is_refused(ledger, gateway):
    for version in (1, 2):
        spend([asked(version)], TEN, ledger)
    gateway.client.set_model_version_tag(ledger.name, "1", "biasgate.entry", "{")
    for version in (2, 3):  # one that is counted already, one that is not
        with pytest.raises(InputError, match="every version of toxicity-promotions must be an ent"):
            spend([asked(version)], TEN, ledger)
    assert [entry.number for entry in ledger.entries()] == [2]


def test_a_ledger_that_cannot_be_read_any_more_when_the_turn_comes_is_refused(
    ledger, gateway, monkeypatch
):
    spend([asked(1)], TEN, ledger)
    turn = spending.take_turn

    def after_another(own, entry):
        gateway.client.set_model_version_tag(ledger.name, "1", "biasgate.entry", "{")
        turn(own, entry)

    monkeypatch.setattr(spending, "take_turn", after_another)
    with pytest.raises(InputError, match="every version of toxicity-promotions must be an entry"):
        spend([asked(2)], TEN, ledger)


def test_a_ledger_that_was_changed_is_refused(ledger, gateway):
    spend([asked(1)], TEN, ledger)
    spend([asked(2)], TEN, ledger)
    first = ledger.entries()[0]
    rewrite(gateway, first, spent=[])
    for version in (2, 3):  # one that is counted already, one that is not
        with pytest.raises(InputError, match="must be unchanged before anything is promoted"):
            spend([asked(version)], TEN, ledger)


def test_a_registry_that_does_not_answer_stops_the_decision(ledger, monkeypatch):
    def away(*_):
        message = "the registry is away"
        raise ConnectionError(message)

    monkeypatch.setattr(Gateway, "versions", away)
    with pytest.raises(ConnectionError):
        spend([asked(1)], TEN, ledger)


@pytest.mark.parametrize("left", [0.0, 19 * LEAST_LEVEL])
def test_where_other_settings_spent_all_of_the_year_nothing_is_decided(ledger, monkeypatch, left):
    """The level is the share of alpha, here 1/20: the confidence is 0.95."""
    monkeypatch.setattr(OnlineSettings, "share", lambda *_: left)
    with pytest.raises(InputError, match=r"must have some of the year's alpha left for decision 1"):
        spend([asked(1)], TEN, ledger)
    assert [one.state for one in ledger.entries()] == ["abandoned"]


def test_what_is_just_enough_of_the_year_is_spent(ledger, monkeypatch):
    quarter = Policy.model_validate(RULES | {"confidence": 0.75})
    monkeypatch.setattr(OnlineSettings, "share", lambda *_: 4 * LEAST_LEVEL)
    assert spend([asked(1, policy=quarter)], quarter, ledger)["1"].share == 4 * LEAST_LEVEL


def counted(gateway, store, folder, *, policy=TEN, **options):
    """Judge a version with its share, as an evaluation does, and return it with its verdict."""
    from support import promoted  # noqa: PLC0415

    real = promoted.context_of

    def with_share(model, policy, required, gateway):
        rows = promoted.EvaluationSet.load(promoted.set_folder(store)).digest
        version = max(int(one.version) for one in gateway.versions(MODEL))
        rival = options.get("champion")
        compared = [rows, f"scores of {version}"]
        compared += [None if rival is None else f"scores of {rival[0].version}", None]
        found = spend(
            [Asked(str(version), policy.digest, {"comments": compared})],
            policy,
            Ledger(gateway, model),
        )
        return replace(real(model, policy, required, gateway), online=found[str(version)])

    promoted.context_of = with_share
    try:
        return judged_version(gateway, store, folder, policy=policy, **options)
    finally:
        promoted.context_of = real


def test_a_verdict_names_its_share_and_its_rules_have_the_confidence_of_it(
    gateway, store, tmp_path
):
    version, verdict, _ = counted(gateway, store, tmp_path / "v1")
    assert verdict.online.number == 1
    assert verdict.online.level == pytest.approx(0.05 * 0.09)
    assert {one.confidence for one in verdict.results} == {1 - 0.05 * 0.09}
    assert promote_one([verdict], version, gateway).promoted
    assert wrong(gateway, store) == set()


def test_a_verdict_without_a_share_that_the_policy_asks_for_does_not_hold(gateway, store, tmp_path):
    version, verdict, _ = judged_version(gateway, store, tmp_path / "v1", policy=TEN)
    assert promote_one([verdict], version, gateway).promoted
    assert wrong(gateway, store) == {"ledger"}


def test_only_the_champion_itself_needs_no_share_of_its_own(gateway, store, tmp_path):
    first = counted(gateway, store, tmp_path / "v1")
    assert promote_one([first[1]], first[0], gateway).promoted
    again = first[0], first[2]
    judge_version(gateway, store, tmp_path / "again", *again, again, policy=TEN)
    assert wrong(gateway, store) == set()
    version, verdict, _ = judged_version(
        gateway, store, tmp_path / "v2", policy=TEN, champion=first
    )
    assert promote_one([verdict], version, gateway).promoted
    assert wrong(gateway, store) == {"ledger"}


@pytest.mark.parametrize("change", [{"number": 2}, {"share": 0.5}])
def test_a_verdict_with_another_share_than_the_ledger_counted_does_not_hold(
    gateway, store, tmp_path, monkeypatch, change
):
    real = spend
    monkeypatch.setitem(
        globals(),
        "spend",
        lambda *given: {key: replace(one, **change) for key, one in real(*given).items()},
    )
    version, verdict, _ = counted(gateway, store, tmp_path / "v1")
    assert promote_one([verdict], version, gateway).promoted
    assert "ledger" in wrong(gateway, store)


def test_a_share_that_was_counted_for_other_rows_does_not_hold(
    gateway, store, tmp_path, monkeypatch
):
    real = Asked
    monkeypatch.setitem(
        globals(),
        "Asked",
        lambda version, policy, compared: real(
            version, policy, {"comments": ["others", *compared["comments"][1:]]}
        ),
    )
    version, verdict, _ = counted(gateway, store, tmp_path / "v1")
    assert promote_one([verdict], version, gateway).promoted
    assert wrong(gateway, store) == {"ledger"}
