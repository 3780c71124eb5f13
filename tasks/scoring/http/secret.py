"""The secret of a service: from an environment variable into a header, and nowhere else."""

from __future__ import annotations

import os

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.secrets import remember


def read_secret(variable: str, of: str) -> str:
    """Return what an environment variable holds, and hide it in all messages.

    Raises
    ------
    InputError
        If it is not set, or cannot be part of a header.
    """
    secret = os.environ.get(variable, "").strip()
    if not secret:
        msg = f"environment variable {variable} must hold the token of {of}; it is not set."
        raise InputError(msg)
    remember(variable, secret)
    if not secret.isascii() or not secret.isprintable():
        msg = (
            f"environment variable {variable} must hold the token of {of}: visible characters of "
            "ASCII, on one line. It holds others; was it copied with something else?"
        )
        raise InputError(msg)
    return secret
