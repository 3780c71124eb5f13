"""Commands in what was printed, and how each is run again."""

import html
import os
import re
import shlex

import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from biasgate.cli import app

GROUPS = {"policy", "keys"}
UsageError = typer.BadParameter.__base__  # typer brings a click of its own
# To the end of the line, or of the quotation; in a sentence "biasgate" alone begins no command.
PRINTED = re.compile(r"(?:^ *|: +)biasgate (.+)$|`biasgate ([^`]+)`", re.MULTILINE)
CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)


def commands_of_app():
    """Every command by what a user types."""
    group = typer.main.get_command(app)
    found = {}
    for name, one in group.commands.items():
        inner = getattr(one, "commands", None)
        found |= {name: one} if inner is None else {f"{name} {x}": y for x, y in inner.items()}
    return found


def commands_in(text):
    """Return the commands in a text, each once; the name alone of a quoted one is a mention."""
    names = {*commands_of_app(), *GROUPS}
    found = (line or quoted for line, quoted in PRINTED.findall(text) if quoted not in names)
    return [*dict.fromkeys(found)]


def too_wide(text, width):
    """Return the lines that are wider, without those that have to be whole to be copied.

    Such a line is a command or a path, perhaps after its label, or after the size of a file.
    """
    command = rf"`?biasgate (?:{'|'.join({*commands_of_app(), *GROUPS})}) .*|export .*"
    whole = rf" *(?:[\w. ]+: |remove +[\d.]+ \w+ +)?(?:{command}|[^ ]*/[^ ]*)"
    return [
        line
        for line in text.splitlines()
        if cell_len(line) > width and not re.fullmatch(whole, line)
    ]


def commands_in_page(page):
    """Return the commands in a page of HTML; all of them are code."""
    lines = "\n".join(html.unescape(code) for code in CODE.findall(page)).splitlines()
    found = [line.removeprefix("biasgate ") for line in lines if line.startswith("biasgate ")]
    assert len(found) == html.unescape(page).count(">biasgate ") + page.count("\nbiasgate ")
    return list(dict.fromkeys(found))


def parsed(command):
    """Return the name of a command, and what its parameters are; a usage error is raised."""
    words = shlex.split(command)
    name = " ".join(words[: 2 if words[0] in GROUPS else 1])
    found = commands_of_app().get(name)
    assert found is not None, f"biasgate {command}: there is no such command"
    context = found.make_context(name, words[len(name.split()) :])
    return name, context.params


class Started(Exception):  # noqa: N818 - it is no error
    """MLflow's server would start now."""


def run_again(command, monkeypatch):
    """Run a command in this process and folder; return its exit code and what it printed.

    Of `ui`, up to the start of MLflow's server.
    """

    def start(*_):
        raise Started

    with monkeypatch.context() as patch:
        patch.setattr(os, "execve", start)
        words = shlex.split(command)
        if words[0] == "ui":
            words += ["--port", "5999"]
        done = CliRunner().invoke(app, words)
    code = 0 if isinstance(done.exception, Started) else done.exit_code
    return code, done.output + done.stderr
