"""Where an evaluation keeps its data: the store's folder, the scores, MLflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.mlflow_server.runs import Gateway


@dataclass(frozen=True)
class Workplace:
    """The places of an evaluation's data.

    Steps pass it to each other. A worker on another machine gets only the folder, and connects
    to MLflow itself.
    """

    store: Path
    """Folder of sets, scores and, by default, the MLflow store."""

    @property
    def gateway(self) -> Gateway:
        """A new connection to the tracking server and registry."""
        return Gateway.of_store(self.store)

    @property
    def scores(self) -> str:
        """The place of kept scores: the URL in `BIASGATE_SCORES`, else a folder of the store."""
        return os.environ.get("BIASGATE_SCORES") or str(self.store / "scores")
