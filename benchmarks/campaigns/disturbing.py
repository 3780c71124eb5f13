"""Helpers of all campaigns: processes, disturbances, and the table of trials."""

import logging
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass

from benchmarks import TESTS
from biasgate.tasks.promoting.verify import verify_model

MODEL = "toxicity"
KILLED, UNDISTURBED = -signal.SIGKILL, 0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The state after a disturbance, and after the run that follows."""

    kind: str
    n_fired: int
    """Disturbances that happened."""
    problems: list[str]


def report_trials(trials):
    """Print failures as they happen, and a table of all trials by kind; return the trials."""
    finished = []
    for trial in trials:
        finished.append(trial)
        sys.stderr.write(f"{len(finished)} {trial}\n")
    n_trials = Counter(trial.kind for trial in finished)
    print("| disturbed by | trials | disturbed | wrong |\n|---|--:|--:|--:|")
    for kind, n in n_trials.items():
        of_kind = [trial for trial in finished if trial.kind == kind]
        n_fired = sum(trial.n_fired for trial in of_kind)
        print(f"| {kind} | {n} | {n_fired} | {sum(bool(trial.problems) for trial in of_kind)} |")
    return finished


class WatchedClient:
    """A client of MLflow that calls a function before each of its calls."""

    def __init__(self, client, watch):
        self._client, self._watch = client, watch

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def call(*args, **options):
            self._watch(name, args)
            return method(*args, **options)

        return call


def list_faults(gateway, store):
    """Return the sentences of failed checks of `verify`."""
    findings = verify_model(MODEL, None, gateway, store)
    return [finding.sentence for finding in findings if not finding.holds]


def list_runs(gateway):
    """Return all runs in MLflow."""
    experiments = [experiment.experiment_id for experiment in gateway.client.search_experiments()]
    return gateway.client.search_runs(experiments)


def join_python_path():
    """Return the path on which other processes find the package and the tests' helpers."""
    return os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])


def kill():
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_quiet(log=os.devnull):
    """Redirect this process's output to a file until it ends."""
    sys.stderr = sys.stdout = open(log, "w")  # noqa: SIM115, PTH123
    logging.disable()
