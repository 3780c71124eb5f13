"""Hostile evaluation files, and values that settings never have, are refused."""

import os

import pytest

from biasgate.tasks.common import yaml_files as strict_yaml
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import ConfigPath, Settings
from biasgate.tasks.common.yaml_files import read_settings


class Small(Settings):
    a: tuple[str, ...] = ()
    path: ConfigPath | None = None


class Large(Settings):
    inner: Small


LEVELS = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
MERGED = [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 10)]
WRONG = {
    "aliases of aliases": ("\n".join(["l0: &l0 [x]", *LEVELS]), "expand to more than 1,000,000"),
    "merges of merges": ("\n".join(["m0: &m0 {x: 1}", *MERGED]), "expand to more than 1,000,000"),
    "an alias within itself": ("a: &a [*a]", "an alias refers to itself (line 1, column 4)"),
    "very many levels": ("a: " + "[" * 5000, "must be YAML with fewer levels"),
    "a day that does not exist": ("a: 2026-13-45", "not a valid value of the kind timestamp"),
    "an hour that does not exist": ("a: !!timestamp 2026-01-01 99:99:99", "of the kind timestamp"),
    "a tag that does not fit": (
        "a:\n- !!int abc",
        "of the kind int; put quotes around text (line 2",
    ),
    "a truth that is none": ("a: !!bool maybe", "not a valid value of the kind bool"),
    "a date that is none": ("a: !!timestamp abc", "not a valid value of the kind timestamp"),
    "a number of 5,000 digits": (f"a: {'1' * 5000}", "not a valid value of the kind int"),
    "a list as key": ("? [b]\n: c", "a key must be text, not a list or section (line 1"),
    "a list for a set": ("a: !!set [b]", "expected a mapping node, but found sequence (line 1"),
    "an object of Python": ("a: !!python/object:os.system x", "could not determine a constructor"),
    "a set": ("a: !!set {b, c}", "got set (file {path}, a)"),
    "bytes": ("a: !!binary aGk=", "got bytes (file {path}, a)"),
    "NUL": ('a: ["b\\0c"]', "text must not hold NUL"),
    "half a character": ('a: ["\\ud800"]', "text must not hold NUL or unpaired surrogates"),
    "NUL in a key": ('"b\\0": 1', "text must not hold NUL"),
    "a number for a path": ("path: 1", "path: Input is not a valid path"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_file_that_cannot_be_meant_is_refused(tmp_path, name):
    text, message = WRONG[name]
    path = tmp_path / "file.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as error:
        read_settings(path, Small)
    assert message.format(path=path) in str(error.value)


def test_a_wrong_path_within_a_section_is_refused(tmp_path):
    (tmp_path / "file.yaml").write_text("inner: {path: 1}")
    with pytest.raises(InputError, match=r"inner.path: Input is not a valid path"):
        read_settings(tmp_path / "file.yaml", Large)


def test_an_alias_of_a_few_values_is_read(tmp_path):
    (tmp_path / "file.yaml").write_text("inner: {a: [&x text, *x, *x]}")
    assert read_settings(tmp_path / "file.yaml", Large).inner.a == ("text",) * 3


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "file.yaml")
    with pytest.raises(InputError, match=r"must be a file of at most .* bytes; it is a pipe"):
        read_settings(tmp_path / "file.yaml", Small)


def test_a_file_too_long_for_settings_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(strict_yaml, "_MAX_BYTES", 10)
    (tmp_path / "file.yaml").write_text("a: [x, y, z]")
    with pytest.raises(InputError, match="must be a file of at most 10 bytes; it has 12"):
        read_settings(tmp_path / "file.yaml", Small)
