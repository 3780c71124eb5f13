"""Every command that is printed runs as it is, in the folder where the evaluation was started."""

import html
import logging
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from prefect.logging.handlers import PrefectConsoleHandler
from support.printed_commands import (
    GROUPS,
    UsageError,
    commands_in,
    commands_in_page,
    commands_of_app,
    parsed,
    run_again,
    too_wide,
)
from support.shards import write_shards
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common import command_lines
from biasgate.tasks.common.command_lines import format_command, get_command, shorten_path
from biasgate.tasks.included import FOLDER, list_included_names, shorten_argument
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.remembering.reading import read_trend
from biasgate.tasks.reporting.notifications import build_message, format_message
from biasgate.tasks.reporting.results import read_results
from biasgate.tasks.store import Workplace
from biasgate.tasks.tracking.prefect_pages import find_run_page
from biasgate.tasks.tracking.resume import EvaluationRun

LONG = "people with intellectual or learning disabilities of any age or origin"
IDENTITIES = ["deaf people", "old folks", "o'neills", LONG]
MODEL, SET = "my model", "my comments"
STORE = "my store"
KEPT = "my kept results"
RULES = [
    {"metric": "auc", "scope": "overall", "floor": 0.6},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.6},
]
N = 1500


def write_inputs(folder):
    """Write comments with three identities, scores of them, and evaluation files."""
    draws = np.random.default_rng(3)
    label = draws.integers(0, 2, N)
    members = {name: draws.random(N) < 0.3 for name in IDENTITIES}
    table = {"id": np.arange(N), "label": label, "text": [f"remark {at}" for at in range(N)]}
    pd.DataFrame(table | {k: v.astype(int) for k, v in members.items()}).to_csv(
        folder / "my rows.csv", index=False
    )
    unfair = members["o'neills"] & (label == 0)
    scores = {
        "old words": 0.3 * label + 0.7 * draws.random(N),
        "new words": 0.4 * label + 0.6 * draws.random(N),
        "shifted words": 0.3 * label + 0.35 * draws.random(N) + 0.35 * unfair,
    }
    for name, found in scores.items():
        pairs = pd.DataFrame({"id": np.arange(N), "prediction": found.round(4)})
        pairs.to_csv(folder / f"{name}.csv", index=False)
    evaluated = {
        "first of mine": (["old words"], RULES),
        "next of mine": (["new words", "shifted words"], RULES),
        "unsure of mine": (["new words"], [RULES[1] | {"min_negatives": N}]),
    }
    for name, (candidates, rules) in evaluated.items():
        policy = {"version": 1, "name": name, "allow_first": True, "rules": rules}
        (folder / f"policy {name}.yaml").write_text(yaml.safe_dump(policy))
        content = {
            "name": name,
            "registered_model": MODEL,
            "evaluation_sets": [
                {"name": SET, "source": "table", "path": "my rows.csv", "text": "text"}
                | {"identities": IDENTITIES}
            ],
            "candidates": [
                {"name": one, "kind": "scores", "path": f"{one}.csv", "register": MODEL}
                for one in candidates
            ],
            "policy": f"policy {name}.yaml",
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    write_shards(folder)


def run(*arguments):
    """Run a command; nothing that it prints is wider than the terminal."""
    done = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80"})
    text = done.output + done.stderr
    assert done.exit_code in {0, 3, 4}, text
    assert too_wide(text, 80) == []
    return done.exit_code, text


@pytest.fixture(scope="module")
def started(tmp_path_factory, prefect_server):
    """The folder where evaluations were started, and what each printed, with its exit code."""
    del prefect_server
    folder = tmp_path_factory.mktemp("commands") / "where it starts"
    folder.mkdir()
    write_inputs(folder)
    where = "--store", STORE
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Prefect and MLflow were imported before the command could silence them.
        for handler in (logging.StreamHandler, PrefectConsoleHandler):
            patch.setattr(handler, "emit", lambda *_: None)
        printed = {
            "first": run("evaluate", "first of mine.yaml", "--output", "my first", *where),
            "next": run(
                *("evaluate", "next of mine.yaml", "--output", "my next", *where),
                *("--candidate", "shifted words"),
            ),
            "unsure": run("evaluate", "unsure of mine.yaml", "--output", "my unsure", *where),
            "night": run("nightly", "next of mine.yaml", "--output", "my nights", *where),
            "counted": run("evaluate", "chats.yaml", "--output", "my counts", *where),
        }
        shutil.copytree("my next", KEPT)  # a test judges again, against what is champion by then
    return folder, printed


@pytest.fixture
def folder(started, monkeypatch):
    monkeypatch.chdir(started[0])
    return started[0]


def outputs(folder):
    """The folder of results of each evaluation, as it was given; of the night, the first one."""
    [night, *_] = sorted(one.name for one in (folder / "my nights").iterdir())
    places = {name: f"my {name}" for name in ("first", "next", "unsure")}
    return places | {"night": f"my nights/{night}", "counted": "my counts"}


def test_what_an_evaluation_prints_are_these_commands(started, folder):
    del folder
    store = "--store 'my store'"
    ui = f"ui {store}"
    unsure = "'my unsure/my comments/new words"
    assert {name: commands_in(text) for name, (_, text) in started[1].items()} == {
        "first": [f"verify 'my model' 1 {store}", ui],
        "next": [f"verify 'my model' 2 {store}", ui],
        "unsure": [f"policy plan {unsure}/policy.json' {unsure}'", ui],
        "night": [f"verify 'my model' 2 {store}", ui],
        "counted": ["show 'my counts' --all"],
    }


REPEATED = {
    "first": "evaluate 'first of mine.yaml' --output 'my first'",
    "next": "evaluate 'next of mine.yaml' --output 'my next'",
    "unsure": "evaluate 'unsure of mine.yaml' --output 'my unsure'",
    "night": "nightly 'next of mine.yaml' --output 'my nights'",
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_page_prints_what_the_terminal_does_and_how_to_repeat_it(started, folder, name):
    output = outputs(folder)[name]
    found = commands_in_page((folder / output / "report.html").read_text("utf-8"))
    *following, repeat, verify = found
    more = " --candidate 'shifted words'" if name == "next" else ""
    assert repeat == f"{REPEATED[name]} --store 'my store'{more}"
    assert verify == f"verify './{output}'" if "/" not in output else f"verify '{output}'"
    assert following
    terminal = started[1][name][1]
    assert commands_in(terminal[terminal.index("Next: ") :])[0] in following


def pages(folder, output):
    return [path.relative_to(folder) for path in sorted((folder / output).rglob("report.html"))]


def all_commands(started, folder, name):
    """Each command that an evaluation prints anywhere, with what printed it."""
    output = outputs(folder)[name]
    found = {"terminal": commands_in(started[1][name][1])}
    for page in pages(folder, output):
        found[str(page)] = commands_in_page((folder / page).read_text("utf-8"))
    for card in sorted((folder / output).rglob("*.md")):
        found[str(card)] = commands_in(html.unescape(card.read_text("utf-8")))
    for place in dict.fromkeys(
        [output, *map(str, (page.parent for page in pages(folder, output)))]
    ):
        found[f"show {place}"] = commands_in(run("show", place)[1])
    results = read_results(Path(output))
    if results.summary is not None:
        told = build_message(results, read_trend(folder / output), "a page")
        subject, text = format_message(told).split("\n", 1)
        assert subject.startswith("biasgate ")
        found["message"] = commands_in(text)
    return found


@pytest.mark.parametrize("name", ["first", "next", "unsure", "night", "counted"])
def test_every_command_that_is_printed_runs(started, folder, name, monkeypatch):
    """Each exits with 0, and what judges again with the code of the same verdict."""
    found = all_commands(started, folder, name)
    for place in ("terminal", f"show {outputs(folder)[name]}"):
        assert found[place], place
    assert all(found[str(page)] for page in pages(folder, outputs(folder)[name]))
    each = list(dict.fromkeys(one for printed in found.values() for one in printed))
    # What judges again comes last: it replaces what the others read.
    each.sort(key=lambda one: one.startswith(tuple(JUDGING)))
    ran = set()
    for one in each:
        called, given = parsed(one)
        ran.add(called)
        if called in JUDGING and name not in JUDGED_AGAIN:
            continue
        code, text = run_again(one, monkeypatch)
        expected = started[1][name][0] if called in JUDGING else 0
        assert code == expected, f"biasgate {one}\n{text}"
        says = "{identity}, " if given.get("identity") else SAYS[called]
        assert says.format(**given) in text, f"biasgate {one}\n{text}"
    assert ran == {"show", "verify"} | PRINTED[name]


# What each says that it did.
SAYS = {
    "show": "Report: {folder}/report.html",
    "verify": "holds",
    "policy plan": "comments drawn at random, all labelled",
    "ui": "MLflow starts on",
    "evaluate": "Report: {output}/report.html",
    "nightly": "Report: {output}/",
}
JUDGING = {"evaluate", "nightly"}
# Each takes a while; of the others the command is only parsed.
JUDGED_AGAIN = {"next", "night"}
PRINTED = {
    "first": {"ui", "evaluate"},
    "next": {"ui", "evaluate"},
    "unsure": {"ui", "evaluate", "policy plan"},
    "night": {"ui", "nightly"},
    "counted": set(),
}


def test_the_trend_prints_how_to_see_every_number(started, folder, monkeypatch):
    del started, folder
    _, text = run("trend", "next of mine", "--store", STORE)
    [again] = commands_in(text)
    assert again == "trend 'next of mine' --all --store 'my store'"
    code, text = run_again(again, monkeypatch)
    assert (code, "bpsn_auc" in text) == (0, True), text


def test_the_comparison_that_is_advised_runs(started, folder, monkeypatch):
    del started, folder
    wrong = f"compare 'new words' 'old words' --in '{KEPT}' --store 'my store'"
    code, text = run_again(wrong, monkeypatch)
    [advised] = commands_in(text)
    assert (code, advised) == (
        2,
        "compare 'models:/my model/2' 'models:/my model/1' --store 'my store'",
    )
    code, text = run_again(advised, monkeypatch)
    assert (code, "minus" in text) == (0, True), text


def test_the_hint_on_the_page_in_prefect_is_a_command(started, folder, monkeypatch):
    del started
    summary = read_results(Path(outputs(folder)["first"])).summary
    _, hint = find_run_page(EvaluationRun(summary.run_id, Workplace(folder / STORE), {}))
    [found] = commands_in(hint)
    assert found == "ui --store 'my store'"
    code, text = run_again(found, monkeypatch)
    assert (code, "first of mine" in text) == (0, True), text


def test_a_mistyped_model_is_told_how_the_folder_is_verified(started, folder, monkeypatch):
    del started, folder
    code, text = run_again("verify 'my next' --store 'my store'", monkeypatch)
    # It is a sentence that ends with the command.
    assert (code, commands_in(text)) == (2, ["verify './my next'"])
    code, text = run_again("verify './my next'", monkeypatch)
    assert (code, "DOES NOT HOLD" in text) == (0, False), text


def test_the_next_steps_of_keys_and_of_a_saved_evaluation_run(tmp_path, monkeypatch):
    folder = tmp_path / "my keys"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(folder))
    text = run("keys", "new", "my release.key")[1]
    [trust] = commands_in(text)
    assert trust == "keys trust 'my release.key.pub'"
    assert run_again(trust, monkeypatch)[0] == 0
    [export] = re.findall("export (.*)$", text, re.MULTILINE)
    assert shlex.split(export) == [f"BIASGATE_PRIVATE_KEY={folder / 'my release.key'}"]
    text = run("evaluate", "demo", "--save", "my demo.yaml")[1]
    [evaluate] = commands_in(text)
    assert evaluate == "evaluate 'my demo.yaml' --output out"
    assert parsed(evaluate)[0] == "evaluate"
    # The name alone would be the included evaluation.
    [evaluate] = commands_in(run("evaluate", "demo", "--save", "demo")[1])
    assert evaluate == "evaluate ./demo --output out"


@pytest.mark.slow
def test_every_command_of_the_demo_runs(prefect_server, tmp_path, monkeypatch):
    del prefect_server
    monkeypatch.chdir(tmp_path)
    output = "my demo"
    text = run("demo", "--output", output)[1]
    terminal = commands_in(text)
    steps = commands_in(text[text.index("More to try:") :])
    store = "--store 'my demo-store'"
    retrain = (
        f"mitigate --from 'my demo/templates/biased_labels' {store} --output 'my demo-mitigated'"
    )
    save = "evaluate demo --save my_demo.yaml"
    assert steps == [f"ui {store}", retrain, save]
    page = commands_in_page((tmp_path / output / "report.html").read_text("utf-8"))
    repeat = f"evaluate demo --output 'my demo' {store}"
    verify = f"verify toxicity_demo 2 {store}"
    blocked = "show 'my demo/templates/biased_labels' --identity gay"
    assert page == [verify, blocked, repeat, "verify './my demo'"]
    assert verify in terminal
    for one in dict.fromkeys([*terminal, *page]):
        code, text = run_again(one, monkeypatch)
        # The demo itself exits with 0, since it went as expected; one of its models is blocked.
        expected = {repeat: {3}, retrain: {0, 3, 4}}.get(one, {0})
        assert code in expected, f"biasgate {one}\n{text}"


# ---- Commands in errors


@pytest.fixture
def gateway(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Gateway.from_store(tmp_path / STORE)


def test_a_command_on_a_registry_names_its_store(gateway):
    found = gateway.format_command("promote", MODEL, "VERSION", "--reset", "--reason", "TEXT")
    assert found == ("biasgate promote 'my model' VERSION --reset --reason TEXT --store 'my store'")
    assert Path(parsed(found.removeprefix("biasgate "))[1]["store"]) == Path(STORE)
    assert Gateway.from_uri("http://127.0.0.1:9").format_command("ui") == "biasgate ui"


SOURCES = [
    path
    for room in ("tasks", "flows", "deployments", "biasgate", "bias_metrics")
    for path in sorted((Path(__file__).parents[1] / room).rglob("*.py"))
]


def test_each_text_that_names_a_command_names_one_that_there_is():
    """Also in texts that no test here reaches; their arguments are in capitals or braces."""
    named = [
        (path, f"{first} {second}".strip())
        for path in SOURCES
        for first, second in re.findall(
            r"`biasgate ([a-z]+)(?: ([a-z]+))?", path.read_text("utf-8")
        )
    ]
    assert len(named) > 30
    known = {*commands_of_app(), *GROUPS}
    wrong = [one for one in named if one[1] not in known and one[1].split()[0] not in known]
    assert wrong == []


# ---- How commands are written


def test_a_path_is_typed_as_seen_from_the_current_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert shorten_path(here / "a b/c") == "a b/c"
    assert shorten_path("../x") == "../x"
    assert shorten_path(tmp_path / "x") == str(tmp_path / "x")
    assert shorten_path(here / "-x") == "./-x"
    assert shorten_path(here) == "."
    assert [shorten_argument(name) for name in list_included_names()] == list_included_names()
    assert shorten_argument(str(here / "demo")) == "./demo"
    assert shorten_argument(str(here / "demo.yaml")) == "demo.yaml"


def test_the_command_is_called_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(command_lines.shutil, "which", lambda _: None)
    script = tmp_path / "my programs" / "biasgate"
    script.parent.mkdir()
    script.touch()
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert shlex.split(format_command("show", "a b")) == [str(script), "show", "a b"]
    monkeypatch.setattr(command_lines.shutil, "which", lambda _: str(script))
    assert get_command() == "biasgate"
    monkeypatch.setattr(sys, "argv", [str(FOLDER.parents[1] / "biasgate" / "__main__.py")])
    assert shlex.split(get_command()) == [sys.executable, "-m", "biasgate"]
    # In a worker, of which the command is Prefect's.
    monkeypatch.setattr(sys, "argv", [sys.executable])
    assert get_command() == "biasgate"


# ---- That commands are found


def test_commands_are_found_where_they_are_printed():
    text = """\
  Next: biasgate show 'a b' --identity 'x: y'
biasgate my evaluation: passed
  biasgate keys trust x
Look at `biasgate history m`, `biasgate verify` and biasgate generated it. Run: biasgate ui
"""
    found = ["show 'a b' --identity 'x: y'", "keys trust x", "history m", "ui"]
    assert commands_in(text.replace("biasgate my evaluation: passed\n", "")) == found
    page = (
        "<dd><code>biasgate show &#39;a b&#39;</code></dd><pre><code>biasgate ui\nx\n</code></pre>"
    )
    assert commands_in_page(page) == ["show 'a b'", "ui"]


@pytest.mark.parametrize("command", ["markdown out", "demo --strength 0"])
def test_a_command_that_there_is_not_is_refused(command):
    with pytest.raises((AssertionError, UsageError)):
        parsed(command)
