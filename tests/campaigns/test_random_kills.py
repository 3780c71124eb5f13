"""Commands killed at random times leave no process, and the next run leaves no other trace."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_commands_killed_at_random_times_leave_nothing_after_the_next_run():
    """In a process of its own, which sets the environment before Prefect is imported."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.campaigns.random_kills",
        "--kills",
        "2",
        "--in-a-row",
        "1",
        "--commands",
        "evaluate",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| `")]
    assert sum(int(n_killed) for _, _, n_killed, _ in rows) >= 1
    assert [wrong.strip() for *_, wrong in rows] == ["0"] * len(rows), done.stderr
