"""Identification of the code behind a number: releases and digests of source files."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from importlib.metadata import version
from pathlib import Path

import bias_metrics
from biasgate.tasks.common.files import file_digest


@cache
def code_digest() -> str:
    """Return the SHA-256 of the source code of `bias_metrics`, which computes all decisions."""
    folder = Path(bias_metrics.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(
            path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        )
    return digest.hexdigest()


def collect_code_versions(kind: type, base: type, package: str | None) -> list[str | None]:
    """Return versions and digests that change with the code of a configured class.

    Parameters
    ----------
    kind : type
        The class that a configuration names.
    base : type
        The class of this project that `kind` extends. The files of both, and of all classes between
        them, are digested.
    package : str or None
        The package that adds the class, with its version; None for biasgate's own.
    """
    lineage = [parent for parent in kind.__mro__ if issubclass(parent, base)]
    files = dict.fromkeys(Path(inspect.getfile(parent)) for parent in lineage)
    return [version("biasgate"), code_digest(), package, *map(file_digest, files)]
