"""Requests from a template: JSON in which `{{text}}` and other placeholders are filled.

A placeholder that is a whole value is replaced by a value of any type, so that no text can change
the structure of a request. Within a longer text, it is replaced by text. What was filled in is
never read again, so a comment may hold `{{text}}` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bias_metrics.suggestion import did_you_mean

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def fill(template: Any, values: Mapping[str, object]) -> Any:
    """Return a template with its placeholders replaced.

    A key of a mapping that is a placeholder of a list gives one entry for each of its items.

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
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), template)
    if isinstance(template, list | tuple):
        return [fill(one, values) for one in template]
    if isinstance(template, Mapping):
        filled = {}
        for key, value in template.items():
            keys = fill(str(key), values)
            for one in keys if isinstance(keys, list | tuple) else [keys]:
                filled[str(one)] = fill(value, values)
        return filled
    return template


def placeholders(template: Any) -> Iterator[str]:
    """Yield the name of each placeholder of a template."""
    if isinstance(template, str):
        yield from _PLACEHOLDER.findall(template)
    elif isinstance(template, list | tuple):
        for one in template:
            yield from placeholders(one)
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from placeholders(str(key))
            yield from placeholders(value)


def refuse_unknown(template: Any, known: set[str], what: str) -> None:
    """Refuse a placeholder that nothing fills."""
    for name in placeholders(template):
        if name not in known:
            shown = ", ".join(f"{{{{{one}}}}}" for one in sorted(known)) or "none"
            msg = (
                f"`{what}` must have known placeholders; got {{{{{name}}}}} (known: {shown})."
                f"{did_you_mean(name, sorted(known))}"
            )
            raise ValueError(msg)
