"""Checks for deploy scripts, to call before they load a model."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biasgate.tasks.mlflow_server.runs import Gateway

DEFAULT_STORE = ".biasgate"


def require_champion(
    model: str, store: str | Path | None = None, tracking_uri: str | None = None
) -> str:
    """Return the version under `champion` if its promotion still holds; raise an error if not.

    Every verdict of the version is recomputed from its stored evidence, as by `biasgate verify`.
    Missing information is also an error. Do not deploy if this function raises any exception.

    Parameters
    ----------
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
        If a champion does not exist, if its verdicts are missing or not a pass, or if their
        evidence was changed. The text names the check that failed.

    Examples
    --------
    >>> require_champion("toxicity", store="no-such-folder", tracking_uri=None)
    Traceback (most recent call last):
    ...
    biasgate.tasks.common.errors.InputError: store no-such-folder must be a folder that ...
    """
    from biasgate.tasks.promoting import verify  # noqa: PLC0415 - MLflow takes seconds to import

    gateway, folder = _open_registry(store, tracking_uri)
    return verify.require_champion(model, gateway, folder).uri


def open_champion(
    model: str,
    store: str | Path | None = None,
    tracking_uri: str | None = None,
    folder: str | Path | None = None,
) -> Path:
    """Return a folder with the files of the champion, after the checks of `require_champion`.

    The files are downloaded once, into a new folder, and this copy is checked. A model that is
    loaded from the folder therefore has the checked files. Remove the folder when the model is no
    longer needed.

    Parameters
    ----------
    model, store, tracking_uri
        As in `require_champion`.
    folder : str or Path, optional
        An existing folder in which to create the new folder. Default: the system's folder for
        temporary files.

    Returns
    -------
    Path
        A folder that only this user can read, for example for `mlflow.pyfunc.load_model`.

    Raises
    ------
    ValueError
        As `require_champion`; also if a file of the version was changed, added, removed or
        replaced by a link since it was judged, or if its verdict does not name files. The new
        folder is then removed.
    """
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
    from biasgate.tasks.common.own_folders import own_folder  # noqa: PLC0415
    from biasgate.tasks.promoting import verify  # noqa: PLC0415

    gateway, sets = _open_registry(store, tracking_uri)
    parent = Path(folder or tempfile.gettempdir())
    if not parent.is_dir():
        msg = f"open_champion: `folder` must be an existing folder; got {parent}. Make it first."
        raise InputError(msg)
    # The own folder of a killed process is removed by the next call.
    with own_folder(parent, "biasgate-") as own:
        (own / "files").mkdir()
        files = verify.open_champion(model, own / "files", gateway, sets)
        files.chmod(0o700)
        return files.rename(parent / f"biasgate-champion-{uuid.uuid4().hex}")


def require_attestation(
    file: str | Path,
    folder: str | Path,
    model: str,
    *,
    version: str | None = None,
    policy_digest: str | None = None,
    evaluation_sets: Mapping[str, str] | None = None,
) -> None:
    """Check the files of a folder against signed attestations; raise an error if a check fails.

    Needs neither registry nor network, only the public keys that are trusted on this machine. The
    checks are those of `biasgate verify --attestation`.

    Parameters
    ----------
    file : str or Path
        A file that `biasgate attest` wrote.
    folder : str or Path
        The model's files, as they are to be deployed.
    model : str
        The registered model that must be attested.
    version : str, optional
        Its version. Default: any version that passed. Whether it was blocked or replaced since is
        checked only by `require_champion`.
    policy_digest : str, optional
        Digest of the policy that must have judged it, as `biasgate policy check` prints it.
        Default: any policy that a trusted key signed, also a lenient policy.
    evaluation_sets : mapping of str to str, optional
        The required sets by name, each with the digest of its rows or an empty text. Default: any.

    Raises
    ------
    ValueError
        If an attestation is not signed by a trusted key, did not pass, is of another model, policy
        or set, or of other files. The text names the checks that failed.
    """
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
    from biasgate.tasks.verifying.attestation import Pins, verify_attestation  # noqa: PLC0415
    from biasgate.tasks.verifying.files import describe_failures  # noqa: PLC0415

    pins = Pins(model, version, policy_digest, evaluation_sets)
    findings = verify_attestation(Path(file), Path(folder), pins)
    if not all(finding.holds for finding in findings):
        raise InputError(describe_failures(folder, findings))


def _open_registry(
    store: str | Path | None, tracking_uri: str | None
) -> tuple[Gateway, Path | None]:
    """Return the registry, and the store if it exists."""
    from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.local_store import require_store  # noqa: PLC0415
    from biasgate.tasks.mlflow_server.runs import Gateway  # noqa: PLC0415

    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    folder = Path(store or os.environ.get("BIASGATE_STORE") or DEFAULT_STORE)
    if (store is not None or not uri) and not folder.is_dir():
        msg = (
            f"store {folder} must be a folder that an evaluation wrote; it does not exist. "
            "Set the store, or a server as `tracking_uri`."
        )
        raise InputError(msg)
    if not uri:
        require_store(folder)
    gateway = Gateway.from_uri(uri) if uri else Gateway.from_store(folder)
    return gateway, folder if folder.is_dir() else None
