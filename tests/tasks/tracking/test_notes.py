"""Notes on MLflow's pages: long notes are cut after whole lines, and refer to the report."""

from dataclasses import replace

import pytest
from support.judged import judge, rows, summary_of

from biasgate.tasks.tracking.log_runs import (
    MAX_COMPARED_RUNS,
    MAX_NOTE_LENGTH,
    shorten_note,
    write_evaluation_note,
)


@pytest.mark.parametrize(
    ("n", "linked"), [(MAX_COMPARED_RUNS, True), (MAX_COMPARED_RUNS + 1, False)]
)
def test_one_link_compares_only_as_many_runs_as_leave_room_for_the_verdicts(n, linked, tmp_path):
    summary = summary_of([judge(tmp_path / "one", rows(["gay"]), name="one")])
    verdict = replace(summary.verdicts[0], run_id="0" * 32)
    large_summary = replace(summary, run_id="1" * 32, verdicts=[verdict] * n)
    note = write_evaluation_note(large_summary, "**Blocked**: one", "1", "")
    assert ("/compare-runs?" in note) == linked
    assert note.endswith("\n\n**Blocked**: one")
    assert len(note) <= MAX_NOTE_LENGTH


@pytest.mark.parametrize("n", [1, MAX_NOTE_LENGTH - 1, MAX_NOTE_LENGTH])
def test_a_note_that_mlflow_keeps_is_not_shortened(n):
    assert shorten_note("x" * n) == "x" * n


@pytest.mark.parametrize("width", [1, 3, 70, 79, 80, 81, 2500])
def test_a_long_note_keeps_as_many_whole_lines_as_fit(width):
    lines = [
        f"{i:x}".rjust(width, "-")[:width] for i in range(2 * MAX_NOTE_LENGTH // (width + 1) + 2)
    ]
    note = shorten_note("\n".join(lines))
    kept, _, rest = note.rpartition("\n\n")
    assert rest == "The rest is in the report."
    kept_lines = kept.split("\n")
    assert kept_lines == lines[: len(kept_lines)]
    assert MAX_NOTE_LENGTH - width - 1 <= len(note) <= MAX_NOTE_LENGTH
