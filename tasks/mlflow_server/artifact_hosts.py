"""The hosts of artifacts: MLflow sends its token or password to each of them.

The registry holds the place of the files of a version or run, and others may write there. So an
address there must never decide which host gets the credentials of this machine, or which host
this machine connects to and waits for.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from biasgate.tasks.common.errors import InputError

ARTIFACT_HOSTS = "BIASGATE_ARTIFACT_HOSTS"
_WEB = frozenset({"http", "https"})
# Their address names the host that gets a token or password.
_NAME_A_HOST = _WEB | {"mlflow-artifacts", "abfss"}
# Files of this machine, or a bucket at an object store that this machine is set up for. `wasbs`
# belongs to Microsoft always: MLflow checks it.
_NAME_NO_HOST = frozenset({"", "file", "s3", "gs", "wasbs"})
_OF_MICROSOFT = re.compile(r".+\.dfs\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)")


def require_own_host(uri: str, tracking_uri: str) -> None:
    """Raise an error if artifacts are at a host that must not get credentials.

    Other hosts, a second address that is looked up, and other protocols such as FTP are refused
    unless `BIASGATE_ARTIFACT_HOSTS` names them.
    """
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:
        msg = f"artifacts must have an address that can be read; it cannot ({error})."
        raise InputError(msg) from error
    if scheme in {"runs", "models"}:
        msg = f"artifacts must have the address of files; got {without_password(uri)}."
        raise InputError(msg)
    if scheme in _NAME_NO_HOST or (scheme == "mlflow-artifacts" and not urlsplit(uri).netloc):
        return
    if os.name == "nt" and len(scheme) == 1:  # a drive
        return
    target = _target(uri, urlsplit(tracking_uri).scheme)
    if scheme == "abfss" and target is not None and _OF_MICROSOFT.fullmatch(target[1]):
        return
    named = [part for part in re.split(r"[\s,]+", os.environ.get(ARTIFACT_HOSTS, "")) if part]
    if target is not None and target in [_target(one) for one in (tracking_uri, *named)]:
        return
    allow = f"{ARTIFACT_HOSTS}={_shown(uri, urlsplit(tracking_uri).scheme)}"
    if scheme not in _NAME_A_HOST:
        msg = (
            "artifacts must be files of this machine, at the tracking server (http, https, "
            "mlflow-artifacts) or in s3, gs, abfss or wasbs; these are at "
            f"{without_password(uri)}, which was not contacted. If that address is "
            f"right, allow its host: {allow}"
        )
        raise InputError(msg)
    own, other = without_password(tracking_uri), without_password(uri)
    msg = (
        f"artifacts must be at the host of MLflow's tracking server, {own}; these are at {other}, "
        "which was not contacted, since it would get your MLflow token or password. If that "
        f"address is right, allow its host: {allow}"
    )
    raise InputError(msg)


def without_password(uri: str) -> str:
    """Return a URI for a message, without user and password."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _target(uri: str, scheme_of_server: str = "") -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of a request; None if programs may read them differently.

    `mlflow-artifacts` has the scheme of the tracking server.
    """
    parts = urlsplit(uri)
    scheme = scheme_of_server if parts.scheme == "mlflow-artifacts" else parts.scheme
    try:
        port = parts.port
    except ValueError:
        return None
    if re.search(r"[\\\s]", parts.netloc):
        return None
    return scheme, parts.hostname or "", port or {"http": 80, "https": 443}.get(scheme)


def _shown(uri: str, scheme_of_server: str) -> str:
    """Return the host of a URI as `BIASGATE_ARTIFACT_HOSTS` names it."""
    parts = urlsplit(uri)
    scheme = parts.scheme
    if scheme == "mlflow-artifacts":
        scheme = scheme_of_server if scheme_of_server in _WEB else "https"
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}"
