"""Each attack in the table of the threat model is run by a test; what nothing finds has none."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "threat-model.md"
TASKS = Path(__file__).parents[1]
ROOMS = ("ledger", "verifying", "promoting")
OF_FOLDERS = "test_results_folders.py"  # what is checked in a folder needs no registry
# By the first words of the row; None where nothing finds the attack and no test shows that.
TESTS = {
    "policy, report, scores": [
        "test_an_edited_policy_is_found",
        "test_an_edited_report_is_found",
        "test_edited_scores_are_found",
        "test_an_edited_verdict_is_found",
    ],
    "rows of the frozen set": [
        "test_edited_rows_of_the_frozen_set_are_found",
        "test_rows_and_the_digests_in_their_record_edited_together_are_found",
    ],
    "tags of the version": [
        "test_an_edited_tag_is_found",
        "test_a_required_set_that_is_taken_from_the_tag_is_still_required",
        "test_a_required_set_whose_tags_are_removed_is_still_required",
    ],
    "a file of the version": ["test_each_change_of_a_file_is_found_by_every_check"],
    "the champion's files weakened": [
        "test_a_champion_that_was_weakened_while_it_was_compared_with_stops_the_promotion"
    ],
    "a symbolic link": ["test_a_symbolic_link_is_found_even_if_it_leads_to_the_same_bytes"],
    "the place of a version's files": [
        "test_a_version_whose_source_was_pointed_to_another_is_found"
    ],
    "a large file": ["test_a_file_of_another_size_than_judged_is_refused_before_it_is_read"],
    "`champion` or": [
        "test_an_alias_moved_by_hand_is_found",
        "test_a_previous_champion_moved_by_hand_is_found",
        "test_an_alias_moved_to_a_blocked_version_is_found",
    ],
    "tags edited that say how": [
        "test_a_tag_does_not_choose_how_the_champion_is_opened",
        "test_tags_that_name_another_verdict_do_not_choose_either",
    ],
    "a verdict taken from another": ["test_a_verdict_taken_from_another_version_is_found"],
    "all of it rewritten": [
        "test_a_consistent_forgery_is_found_where_a_key_is_trusted",
        "test_where_no_key_is_trusted_a_consistent_forgery_is_not_found",
    ],
    "the summary of a folder": [
        "test_a_forged_summary_does_not_hold",
        "test_a_required_set_that_was_left_out_is_missed_though_all_is_signed",
    ],
    "sentences of a verdict": [
        "test_forged_sentences_that_name_other_code_are_told_as_this_code_has_them"
    ],
    "a version blocked": [
        "test_a_version_that_is_blocked_meanwhile_is_not_promoted",
        "test_a_former_champion_that_is_blocked_meanwhile_does_not_come_back",
        "test_a_policy_that_is_registered_meanwhile_is_the_only_one_that_counts",
    ],
    "an older signed verdict": [
        "test_an_earlier_verdict_that_is_put_back_after_the_version_was_blocked_does_not_count"
    ],
    "verdicts of two evaluations": [
        "test_verdicts_of_two_policies_are_found_where_both_are_required"
    ],
    "an entry removed, exchanged": [
        "test_a_removed_entry_is_found",
        "test_two_exchanged_entries_are_found",
        "test_a_signed_entry_that_is_copied_as_a_newer_one_is_found",
        "test_a_signed_entry_of_another_model_is_found",
    ],
    "the rule or": [
        "test_a_promotion_by_another_rule_than_the_policys_is_found",
        "test_a_promotion_of_a_version_that_had_been_left_aside_is_found",
    ],
    "all entries rewritten": ["test_an_edited_unsigned_entry_is_refused_before_anything_is_added"],
    "an entry forged while": [
        "test_nothing_is_signed_on_top_of_what_was_forged_while_it_waited",
        "test_an_unsigned_move_below_a_signed_entry_does_not_hold",
    ],
    "the registry offered": [
        "test_a_shortened_ledger_is_found_at_another_address_by_its_first_entry"
    ],
    "the last entries removed": [
        "test_a_ledger_whose_last_entry_was_removed_is_found_by_a_later_verdict",
        "test_a_ledger_that_was_removed_whole_is_found_by_the_machine_that_saw_it",
    ],
    "an open entry forged": [
        "test_a_forged_open_entry_is_not_healed_into_a_promotion",
        "test_an_open_entry_in_a_wrong_place_is_not_completed",
    ],
    "another policy used": [
        "test_a_policy_registered_while_candidates_are_judged_by_another_stops_the_promotion",
        "test_an_edited_entry_of_the_policy_is_found",
    ],
    "a stolen key, revoked while": ["test_a_revoked_key_adds_nothing"],
    "the evaluation set": [
        "test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold"
    ],
    "a stolen key, revoked later": [
        "test_what_a_revoked_key_signed_last_does_not_hold",
        "test_a_stolen_revoked_key_cannot_forge_an_open_entry",
    ],
    "a wrong date": None,
    "an attestation of another": [
        "test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold",
        "test_another_model_that_the_same_key_attested_is_found_only_by_its_pin",
    ],
    "an entry, tag or file": [
        "test_an_entry_that_says_something_impossible_is_a_finding_that_names_it",
        "test_a_file_of_the_run_that_is_something_else_is_a_finding",
        "test_any_value_in_any_field_ends_in_a_finding_or_holds",
    ],
    "control characters": ["test_control_characters_of_an_entry_do_not_reach_the_terminal"],
    "a `not_measured` entry": ["test_every_reader_refuses_the_same_verdicts_for_the_same_reason"],
    "model card": ["test_an_edited_description_or_metric_is_no_evidence_and_is_not_found"],
    "scores that are wrong": None,
}


def rows():
    text = PAGE.read_text("utf-8").partition("| attack | found by")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [line.strip("| ").split(" | ")[0] for line in lines]


def test_every_row_of_the_table_is_run_and_no_other():
    left = list(TESTS)
    for row in rows():
        [named] = [one for one in left if row.startswith(one)]
        left.remove(named)
    assert left == []


@functools.cache
def functions():
    """Every test function of the rooms: whether it runs on what users have, wholly or in part."""
    known = {}
    places = (TASKS / room for room in ROOMS)
    for file in (file for place in places for file in place.glob("test_*.py")):
        text = file.read_text("utf-8")
        whole = file.name == OF_FOLDERS or "\npytestmark = pytest.mark.mlflow\n" in text
        for one in ast.walk(ast.parse(text)):
            if isinstance(one, ast.FunctionDef):
                marks = " ".join(map(ast.unparse, one.decorator_list))
                known[one.name] = whole or "pytest.mark.mlflow" in marks
    return known


@pytest.mark.parametrize("row", [one for one, tests in TESTS.items() if tests])
def test_the_tests_of_each_attack_exist_and_one_runs_on_what_users_have(row):
    known = functions()
    assert set(TESTS[row]) <= known.keys()
    assert any(known[name] for name in TESTS[row])
