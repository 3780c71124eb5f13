"""A model card from hand-made numbers: what it says, and what it leaves to the owner."""

from dataclasses import replace

import pytest
from support.judging import report_of
from support.made import bias_of, number, result, rival_of, verdict_of

from bias_metrics.gate.objective import Objective
from biasgate.tasks.records import PolicyRecord
from biasgate.tasks.records.verdict import HoldsFor
from biasgate.tasks.reporting.model_card import MISSING, About, build_model_card, shorten_card

CELLS = {
    "bpsn_auc": number(0.75, 0.7, 0.8),
    "bnsp_auc": number(0.9),
    "positive_aeg": number(0.0, -0.1, 0.1),
    "negative_aeg": number(0.25),
}
REPORT = report_of(
    bias_of({"a|b<script>": CELLS}, auc=number(0.875, 0.85, 0.9), n_positive=4, n_negative=6),
    on="comments",
    digest="d2",
    source={"path": "/secret"},
    candidate={"name": "words", "kind": "tfidf", "model": "models:/toxicity/3"},
    warnings=["Every AUC is near one half."],
)
VERDICT = verdict_of(
    result(
        "insufficient",
        group="a|b<script>",
        action="warn",
        reason="undefined",
        why="too few rows",
    ),
    outcome="insufficient",
    policy=PolicyRecord(name="fair", digest="d3", report_only=False),
    champion=rival_of("old", model="models:/toxicity/2"),
    objective=Objective(
        metric="final_score",
        confidence=0.95,
        value=0.91,
        rival=0.9,
        change=0.01,
        low=0.004,
        high=0.016,
    ),
)


def split_sections(about=None):
    parts = build_model_card(REPORT, VERDICT, about or About()).split("\n## ")
    return {one.partition("\n")[0]: one.partition("\n\n")[2].strip() for one in parts}


def test_the_sections_are_those_of_a_model_card():
    assert list(split_sections()) == [
        "# Model card: words",
        "Details",
        "Intended use",
        "Factors",
        "Metrics",
        "Groups without evidence",
        "Evaluation data",
        "Ethical considerations",
        "Caveats",
    ]


def test_metrics_stand_with_intervals_and_undefined_ones_say_so():
    row = r"| a\|b\<script> | 10 | 4 | undefined | 0.750 [0.700, 0.800] | 0.900 | "
    row += "0.000 [\N{MINUS SIGN}0.100, 0.100] | 0.250 |"
    assert row in split_sections()["Metrics"].splitlines()
    overall = "Overall AUC 0.875 [0.850, 0.900]; final score over 1 identity undefined."
    assert overall in split_sections()["Metrics"]


def test_the_verdict_stands_with_its_reasons():
    found = split_sections()["# Model card: words"]
    assert found.startswith("**Undecided** by policy `fair`, on 2026-11-21.")
    assert "Compared with `models:/toxicity/2`." in found
    assert r"(only warns): bpsn_auc of a\|b\<script> is undefined: too few rows." in found


@pytest.mark.parametrize(
    ("outcome", "word", "names", "held"),
    [
        ("pass", "passed", ["a|b<script>"], "all 1 passed"),
        ("fail", "failed", [], "0 of 1 passed"),
    ],
)
def test_what_was_skipped_and_for_whom_it_holds_stand_with_every_outcome(
    outcome, word, names, held
):
    results = result(outcome, group="a|b<script>"), result("skipped", group=None)
    holds_for = HoldsFor(identities=names, of=1)
    card = build_model_card(
        REPORT, verdict_of(*results, outcome=outcome, holds_for=holds_for), About()
    )
    told = card.partition("\n## ")[0]
    assert f"1 check: 1 {word}; 1 skipped. " in told
    assert f"\nIdentities: {held}" in told


def test_the_verdict_says_what_replaces_a_champion_and_how_the_objective_compares():
    found = " ".join(build_model_card(REPORT, VERDICT, About(), "better").split())
    assert "Promotion rule: `promote: better`." in found
    assert (
        "Objective, compared with the champion's: final_score is higher by 0.0100 (one-sided 95%"
        in found
    )
    first = replace(VERDICT, champion=None)
    for value, word in ((0.91, "0.9100"), (None, "undefined")):
        alone = Objective(metric="final_score", confidence=0.95, value=value)
        card = build_model_card(REPORT, replace(first, objective=alone), About())
        assert f"Objective: final_score is {word}; there was no champion to compare with." in card


def test_groups_without_evidence_are_named_with_what_is_missing():
    assert split_sections()["Groups without evidence"] == (
        r"- a\|b\<script>: undefined: subgroup_auc; undecided: bpsn_auc/each floor"
    )


def test_data_are_told_by_digest_and_choices_but_not_by_path():
    assert split_sections()["Evaluation data"].splitlines() == [
        "- set: comments",
        "- digest: `d2`",
        "- label_threshold: 0.5",
        "- identity_threshold: 0.5",
        "- identity_rows: rated",
        "- background: outside_subgroup",
        "- n_rows: 600",
        "- n_rows_rated: 600",
        "- n_rows_measured: 600",
        "- confidence: 0.95",
        "- split: all",
    ]


@pytest.mark.parametrize("key", list(About.model_fields))
def test_what_the_owner_does_not_say_is_marked_as_missing(key):
    missing = MISSING.format(key)
    assert missing in build_model_card(REPORT, VERDICT, About())
    card = build_model_card(REPORT, VERDICT, About(**{key: "Said by the owner."}))
    assert missing not in card
    assert "Said by the owner." in card


def test_warnings_of_the_report_are_caveats():
    assert "- Every AUC is near one half." in split_sections()["Caveats"].splitlines()


def test_a_card_that_is_too_long_is_cut_at_a_line_and_says_so():
    card = "\n".join(["0123456789"] * 600)
    cut = shorten_card(card)
    assert len(cut) <= 5000
    assert cut.endswith(
        "0123456789\n\n_Cut here; the whole card is `model_card.md` among the run's artifacts._"
    )
    assert shorten_card("short") == "short"
