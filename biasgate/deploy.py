"""For deploy scripts, before they load a model: `require_champion` and `open_champion`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biasgate.tasks.mlflow_server.runs import Gateway

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
    from biasgate.tasks.promoting.by_hand import require_champion as require  # noqa: PLC0415

    gateway, folder = _registry(store, tracking_uri)
    return require(model, gateway, folder).uri


def open_champion(
    model: str,
    store: str | Path | None = None,
    tracking_uri: str | None = None,
    folder: str | Path | None = None,
) -> Path:
    """Return a folder with the files of the champion, checked as `require_champion` checks them.

    The files are downloaded once, into a folder of this call's own, and the copy is what is
    checked: load the model from there, and nothing can be exchanged in between. Remove the
    folder when the model is no longer needed.

    Parameters
    ----------
    model, store, tracking_uri
        As in `require_champion`.
    folder : str or Path, optional
        An existing folder in which the new one is made. Default: the system's folder for
        temporary files.

    Returns
    -------
    Path
        A folder that only this user can read, for example for `mlflow.pyfunc.load_model`.

    Raises
    ------
    ValueError
        As `require_champion`; also if a file of the version was changed, added, removed or
        replaced by a link since it was judged, or if its verdict names no files. Nothing is left
        behind.
    """
    from biasgate.tasks.promoting.by_hand import open_champion as opened  # noqa: PLC0415

    gateway, sets = _registry(store, tracking_uri)
    made = Path(tempfile.mkdtemp(prefix="biasgate-champion-", dir=folder))
    try:
        return opened(model, made, gateway, sets)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _registry(store: str | Path | None, tracking_uri: str | None) -> tuple[Gateway, Path | None]:
    """Return the registry, and the store if there is one."""
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.moved_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

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
    gateway = Gateway.at(uri) if uri else Gateway.of_store(folder)
    return gateway, folder if folder.is_dir() else None
