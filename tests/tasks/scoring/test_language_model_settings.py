"""The settings of a judge or guard that is computed here; needs no torch."""

import pytest
from pydantic import ValidationError

from biasgate.tasks.scoring.asking.guard import guard_names, read_guard
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

KNOWN = {"name": "a", "kind": "language_model", "folder": "model"}


def candidate(**options):
    return CANDIDATES.validate_python(KNOWN | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`prompt` must be given, with {{text}}"),
        ({"hub": "a/b", "prompt": "{{text}}"}, "either `folder` or `hub`"),
        ({"folder": None, "prompt": "{{text}}"}, "either `folder` or `hub`"),
        ({"guard": "wildguard"}, r"`prompt` must be given as .*documentation.*allenai/wildguard"),
        ({"guard": "gpt-oss-safeguard"}, "`options` must have `policy` for guard gpt-oss"),
        ({"guard": "llama-guard-3", "options": {"policy": "a"}}, r"got policy \(known: none\)"),
        ({"guard": "llama-guard-3", "categories": ["S99"]}, r"got 'S99' \(known: S1, "),
        ({"prompt": "{{text}}", "trust_remote_code": "true"}, "must repeat the model's own name"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        candidate(**options)


def test_a_name_that_people_try_is_answered():
    with pytest.raises(ValidationError, match="`kind: language_model` for a judge or guard"):
        candidate(kind="guard")


@pytest.mark.parametrize("family", guard_names())
def test_every_guard_can_be_computed_here(family):
    options = {"policy": "No insults."} if family == "gpt-oss-safeguard" else {}
    given = {"prompt": "{{text}}"} if read_guard(family).prompt is None else {}
    asked = candidate(guard=family, options=options, **given).asked
    assert asked.words == read_guard(family).words


def test_reasoning_that_no_server_cuts_off_is_passed_over():
    local = candidate(guard="gpt-oss-safeguard", options={"policy": "No insults."}).asked
    answer = "<|channel|>analysis<|message|>0 or 1?<|end|><|channel|>final<|message|>1"
    assert local.outcome(answer) == 1.0
    assert read_guard("gpt-oss-safeguard").after == ""
    options = {"options": {"policy": "No insults."}, "after": ""}
    assert candidate(guard="gpt-oss-safeguard", **options).asked.outcome("1") == 1.0
