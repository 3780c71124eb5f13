"""The history of nights in MLflow: a run for each model on each set, with a step for each night.

MLflow draws a line for each number. The parent run keeps a file for each night with its numbers,
intervals and digests, which `biasgate trend` reads.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.markdown import escape_markdown
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.untrusted import read_record
from biasgate.tasks.data.identity_names import sanitize_name
from biasgate.tasks.mlflow_server.runs import NOTE, Gateway
from biasgate.tasks.records.trend import Night, Remembered

FOLDER = "nights"
COUNT = "biasgate.nights"  # tag with the number of the last night
_KEY = "nights"
_NOTE = "The steps are nights. Choose several runs to draw their lines together."


@dataclass(frozen=True)
class Memory:
    """The stored nights of an evaluation."""

    gateway: Gateway
    """Tracking server."""
    evaluation: str
    """Name of the evaluation and of its experiment."""

    def read_nights(self, n_nights: int) -> list[Night]:
        """Return at most the last `n_nights`, the oldest first; empty without a run.

        Raises
        ------
        InputError
            If a file does not have the form that biasgate writes.
        """
        run_id = self._find_run()
        if run_id is None:
            return []
        last = int(self.gateway.client.get_run(run_id).data.tags.get(COUNT, "0"))
        names = [_name_file(number) for number in range(max(1, last - n_nights + 1), last + 1)]
        if not names:
            return []
        nights = []
        with self.gateway.open_run_files(run_id, [f"{FOLDER}/{name}" for name in names]) as folder:
            for name in names:
                # Files that are downloaded one by one are stored without their folder.
                paths = folder / FOLDER / name, folder / name
                path = next((path for path in paths if path.is_file()), None)
                if path is not None:
                    nights.append(read_record(path, Night, f"{FOLDER}/{name} of run {run_id}"))
        return nights

    def add(self, night: Night) -> None:
        """Log a night. Safe to repeat: the same night overwrites itself."""
        experiment_id = self.gateway.ensure_experiment(self.evaluation)
        parent = self.gateway.ensure_run(experiment_id, _KEY, f"nights of {self.evaluation}")
        with tempfile.TemporaryDirectory() as folder:
            content = json.dumps(convert_to_plain(night))
            (Path(folder) / _name_file(night.number)).write_text(content, "utf-8")
            self.gateway.log_folder(parent, Path(folder), FOLDER)
        for model in night.models:
            self._log_step(experiment_id, parent, model, night.number)
        self.gateway.log(parent, tags={COUNT: str(night.number), NOTE: _NOTE})
        self.gateway.end_run(parent)

    def _log_step(
        self, experiment_id: str, parent: str, remembered: Remembered, number: int
    ) -> None:
        run_key = f"{_KEY}/{json_digest([remembered.model, remembered.evaluation_set])}"
        name = (
            f"nights of {remembered.model.removeprefix('models:/')} on {remembered.evaluation_set}"
        )
        run_id = self.gateway.ensure_run(experiment_id, run_key, name, parent=parent)
        metrics = {}
        for key, (value, *_) in remembered.numbers.items():
            if value is not None:
                metric, _, group = key.partition("/")
                metrics[f"{metric}/{sanitize_name(group)}" if group else metric] = value
        tags = {
            NOTE: (
                f"{_NOTE} The last: {escape_markdown(remembered.candidate)}, {remembered.outcome}."
            )
        }
        self.gateway.log(run_id, metrics=metrics, tags=tags, step=number)
        self.gateway.end_run(run_id)

    def _find_run(self) -> str | None:
        """Return the parent run; None before the first night."""
        experiment = self.gateway.client.get_experiment_by_name(self.evaluation)
        if experiment is None:
            return None
        return self.gateway.find_run(str(experiment.experiment_id), _KEY)


def _name_file(number: int) -> str:
    """Return the name of the file of a night."""
    return f"{number:06d}.json"


def require_nights(memory: Memory, n_nights: int) -> list[Night]:
    """Return at most the last `n_nights`.

    Raises
    ------
    InputError
        If there are no nights.
    """
    nights = memory.read_nights(n_nights)
    if not nights:
        msg = (
            f"evaluation {memory.evaluation!r} must have been run by `biasgate nightly`; no night "
            f"is known at {memory.gateway.uri}. Give its name as in its file, and --store."
        )
        raise InputError(msg)
    return nights
