"""Hosts of artifacts, to which MLflow sends its token or password.

The addresses of artifacts are in the registry, where other users can change them. An address must
not decide which host receives the credentials of this machine, or which host it connects to.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from biasgate.tasks.common.errors import InputError

ARTIFACT_HOSTS = "BIASGATE_ARTIFACT_HOSTS"
_WEB_SCHEMES = frozenset({"http", "https"})
# Addresses with the host that receives a token or password.
_SCHEMES_WITH_HOST = _WEB_SCHEMES | {"mlflow-artifacts", "abfss"}
# Files of this machine, or buckets of an object store for which this machine is configured. The
# host of `wasbs` always belongs to Microsoft, which MLflow checks.
_SCHEMES_WITHOUT_HOST = frozenset({"", "file", "s3", "gs", "wasbs"})
_MICROSOFT_HOST = re.compile(r".+\.dfs\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)")


def require_own_host(uri: str, tracking_uri: str) -> None:
    """Raise an error if artifacts are at a host that must not receive credentials.

    Allowed are files of this machine, the host of the tracking server, and object stores. Other
    hosts and protocols are refused unless `BIASGATE_ARTIFACT_HOSTS` lists them, as are addresses
    that MLflow would look up again (`runs:`, `models:`).

    Raises
    ------
    InputError
        If the host is not allowed, or the address cannot be parsed.
    """
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:
        msg = f"artifacts must have an address that can be read; it cannot ({error})."
        raise InputError(msg) from error
    if scheme in {"runs", "models"}:
        msg = f"artifacts must have the address of files; got {strip_password(uri)}."
        raise InputError(msg)
    if scheme in _SCHEMES_WITHOUT_HOST or (
        scheme == "mlflow-artifacts" and not urlsplit(uri).netloc
    ):
        return
    if os.name == "nt" and len(scheme) == 1:  # a drive
        return
    target = _parse_target(uri, urlsplit(tracking_uri).scheme)
    if scheme == "abfss" and target is not None and _MICROSOFT_HOST.fullmatch(target[1]):
        return
    allowed = [part for part in re.split(r"[\s,]+", os.environ.get(ARTIFACT_HOSTS, "")) if part]
    if target is not None and target in [_parse_target(host) for host in (tracking_uri, *allowed)]:
        return
    allow = f"{ARTIFACT_HOSTS}={_format_host(uri, urlsplit(tracking_uri).scheme)}"
    if scheme not in _SCHEMES_WITH_HOST:
        msg = (
            "artifacts must be files of this machine, at the tracking server (http, https, "
            f"mlflow-artifacts) or in s3, gs, abfss or wasbs; these are at {strip_password(uri)}, "
            f"which was not contacted. If that address is right, allow its host: {allow}"
        )
        raise InputError(msg)
    msg = (
        "artifacts must be at the host of MLflow's tracking server, "
        f"{strip_password(tracking_uri)}; these are at {strip_password(uri)}, which was not "
        "contacted, since it would get your MLflow token or password. If that address is right, "
        f"allow its host: {allow}"
    )
    raise InputError(msg)


def strip_password(uri: str) -> str:
    """Return a URI without user and password, for messages."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _parse_target(uri: str, server_scheme: str = "") -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of a request; None if the address is ambiguous.

    Programs parse addresses with backslashes or spaces differently. `mlflow-artifacts` uses the
    scheme of the tracking server.
    """
    parts = urlsplit(uri)
    scheme = server_scheme if parts.scheme == "mlflow-artifacts" else parts.scheme
    try:
        port = parts.port
    except ValueError:
        return None
    if re.search(r"[\\\s]", parts.netloc):
        return None
    return scheme, parts.hostname or "", port or {"http": 80, "https": 443}.get(scheme)


def _format_host(uri: str, server_scheme: str) -> str:
    """Return the host of a URI in the format of `BIASGATE_ARTIFACT_HOSTS`."""
    parts = urlsplit(uri)
    scheme = parts.scheme
    if scheme == "mlflow-artifacts":
        scheme = server_scheme if server_scheme in _WEB_SCHEMES else "https"
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}"
