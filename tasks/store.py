"""Where an evaluation works: the folder of the store, the kept scores, MLflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from biasgate.tasks.mlflow_server.runs import Gateway


@dataclass(frozen=True)
class Workplace:
    """Where candidates come from and models go to.

    Attributes
    ----------
    store : Path
        Folder of sets, scores and, by default, the MLflow store.
    gateway : Gateway
        Tracking server and registry.
    """

    store: Path
    gateway: Gateway

    @classmethod
    def at(cls, store: str | Path) -> Workplace:
        """Return the workplace whose store is this folder."""
        return cls(Path(store), Gateway.of_store(Path(store)))

    @property
    def scores(self) -> str:
        """Where scores are kept: the URL in `BIASGATE_SCORES`, else a folder of the store."""
        return os.environ.get("BIASGATE_SCORES") or str(self.store / "scores")
