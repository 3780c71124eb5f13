"""What commands print fits the terminal; a program gets it without colours, or as JSON."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
import yaml
from support import memory
from support.filed import FILING, comments, judge_site
from support.printed_commands import GROUPS, commands_of_app, too_wide
from support.promoted import (
    MODEL,
    frozen_set,
    judged_version,
    promote_one,
    signing_key,
    trust,
)
from support.published import publish
from typer.testing import CliRunner

from bias_metrics import Rows
from bias_metrics.thresholds import errors_by_term
from biasgate.cli import app
from biasgate.tasks.common.files import write_json
from biasgate.tasks.gating.policy import list_shipped_policies
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import roll_back
from biasgate.tasks.records.trend import Night
from biasgate.tasks.remembering.memory import Memory
from biasgate.tasks.signing.keys import PrivateKey


def name_of(words):
    return " ".join(words[: 1 + (words[0] in GROUPS)])


LONG = "people_with_intellectual_or_learning_disabilities_of_any_age_or_origin"
HOSTILE = "[red]x[/] \x1b[31m\u202e<b>|` " + "many words " * 5 + "/ends"
REASON = "it was worse at night than the one before, as everyone who read its errors said"
SETS = "comments_of_the_news_in_english_and_german", "t"
CANDIDATES = {
    "the_first_of_the_candidates_of_this_night": {"shift": 0.8, "champion": True},
    "fair": {"shift": 0.0},
}
FIRST = next(iter(CANDIDATES))
BLOCKED = f"out/{SETS[0]}/{FIRST}"
assert len(LONG) == 70


def terms_of(report):
    """Give a report the errors of terms with long names."""
    terms = {(LONG, f"term {at}{' of its own' * at}"): np.arange(at, 900, 3) for at in range(3)}
    y_true, flags = (np.arange(900) % n == 0 for n in (2, 5))
    return replace(report, terms=errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=1))


def night(number):
    value = 1 - number / 10
    numbers = {f"bpsn_auc/{LONG}": [value, value - 0.01, value + 0.01]}
    model = {
        "candidate": FIRST,
        "model": f"models:/{MODEL}/{number}",
        "evaluation_set": SETS[0],
        "run_id": "r",
        "outcome": "pass",
        "digests": dict.fromkeys(("model", "data", "options", "policy", "code"), "0"),
        "joint": {name: interval[1:] for name, interval in numbers.items()},
        "reasons": {},
        "numbers": numbers,
    }
    known = {"schema_version": 1, "evaluation": "nights", "number": number, "models": [model]}
    known |= {"at": f"2026-11-{number:02}T02:00:00", "run_id": "r", "joint_confidence": 0.95}
    return Night.from_dict(known | {"news": [f"{LONG} got worse with {FIRST}.", "And more."]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results in folders, and a store in memory with promotions, a rollback and nights."""
    folder = tmp_path_factory.mktemp("widths")
    names = [LONG, HOSTILE, "gay"]
    report, _, details = publish(folder / "out", names, CANDIDATES, SETS)[0]
    write_json(folder / BLOCKED / "report.json", terms_of(report))
    write_json(folder / BLOCKED / "details.json", details)
    judge_site(folder / "site", comments())
    (folder / "filing.yaml").write_text(yaml.safe_dump(FILING), "utf-8")
    (folder / "wrong.yaml").write_text("name: p\nrules: [{metric: auc, floor: 0.8}]\n", "utf-8")
    store = folder / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr(Gateway, "from_store", staticmethod(memory.gateway_of))
        patch.setattr(os, "execve", lambda *_: None)  # the start of MLflow
        patch.chdir(folder)
        key = signing_key(patch, folder / "secret")
        trust(patch, folder / "trusted", evaluations=key, **{LONG: PrivateKey.generate()})
        (folder / "own.pub").write_text(PrivateKey.generate().public.pem, "utf-8")
        gateway = memory.in_memory(store)
        frozen_set(store)
        champion = None
        for at in range(2):
            champion = judged_version(gateway, store, folder / f"v{at}", champion=champion, seed=at)
            assert promote_one([champion[1]], champion[0], gateway).promoted
        roll_back(MODEL, REASON, gateway, None)
        for number in range(1, 9):
            Memory(gateway, "nights").add(night(number))
        unused = store / "models" / LONG
        unused.mkdir(parents=True)
        os.utime(unused, (0, 0))
        yield folder
    memory.forget(store)


STORE = "--store", "store"
FILED = "--filing", "filing.yaml", "--output"
PRINTED = [
    ("show", "out"),
    ("show", BLOCKED),
    ("show", "out", "--all"),
    ("show", BLOCKED, "--all"),
    ("show", "out", "--identity", LONG),
    ("show", "out", "--identity", HOSTILE),
    ("compare", FIRST, "fair", "--in", "out"),
    ("trend", "nights", *STORE),
    ("trend", "nights", "--all", *STORE),
    ("transparency", "site", *FILED, "NEW"),
    ("promote", MODEL, "1", *STORE),
    ("promote", MODEL, "1", "--reset", "--reason", REASON, *STORE),
    ("history", MODEL, "--all", *STORE),
    ("attest", MODEL, "--output", "NEW", *STORE),
    ("verify", "./out"),
    ("verify", "./site"),
    ("verify", MODEL, *STORE),
    *(("policy", "check", name) for name in list_shipped_policies()),
    ("policy", "register", "no-worse", "--model", "other", *STORE),
    ("policy", "plan", "no-worse", "site/sample/first"),
    ("policy", "plan", "no-worse", "--shares", "civil_comments"),
    ("keys", "new", "NEW"),
    ("keys", "trust", "own.pub", "--name", f"{LONG}_too"),
    ("keys", "revoke", LONG, "--reason", REASON),
    ("keys", "list"),
    ("schema", "evaluation"),
    ("schema", "policy"),
    ("schema", "count"),
    ("doctor", *STORE),
    ("clean", "--keep", "90d", *STORE),
]
WITHOUT_JSON = [
    ("schema", "table"),
    ("evaluate", "demo", "--save", "NEW"),
    ("ui", "--port", "5999", *STORE),
]
CODE = r"\x1b\[([\d;]*)m"
MISTAKES = [
    ("show", "."),
    ("compare", "fare", "fair", "--in", "out"),
    ("trend", "nobody", *STORE),
    ("transparency", "out", *FILED, "NEW"),
    ("promote", MODEL, "9", *STORE),
    ("rollback", MODEL, "--reason", REASON, "--to", "9", *STORE),
    ("verify", "out", *STORE),
    ("policy", "check", "wrong.yaml"),
    ("schema", "tabel"),
    ("evaluate", "demo", "--save", "filing.yaml"),
    *((name, "missing.yaml", "--output", "NEW") for name in ("evaluate", "nightly", "mitigate")),
    ("train", "missing.yaml", *STORE),
    ("demo", "--output", "filing.yaml"),
]
EVERY = [*PRINTED, *WITHOUT_JSON, *MISTAKES]


@pytest.fixture
def call(folder, tmp_path):
    """Run a command in the folder; it writes only to a new place."""
    del folder

    def call(words, **environment):
        known = {"TERM": "xterm", "COLUMNS": None, "FORCE_COLOR": None, "NO_COLOR": None}
        words = [str(tmp_path / "new") if word == "NEW" else word for word in words]
        return CliRunner().invoke(app, words, env=known | environment)

    return call


def test_every_command_is_here_but_the_one_that_prints_a_file():
    assert {name_of(words) for words in EVERY} == set(commands_of_app()) - {"policy show"}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", EVERY, ids=name_of)
def test_no_line_is_wider_than_the_terminal_or_coloured_against_the_users_wish(call, words, width):
    """A pipe at 80 columns, which gets no codes at all; and a terminal at 120, bold and dim."""
    terminal = {} if width == 80 else {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    done = call(words, COLUMNS=str(width), **terminal)
    text = done.stdout + done.stderr
    assert done.exit_code in ({1, 2} if words in MISTAKES else {0, 3}), text
    assert set(re.findall(CODE, text)) <= ({"0", "1", "2"} if terminal else set())
    plain = re.sub(CODE, "", text)
    assert plain.strip()
    assert "\x1b" not in plain
    assert too_wide(plain, width) == []


@pytest.mark.parametrize("words", [*PRINTED, *MISTAKES], ids=name_of)
def test_json_is_alone_on_standard_output(call, words):
    done = call([*words, "--json"])
    if words in MISTAKES:
        assert (done.stdout, done.stderr[:7]) == ("", "error: ")
    else:
        json.loads(done.stdout)
        assert done.stderr == ""


def test_a_pipe_gets_each_sentence_on_one_line(call):
    lines = call(("policy", "check", "default")).stdout.splitlines()
    assert sum(line.startswith(("1. ", "2. ", "3. ")) for line in lines) == 3
    assert max(map(len, lines)) > 200
