"""`biasgate policy`: a policy is checked and explained."""

import json
from datetime import date

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
from biasgate.tasks.gating.policy import SHIPPED, Policy, make_policy_schema, read_policy
from biasgate.tasks.gating.policy_explained import explain_policy, list_policy_warnings

TODAY = date(2026, 11, 21)
NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
RULE = {"metric": "bpsn_auc", "scope": "each", "floor": 0.8}
AUC = {"metric": "auc", "scope": "overall", "floor": 0.8}
GIVEN = {"metric": "fpr_gap", "scope": "each", "threshold": "given", "ceiling": 0.2}
EQUAL = {"metric": "fnr_gap", "scope": "each", "threshold": "equal_errors", "ceiling": 0.2}
SUPPORT = {"scope": "each", "min_positives": 7, "min_negatives": 5}


def policy(*rules, **options):
    return Policy.model_validate(
        {"version": 1, "name": "p", "rules": list(rules) or [RULE]} | options
    )


def except_identity(name="gay", expires="2026-12-31", reason="none"):
    return [{"identity": name, "reason": reason, "expires": str(expires)}]


def command(*arguments):
    return CliRunner().invoke(app, ["policy", *map(str, arguments)])


# ------------------------------------------------------------------ in words

TOLD_AUC = (
    "1. Among short comments, how well harmless comments that mention each identity are "
    "separated from toxic comments that do not (BPSN AUC) must be at least 0.8 with 95% "
    "confidence, and be less than 0.02 lower than the champion's with 95% confidence. Needs "
    "at least 2 harmless comments that mention the identity, and 30 toxic comments that do not "
    "mention it. [bpsn_auc/each/short]"
)
TOLD_GAP = (
    "1. At the given threshold, how much more or less often harmless comments that mention each "
    "identity are flagged than other harmless comments (FPR gap) must be at most 0.2 in either "
    "direction with 95% confidence, and be less than 0.05 larger in size than the champion's with "
    "95% confidence. Needs at least 2 harmless comments that mention the identity, and 2 harmless "
    "comments that do not mention it. [fpr_gap/each/given]"
)
TOLD_MISSING = (
    "The share of comments without a score must be proven at most 0.02 of all comments; at most "
    "0.02 of the comments that mention an identity. [max_missing]"
)
TOLD_MISSING_GAP = (
    "The share of comments without a score should (a warning only) be at most 0.1 more for an "
    "identity than for other comments. [max_missing]"
)
TOLD_TRUNCATED = (
    "The share of truncated comments must be proven at most 0.1 more for an identity than for "
    "other comments. A model for which it is unknown is insufficient. [max_truncated]"
)
NOT_LIMITED = (
    "No blocking rule limits: Subgroup AUC, BPSN AUC, BNSP AUC, Positive AEG, Negative AEG. A "
    "model that is bad by these can pass if it is not significantly worse than the champion."
)
SHIFT = {"metric": "negative_aeg", "scope": ["gay"], "ceiling": 0.2, "mode": "estimate"}
RELIGION = {"roll_up": {"religion": ["hindu", "muslim"]}}
EXPLAINED = [
    ([RULE | {"margin": 0.02, "slice": "short", "min_positives": 30}], {}, TOLD_AUC),
    ([GIVEN | {"margin": 0.05}], {}, TOLD_GAP),
    ([EQUAL], {}, "1. At the threshold of equal errors, how much more or less often"),
    ([SHIFT], {}, "mention of gay shifts the scores of harmless comments"),
    ([SHIFT], {}, "must be, by point estimate, at most 0.2 in either direction. "),
    ([RULE, AUC | {"action": "warn"}], {}, "should (a warning only) be at least 0.8 with 95% conf"),
    ([RULE, RULE | {"id": "another"}], {}, "\n2. "),
    ([RULE | {"slice": "language.*"}], {}, "Within each slice of language, how well harmless"),
    # The comments that a rule needs are of the classes that it compares.
    (
        [SUPPORT | {"metric": "subgroup_auc", "floor": 0.5}],
        {},
        "7 toxic and 5 harmless comments th",
    ),
    ([SUPPORT | {"metric": "negative_aeg", "ceiling": 0.1}], {}, "at least 5 harmless comments th"),
    ([SUPPORT | EQUAL], {}, "at least 7 toxic comments that mention the identity, and 7 toxic com"),
    ([SUPPORT | AUC], {}, "7 toxic and 5 harmless comments. ["),
    # All identities together.
    ([RULE | {"scope": "aggregate"}], {}, "1. The power mean of bpsn_auc over the identities must"),
    (
        [RULE | {"metric": "final_score", "scope": "aggregate"}],
        {},
        "1. The final score (overall AUC and the three power means) must be at ",
    ),
    # What replaces a champion.
    ([], {}, "if it is newer and its final_score is not significantly lower (`promote: newer`)"),
    (
        [],
        {"promote": "better", "objective": "auc", "confidence": 0.9},
        "if its auc is significantly higher, with 90% confidence on every required set",
    ),
    ([], {"objective": "bpsn_auc"}, "the one with the highest power mean of bpsn_auc does"),
    ([], {"promote": "never"}, "No version becomes champion automatically (`promote: never`)."),
    # Harm that is tolerated, and small identities.
    (
        [],
        {"shown_harm": {"tolerance": 0.01}},
        "more than 0.01 (of the size of a gap: 0.02), in any",
    ),
    (
        [],
        {"shown_harm": {"tolerance": 0}},
        "worse than under the champion or the reference, in any",
    ),
    ([], RELIGION, "is judged in the first category above it that has enough (`roll_up`)"),
    ([], RELIGION, "Categories: religion (hindu, muslim)."),
    ([], {"roll_up": {"a": ["x\x1b[2K", "left|right"]}}, "Categories: a (x\\x1b[2K, left|right)."),
    ([], {"confidence": 0.975}, "5 bounds per identity, and 2 more if a threshold is given"),
    ([], {"confidence": 0.975}, "at most 2.5 of 100 sets have any wrong one"),
    # Comments without a score, and truncated ones.
    ([], {}, "Every comment must have a score (no `max_missing`)."),
    ([], {"max_truncated": 0.1}, "Every comment must have a score (no `max_missing`)."),
    ([], {"max_missing": 0.02}, TOLD_MISSING),
    ([], {"max_missing": {"gap": 0.1, "action": "warn", "mode": "estimate"}}, TOLD_MISSING_GAP),
    ([], {"max_truncated": {"gap": 0.1}}, TOLD_TRUNCATED),
    ([GIVEN, EQUAL, AUC], {}, NOT_LIMITED),
]


@pytest.mark.parametrize(("rules", "options", "words"), EXPLAINED)
def test_a_policy_is_told_in_words(rules, options, words):
    text = "\n".join(explain_policy(policy(*rules, **options)))
    assert words in text
    assert ("Categories" in text) == ("roll_up" in options)


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
        {(None, level): Evidence(bias)}, checked.decision_rules(), allow_first=checked.allow_first
    )
    assert [result.outcome for result in decision.results] == [outcome]
    assert decision.outcome == "insufficient"  # a gate that checked nothing passes nothing


@pytest.mark.parametrize(("correction", "n_sharing"), [("bonferroni", 5), ("none", 1)])
def test_candidates_share_the_rate_of_false_passes_if_the_policy_says_so(correction, n_sharing):
    checked = policy(correction=correction, max_missing=0.02, max_truncated=0.02)
    assert checked.count_sharing_candidates(5) == n_sharing
    text = "Several candidates of one evaluation share the rate of false passes (Bonferroni)."
    assert (text in explain_policy(checked)) == (n_sharing > 1)
    for limits in checked.list_share_limits(n_sharing).values():
        assert limits.confidence == pytest.approx(1 - 0.05 / n_sharing)


def test_each_rule_has_its_own_confidence_corrected():
    rules = policy(RULE, RULE | {"confidence": 0.9, "id": "other"}).decision_rules(10)
    assert [rule.confidence for rule in rules] == pytest.approx([0.995, 0.99])


@pytest.mark.parametrize(("promote", "confidence"), [("better", 0.995), ("newer", 0.95)])
def test_only_a_proof_that_promotes_shares_alpha(promote, confidence):
    """With `promote: newer` a significant loss keeps the champion; a smaller alpha is lenient."""
    assert policy(promote=promote).get_objective_confidence(10) == pytest.approx(confidence)


# ------------------------------------------------------------------ warnings

LARGE = "large for an AUC"
EXPIRED = "`not_measured` of gay ended on 2026-11-20: it must be measured now."
EXPIRING = "`not_measured` of gay expires on "
HARMLESS = {"shown_harm": {}, "allow_first": True}
ROLL_UP = {"roll_up": "civil_comments"}


@pytest.mark.parametrize(
    ("rule", "options", "words", "is_warned"),
    [
        (RULE, {"promote": "never", "allow_first": True}, "`allow_first` has no effect", True),
        ({"metric": "auc", "scope": "overall", "margin": 0.1}, {}, "a champion nothing", True),
        (RULE | {"margin": 0.1}, {}, "margins compare only with the champion", True),
        (RULE | {"mode": "estimate"}, {}, "passes half the time", True),
        (RULE | {"floor": 1}, {}, "can never be proven", True),
        (RULE, {"rules": [RULE, RULE | {"id": "b", "confidence": 0.9}]}, "different conf", True),
        (AUC, {}, "a pass proves nothing about any", True),
        # What a policy lets pass.
        (RULE, {}, "worse for an identity can pass (`shown_harm`)", True),
        (RULE, {"shown_harm": {"action": "warn"}}, "identity can pass (`shown_harm`)", True),
        (RULE, {"shown_harm": {"tolerance": 0.2}}, "tolerates a loss of 0.2", True),
        (RULE, ROLL_UP | {"blind": {"margin": 0.3}}, "`blind` permits a loss of 0.3", True),
        (RULE, HARMLESS | {"shown_harm": {"tolerance": 0.1}}, LARGE, False),
        (RULE, HARMLESS | {"shown_harm": {"tolerance": 0.1001}}, LARGE, True),
        (RULE, HARMLESS | ROLL_UP | {"blind": {"margin": 0.2}}, LARGE, False),
        (RULE, HARMLESS | ROLL_UP | {"blind": {"margin": 0.2001}}, LARGE, True),
        # Entries that end within thirty days; on the last day they still count.
        (RULE, {"not_measured": except_identity(expires="2026-11-20")}, EXPIRED, True),
        (RULE, {"not_measured": except_identity(expires=TODAY)}, f"{EXPIRING}{TODAY}.", True),
        (
            RULE,
            {"not_measured": except_identity(expires="2026-12-20")},
            f"{EXPIRING}2026-12-20.",
            True,
        ),
        (RULE, {"not_measured": except_identity(expires="2026-12-21")}, "`not_measured`", False),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(rule, options, words, is_warned):
    warnings = list_policy_warnings(policy(rule, **options), TODAY)
    assert any(words in warning for warning in warnings) == is_warned


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": [RULE, RULE]}, "different names; bpsn_auc/each is given twice"),
        ({"rules": [RULE | {"action": "warn"}]}, "this policy passes anything"),
        ({"rules": []}, "at least 1 item"),
        ({"blind": {"margin": 0.15}}, "it needs `roll_up`"),
        ({"shown_harm": {"tolerance": 0.5}}, "less than 0.5"),
        ({"shown_harm": {"tolerence": 0.1}}, "tolerence"),
        ({"not_measured": [{"identity": "hindu", "reason": "none"}]}, "expires"),
        (
            {"not_measured": except_identity("a") * 2},
            "must name each identity once; a is given twice",
        ),
        ({"roll_up": {"left|right": ["gay"]}}, r"roll_up.*\n.*pattern"),
        (
            {"rules": [{"metric": "fpr_gap", "scope": "each", "ceiling": 0.1}]},
            "`threshold` of fpr_gap must be",
        ),
        ({"rules": [GIVEN | {"threshold": "best"}]}, "should be 'given' or 'equal_errors'"),
        ({"rules": [AUC | {"threshold": "given"}]}, "must not be"),
        *(
            ({key: value}, key)
            for key in ("max_missing", "max_truncated")
            for value in (0, 1, -0.1, 2, True, "much", {}, {"each": 0}, {"eech": 0.1}, float("nan"))
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        policy(**options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [{metric: auc, scope: overall, floor: 2}]", "rules.0.floor"),
        ("promote: best", "promote: must be '"),
        ("objective: best", "; got 'best'."),
        ("roll_up: {a: [b], b: [a]}", "`roll_up` must not go in circles"),
        ("roll_up: {a: [x], b: [x]}", "x is in two"),
        ("roll_up: jigsaw", "roll_up"),
        (
            "roll_up: {min_positives: 3}",
            "roll_up.min_positives: must be a list of identities, as in `roll_up: {religion: [",
        ),
        ("not_measured: 3", "not_measured: must be a list of identities, each with `identity`, "),
    ],
)
def test_a_wrong_policy_exits_2_and_says_where(tmp_path, text, message):
    rules = "" if text.startswith("rules") else "rules: [{metric: auc, scope: overall, floor: 0.5}]"
    (tmp_path / "own.yaml").write_text(f"version: 1\nname: p\n{rules}\n{text}\n", "utf-8")
    result = command("check", tmp_path / "own.yaml")
    assert (result.exit_code, message in " ".join(result.stderr.split())) == (2, True)


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


# ------------------------------------------------------------------ keys


def test_every_choice_of_a_policy_changes_its_digest():
    others = [
        {"promote": "better"},
        {"objective": "auc"},
        ROLL_UP,
        ROLL_UP | {"blind": {"margin": 0.15}},
        {"max_missing": 0.02},
        {"shown_harm": {}},
        {"shown_harm": {"tolerance": 0.01}},
        {"not_measured": except_identity()},
        {"rules": [GIVEN]},
        {"rules": [GIVEN | {"threshold": "equal_errors"}]},
        {},
    ]
    assert len({policy(**options).digest for options in others}) == len(others)
    for options in others:
        again = Policy.model_validate(policy(**options).model_dump(mode="json"))
        assert (again, again.digest) == (policy(**options), policy(**options).digest)


@pytest.mark.parametrize("key", ["max_missing", "max_truncated"])
def test_a_number_is_the_limit_of_all_and_of_each(key):
    [(rule, limits)] = policy(**{key: 0.02}).list_share_limits().items()
    assert rule == key
    assert (limits.overall, limits.each, limits.gap, limits.mode) == (0.02, 0.02, None, "proven")
    assert limits.confidence == 0.95


def test_an_identity_that_is_known_to_be_unmeasured_may_be_so_to_the_end_of_its_last_day():
    exempting = policy(not_measured=except_identity("hindu"))
    last, after = (
        exempting.make_small_groups(day, ["hindu"])
        for day in (date(2026, 12, 31), date(2027, 1, 1))
    )
    assert (last.not_measured, {*last.hints}) == ({"hindu": "none; until 2026-12-31"}, set())
    assert (after.not_measured, {*after.hints}) == ({}, {"hindu"})


def test_a_misspelt_unmeasured_identity_is_taken_for_the_closest_one_alone():
    exempting = policy(not_measured=except_identity("femal"))
    assert set(exempting.make_small_groups(TODAY, ["females", "female"]).hints) == {"female"}


def test_what_may_stay_open_in_a_gap_is_twice_that_of_an_auc_unless_it_is_given():
    plain, own = (
        policy(**ROLL_UP, blind={"margin": 0.15} | given).blind
        for given in ({}, {"gap_margin": 0.2})
    )
    assert (plain.margins, own.margins) == ((0.15, 0.30), (0.15, 0.2))


@pytest.mark.parametrize("name", ["left|right handers", "rocket 🚀 fans", "עברית speakers"])
def test_a_category_holds_identities_of_any_name(name):
    hierarchy = policy(roll_up={"people": [name]}).hierarchy
    assert hierarchy.group_identities([name]) == {"people": (name,)}


# ------------------------------------------------------------------ included policies


@pytest.mark.parametrize("name", NAMES)
def test_every_included_policy_is_checked_explained_and_valid_by_the_schema(name):
    checked, included = command("check", name), read_policy(name, SHIPPED)
    assert checked.exit_code == 0
    assert all(f"[{rule.name}]" in checked.output for rule in included.decision_rules())
    assert checked.output.endswith(f"digest {included.digest}\n")
    content = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text("utf-8"))
    jsonschema.validate(content, make_policy_schema())


@pytest.mark.parametrize("name", NAMES)
def test_every_included_policy_blocks_harm_that_is_shown(name):
    included = read_policy(name, SHIPPED)
    assert included.make_harm_limit(1).action == "block"
    for n_rivals, n_shares in ((0, 1), (1, 1), (2, 2)):
        share = (1 - included.confidence) / n_shares
        assert included.make_harm_limit(n_rivals).confidence == pytest.approx(1 - share)
    margins = {rule.margin for rule in included.decision_rules() if rule.scope == "each"} - {None}
    assert (included.blind is not None) == (bool(margins) and included.roll_up is not None)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_small_identity_must_meet_is_told_in_one_line(name):
    included = read_policy(name, SHIPPED)
    text = "\n".join(explain_policy(included))
    lines = [line for line in text.splitlines()[2:] if "too few comments for a rule" in line]
    assert len(lines) == (included.hierarchy is not None)
    if included.blind:
        assert all(f"exclude a loss above {included.blind.margin:g}, or " in one for one in lines)
    assert "No identity, however small, may be significantly worse than under the champion" in text
    blind = "does not exclude a loss above 0.15, or 0.2 for a gap (`blind`)"
    assert (blind in text) == (name == "no-worse")


def test_the_schema_beside_the_included_policies_is_current_and_refuses_a_wrong_key():
    schema = json.loads((SHIPPED / "policy.schema.json").read_text("utf-8"))
    printed = CliRunner().invoke(app, ["schema", "policy", "--json"]).output
    assert schema == make_policy_schema() == json.loads(printed)
    wrong = {"version": 1, "name": "p", "rules": [RULE | {"flor": 0.8}]}
    with pytest.raises(jsonschema.ValidationError, match="'flor' was unexpected"):
        jsonschema.validate(wrong, make_policy_schema())


def test_an_included_policy_is_printed_as_it_is_read(tmp_path):
    printed = command("show", "no-worse")
    assert printed.exit_code == 0
    (tmp_path / "copy.yaml").write_text(printed.stdout, "utf-8")
    copy = read_policy(str(tmp_path / "copy.yaml"), tmp_path)
    assert copy == read_policy("no-worse", SHIPPED)
    wrong = command("show", "no-worst")
    assert (wrong.exit_code, "Did you mean 'no-worse'?" in wrong.stderr) == (2, True)


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
