"""Evaluation files: the candidates, the sets that measure them and the policy that judges them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.analysing.analysis import Analysis
from biasgate.tasks.analysing.catalogue import KINDS as ANALYSES
from biasgate.tasks.analysing.catalogue import AnyAnalysis
from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.settings import Name, Settings, json_schema
from biasgate.tasks.common.steps import RETRIES
from biasgate.tasks.counting.settings import CountFile
from biasgate.tasks.data.chunks import TextFormat
from biasgate.tasks.data.freezing import SOURCE_KINDS, Source
from biasgate.tasks.gating.policy import Policy, list_policy_sections, make_policy_schema
from biasgate.tasks.ledger.ledger import LEDGER_SUFFIX, is_ledger
from biasgate.tasks.mitigating.methods.catalogue import METHODS
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.reporting.model_card import About
from biasgate.tasks.reporting.notifications import Notification
from biasgate.tasks.scoring.kinds.catalogue import KINDS as CANDIDATES
from biasgate.tasks.scoring.kinds.catalogue import Candidate
from biasgate.tasks.scoring.registered_candidates import RegisteredCandidates, require_candidates

_MLFLOW_DEFAULT = "Default"


class EvaluationFile(TextFormat):
    """The content of an evaluation file.

    `separator`, `decimal` and `encoding` are those of every file that has none of its own.
    """

    secret_keys = frozenset({"notifications"})
    explained_by = "biasgate schema evaluation"
    lists: ClassVar[Mapping[str, str]] = {
        "evaluation_sets": "sets, as in [{name: comments, source: table, path: comments.csv}]",
        "candidates": "models, as in [{name: mine, kind: scores, path: scores.csv}]",
        "analyses": "analyses, as in [intersections]",
        "methods": "methods, as in [pool, random]",
        "outcome_of": "names of candidates",
        "power_mean_groups": "identities, as in [gay, muslim]",
    }

    name: Name
    """Name of the evaluation and of its MLflow experiment."""
    evaluation_sets: Annotated[list[Source], Field(min_length=1)]
    """The sets that the candidates are measured on."""
    candidates: list[Candidate] = []  # noqa: RUF012 - frozen
    """The models that are measured and judged."""
    analyses: tuple[AnyAnalysis, ...] = ()
    """Further analyses for every candidate and set."""
    policy: str = "default"
    """Name of a shipped policy, or a path."""
    registered_model: Name | None = None
    """The registered model whose `champion` alias may move; required if a candidate is trained."""
    registered_candidates: RegisteredCandidates | None = None
    """Versions of `registered_model` that are candidates, too: those with a tag or an alias."""
    champion: Candidate | None = None
    """The model that candidates are compared with. Default: the version under the alias of
    `registered_model`; with a `registered_model`, give here only how to open it."""
    reference: Candidate | None = None
    """A fixed model or file of scores that rules with `reference_margin` compare with."""
    outcome_of: tuple[Name, ...] = ()
    """The candidates whose outcome counts for the evaluation: for the exit code, the flow's state,
    notifications and `junit.xml`. Default: all."""
    trend_nights: Annotated[int, Field(ge=1, le=365)] = 7
    """With how many earlier nights `biasgate nightly` compares."""
    notifications: tuple[Notification, ...] = ()
    """Whom to notify of the outcome."""
    model_card: About = About()
    """Facts about the models that only the owner knows."""
    mitigation: Mitigation | None = None
    """How bias of candidates that are trained here is mitigated; an evaluation does not use it."""
    step_retries: Annotated[int, Field(ge=0, le=100)] = RETRIES
    """How many times a failed step is tried again: the first time after a second, then after 5."""
    step_timeout_s: Annotated[float, Field(ge=1, le=30 * 24 * 3600)] | None = None
    """Seconds that one try of a step may take. A longer one ends the run. Default: no limit."""

    @model_validator(mode="before")
    @classmethod
    def _share_text_format(cls, value: Any) -> Any:
        """Give the file's text format to each section that reads text and does not set a format."""
        if not isinstance(value, dict):
            return value
        form = {key: value[key] for key in TextFormat.model_fields if value.get(key) is not None}
        return _add_text_format(value, form) if form else value

    @field_validator("registered_model")
    @classmethod
    def _refuse_ledger_name(cls, value: str | None) -> str | None:
        if value is not None and is_ledger(value):
            msg = f"must not end with {LEDGER_SUFFIX}, the name of a ledger"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _check_coherence(self) -> Self:
        if self.name == _MLFLOW_DEFAULT:
            msg = (
                f"`name` must not be {_MLFLOW_DEFAULT}, which is MLflow's own experiment: its "
                "files are outside a local store"
            )
            raise ValueError(msg)
        require_candidates(self.candidates, self.registered_candidates, self.registered_model)
        for key in ("evaluation_sets", "candidates"):
            names = [section.name for section in getattr(self, key)]
            duplicates = sorted({name for name in names if names.count(name) > 1})
            if duplicates:
                msg = f"names in `{key}` must differ; {', '.join(duplicates)} is given twice"
                raise ValueError(msg)
        self._refuse_unclear_analyses()
        self._refuse_only_lists()
        unknown = sorted(set(self.outcome_of) - {candidate.name for candidate in self.candidates})
        if unknown:
            candidate_names = ", ".join(candidate.name for candidate in self.candidates)
            msg = f"`outcome_of` must name candidates; got {unknown[0]} (known: {candidate_names})"
            raise ValueError(msg)
        trained = [
            candidate.name for candidate in self.candidates if candidate.training() is not None
        ]
        if trained and self.registered_model is None:
            msg = (
                f"candidate {trained[0]} is trained here, so set `registered_model` to the model "
                "that its version is registered under"
            )
            raise ValueError(msg)
        for candidate in self.candidates:
            wanted = candidate.registered_model
            if wanted is not None and wanted != self.registered_model:
                msg = (
                    f"`register` of candidate {candidate.name} must be the `registered_model` of "
                    f"the evaluation, {self.registered_model}; got {wanted}"
                    if self.registered_model
                    else f"candidate {candidate.name} has `register: {wanted}`, so add "
                    f"`registered_model: {wanted}` to the file"
                )
                raise ValueError(msg)
        alias = f"models:/{self.registered_model}@champion"
        champion = self.champion
        if champion is not None and self.registered_model and champion.uri != alias:
            msg = (
                f"`champion` must be `model: {alias}` if `registered_model` is given, since "
                f"promotion moves that alias; got {champion.uri or champion.name}"
            )
            raise ValueError(msg)
        rivals = [rival for rival in (self.champion, self.reference) if rival is not None]
        if any(rival.training() is not None for rival in rivals):
            msg = "`champion` and `reference` must be existing models; got a model to train"
            raise ValueError(msg)
        return self

    def list_set_analyses(self, evaluation_set: str) -> list[Analysis]:
        """Return the analyses of a set."""
        return [analysis for analysis in self.analyses if analysis.is_for(evaluation_set)]

    @property
    def required_sets(self) -> list[str]:
        """Names of the sets that promotion requires a pass on."""
        return [source.name for source in self.evaluation_sets if source.required]

    def _refuse_only_lists(self) -> None:
        required = [source for source in self.evaluation_sets if source.required]
        names = [source.name for source in required if source.population == "these_rows"]
        if self.registered_model and names and len(names) == len(required):
            msg = (
                f"set {names[0]} has `population: these_rows`, so it is not a sample of comments; "
                "promotion needs another required set that is"
            )
            raise ValueError(msg)

    def _refuse_unclear_analyses(self) -> None:
        kinds = [analysis.kind for analysis in self.analyses]
        duplicates = sorted({kind for kind in kinds if kinds.count(kind) > 1})
        if duplicates:
            msg = f"kinds in `analyses` must differ; {', '.join(duplicates)} is given twice"
            raise ValueError(msg)
        names = [evaluation_set.name for evaluation_set in self.evaluation_sets]
        for analysis in self.analyses:
            if analysis.needs_champion and self.champion is None and self.registered_model is None:
                msg = (
                    f"analysis {analysis.kind} must have scores of an earlier model: give their "
                    "file as its `path`, or the model as `champion` of the evaluation"
                )
                raise ValueError(msg)
            unknown = [name for name in analysis.sets or () if name not in names]
            if unknown:
                msg = (
                    f"`sets` of analysis {analysis.kind} must name evaluation sets; got "
                    f"{unknown[0]} (known: {', '.join(names)}).{did_you_mean(unknown[0], names)}"
                )
                raise ValueError(msg)
            for source in self.evaluation_sets:
                missing = analysis.objection(source) if analysis.is_for(source.name) else None
                if missing is not None:
                    msg = (
                        f"analysis {analysis.kind}: evaluation set {source.name!r} must have "
                        f"{missing}. Remove the analysis, or name suitable sets with `sets`"
                    )
                    raise ValueError(msg)


def _add_text_format(value: Any, form: Mapping[str, Any]) -> Any:
    """Return a section with the format added to all nested sections that read a text file."""
    if isinstance(value, list):
        return [_add_text_format(entry, form) for entry in value]
    if not isinstance(value, dict):
        return value
    section = {key: _add_text_format(entry, form) for key, entry in value.items()}
    for catalogue in (SOURCE_KINDS, CANDIDATES):
        name = value.get(catalogue.key)
        section_class = name in catalogue.own and catalogue.find_class(str(name))
        if section_class and issubclass(section_class, TextFormat):
            section = {**form, **section}
    return section


class Evaluation(EvaluationFile):
    """A checked evaluation file, with its policy."""

    policy: Policy  # type: ignore[assignment] # in the file: the policy's name
    """The policy that the file names."""

    def content(self) -> dict[str, JsonValue]:
        """Return the settings that results depend on, JSON-ready, with the policy's digest."""
        whole = self.model_dump(
            mode="json", by_alias=True, exclude={"mitigation", "step_retries", "step_timeout_s"}
        )
        return whole | {"policy_digest": self.policy.digest}


CATALOGUES: Mapping[str, Catalogue[Any]] = {
    "evaluation_sets": SOURCE_KINDS,
    "candidates": CANDIDATES,
    "analyses": ANALYSES,
    "methods": METHODS,
}
_VARIABLE = {"type": "string", "pattern": r"\$\{\w+(:-.*)?\}"}


def evaluation_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of an evaluation file, draft 2020-12.

    The kind of a section decides its keys. A kind from another package may have any keys, because
    the reader of the schema may not have that package. `${VARIABLES}` are replaced before a file
    is checked, so the schema also allows them in place of numbers.
    """
    schema: JsonSchemaValue = json_schema(EvaluationFile)
    sections: JsonSchemaValue = schema["$defs"]
    for catalogue in CATALOGUES.values():
        by_kind = {kind: f"{catalogue.base.__name__}.{kind}" for kind in catalogue.own}
        for kind, name in by_kind.items():
            section: JsonSchemaValue = json_schema(catalogue.find_class(kind))
            del section["$schema"]
            sections |= section.pop("$defs", {}) | sections
            section["properties"][catalogue.key] = {"const": kind}
            section["required"] = sorted({*section.get("required", ()), catalogue.key})
            sections[name] = section
        sections[catalogue.base.__name__] = _build_kind_schema(catalogue, by_kind)
    whole: dict[str, JsonValue] = _allow_variables(schema)
    return whole


def explain_keys(section: JsonSchemaValue) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and meaning of each key of a section of the schema.

    The value is in words: its type and limits, and its default.
    """
    required = section.get("required", ())
    for key, field in section.get("properties", {}).items():
        default = "must be given" if key in required else ""
        if field.get("default") not in (None, [], {}):
            default = f"default {json.dumps(field['default'])}" if "$ref" not in field else ""
        value = ", ".join(filter(None, [_describe_value(field), default]))
        yield key, value, field.get("description", "")


def list_sections(schema: JsonSchemaValue) -> dict[str, JsonSchemaValue]:
    """Return the sections by name: `evaluation` for the whole file, then each kind's section.

    Kinds of sets and candidates come before those of analyses and methods. `count` is the schema
    of count files, which are separate files.
    """
    sections: dict[str, JsonSchemaValue] = {"evaluation": schema}
    for catalogue in CATALOGUES.values():
        base = catalogue.base.__name__
        sections |= {kind: schema["$defs"][f"{base}.{kind}"] for kind in catalogue.own}
    bases = {catalogue.base.__name__ for catalogue in CATALOGUES.values()}
    count_schema: JsonSchemaValue = json_schema(CountFile)
    sections["count"] = count_schema
    defined = count_schema["$defs"] | schema["$defs"]
    return sections | {
        name: section
        for name, section in defined.items()
        if "." not in name and name not in bases and section.get("properties")
    }


def get_file_schema(name: str) -> dict[str, JsonValue]:
    """Return the JSON Schema of a kind of file: `evaluation`, `policy` or `count`."""
    settings: dict[str, type[Settings]] = {
        "evaluation": EvaluationFile,
        "policy": Policy,
        "count": CountFile,
    }
    if name not in settings:
        msg = f"with `--json`, SECTION must be one of {', '.join(settings)}; got {name!r}."
        raise InputError(msg)
    return evaluation_schema() if name == "evaluation" else json_schema(settings[name])


def explain_section(section: str) -> Iterator[str]:
    """Yield an explanation of each key of a section, for a terminal.

    The sections include `policy` and those within a policy.
    """
    sections = list_sections(evaluation_schema()) | list_policy_sections(make_policy_schema())
    for catalogue in CATALOGUES.values():
        if section in catalogue.list_names() and section not in sections:  # from another package
            sections[section] = json_schema(catalogue.find_class(section))
    if section not in sections:
        hint = did_you_mean(section, sections)
        msg = f"SECTION must be one of {', '.join(sections)}; got {section!r}.{hint}"
        raise InputError(msg)
    for key, value, meaning in explain_keys(sections[section]):
        yield f"{key}: {value}".rstrip(": ")
        if meaning:
            yield f"    {meaning}"


_BASIC_KEYS = {
    "evaluation": (
        *("name", "evaluation_sets", "candidates", "policy", "registered_model"),
        *("separator", "decimal", "encoding"),
    ),
    "table": (
        *("name", "source", "path", "id", "text", "label", "label_values"),
        *("identities", "terms", "cluster"),
    ),
    "scores": ("name", "kind", "path", "id", "score", "threshold", "register"),
}


def explain_basics() -> Iterator[str]:
    """Yield an explanation of the keys that most evaluation files need."""
    sections = list_sections(evaluation_schema())
    for section, keys in _BASIC_KEYS.items():
        yield f"{section}:"
        explanations = {key: lines for key, *lines in explain_keys(sections[section])}
        for key in keys:
            value, meaning = explanations[key]
            yield f"  {key}: {value}".rstrip(": ")
            if meaning:
                yield f"      {meaning}"


def _describe_value(schema: JsonSchemaValue) -> str:
    """Return the type and limits of a value, as briefly as in a table of options."""
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        kinds = {
            catalogue.base.__name__: ", ".join(catalogue.own) for catalogue in CATALOGUES.values()
        }
        return f"a kind of: {kinds[name]}" if name in kinds else f"a section {name}"
    if "anyOf" in schema:
        choices = [
            choice for choice in schema["anyOf"] if choice not in (_VARIABLE, {"type": "null"})
        ]
        return " or ".join(dict.fromkeys(map(_describe_value, choices)))
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        return (
            f"a list of {_describe_value(schema.get('items', schema.get('prefixItems', [{}])[0]))}"
        )
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
    bounds = [f"{text} {schema[limit]:g}" for limit, text in limits.items() if limit in schema]
    return " ".join([words, " and ".join(bounds)]).rstrip()


def _build_kind_schema(catalogue: Catalogue[Any], by_kind: Mapping[str, str]) -> JsonSchemaValue:
    """Return the schema of a section that depends on its kind.

    With `if` and `then`, instead of `oneOf`, an editor shows keys and errors of that kind only.
    """
    branches = [
        {
            "if": {
                "properties": {catalogue.key: {"const": kind_schema}},
                "required": [catalogue.key],
            },
            "then": {"$ref": f"#/$defs/{name}"},
        }
        for kind_schema, name in by_kind.items()
    ]
    # Another package may add a kind, so that any other text is valid.
    kind_schema = {"anyOf": [{"enum": list(by_kind)}, {"type": "string"}]}
    section = {
        "type": "object",
        "properties": {catalogue.key: kind_schema},
        "required": [catalogue.key],
        "allOf": branches,
    }
    by_name = catalogue is not SOURCE_KINDS and catalogue is not CANDIDATES
    return {"anyOf": [kind_schema, section]} if by_name else section


def _allow_variables(schema: Any) -> Any:
    """Allow `${VARIABLES}` for numbers, booleans and texts with a pattern."""
    if isinstance(schema, list):
        return [_allow_variables(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    new_schema = {key: _allow_variables(value) for key, value in schema.items()}
    if schema.get("type") in {"number", "integer", "boolean"} or "pattern" in schema:
        annotations = {
            key: new_schema.pop(key)
            for key in ("description", "default", "title")
            if key in new_schema
        }
        return annotations | {"anyOf": [new_schema, _VARIABLE]}
    return new_schema
