"""For deploy scripts, before they load a model: `require_champion`."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_STORE = ".biasgate"


def require_champion(
    model: str, store: str | Path | None = None, tracking_uri: str | None = None
) -> str:
    """Return the version under `champion` if its promotion still holds; raise an error if not.

    Every verdict of the version is recomputed from its stored evidence, as `biasgate verify`
    does. If something cannot be looked up, that is an error too. Whatever this function
    raises, do not deploy.

    Parameters
    ----------
    model : str
        The registered model.
    store : str or Path, optional
        The store of the evaluations; its frozen sets are checked too. Default: the folder in
        `BIASGATE_STORE`, or else `.biasgate`. With a server, the default may be missing.
    tracking_uri : str, optional
        MLflow's tracking server and registry. Default: `MLFLOW_TRACKING_URI`, or else the
        MLflow data in the store.

    Returns
    -------
    str
        `models:/name/version`, pinned: the alias may move while the model is loaded.

    Raises
    ------
    ValueError
        If there is no champion, if its verdicts are missing or not a pass, or if their
        evidence was changed. The text says what does not hold.

    Examples
    --------
    >>> require_champion("toxicity", store="no-such-folder", tracking_uri=None)
    Traceback (most recent call last):
    ...
    biasgate.tasks.common.errors.InputError: store no-such-folder must be a folder that ...
    """
    # MLflow takes seconds to import, and not every user of biasgate needs it.
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.moved_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415
    from biasgate.tasks.promoting.by_hand import require_champion as require  # noqa: PLC0415

    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    folder = Path(store or os.environ.get("BIASGATE_STORE") or DEFAULT_STORE)
    if (store is not None or not uri) and not folder.is_dir():
        msg = (
            f"store {folder} must be a folder that an evaluation wrote; there is none. "
            "Name it, or a server: `tracking_uri`."
        )
        raise InputError(msg)
    if not uri:
        require_store(folder)
    gateway = Gateway(uri) if uri else Gateway.of_store(folder)
    return require(model, gateway, folder if folder.is_dir() else None).uri
