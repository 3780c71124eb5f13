"""`biasgate policy`: a policy is checked and explained."""

import json
from datetime import date
from pathlib import Path
from statistics import NormalDist

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from bias_metrics import evaluate_bias
from bias_metrics.gate.decision import judge_rules
from bias_metrics.gate.verdict import Evidence
from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.civil_comments import IDENTITIES
from biasgate.tasks.evaluation_file import explain_section
from biasgate.tasks.gating.policy import (
    SHIPPED,
    Policy,
    list_shipped_policies,
    make_policy_schema,
    read_policy,
)
from biasgate.tasks.gating.policy_explained import explain_policy, list_policy_warnings

TODAY = date(2026, 11, 21)
NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
Z = NormalDist().inv_cdf(0.95)
RULE = {"metric": "bpsn_auc", "scope": "each", "floor": 0.8}


def policy(*rules, **options):
    return Policy.model_validate({"version": 1, "name": "p", "rules": list(rules)} | options)


def command(*arguments):
    return CliRunner().invoke(app, ["policy", *map(str, arguments)])


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_policy_is_checked_explained_and_valid_by_the_schema(name):
    checked = command("check", name)
    assert checked.exit_code == 0
    read = read_policy(name, Path())
    for rule in read.decision_rules():
        assert f"[{rule.name}]" in checked.output
    assert checked.output.endswith(f"digest {read.digest}\n")
    content = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text("utf-8"))
    jsonschema.validate(content, make_policy_schema())


def test_a_wrong_policy_is_told_with_the_command_that_explains_its_keys(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("name: p\nrules: [{metric: auc, floor: 0.8}]\n", "utf-8")
    with pytest.raises(InputError) as caught:
        read_policy(str(path), tmp_path)
    assert str(caught.value).splitlines()[1:] == [
        "  version: must be given.",
        "  rules.0.scope: must be given.",
        "  To list the keys: `biasgate schema policy`.",
    ]
    assert next(explain_section("policy")) == "version: 1, must be given"
    assert any(line.startswith("scope: ") for line in explain_section("RuleSettings"))


def test_the_schema_beside_the_shipped_policies_is_current_and_refuses_a_wrong_key():
    schema = json.loads((SHIPPED / "policy.schema.json").read_text("utf-8"))
    printed = CliRunner().invoke(app, ["schema", "policy", "--json"]).output
    assert schema == make_policy_schema() == json.loads(printed)
    with pytest.raises(jsonschema.ValidationError, match="'flor' was unexpected"):
        jsonschema.validate(
            {"version": 1, "name": "p", "rules": [RULE | {"flor": 0.8}]}, make_policy_schema()
        )


def test_a_wrong_policy_exits_2_and_says_where(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(
        "version: 1\nname: p\nrules: [{metric: auc, scope: overall, floor: 2}]", "utf-8"
    )
    result = command("check", file)
    assert result.exit_code == 2
    assert "rules.0.floor" in result.stderr


def test_a_policy_is_told_in_words():
    lines = explain_policy(
        policy(
            RULE | {"margin": 0.02, "slice": "short", "min_positives": 30},
            {"metric": "negative_aeg", "scope": ["gay"], "ceiling": 0.2, "mode": "estimate"},
            {"metric": "final_score", "scope": "aggregate", "floor": 0.9, "action": "warn"},
        )
    )
    text = "\n".join(lines)
    assert (
        "1. Among short comments, how well harmless comments that mention each identity are "
        "separated from toxic comments that do not (BPSN AUC) must be at least 0.8 with 95% "
        "confidence, and be less than 0.02 lower than the champion's with 95% confidence. Needs "
        "at least 2 harmless comments that mention the identity, and 30 toxic comments that do not "
        "mention it. [bpsn_auc/each/short]" in text
    )
    assert "mention of gay shifts the scores of harmless comments" in text
    assert "must be, by point estimate, at most 0.2 in either direction. " in text
    assert "should (a warning only) be at least 0.9 with 95% confidence. " in text


@pytest.mark.parametrize(
    ("allow_first", "words", "outcome"),
    [(True, "are skipped (`allow_", "skipped"), (False, "are undecided, and no", "insufficient")],
)
def test_the_words_for_a_missing_champion_are_what_the_gate_does(allow_first, words, outcome):
    checked = policy({"metric": "auc", "scope": "overall", "margin": 0.1}, allow_first=allow_first)
    [level] = {rule.level for rule in checked.decision_rules()}
    assert f"checks against it {words}" in "\n".join(explain_policy(checked))
    bias = evaluate_bias([0, 1] * 4, [0.1, 0.9] * 4, {"gay": [1, 1, 0, 0] * 2}, confidence=level)
    decision = judge_rules(
        {(None, level): Evidence(bias)},
        checked.decision_rules(),
        allow_first=checked.allow_first,
    )
    assert [result.outcome for result in decision.results] == [outcome]
    assert decision.outcome == "insufficient"  # a gate that checked nothing passes nothing


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"metric": "subgroup_auc", "floor": 0.5}, "7 toxic and 5 harmless comments that mention"),
        ({"metric": "negative_aeg", "ceiling": 0.1}, "at least 5 harmless comments that mention"),
        (
            {"metric": "fnr_gap", "ceiling": 0.1, "threshold": "given"},
            "at least 7 toxic comments that mention the identity, and 7 toxic comments that do not",
        ),
        ({"metric": "auc", "scope": "overall", "floor": 0.5}, "7 toxic and 5 harmless comments. ["),
    ],
)
def test_the_comments_that_a_rule_needs_are_of_the_classes_that_it_compares(rule, words):
    support = {"min_positives": 7, "min_negatives": 5}
    assert words in explain_policy(policy({"scope": "each"} | rule | support))[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "if it is newer and its final_score is not significantly lower (`promote: newer`)"),
        (
            {"promote": "better", "objective": "auc", "confidence": 0.9},
            "if its auc is significantly higher, with 90% confidence on every required set",
        ),
        ({"objective": "bpsn_auc"}, "the one with the highest power mean of bpsn_auc does"),
        ({"promote": "never"}, "No version becomes champion automatically (`promote: never`)."),
    ],
)
def test_what_replaces_a_champion_is_told_in_words(options, words):
    assert words in "\n".join(explain_policy(policy(RULE, **options)))


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("bpsn_auc", "1. The power mean of bpsn_auc over the identities must be at least 0.8 "),
        ("final_score", "1. The final score (overall AUC and the three power means) must be at "),
    ],
)
def test_a_rule_about_all_identities_together_is_told_by_what_it_judges(metric, words):
    checked = policy({"metric": metric, "scope": "aggregate", "floor": 0.8})
    assert words in "\n".join(explain_policy(checked))


@pytest.mark.parametrize(("correction", "shared"), [("bonferroni", True), ("none", False)])
def test_that_candidates_share_the_rate_of_false_passes_is_told_where_they_do(correction, shared):
    checked = policy(RULE, correction=correction)
    assert (checked.count_sharing_candidates(2) > 1) == shared
    text = "Several candidates of one evaluation share the rate of false passes (Bonferroni)."
    assert (text in explain_policy(checked)) == shared


@pytest.mark.parametrize(
    ("tolerance", "words"),
    [
        (0.01, "the reference by more than 0.01 (of the size of a gap: 0.02), in any metric."),
        (0, "worse than under the champion or the reference, in any metric."),
    ],
)
def test_what_harm_is_tolerated_is_told_in_words(tolerance, words):
    assert words in "\n".join(explain_policy(policy(RULE, shown_harm={"tolerance": tolerance})))


def test_rules_are_told_with_their_numbers():
    lines = explain_policy(policy(RULE, {**RULE, "id": "another"}))
    numbered = [line.partition(". ")[0] for line in lines if line[:1].isdigit()]
    assert numbered == ["1", "2"]


@pytest.mark.parametrize("key", ["promote", "objective"])
def test_an_unknown_way_to_replace_a_champion_is_refused_with_those_known(tmp_path, key):
    file = tmp_path / "own.yaml"
    rule = "{metric: auc, scope: overall, floor: 0.5}"
    file.write_text(f"version: 1\nname: p\n{key}: best\nrules: [{rule}]", "utf-8")
    result = command("check", file)
    assert result.exit_code == 2
    assert f"{key}: must be '" in result.stderr
    assert "; got 'best'." in result.stderr


def test_every_choice_of_a_policy_changes_its_digest():
    plain = policy(RULE)
    unmeasured = {"identity": "hindu", "reason": "none", "expires": "2026-12-31"}
    others = [
        policy(RULE, promote="better"),
        policy(RULE, objective="auc"),
        policy(RULE, roll_up="civil_comments"),
        policy(RULE, roll_up="civil_comments", blind={"margin": 0.15}),
        policy(RULE, max_missing=0.02),
        policy(RULE, shown_harm={}),
        policy(RULE, shown_harm={"tolerance": 0.01}),
        policy(RULE, not_measured=[unmeasured]),
        plain,
    ]
    assert len({changed.digest for changed in others}) == len(others)
    assert policy(RULE).digest == plain.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blind": {"margin": 0.15}}, "it needs `roll_up`"),
        ({"shown_harm": {"tolerance": 0.5}}, "less than 0.5"),
        ({"shown_harm": {"tolerence": 0.1}}, "tolerence"),
        ({"not_measured": [{"identity": "hindu", "reason": "none"}]}, "expires"),
        (
            {"not_measured": [{"identity": "a", "reason": "b", "expires": "2026-12-31"}] * 2},
            "must name each identity once; a is given twice",
        ),
    ],
)
def test_a_key_about_small_identities_that_means_nothing_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        policy(RULE, **options)


def test_an_identity_that_is_known_to_be_unmeasured_may_be_so_to_the_end_of_its_last_day():
    unmeasured = {"identity": "hindu", "reason": "none", "expires": "2026-12-31"}
    exempting = policy(RULE, not_measured=[unmeasured])
    last, next_day = date(2026, 12, 31), date(2027, 1, 1)
    assert exempting.make_small_groups(last, ["hindu"]).not_measured == {
        "hindu": "none; until 2026-12-31"
    }
    assert exempting.make_small_groups(next_day, ["hindu"]).not_measured == {}
    assert not exempting.make_small_groups(last, ["hindu"]).hints
    assert set(exempting.make_small_groups(next_day, ["hindu"]).hints) == {"hindu"}


def test_a_misspelt_unmeasured_identity_is_taken_for_the_closest_one_alone():
    unmeasured = {"identity": "femal", "reason": "none", "expires": "2026-12-31"}
    exempting = policy(RULE, not_measured=[unmeasured])
    assert set(exempting.make_small_groups(TODAY, ["females", "female"]).hints) == {"female"}


def test_what_may_stay_open_in_a_gap_is_twice_that_of_an_auc_unless_it_is_given():
    plain, own = (
        policy(RULE, roll_up="civil_comments", blind={"margin": 0.15} | given).blind
        for given in ({}, {"gap_margin": 0.2})
    )
    assert (plain.margins, own.margins) == ((0.15, 0.30), (0.15, 0.2))


@pytest.mark.parametrize("name", NAMES)
def test_every_included_policy_blocks_harm_that_is_shown(name):
    shipped = read_policy(name, SHIPPED)
    assert shipped.make_harm_limit(1).action == "block"
    for n_rivals, n_shares in ((0, 1), (1, 1), (2, 2)):
        share = (1 - shipped.confidence) / n_shares
        assert shipped.make_harm_limit(n_rivals).confidence == pytest.approx(1 - share)
    margins = {rule.margin for rule in shipped.decision_rules() if rule.scope == "each"} - {None}
    assert (shipped.blind is not None) == (bool(margins) and shipped.roll_up is not None)


def test_where_small_identities_are_judged_is_told_in_words():
    text = "\n".join(explain_policy(policy(RULE, roll_up={"religion": ["hindu", "muslim"]})))
    assert "is judged in the first category above it that has enough (`roll_up`)" in text
    assert "Categories: religion (hindu, muslim)." in text


@pytest.mark.parametrize("name", list(list_shipped_policies()))
def test_what_a_small_identity_must_meet_is_told_in_one_line(name):
    shipped = read_policy(name, Path())
    lines = [line for line in explain_policy(shipped)[2:] if "too few comments for a rule" in line]
    assert len(lines) == (shipped.hierarchy is not None)
    of_blind = [
        f"exclude a loss above {shipped.blind.margin:g}, or " in x for x in lines if shipped.blind
    ]
    assert all(of_blind)


def test_names_in_a_category_cannot_change_the_terminal():
    text = "\n".join(explain_policy(policy(RULE, roll_up={"a": ["x\x1b[2K", "left|right"]})))
    assert "Categories: a (x\\x1b[2K, left|right)." in text
    assert "Categories" not in "\n".join(explain_policy(policy(RULE)))


@pytest.mark.parametrize("name", ["left|right handers", "rocket 🚀 fans", "עברית speakers"])
def test_a_category_holds_identities_of_any_name(name):
    assert policy(RULE, roll_up={"people": [name]}).hierarchy.group_identities([name]) == {
        "people": (name,)
    }


def test_a_category_itself_has_a_name_of_usual_characters():
    with pytest.raises(ValueError, match=r"roll_up.*\n.*pattern"):
        policy(RULE, roll_up={"left|right": ["gay"]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{a: [b], b: [a]}", "`roll_up` must not go in circles"),
        ("{a: [x], b: [x]}", "x is in two"),
        ("jigsaw", "roll_up"),
    ],
)
def test_categories_that_are_none_are_refused(tmp_path, value, message):
    file = tmp_path / "own.yaml"
    rule = "{metric: auc, scope: overall, floor: 0.5}"
    file.write_text(f"version: 1\nname: p\nroll_up: {value}\nrules: [{rule}]", "utf-8")
    result = command("check", file)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        (RULE, {"promote": "never", "allow_first": True}, "`allow_first` has no effect"),
        ({"metric": "auc", "scope": "overall", "margin": 0.1}, {}, "without a champion nothing"),
        (RULE | {"margin": 0.1}, {}, "margins compare only with the champion"),
        (RULE | {"mode": "estimate"}, {}, "passes half the time"),
        (RULE | {"floor": 1}, {}, "can never be proven"),
        (RULE, {"rules": [RULE, RULE | {"id": "b", "confidence": 0.9}]}, "different confidences"),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(rule, options, words):
    assert any(words in warning for warning in list_policy_warnings(policy(rule, **options), TODAY))


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        ("2026-11-20", "`not_measured` of gay ended on 2026-11-20: it must be measured now."),
        ("2026-11-21", "`not_measured` of gay expires on 2026-11-21."),  # today: it still counts
        ("2026-12-20", "`not_measured` of gay expires on 2026-12-20."),
    ],
)
def test_an_entry_of_not_measured_near_its_end_is_warned_of(expires, words):
    entry = {"identity": "gay", "reason": "few", "expires": expires}
    options = {"shown_harm": {}, "allow_first": True}
    assert list_policy_warnings(policy(RULE, not_measured=[entry], **options), TODAY) == [words]
    entry["expires"] = "2026-12-21"  # in thirty days
    assert list_policy_warnings(policy(RULE, not_measured=[entry], **options), TODAY) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "a model that is significantly worse for an identity can pass (`shown_harm`)"),
        ({"shown_harm": {"action": "warn"}}, "for an identity can pass (`shown_harm`)"),
        ({"shown_harm": {"tolerance": 0.2}}, "tolerates a loss of 0.2"),
        ({"roll_up": "civil_comments", "blind": {"margin": 0.3}}, "`blind` permits a loss of 0.3"),
        (
            {"not_measured": [{"identity": "a", "reason": "b", "expires": "2020-01-01"}]},
            "`not_measured` of a ended on 2020-01-01: it must be measured now",
        ),
    ],
)
def test_what_a_policy_lets_pass_is_warned_of(options, words):
    assert any(words in warning for warning in list_policy_warnings(policy(RULE, **options), TODAY))


@pytest.mark.parametrize(
    ("key", "option", "limit"), [("shown_harm", "tolerance", 0.1), ("blind", "margin", 0.2)]
)
def test_a_loss_at_the_limit_is_not_called_large_yet(key, option, limit):
    just, more = (
        policy(RULE, **{"roll_up": "civil_comments", "shown_harm": {}} | {key: {option: one}})
        for one in (limit, limit + 0.0001)
    )
    assert not any("large for an AUC" in one for one in list_policy_warnings(just, TODAY))
    assert any("large for an AUC" in one for one in list_policy_warnings(more, TODAY))


def test_what_is_not_measured_today_is_not_warned_of_yet():
    last_day = {"identity": "a", "reason": "b", "expires": TODAY.isoformat()}
    warned = list(list_policy_warnings(policy(RULE, not_measured=[last_day]), TODAY))
    assert [warning for warning in warned if "`not_measured`" in warning] == [
        f"`not_measured` of a expires on {TODAY.isoformat()}."
    ]


def test_a_policy_about_nobody_in_particular_is_warned_of():
    overall = {"metric": "auc", "scope": "overall", "floor": 0.8}
    assert any(
        "a pass proves nothing about any" in warning
        for warning in list_policy_warnings(policy(overall), TODAY)
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_policies_say_of_small_identities_is_explained(name):
    text = "\n".join(explain_policy(read_policy(name, SHIPPED)))
    assert "No identity, however small, may be significantly worse than under the champion" in text
    assert ("does not exclude a loss above 0.15, or 0.2 for a gap (`blind`)" in text) == (
        name == "no-worse"
    )


def test_the_bounds_of_each_identity_are_counted():
    text = "\n".join(explain_policy(policy(RULE, confidence=0.975)))
    assert "5 bounds per identity, and 2 more if a threshold is given" in text
    assert "at most 2.5 of 100 sets have any wrong one" in text


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "roll_up: {min_positives: 3}",
            "roll_up.min_positives: must be a list of identities, as in `roll_up: {religion: [",
        ),
        ("not_measured: 3", "not_measured: must be a list of identities, each with `identity`, "),
    ],
)
def test_an_error_about_a_list_says_what_it_holds(tmp_path, more, told):
    rules = "rules: [{metric: auc, scope: overall, floor: 0.5}]"
    (tmp_path / "p.yaml").write_text(f"version: 1\nname: p\n{rules}\n{more}\n")
    with pytest.raises(InputError) as error:
        read_policy(str(tmp_path / "p.yaml"), tmp_path)
    assert told in str(error.value)


def test_an_included_policy_is_printed_as_it_is_read(tmp_path):
    printed = CliRunner().invoke(app, ["policy", "show", "no-worse"])
    assert printed.exit_code == 0
    copy = tmp_path / "copy.yaml"
    copy.write_text(printed.stdout, "utf-8")
    assert read_policy(str(copy), tmp_path) == read_policy("no-worse", SHIPPED)
    wrong = CliRunner().invoke(app, ["policy", "show", "no-worst"])
    assert wrong.exit_code == 2
    assert "Did you mean 'no-worse'?" in wrong.stderr


def test_a_plain_name_is_the_included_policy_and_a_path_never_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("default", "default.yaml", "civil_comments"):
        (tmp_path / name).write_text("version: 1\nname: mine\n", "utf-8")
    assert read_policy("default", tmp_path).name == "default"
    for path in ("./default", f"{tmp_path}/default", "default.yaml"):
        with pytest.raises(InputError, match="rules: must be given"):
            read_policy(path, tmp_path)
    for path in ("./default", "default.yaml", f"{SHIPPED}/default"):
        shown = command("show", path)
        assert (shown.exit_code, "NAME must be one of" in shown.stderr) == (2, True), shown.output
    for path in ("./civil_comments", "elsewhere/civil_comments"):
        planned = command("plan", "no-worse", "--shares", path)
        assert (planned.exit_code, "civil_comments" in planned.stderr) == (2, True), planned.output


def test_the_policy_of_civil_comments_is_the_default_but_for_what_its_comments_cannot_judge():
    own, default = (
        yaml.safe_load((SHIPPED / f"{name}.yaml").read_text("utf-8"))
        for name in ("civil_comments", "default")
    )
    unmeasured = {entry["identity"] for entry in own.pop("not_measured")}
    assert unmeasured < set(IDENTITIES)
    for content in (own, default):
        del content["name"], content["description"]
    assert own == default
