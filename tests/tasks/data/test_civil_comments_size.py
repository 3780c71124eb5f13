import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from biasgate.tasks.data.civil_comments import IDENTITIES

ROWS, ROWS_A_STEP, LIMIT_GIB = 1_800_000, 100_000, 4
SUBTYPES = ["severe_toxicity", "obscene", "identity_attack", "insult", "threat"]
COUNTS = ["funny", "wow", "sad", "likes", "disagree", "toxicity_annotator_count"]

FREEZE = """
import resource, sys, time
from pathlib import Path
from biasgate.tasks.data.freezing import SOURCES, freeze
began = time.perf_counter()
options = {"name": "all", "source": "civil_comments", "folder": sys.argv[1], "split": ["train"]}
found = freeze(SOURCES.validate_python(options), Path(sys.argv[2]))
# It is in KiB on Linux and in bytes on macOS.
unit = 1024**3 if sys.platform == "darwin" else 1024**2
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
print(found.n_rows, found.column("identity/muslim").null_count, time.perf_counter() - began, peak)
"""


def letters(rng):
    """A long stretch of letter soup with the spaces, quotes and newlines of comments."""
    shares = np.linspace(3, 0.2, 26)
    alphabet = np.frombuffer(b'etaoinshrdlucmfwypvbgkjqxz \n",', np.uint8)
    p = np.concatenate([0.8 * shares / shares.sum(), [0.18, 0.005, 0.005, 0.01]])
    return rng.choice(alphabet, 1 << 25, p=p).tobytes().decode()


def training_rows(rng, soup, start):
    """Rows of `train.csv`, with texts of 1 to 1,000 characters and 22 % of rows rated."""
    n = ROWS_A_STEP
    lengths = np.clip(rng.lognormal(5.3, 0.9, n), 1, 1000).astype(int)
    at = rng.integers(0, len(soup) - 1000, n)
    unrated = rng.random(n) >= 0.22
    texts = [soup[a : a + k] for a, k in zip(at.tolist(), lengths.tolist(), strict=True)]
    rows = {"id": np.arange(start, start + n) + 59_848, "target": rng.integers(0, 73, n) / 72}
    rows["comment_text"] = texts
    rows |= {name: rng.integers(0, 73, n) / 72 for name in SUBTYPES}
    rows |= {name: pa.array(rng.integers(0, 11, n) / 10, mask=unrated) for name in IDENTITIES}
    rows["created_date"] = ["2015-09-29 10:50:41.987077+00"] * n
    rows |= {name: rng.integers(1, 400_000, n) for name in ("parent_id", "article_id")}
    rows |= {name: rng.integers(0, 10, n) for name in COUNTS}
    return pa.table(rows), int(unrated.sum())


@pytest.mark.slow
def test_1_8_million_rows_convert_within_four_gib(tmp_path, capsys):
    rng = np.random.default_rng(7)
    soup = letters(rng)
    unrated, writer = 0, None
    for start in range(0, ROWS, ROWS_A_STEP):
        table, n = training_rows(rng, soup, start)
        writer = writer or pyarrow.csv.CSVWriter(tmp_path / "train.csv", table.schema)
        writer.write_table(table)
        unrated += n
    writer.close()
    command = [sys.executable, "-c", FREEZE, str(tmp_path), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    n_rows, n_null, seconds, peak = map(float, done.stdout.split())
    with capsys.disabled():
        print(f"\n{n_rows:,.0f} rows in {seconds:.1f} s, peak {peak:.2f} GiB")  # noqa: T201
    assert (n_rows, n_null) == (ROWS, unrated)
    assert peak < LIMIT_GIB
