"""The models of an experiment: what its tab *Models* and `search_logged_models` find.

MLflow calls them logged models. One stands for each candidate that was judged in the experiment,
whatever its kind. Its files stay where they are: in the run of a registered version, or outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biasgate.tasks.mlflow_server.run_files import RunFiles
from biasgate.tasks.mlflow_server.versions import ModelVersion

_DIGEST_LENGTH = 36
_KEY = "biasgate.candidate_key"
_VERSIONS = "mlflow.modelVersions"  # the versions that MLflow's page of a model links
# Characters that MLflow refuses in the name of a model.
_REFUSED = str.maketrans(dict.fromkeys("/:.%\"'", "_"))


@dataclass(frozen=True)
class Judged:
    """A model and the set that its metrics are about."""

    model_id: str
    """Of the logged model."""
    dataset_name: str
    dataset_digest: str
    """Of the evaluation set, as in the run's inputs; the digest is shortened."""

    @classmethod
    def on(cls, model_id: str, name: str, digest: str) -> Judged:
        """Return the model on a set with this digest."""
        return cls(model_id, name, digest[:_DIGEST_LENGTH])


@dataclass(frozen=True)
class LoggedModels(RunFiles):
    """The models of experiments."""

    def logged_model(
        self,
        experiment_id: str,
        key: str,
        name: str,
        *,
        kind: str,
        tags: Mapping[str, str],
        version: ModelVersion | None = None,
    ) -> str:
        """Return the id of the model with this key in an experiment; create it if missing.

        Parameters
        ----------
        key : str
            What makes it this model and no other, in hexadecimal digits.
        version : ModelVersion, optional
            The registered version that it is, which its page then links, with the run that made
            it.
        """
        found = self.client.search_logged_models(
            [experiment_id], filter_string=f"tags.`{_KEY}` = '{key}'", max_results=1
        )
        if found:
            model_id = str(found[0].model_id)
            self.client.set_logged_model_tags(model_id, dict(tags))
            return model_id
        known: dict[str, Any] = {**tags, _KEY: key}
        if version is not None:
            named = {"name": version.name, "version": version.version}
            known[_VERSIONS] = json.dumps([named])
        made = self.client.create_logged_model(
            experiment_id,
            name.translate(_REFUSED),
            source_run_id=None if version is None else version.run_id,
            tags=known,
            model_type=kind,
        )
        self.client.finalize_logged_model(made.model_id, "READY")
        return str(made.model_id)
