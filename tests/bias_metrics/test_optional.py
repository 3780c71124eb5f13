"""Optional libraries are imported only when needed; the error for a missing library helps."""

import subprocess
import sys

import pytest

from bias_metrics._core.tables import import_optional

IMPORTED = """
import sys
import bias_metrics, bias_metrics.plot
print(*sorted({"matplotlib", "pandas", "polars"} & set(sys.modules)))
"""


def test_importing_the_library_and_its_pictures_imports_nothing_but_numpy():
    done = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True)
    assert done.stdout.split() == []


def test_a_missing_library_is_named_with_what_needs_it():
    message = r"^bias_metrics.plot needs nothing_of_this_name, .* pip install nothing_of_this_name$"
    with pytest.raises(ModuleNotFoundError, match=message):
        import_optional("nothing_of_this_name.figure", "bias_metrics.plot")


def test_a_library_that_lacks_something_itself_says_what(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing_of_this_name'"):
        import_optional("half_installed", "to_frame()")


def test_a_library_that_is_there_is_returned():
    assert import_optional("math", "a test").pi > 3
