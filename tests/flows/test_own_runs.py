"""Which flow runs were left by a process that has ended."""

from types import SimpleNamespace

import pytest

from biasgate.flows.own_runs import PROCESS, is_abandoned
from biasgate.tasks.common.processes import this_process

ENDED = this_process().rsplit(" ", 1)[0] + " 0"


@pytest.mark.parametrize(
    ("label", "pid", "abandoned"),
    [
        (None, this_process(), False),
        (None, ENDED, True),
        (this_process(), "host:7", False),  # a worker names its process so
        (ENDED, "host:7", True),
        (None, "host:7", False),
        (None, None, False),
        ("~ ~ ~", None, False),
    ],
)
def test_a_run_is_abandoned_if_the_process_that_ran_it_has_ended(label, pid, abandoned):
    labels = {} if label is None else {PROCESS: label}
    assert is_abandoned(SimpleNamespace(labels=labels, infrastructure_pid=pid)) is abandoned
