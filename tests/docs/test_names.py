"""The reference says which names candidates and sets may have, as the code checks it."""

import re
import string

import pytest

from biasgate.tasks.common.settings import NAME_PATTERN, json_schema
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.scoring.candidate import CandidateSettings

SAID = re.compile(
    r"at most (\d+) ASCII letters, digits, spaces and characters of `(.+?)`, "
    "starting with a letter or digit"
)


@pytest.mark.parametrize("settings", [CandidateSettings, SourceSettings])
def test_the_characters_of_names_are_those_that_are_accepted(settings):
    said = SAID.findall(json_schema(settings)["properties"]["name"]["description"])
    usual = string.ascii_letters + string.digits
    accepted = {chr(one) for one in range(0x250) if re.match(NAME_PATTERN, f"a{chr(one)}b")}
    assert [set(f"{usual} {others}") for _, others in said] == [accepted]
    for most, _ in said:
        assert re.match(NAME_PATTERN, "a" * int(most))
        assert not re.match(NAME_PATTERN, "a" * (int(most) + 1))
    assert {one for one in accepted if re.match(NAME_PATTERN, one)} == set(usual)
