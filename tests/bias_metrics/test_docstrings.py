"""Every example in the documentation runs, and every public function is proved by hand."""

import csv
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import bias_metrics

README = Path(bias_metrics.__file__).with_name("README.md")
MODULES = ["bias_metrics"] + [
    module.name for module in pkgutil.walk_packages(bias_metrics.__path__, "bias_metrics.")
]
FUNCTIONS = [
    name for name in bias_metrics.__all__ if inspect.isfunction(getattr(bias_metrics, name))
]
# What the examples of a module need beside numpy.
NEEDS = {"bias_metrics.kaggle": "pandas"}
TESTS = {file.name: file for file in Path(__file__).parent.rglob("test_*.py")}
# The site's index of the library shows it, too.
PROOFS = Path(__file__).with_name("proofs.csv")


def test_no_module_is_forgotten():
    folder = Path(bias_metrics.__file__).parent
    files = [file.relative_to(folder.parent) for file in folder.rglob("*.py")]
    names = {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}
    assert set(MODULES) == names


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_examples_of_the_index_run():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_metric_has_an_executed_example_and_a_source(name):
    function = getattr(bias_metrics, name)
    [found] = doctest.DocTestFinder(recurse=False).find(function, name)
    assert found.examples
    assert "References\n" in inspect.getdoc(function)
    if function.__module__ in NEEDS:
        pytest.importorskip(NEEDS[function.__module__])
    found.globs.update(vars(bias_metrics))  # a decorated one is not found by its module
    assert doctest.DocTestRunner().run(found).failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_documents_its_parameters_and_what_it_returns(name):
    text = inspect.getdoc(getattr(bias_metrics, name))
    assert "Returns\n-------" in text
    if "Parameters and errors are those of `evaluate_bias`" not in text:
        for parameter in inspect.signature(getattr(bias_metrics, name)).parameters:
            assert parameter in text


def test_every_function_has_a_test_by_hand_that_exists():
    with PROOFS.open(encoding="utf-8", newline="") as file:
        proofs = {row["function"]: row["test"] for row in csv.DictReader(file)}
    assert sorted(proofs) == sorted(FUNCTIONS)
    for proof in proofs.values():
        file, _, test = proof.partition("::")
        assert f"def {test}(" in TESTS[file].read_text(encoding="utf-8")


def test_every_test_that_the_guide_names_exists():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", README.read_text(encoding="utf-8"))
    for file, test in named:
        assert f"def {test}(" in TESTS[file].read_text(encoding="utf-8")
