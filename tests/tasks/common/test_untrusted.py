"""Untrusted documents are bounded, checked, and refused in a sentence that names them."""

import json
import os
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.common.untrusted import (
    MOST_LEVELS,
    check_document,
    parse_json,
    read_bytes,
    require_regular,
)
from biasgate.tasks.records.record import Record


class Known(TypedDict):
    number: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    number: int
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class Written(Record):
    inner: list[Inner]


def nested(levels):
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        (b"\xff", "utf-8"),
        ("NaN", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[1e999]", "too large"),
        ("1" * 30, "too large"),
        ("1" * 5000, "4300 digits"),
        ('{"a": "\\ud800"}', "an unpaired surrogate"),
        ('{"\\udfff": 1}', "an unpaired surrogate"),
        (nested(MOST_LEVELS + 1), "levels deep"),
        (nested(100_000), "nested too deeply"),
    ],
)
@pytest.mark.parametrize("kind", [str, bytes])
def test_what_cannot_be_written_again_as_plain_json_is_refused(content, words, kind):
    if isinstance(content, str) and kind is bytes:
        content = content.encode()
    with pytest.raises(InputError, match=f"^the tag must be .*{words}"):
        parse_json(content, "the tag")


def test_a_key_that_is_there_twice_is_refused():
    with pytest.raises(InputError, match=r"a file must be JSON; got: a key is repeated\."):
        parse_json('{"a": {"outcome": "fail", "outcome": "pass"}}', "a file")


def test_the_deepest_nesting_that_is_allowed_is_read():
    assert parse_json(nested(MOST_LEVELS), "it")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aé\0"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
    )
)
def test_plain_json_is_read_as_it_was_written(content):
    assert parse_json(json.dumps(content), "it") == content
    assert parse_json(json.dumps(content).encode(), "it") == content


@pytest.mark.parametrize("make", ["pipe", "link", "folder", "large"])
def test_anything_but_a_plain_file_of_bounded_size_is_refused_without_waiting(tmp_path, make):
    path = tmp_path / "verdict.json"
    if make == "pipe":
        os.mkfifo(path)
    elif make == "link":
        path.symlink_to("/dev/zero")
    elif make == "folder":
        path.mkdir()
    else:
        path.write_bytes(b" " * 11)
    with pytest.raises(InputError, match="the verdict must"):
        read_bytes(path, "the verdict", max_bytes=10)
    if make != "large":
        with pytest.raises(InputError, match="the verdict must be a regular file"):
            require_regular(path, "the verdict")


def test_a_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none", "it")


def test_a_document_of_the_right_form_is_returned_with_its_other_keys():
    content = {"number": 1, "text": "a", "more": [1]}
    assert check_document(content, Known, "it") is content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "it: Input should be an object"),
        ({"number": True, "text": ""}, "number: Input should be a valid integer"),
        ({"number": "1", "text": ""}, "number: Input should be a valid integer"),
        ({"number": 1}, "text: Field required"),
    ],
)
def test_a_document_of_another_form_is_refused_with_its_place(content, words):
    with pytest.raises(InputError, match=f"the entry must be as biasgate writes it; {words}"):
        check_document(content, Known, "the entry")


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_printable(text):
    assert escape_invisible(text).isprintable()
    assert escape_invisible(text, keep="\n").replace("\n", "").isprintable()


def test_a_record_is_returned_as_its_class():
    content = {"inner": [{"number": 1}, {"number": 2, "text": "a"}]}
    record = Written(inner=[Inner(number=1), Inner(number=2, text="a")])
    assert check_document(content, Written, "it") == record


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"inner": [], "more": 1}, "more differs"),
        ({"inner": [{"number": 1}, {"number": 2, "more": 1}]}, "inner.1.more differs"),
        ({"inner": [{"number": 1, "text": None}]}, "inner.0.text differs"),
        ({"inner": [{"number": "1"}]}, "inner.0.number: Input should be a valid integer"),
        ([], "it: Input should be an object"),
    ],
)
def test_a_record_with_anything_that_it_does_not_write_is_refused(content, words):
    with pytest.raises(InputError, match=f"the entry must be as biasgate writes it; {words}"):
        check_document(content, Written, "the entry")


def test_plain_text_of_any_script_stays_as_it_is():
    assert escape_invisible("Größe שלום 日本 [x]") == "Größe שלום 日本 [x]"
