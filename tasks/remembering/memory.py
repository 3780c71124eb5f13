"""The memory of nights in MLflow: one run for each model on each set, with a step for each night.

MLflow draws a line for each number. A run above them keeps each night's numbers, intervals and
digests in a file of its own, from which `biasgate trend` reads them.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.markdown import as_text
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.untrusted import read_record
from biasgate.tasks.data.identity_names import sanitize_name
from biasgate.tasks.mlflow_server.runs import NOTE, Gateway
from biasgate.tasks.records.trend import Night, Remembered

FOLDER = "nights"
COUNT = "biasgate.nights"  # the number of the last night
_NOTE = "The steps are nights. Choose several runs to draw their lines together."


@dataclass(frozen=True)
class Memory:
    """What is known of the nights of one evaluation."""

    gateway: Gateway
    """Tracking server."""
    evaluation: str
    """Name of the evaluation and of its experiment."""

    def nights(self, number: int) -> list[Night]:
        """Return the last nights, at most so many, the oldest first; none if there is no run.

        Raises
        ------
        InputError
            If a file is not what biasgate wrote.
        """
        run_id = self._run()
        if run_id is None:
            return []
        last = int(self.gateway.client.get_run(run_id).data.tags.get(COUNT, "0"))
        wanted = [f"{one:06d}.json" for one in range(max(1, last - number + 1), last + 1)]
        if not wanted:
            return []
        found = []
        with self.gateway.run_files(run_id, [f"{FOLDER}/{name}" for name in wanted]) as folder:
            for name in wanted:
                # Files that were downloaded one by one lie side by side.
                places = folder / FOLDER / name, folder / name
                path = next((one for one in places if one.is_file()), None)
                if path is not None:
                    place = f"{FOLDER}/{name} of run {run_id}"
                    found.append(read_record(path, Night, place))
        return found

    def add(self, night: Night) -> None:
        """Log a night. Safe to repeat: the same night overwrites itself."""
        experiment_id = self.gateway.experiment(self.evaluation)
        above = self.gateway.run(experiment_id, _key(), f"nights of {self.evaluation}")
        with tempfile.TemporaryDirectory() as folder:
            name = f"{night.number:06d}.json"
            (Path(folder) / name).write_text(json.dumps(plain(night)), "utf-8")
            self.gateway.log_folder(above, Path(folder), FOLDER)
        for model in night.models:
            self._add_step(experiment_id, above, model, night.number)
        self.gateway.log(above, tags={COUNT: str(night.number), NOTE: _NOTE})
        self.gateway.finish(above)

    def _add_step(
        self, experiment_id: str, above: str, remembered: Remembered, number: int
    ) -> None:
        key = f"{_key()}/{json_digest([remembered.model, remembered.evaluation_set])}"
        name = (
            f"nights of {remembered.model.removeprefix('models:/')} on {remembered.evaluation_set}"
        )
        run_id = self.gateway.run(experiment_id, key, name, parent=above)
        metrics = {
            _metric(key): values[0]
            for key, values in remembered.numbers.items()
            if values[0] is not None
        }
        tags = {NOTE: f"{_NOTE} The last: {as_text(remembered.candidate)}, {remembered.outcome}."}
        self.gateway.log(run_id, metrics=metrics, tags=tags, step=number)
        self.gateway.finish(run_id)

    def _run(self) -> str | None:
        found = self.gateway.client.get_experiment_by_name(self.evaluation)
        if found is None:
            return None
        return self.gateway.find_run(str(found.experiment_id), _key())


def _key() -> str:
    return "nights"


def _metric(key: str) -> str:
    kind, _, group = key.partition("/")
    return f"{kind}/{sanitize_name(group)}" if group else kind


def require_nights(memory: Memory, number: int) -> list[Night]:
    """Return the last nights, of which there must be one.

    Raises
    ------
    InputError
        If there is none.
    """
    found = memory.nights(number)
    if not found:
        msg = (
            f"evaluation {memory.evaluation!r} must have been run by `biasgate nightly`; no night "
            f"is known at {memory.gateway.uri}. Give its name as in its file, and --store."
        )
        raise InputError(msg)
    return found
