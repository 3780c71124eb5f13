"""Each command that the documentation names is one that there is, with the options it has."""

import re
from pathlib import Path

import nbformat
import pytest
from support.blocks import blocks_of
from support.printed_commands import GROUPS, UsageError, commands_of_app, parsed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bias_metrics" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
# Their comments and steps have commands too.
FILES = [ROOT / "action.yml", *sorted((ROOT / "deployments").rglob("*.y*ml"))]
# Up to what ends a command in a shell, a sentence or a list of words.
IN_SENTENCES = re.compile(r"`biasgate ([^`]+)`")
IN_BLOCKS = re.compile(r"^[ \t#>$!-]*(?:[A-Z_]+=\S+ )*biasgate ([a-z][^\n]*)$", re.MULTILINE)


def commands_of(path):
    """Return the commands in a file, without what follows them in a shell."""
    text = code = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        text = code = "\n".join(cell.source for cell in nbformat.reads(text, 4).cells)
    if path.suffix == ".md":
        code = "\n".join(block.content for block in blocks_of(path))
    found = IN_SENTENCES.findall(text) + IN_BLOCKS.findall(code.replace("\\\n", " "))
    return [re.split(r" [>|#] | >> | \|\| | && ", f"{one} ")[0].strip() for one in found]


def is_mention(command):
    """Whether only the name of a command is said, perhaps with the options that are meant."""
    words = command.split()
    name = " ".join(words[: 2 if words[0] in GROUPS else 1])
    options = words[len(name.split()) :]
    found = commands_of_app().get(name)
    known = {one for parameter in found.params for one in parameter.opts} if found else set()
    return command in {*GROUPS, "--help", "--version"} or (
        found is not None and all(one in {*known, "--help"} for one in options)
    )


@pytest.mark.parametrize(
    "path", [*PAGES, *FILES, ROOT / "docs" / "tutorial.ipynb"], ids=lambda path: path.name
)
def test_each_command_can_be_typed_as_it_stands(path):
    wrong = {}
    for command in commands_of(path):
        if is_mention(command):
            continue
        try:
            parsed(command)
        except (AssertionError, UsageError) as error:
            wrong[command] = getattr(error, "message", str(error))
    assert wrong == {}


def test_commands_are_found_in_all_kinds_of_files():
    found = {str(path.relative_to(ROOT)): commands_of(path) for path in (*PAGES, *FILES)}
    assert "demo" in found["README.md"]
    assert any("nightly" in one for one in found["deployments/evaluations/civil_comments.yaml"])
    assert sum(map(len, found.values())) > 100
