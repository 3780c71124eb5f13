"""Candidates that are a function of a package or a file, run in their own process."""

import os
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from support.comments import ODD, batch
from support.frozen import freeze_table

from biasgate.tasks.common.errors import CandidateError, CandidateStoppedError, InputError
from biasgate.tasks.scoring.kinds import python_function
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.store import Workplace

FUNCTIONS = """\
import math, os, signal, sys, time
import numpy as np

def score(texts):
    return [min(len(text), 1000) / 1000 for text in texts]

def probabilities(texts):
    return np.array([[0.9, 0.1]] * len(texts))

def one_too_few(texts):
    return score(texts)[1:]

def words(texts):
    return ["toxic"] * len(texts)

def three_columns(texts):
    return [[0.1, 0.2, 0.7]] * len(texts)

def ragged(texts):
    return [[0.1], [0.2, 0.3]][: len(texts)]

def nothing(texts):
    return None

def not_a_number(texts):
    return [math.nan if len(text) % 2 else 0.5 for text in texts]

def hang(texts):
    time.sleep(3600)

def leak(texts):
    kept = []
    while True:
        kept.append(np.ones(2_000_000))
        time.sleep(0.01)

def shout(texts):
    for _ in range(200):
        print("loud " * 20_000)
    print("the very end")
    return score(texts)

def leave(texts):
    sys.exit(3)

def vanish(texts):
    print("about to vanish")
    sys.stdout.flush()
    os._exit(7)

def die(texts):
    os.kill(os.getpid(), signal.SIGSEGV)

def quote(texts):
    raise KeyError(texts[3])

def process(texts):
    return [float(os.getpid())] * len(texts)
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """Some functions, importable as a package."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "toxic_package.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(folder))
    return folder / "toxic_package.py"


@pytest.fixture
def workplace(tmp_path):
    return Workplace(tmp_path / "store")


def length_score(texts):
    return [min(len(text), 1000) / 1000 for text in texts]


def make_candidate(call="toxic_package:score", folder=None, **options):
    settings = {"name": "own", "kind": "python", "call": call, "version": "1"}
    return CANDIDATES.validate_python(settings | options, context={"folder": folder})


@pytest.fixture
def score_texts(workplace):
    def score(texts, *args, **options):
        with make_candidate(*args, **options).open(workplace) as scorer:
            return scorer.score(batch(texts))

    return score


@pytest.fixture
def rows(tmp_path):
    """A frozen set of twenty texts."""
    table = pd.DataFrame({"id": range(20), "text": [f"secret {i}" for i in range(20)]})
    return freeze_table(table, tmp_path, text="text")


@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_every_text_gets_the_functions_score_whatever_the_batches(score_texts, batch_size):
    assert score_texts(ODD, batch_size=batch_size).tolist() == length_score(ODD)


def test_of_two_probabilities_the_second_is_the_score(score_texts):
    assert score_texts(["a", "b"], "toxic_package:probabilities").tolist() == [0.1, 0.1]


def test_all_batches_are_answered_by_one_process_which_is_not_this_one(score_texts):
    [process] = set(score_texts(["a"] * 5, "toxic_package:process", batch_size=2).tolist())
    assert process != os.getpid()
    assert not Path(f"/proc/{int(process)}").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one_too_few", "must return as many scores as texts; got 1 for 2"),
        ("words", "must return a score or two class probabilities"),
        ("three_columns", r"got shape \(2, 3\)"),
        ("ragged", "must return a score"),
        ("nothing", "must return a score"),
    ],
)
def test_an_answer_that_is_no_score_is_refused(score_texts, function, message):
    with pytest.raises(InputError, match=message):
        score_texts(["a", "b"], f"toxic_package:{function}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("toxic_package:other", "must name a function that can be imported.*other"),
        ("toxic_package.deeper:score", "must name a function that can be imported"),
        ("toxic_package:__doc__", "must name a function that can be imported|must be callable"),
    ],
)
def test_a_call_that_is_no_function_is_refused(score_texts, call, message):
    with pytest.raises(InputError, match=message):
        score_texts(["a"], call)


def test_a_package_that_is_not_installed_is_refused_before_any_work():
    with pytest.raises(InputError, match="must name an installed package; got 'not_there_at_all'"):
        make_candidate("not_there_at_all.models:score").check()


def test_scores_are_reused_by_version_and_never_without(workplace):
    def digest(*args, **options):
        return make_candidate(*args, **options).open(workplace).digest

    assert digest(version="1") == digest(version="1", name="other", batch_size=7)
    assert digest(version="1") != digest(version="2")
    assert digest(version="1") != digest("toxic_package:other")
    unversioned = {"name": "own", "kind": "python", "call": "toxic_package:score"}
    once, again = (CANDIDATES.validate_python(unversioned) for _ in range(2))
    assert once.open(workplace).digest != again.open(workplace).digest
    # Workers of a cluster get a copy of the settings, which means the same scores.
    copied = pickle.loads(pickle.dumps(once))  # noqa: S301 - our own
    assert once.open(workplace).digest == copied.open(workplace).digest


def test_a_function_of_a_file_beside_the_configuration_needs_no_installation(score_texts, tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 0.25\n")
    (tmp_path / "model.py").write_text(
        textwrap.dedent("""\
            from helper import FACTOR

            def score(texts):
                return [FACTOR for _ in texts]
            """)
    )
    assert score_texts(["a", "b"], "model.py:score", tmp_path).tolist() == [0.25, 0.25]


def test_scores_of_a_file_are_reused_until_it_changes(workplace, tmp_path):
    digests = []
    for folder, code in (("a", "1"), ("b", "1"), ("b", "2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "model.py").write_text(f"def score(texts): return [{code}]")
        digests.append(make_candidate("model.py:score", tmp_path / folder).open(workplace).digest)
    assert digests[0] == digests[1]
    assert digests[1] != digests[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"model\.py of candidate 'own' cannot be read: No such file"),
        ("def score(texts:", r"must name a Python file; .*model\.py is not a Python file \(line"),
    ],
)
def test_a_file_that_is_no_python_is_refused_before_any_work(tmp_path, content, message):
    if content is not None:
        (tmp_path / "model.py").write_text(content)
    with pytest.raises(InputError, match=message):
        make_candidate("model.py:score", tmp_path).check()


@pytest.mark.parametrize("call", ["score", "model.py", "model/x.txt:score", "a b:score"])
def test_a_call_of_another_form_is_refused(call):
    with pytest.raises(ValueError, match=r"must be package\.module:function, or file\.py:function"):
        make_candidate(call)


def test_what_a_failing_function_says_is_withheld_and_kept_in_the_store(rows, workplace, tmp_path):
    own = make_candidate("toxic_package:quote")
    message = r"'own' failed with KeyError at .*toxic_package\.py:\d+"
    with pytest.raises(CandidateError, match=message) as failed, own.open(workplace) as scorer:
        score_rows(scorer, rows, own, str(tmp_path / "scores"))
    assert "secret" not in str(failed.value)
    assert failed.value.__context__ is None
    log = tmp_path / "store" / "logs" / "own.log"
    assert str(log) in str(failed.value)
    assert "KeyError: 'secret 3'" in log.read_text()


INSTALL = rf"{re.escape(sys.executable)} -m pip install PACKAGE"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import not_there", rf"module 'not_there' must be installed; .* package: {INSTALL}$"),
        ("import not.there", r"failed with SyntaxError|cannot: invalid syntax"),
        ("from numpy import nothing", r"module 'numpy' must have what is imported from it\. Ins"),
        ("from numpy.nothing import x", r"module 'numpy.nothing' must be installed; it is not\."),
        ("no_name", r"failed with NameError|cannot: name 'no_name' is not defined"),
        ("raise NotImplementedError", "failed with NotImplementedError"),
        ("open('weights.bin')", r"No such file or directory: 'weights\.bin'|FileNotFoundError"),
    ],
)
@pytest.mark.parametrize("when", ["imported", "called"])
def test_what_fails_in_the_same_way_again_is_told_and_not_tried_again(
    rows, workplace, tmp_path, when, line, message
):
    before, body = (line, "") if when == "imported" else ("", line)
    (tmp_path / "model.py").write_text(f"{before}\ndef score(texts):\n    {body}\n    return texts")
    own = make_candidate("model.py:score", tmp_path)
    raised = pytest.raises((InputError, CandidateError), match=message)
    with raised as failed, own.open(workplace) as scorer:
        score_rows(scorer, rows, own, str(tmp_path / "scores"))
    tried_again = type(failed.value) is CandidateError
    assert tried_again == (when == "called" and line.startswith("open"))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("leave", r"failed with SystemExit at .*toxic_package\.py:\d+"),
        ("vanish", r"its process ended with exit code 7 before it answered.*own\.log"),
        ("die", "its process ended by SIGSEGV before it answered"),
    ],
)
def test_a_function_that_ends_its_process_does_not_end_the_evaluation(
    score_texts, function, message
):
    with pytest.raises(CandidateError, match=message):
        score_texts(["a"], f"toxic_package:{function}")


def test_a_function_that_hangs_is_stopped_after_timeout_s(score_texts):
    with pytest.raises(CandidateStoppedError, match=r"did not answer within 3 s \(`timeout_s`"):
        score_texts(["a"], "toxic_package:hang", timeout_s=3)


def test_an_import_that_hangs_is_stopped_too(score_texts, tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(3600)")
    with pytest.raises(CandidateStoppedError, match="for the import and for each batch"):
        score_texts(["a"], "slow.py:score", tmp_path, timeout_s=1)


def test_a_function_that_grows_without_bound_is_stopped_at_memory_limit(score_texts):
    with pytest.raises(CandidateStoppedError, match=r"`memory_limit` is 400 MiB") as stopped:
        score_texts(["a"], "toxic_package:leak", memory_limit="400MiB")
    assert "`batch_size`" in str(stopped.value)


LASTING = """
import sys, time
sys.path[:0] = sys.argv[1:2]
from pathlib import Path
from biasgate.tasks.scoring.kinds.python_function import FunctionProcess
process = FunctionProcess("os:listdir", "a function", 60.0, None, Path("log"))
print(process._process.pid, flush=True)
time.sleep(600)
"""


def test_the_process_ends_with_the_one_that_was_killed(tmp_path):
    (tmp_path / "lasting.py").write_text(LASTING)
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, str(tmp_path / "lasting.py"), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_without_a_limit_a_process_may_use_most_of_the_free_memory(monkeypatch, score_texts):
    monkeypatch.setattr(python_function, "measure_free_memory", lambda: 2**20)
    monkeypatch.setattr(python_function, "INTERVAL_S", 0.01)
    with pytest.raises(CandidateStoppedError, match="`memory_limit` is 0 MiB"):
        score_texts(["a"], "toxic_package:hang")


def test_what_is_printed_stays_off_the_terminal_and_its_end_is_kept(score_texts, workplace, capfd):
    assert score_texts(["a"], "toxic_package:shout").tolist() == [0.001]
    assert capfd.readouterr() == ("", "")
    log = (workplace.store / "logs" / "own.log").read_bytes()
    assert log.endswith(b"the very end\n")
    assert log.startswith(b"[")
    assert len(log) < python_function.LOG_BYTES + 100


def test_a_score_that_is_not_a_number_is_told_with_its_row(rows, workplace, tmp_path):
    own = make_candidate("toxic_package:not_a_number")
    message = r"must be finite; got nan \(row 10, id 10\)"
    with pytest.raises(InputError, match=message), own.open(workplace) as scorer:
        score_rows(scorer, rows, own, str(tmp_path / "scores"))


def test_scores_are_those_of_the_function_to_the_last_bit(score_texts, tmp_path):
    (tmp_path / "model.py").write_text(
        "def score(texts):\n    return [1 / (3 + len(text)) for text in texts]\n"
    )
    there = score_texts(ODD, "model.py:score", tmp_path)
    assert there.dtype == np.float64
    assert there.tolist() == [1 / (3 + len(text)) for text in ODD]
