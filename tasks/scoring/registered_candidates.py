"""Candidates from the model registry: versions with given tags or aliases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Self

from pydantic import (
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from biasgate.tasks.common.settings import Settings, resolve_config_path
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]
_NAME_LENGTH = 80
_DEFAULT_OPTIONS: dict[str, object] = {"kind": "mlflow"}
_WRONG_KIND = "`open_as` must be a kind that opens a registered version, as `mlflow` does; got {}"


class RegisteredCandidates(Settings):
    """Versions of the registered model that are candidates, in addition to those in the file."""

    tags: dict[Text, Text] = Field(default_factory=dict)
    """A version with all these tags is a candidate."""
    aliases: tuple[Text, ...] = ()
    """The versions under these aliases are candidates. An alias may be unset."""
    newest: Annotated[int, Field(ge=1)] | None = None
    """Judge at most this many versions, the newest. Default: all."""
    open_as: dict[str, object] = Field(default_factory=lambda: dict(_DEFAULT_OPTIONS))
    """Kind and options of the candidates, as in a section of `candidates`, without `name` and
    `model`. Default: `{kind: mlflow}`."""

    @field_validator("open_as")
    @classmethod
    def _resolve_paths(cls, value: dict[str, object], info: ValidationInfo) -> dict[str, object]:
        paths = {key: value[key] for key in ("signed_by", "signature") if key in value}
        return value | {key: resolve_config_path(path, info) for key, path in paths.items()}

    @model_validator(mode="after")
    def _require_tags_or_aliases(self) -> Self:
        if not self.tags and not self.aliases:
            msg = (
                "`registered_candidates` must have `tags` or `aliases`, as in "
                "{tags: {stage: candidate}}"
            )
            raise ValueError(msg)
        reserved = sorted({"name", "model"} & self.open_as.keys())
        if reserved:
            msg = f"`open_as` must not have `{reserved[0]}`: each version has its own"
            raise ValueError(msg)
        return self

    def make_candidate(self, model: str, version: str) -> CandidateSettings:
        """Return a version as a candidate."""
        name, uri = f"{model[:_NAME_LENGTH].rstrip()}-{version}", f"models:/{model}/{version}"
        options = {**_DEFAULT_OPTIONS, **self.open_as, "name": name, "model": uri}
        try:
            candidate = CANDIDATES.validate_python(options)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"]))
            msg = f"`open_as.{place}`: {problem['msg'].removeprefix('Value error, ')}"
            if place == "model":
                msg = _WRONG_KIND.format(options["kind"])
            raise ValueError(msg) from None
        if candidate.uri != uri:
            raise ValueError(_WRONG_KIND.format(candidate.kind))
        return candidate

    def find_versions(
        self, model: str, gateway: Gateway, excluded: Collection[str] = ()
    ) -> list[ModelVersion]:
        """Return the versions that have the tags or an alias now, oldest first.

        `excluded`: URIs of versions to leave out, before the newest are chosen.
        """
        aliased = {
            version.uri for name in self.aliases if (version := gateway.get_alias(model, name))
        }
        versions = [
            version
            for version in gateway.list_versions(model)
            if version.uri not in excluded
            and (
                version.uri in aliased or (self.tags and self.tags.items() <= version.tags.items())
            )
        ]
        return versions[-self.newest :] if self.newest else versions

    def __str__(self) -> str:
        tags = ", ".join(f"{key}={value}" for key, value in self.tags.items())
        ways = [f"the tags {tags}"] if tags else []
        ways += [f"an alias of {', '.join(self.aliases)}"] if self.aliases else []
        return " or ".join(ways)


def require_candidates(
    candidates: Sequence[CandidateSettings],
    registered: RegisteredCandidates | None,
    registered_model: str | None,
) -> None:
    """Refuse a file without candidates, and registered candidates that cannot be opened."""
    if registered is None:
        if not candidates:
            msg = (
                "`candidates` must list a model, as in [{name: mine, kind: scores, "
                "path: scores.csv}]; got none. (Or find registered versions with "
                "`registered_candidates`.)"
            )
            raise ValueError(msg)
        return
    if registered_model is None:
        msg = "`registered_candidates` needs `registered_model`, the model whose versions they are"
        raise ValueError(msg)
    make_placeholders(registered, registered_model)


def make_placeholders(
    registered: RegisteredCandidates | None, registered_model: str | None
) -> list[CandidateSettings]:
    """Return a candidate like the versions that will be found, for checks in advance."""
    if registered is None or registered_model is None:
        return []
    return [registered.make_candidate(registered_model, "1")]
