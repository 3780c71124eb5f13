"""What a command imports before its first line of output: no library that takes seconds."""

import subprocess
import sys

import pytest

SLOW = {"prefect", "mlflow", "sklearn", "matplotlib", "scipy", "torch"}


def imported_by(statement):
    code = f"{statement}\nimport sys\nprint(*sorted(set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import biasgate.cli",
        "from biasgate.tasks.reading_evaluation import read_evaluation",
        "from biasgate.tasks.promoting.verify import verify_model",
        "from biasgate.tasks.gating.policy import read_policy",
    ],
)
def test_a_file_is_checked_before_anything_slow_is_imported(statement):
    assert imported_by(statement) & SLOW == set()


def test_a_message_needs_no_numpy():
    assert "numpy" not in imported_by("import biasgate.cli")


@pytest.mark.slow
def test_scikit_learn_is_not_imported_where_nothing_is_trained():
    assert "sklearn" not in imported_by("import biasgate.flows.evaluate")
