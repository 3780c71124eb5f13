"""The JSON Schema of evaluation files, for editors and pages: every kind with its keys."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue
from pydantic.json_schema import JsonSchemaValue

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.analysing.catalogue import KINDS as ANALYSES
from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import json_schema
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.data.freezing import SOURCE_KINDS
from biasgate.tasks.evaluation_file import EvaluationFile
from biasgate.tasks.mitigating.methods.catalogue import METHODS
from biasgate.tasks.scoring.kinds.catalogue import KINDS as CANDIDATES

CATALOGUES: Mapping[str, Catalogue[Any]] = {
    "evaluation_sets": SOURCE_KINDS,
    "candidates": CANDIDATES,
    "analyses": ANALYSES,
    "methods": METHODS,
}
_VARIABLE = {"type": "string", "pattern": r"\$\{\w+(:-.*)?\}"}


def evaluation_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of an evaluation file, draft 2020-12.

    Where a section has a kind, its keys are those of the kind. A kind that another package adds
    may have any keys: it may not be installed where the schema is read. `${VARIABLES}` are replaced
    before a file is checked, so they may stand for numbers too.
    """
    schema: JsonSchemaValue = json_schema(EvaluationFile)
    sections: JsonSchemaValue = schema["$defs"]
    for catalogue in CATALOGUES.values():
        by_kind = {kind: f"{catalogue.base.__name__}.{kind}" for kind in catalogue.own}
        for kind, name in by_kind.items():
            found: JsonSchemaValue = json_schema(catalogue.named(kind))
            del found["$schema"]
            sections |= found.pop("$defs", {}) | sections
            found["properties"][catalogue.key] = {"const": kind}
            found["required"] = sorted({*found.get("required", ()), catalogue.key})
            sections[name] = found
        sections[catalogue.base.__name__] = _one_of(catalogue, by_kind)
    whole: dict[str, JsonValue] = _with_variables(schema)
    return whole


def keys_of(section: JsonSchemaValue) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and meaning of each key of a section of the schema.

    The value is in words: what it must be, and its default.
    """
    required = section.get("required", ())
    for key, of in section.get("properties", {}).items():
        default = "must be given" if key in required else ""
        if of.get("default") not in (None, [], {}):
            default = f"default {json.dumps(of['default'])}" if "$ref" not in of else ""
        value = ", ".join(filter(None, [_in_words(of), default]))
        yield key, value, of.get("description", "")


def sections_of(schema: JsonSchemaValue) -> dict[str, JsonSchemaValue]:
    """Return the whole file under `evaluation`, and the section of each kind under its name.

    Kinds of sets and candidates come before those of analyses and methods. A count file, which is
    a file of its own, is under `count`.
    """
    found: dict[str, JsonSchemaValue] = {"evaluation": schema}
    for catalogue in CATALOGUES.values():
        base = catalogue.base.__name__
        found |= {kind: schema["$defs"][f"{base}.{kind}"] for kind in catalogue.own}
    shared = {one.base.__name__ for one in CATALOGUES.values()}
    counted: JsonSchemaValue = json_schema(CountFile)
    found["count"] = counted
    defined = counted["$defs"] | schema["$defs"]
    names = {one: of for one, of in defined.items() if "." not in one and one not in shared}
    return found | {name: of for name, of in names.items() if of.get("properties")}


def explained(section: str) -> Iterator[str]:
    """Yield what each key of a section means, for a terminal.

    Raises
    ------
    InputError
        If there is no such section.
    """
    known = sections_of(evaluation_schema())
    if section not in known:
        hint = did_you_mean(section, known)
        msg = f"SECTION must be one of {', '.join(known)}; got {section!r}.{hint}"
        raise InputError(msg)
    for key, value, meaning in keys_of(known[section]):
        yield f"{key}: {value}".rstrip(": ")
        yield from (f"    {line}" for line in textwrap.wrap(meaning, 90))


def _in_words(of: JsonSchemaValue) -> str:
    """Return what a value must be; as few words as an option table has."""
    if "const" in of:
        return json.dumps(of["const"])
    if "enum" in of:
        return " or ".join(map(json.dumps, of["enum"]))
    if "$ref" in of:
        return f"a section {of['$ref'].rpartition('/')[2]}"
    if "anyOf" in of:
        choices = [one for one in of["anyOf"] if one not in (_VARIABLE, {"type": "null"})]
        return " or ".join(dict.fromkeys(map(_in_words, choices)))
    kind = str(of.get("type", "any value"))
    if kind == "array":
        return f"a list of {_in_words(of.get('items', of.get('prefixItems', [{}])[0]))}"
    words = {
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "object": "keys and values",
    }.get(kind, kind)
    limits = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "above",
        "exclusiveMaximum": "below",
    }
    bounds = [f"{said} {of[limit]:g}" for limit, said in limits.items() if limit in of]
    return " ".join([words, " and ".join(bounds)]).rstrip()


def _one_of(catalogue: Catalogue[Any], by_kind: Mapping[str, str]) -> JsonSchemaValue:
    """Choose the section by its kind, so that an editor shows the keys and errors of this one."""
    chosen = [
        {
            "if": {"properties": {catalogue.key: {"const": kind}}, "required": [catalogue.key]},
            "then": {"$ref": f"#/$defs/{name}"},
        }
        for kind, name in by_kind.items()
    ]
    known = {"anyOf": [{"enum": list(by_kind)}, {"type": "string"}]}
    section = {
        "type": "object",
        "properties": {catalogue.key: known},
        "required": [catalogue.key],
        "allOf": chosen,
    }
    by_name = catalogue is not SOURCE_KINDS and catalogue is not CANDIDATES
    return {"anyOf": [known, section]} if by_name else section


def _with_variables(schema: Any) -> Any:
    """Let `${VARIABLES}` stand where the schema asks for a number or a truth value."""
    if isinstance(schema, list):
        return [_with_variables(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_variables(one) for key, one in schema.items()}
    if schema.get("type") in {"number", "integer", "boolean"}:
        kept = {key: found.pop(key) for key in ("description", "default", "title") if key in found}
        return kept | {"anyOf": [found, _VARIABLE]}
    return found
