"""Kinds of candidates and sources by name, from biasgate and from installed packages."""

import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.packages import install

from biasgate.tasks.analysing.catalogue import KINDS as ANALYSIS_KINDS
from biasgate.tasks.common import catalogue
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCE_KINDS
from biasgate.tasks.evaluation_file import explain_section
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES, KINDS
from biasgate.tasks.scoring.kinds.score_file import ScoreFile

MODULE = """\
from biasgate.tasks.scoring.candidate import CandidateSettings

class Fixed(CandidateSettings):
    value: float

def a_function():
    pass
"""
EVALUATION = """\
name: test
evaluation_sets:
  - {name: rows, source: table, path: rows.csv, identities: [group], text: text}
candidates:
  - CANDIDATE
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package that adds a kind of candidate, for the duration of a test."""
    number = iter(range(9))

    def package(name="biasgate-fixed", point="fixed = MODULE:Fixed", source=MODULE):
        folder = tmp_path / f"installed_{next(number)}"
        module = f"{name.replace('-', '_')}_{tmp_path.name}"  # a name that no other test imports
        points = f"[biasgate.candidates]\n{point.replace('MODULE', module)}\n"
        monkeypatch.syspath_prepend(install(folder, name, points, **{module: source}))
        return module

    return package


@pytest.fixture
def read(tmp_path):
    """Read an evaluation file with one candidate."""
    (tmp_path / "rows.csv").write_text("id,label,group,text\n1,0,1,a\n2,1,1,b\n")
    (tmp_path / "scores.csv").write_text("id,prediction\n1,0.1\n2,0.7\n")

    def read(candidate):
        path = tmp_path / "file.yaml"
        path.write_text(EVALUATION.replace("CANDIDATE", candidate), "utf-8")
        return read_evaluation(path).candidates[0]

    return read


@pytest.fixture
def warnings(monkeypatch):
    """The warnings in the log of steps."""
    messages = []
    log = SimpleNamespace(warning=lambda text, *values: messages.append(text % values))
    monkeypatch.setattr(catalogue, "steps", log)
    return messages


@pytest.mark.parametrize("kinds", [KINDS, SOURCE_KINDS, ANALYSIS_KINDS], ids=lambda one: one.group)
def test_each_own_name_is_the_one_that_its_class_accepts(kinds):
    for name in kinds.own:
        assert kinds.find_class(name).model_fields[kinds.key].annotation.__args__ == (name,)


def test_a_kind_is_imported_only_when_it_is_named():
    code = (
        "import sys; from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES, KINDS\n"
        "imported = lambda: [k for k, v in KINDS.own.items() if v.split(':')[0] in sys.modules]\n"
        "before = imported()\n"
        "CANDIDATES.validate_python({'name': 'a', 'kind': 'http', 'url': 'http://a/b'})\n"
        "print(before, imported())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['http']\n"


def test_a_package_adds_a_kind_with_options_of_its_own(package, read):
    package()
    candidate = read("{name: one, kind: fixed, value: 0.5, threshold: 0.25}")
    assert (type(candidate).__name__, candidate.value, candidate.threshold) == ("Fixed", 0.5, 0.25)
    assert CANDIDATES.validate_python(CANDIDATES.dump_python(candidate, mode="json")) == candidate
    assert pickle.loads(pickle.dumps(candidate)) == candidate  # noqa: S301 - as a Dask worker gets it


def test_options_of_a_package_s_kind_are_checked_at_their_place(package, read):
    package()
    with pytest.raises(InputError, match=r"candidates.0.valu: unknown key. Did you mean 'value'?"):
        read("{name: one, kind: fixed, valu: 0.5}")
    assert "value: a number, must be given" in list(explain_section("fixed"))


def test_an_unknown_kind_is_answered_with_those_of_packages_too(package, read):
    package()
    kinds = "'scores', .*, 'fixed'; got 'fixd'. Did you mean 'fixed'?"
    with pytest.raises(InputError, match=rf"candidates.0: `kind` must be one of {kinds}"):
        read("{name: one, kind: fixd}")


@pytest.mark.parametrize(
    ("point", "source", "message"),
    [
        (
            "fixed = MODULE:Fixed",
            "import no_such_module",
            r"cannot be imported \(ModuleNotFoundError: No module named 'no_such_module'\)",
        ),
        ("fixed = MODULE:Fixd", MODULE, r"cannot be imported \(AttributeError: .*'Fixd'"),
        ("fixed = MODULE:Fixed", "1 / 0", r"cannot be imported \(ZeroDivisionError"),
        ("fixed = MODULE:a_function", MODULE, "must be a subclass of biasgate.*CandidateSettings;"),
        (
            "fixed = biasgate.tasks.data.table:TableSource",
            MODULE,
            "must be a subclass of biasgate.tasks.scoring.candidate.CandidateSettings; report it",
        ),
    ],
    ids=["import fails", "no such class", "module raises", "a function", "a source"],
)
def test_a_package_that_is_broken_is_named(package, read, point, source, message):
    package(point=point, source=source)
    where = "candidates.0: `kind: fixed`, which package biasgate-fixed 1.0 adds as "
    with pytest.raises(InputError, match=f"{where}.*{message}"):
        read("{name: one, kind: fixed}")


def test_a_broken_package_does_no_harm_where_it_is_not_named(package, read):
    package(source="import no_such_module")
    assert read("{name: one, kind: scores, path: scores.csv}").kind == "scores"


def test_a_name_that_two_packages_use_is_refused(package, read):
    first, second = package("first"), package("second")
    packages = rf"package second 1.0 \({second}:Fixed\) and package first 1.0 \({first}:Fixed\)"
    message = f"candidates.0: `kind: fixed` must be defined once; {packages} define it. Uninstall"
    with pytest.raises(InputError, match=message):
        read("{name: one, kind: fixed, value: 1}")


def test_a_package_that_uses_a_name_of_biasgate_s_own_is_ignored_with_one_warning(
    package, read, warnings
):
    module = package("first", point="scores = MODULE:Fixed", source="raise SystemExit")
    for _ in range(2):
        assert type(read("{name: one, kind: scores, path: scores.csv}")) is ScoreFile
    [warning] = warnings
    assert "`kind: scores` is biasgate's own; that of package first 1.0 (" in warning
    assert f"(entry point {module}:Fixed) is ignored" in warning


def test_a_package_that_uses_a_name_of_biasgate_s_own_is_silent_where_it_is_not_used(
    package, warnings
):
    package(point="scores = MODULE:Fixed")
    CANDIDATES.validate_python({"name": "a", "kind": "http", "url": "http://a/b"})
    assert warnings == []
