"""Requests from a template: JSON in which `{{text}}` and other placeholders are filled.

A placeholder that is a whole value is replaced by a value of any type, so that texts cannot change
the structure of a request. Within a longer text, it is replaced by text. Filled values are not
read again, so a comment may contain `{{text}}` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bias_metrics.suggestion import did_you_mean

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def fill(template: Any, values: Mapping[str, object]) -> Any:
    """Return a template with its placeholders replaced.

    A key that is a placeholder for a list becomes a key for each item of the list.

    Examples
    --------
    >>> fill({"inputs": "{{texts}}", "model": "m-{{size}}"}, {"texts": ["a", "b"], "size": 2})
    {'inputs': ['a', 'b'], 'model': 'm-2'}
    >>> fill({"{{names}}": {}}, {"names": ["X", "Y"]})
    {'X': {}, 'Y': {}}
    """
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)
    if isinstance(template, list | tuple):
        return [fill(item, values) for item in template]
    if isinstance(template, Mapping):
        filled = {}
        for key, value in template.items():
            keys = fill(str(key), values)
            for name in keys if isinstance(keys, list | tuple) else [keys]:
                filled[str(name)] = fill(value, values)
        return filled
    return template


def list_placeholders(template: Any) -> Iterator[str]:
    """Yield the names of all placeholders in a template."""
    if isinstance(template, str):
        yield from _PLACEHOLDER.findall(template)
    elif isinstance(template, list | tuple):
        for item in template:
            yield from list_placeholders(item)
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from list_placeholders([str(key), value])


def refuse_unknown(template: Any, names: set[str], key: str) -> None:
    """Refuse placeholders other than `names`."""
    for name in list_placeholders(template):
        if name not in names:
            shown = ", ".join(f"{{{{{known}}}}}" for known in sorted(names)) or "none"
            msg = (
                f"`{key}` must have known placeholders; got {{{{{name}}}}} (known: {shown})."
                f"{did_you_mean(name, sorted(names))}"
            )
            raise ValueError(msg)
