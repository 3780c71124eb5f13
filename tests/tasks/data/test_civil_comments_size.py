import subprocess
import sys

import pytest
from support.release import rows_of_release, write_csv

ROWS, LIMIT_GIB = 1_800_000, 4

FREEZE = """
import resource, sys, time
from pathlib import Path
from biasgate.tasks.data.freezing import SOURCES, freeze_source
began = time.perf_counter()
options = {"name": "all", "source": "civil_comments", "folder": sys.argv[1], "split": ["train"]}
found = freeze_source(SOURCES.validate_python(options), Path(sys.argv[2]))
# It is in KiB on Linux and in bytes on macOS.
unit = 1024**3 if sys.platform == "darwin" else 1024**2
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
print(found.n_rows, found.column("identity/muslim").null_count, time.perf_counter() - began, peak)
"""


@pytest.mark.slow
def test_1_8_million_rows_convert_within_four_gib(tmp_path, capsys):
    tables = rows_of_release(ROWS, shares={"train": 1}, mean_length=300)
    unrated = 0

    def count_unrated():
        nonlocal unrated
        for table in tables:
            unrated += table["muslim"].null_count
            yield table

    write_csv(tmp_path / "civil_comments.csv", count_unrated())
    command = [sys.executable, "-c", FREEZE, str(tmp_path), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    n_rows, n_null, seconds, peak = map(float, done.stdout.split())
    with capsys.disabled():
        print(f"\n{n_rows:,.0f} rows in {seconds:.1f} s, peak {peak:.2f} GiB")  # noqa: T201
    assert (n_rows, n_null) == (ROWS, unrated)
    assert peak < LIMIT_GIB
