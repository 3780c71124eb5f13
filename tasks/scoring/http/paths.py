"""JSONPath (RFC 9535): where something is in an answer."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

_STRICT = JSONPathEnvironment(strict=True)
_LOOSE = re.compile(r"\{\{[^}]*\}\}")


@lru_cache(maxsize=256)
def compiled(path: str, *, loosely: bool = False) -> JSONPath | CompoundJSONPath:
    """Return a path, ready to use; `loosely` takes a placeholder for a number."""
    try:
        return _STRICT.compile(_LOOSE.sub("0", path) if loosely else path)
    except (JSONPathError, ValueError, RecursionError):
        msg = f"must be a JSONPath as in RFC 9535, for example $.results[*].score; got {path!r}"
    raise ValueError(msg)  # without the library's error, which may fail when it is shown


def found(path: str, content: Any) -> list[Any]:
    """Return what a path finds; nothing if the content is nested too deeply."""
    if isinstance(content, str):  # which the library would read as JSON
        return [content] if path == "$" else []
    try:
        return list(compiled(path).findall(content))
    except (JSONPathError, RecursionError, TypeError):
        return []
