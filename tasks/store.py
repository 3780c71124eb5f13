"""Places of an evaluation's data: the store's folder, the scores and MLflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.mlflow_server.runs import Gateway


@dataclass(frozen=True)
class Workplace:
    """The places of an evaluation's data, passed from step to step.

    A worker on another machine gets only the folder, and makes its own connection to MLflow.
    """

    store: Path
    """Folder of sets, scores and, by default, the MLflow store."""

    @property
    def gateway(self) -> Gateway:
        """A new connection to the tracking server and registry."""
        return Gateway.from_store(self.store)

    @property
    def scores(self) -> str:
        """The URL in `BIASGATE_SCORES`, else the folder of scores in the store."""
        return os.environ.get("BIASGATE_SCORES") or str(self.store / "scores")
