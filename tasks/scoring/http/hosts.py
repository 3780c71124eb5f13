"""Where comments are sent: URLs that show no secret, and hosts that the configuration names."""

from __future__ import annotations

import ipaddress

import httpx

from biasgate.tasks.common.errors import InputError


def plain_url(url: str) -> str:
    """Return a URL that reports may show."""
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL()
    if parts.scheme not in {"http", "https"} or not parts.host:
        msg = "must be an http or https URL"
        raise ValueError(msg)
    if parts.userinfo or parts.query:
        msg = "must not contain user, password or query, since reports show it; use `token_env`"
        raise ValueError(msg)
    return url


def host_of(url: str) -> str:
    """Return the host of a URL, in lower case."""
    return httpx.URL(url).host


def is_loopback(url: str) -> bool:
    """Say whether a URL is this machine's own."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_unnamed_host(url: str, named: str | None, of: str) -> None:
    """Refuse to send comments to a host that the configuration does not name."""
    host = host_of(url)
    if named is not None and named.strip("[]").lower() != host:
        msg = f"`sends_text_to` of {of} must be the host of its `url`, {host}; got {named}."
        raise InputError(msg)
    if named is None and not is_loopback(url):
        msg = (
            f"{of} sends the comments to {host}, another machine. If that is allowed, add "
            f"`sends_text_to: {host}` to the candidate."
        )
        raise InputError(msg)
