"""Candidates that are found in the registry: versions with a tag, or under an alias."""

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
_AS_MLFLOW: dict[str, object] = {"kind": "mlflow"}
_OPENS_NONE = "`open_as` must be a kind that opens a registered version, as `mlflow` does; got {}"


class RegisteredCandidates(Settings):
    """Which versions of the registered model are candidates, besides those in the file."""

    tags: dict[Text, Text] = Field(default_factory=dict)
    """Tags of a version. One that has all of them is a candidate."""
    aliases: tuple[Text, ...] = ()
    """Aliases. The version under each is a candidate; an alias that is not set yet names none."""
    newest: Annotated[int, Field(ge=1)] | None = None
    """Judge only so many of the versions that were found, the newest. Default: all."""
    open_as: dict[str, object] = Field(default_factory=lambda: dict(_AS_MLFLOW))
    """Kind and options of all of them, as in a section of `candidates`, without `name` and `model`.
    Default: `{kind: mlflow}`."""

    @field_validator("open_as")
    @classmethod
    def _resolve_paths(cls, value: dict[str, object], info: ValidationInfo) -> dict[str, object]:
        paths = {key: value[key] for key in ("signed_by", "signature") if key in value}
        return value | {key: resolve_config_path(one, info) for key, one in paths.items()}

    @model_validator(mode="after")
    def _require_tags_or_aliases(self) -> Self:
        if not self.tags and not self.aliases:
            msg = (
                "`registered_candidates` must have `tags` or `aliases`, as in "
                "{tags: {stage: candidate}}"
            )
            raise ValueError(msg)
        chosen = sorted({"name", "model"} & self.open_as.keys())
        if chosen:
            msg = f"`open_as` must not have `{chosen[0]}`: each version has its own"
            raise ValueError(msg)
        return self

    def candidate(self, model: str, version: str) -> CandidateSettings:
        """Return a version as a candidate."""
        name = f"{model[:_NAME_LENGTH].rstrip()}-{version}"
        made = {**_AS_MLFLOW, **self.open_as, "name": name, "model": f"models:/{model}/{version}"}
        try:
            found = CANDIDATES.validate_python(made)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"]))
            msg = f"`open_as.{place}`: {problem['msg'].removeprefix('Value error, ')}"
            if place == "model":
                msg = _OPENS_NONE.format(made["kind"])
            raise ValueError(msg) from None
        if found.uri != made["model"]:
            raise ValueError(_OPENS_NONE.format(found.kind))
        return found

    def versions(
        self, model: str, gateway: Gateway, without: Collection[str] = ()
    ) -> list[ModelVersion]:
        """Return the versions that carry the tags or an alias now, oldest first.

        `without`: URIs of versions to leave out, before the newest are chosen.
        """
        wanted = {
            version.uri for name in self.aliases if (version := gateway.get_alias(model, name))
        }
        versions = [
            version
            for version in gateway.list_versions(model)
            if version.uri not in without
            and (version.uri in wanted or (self.tags and self.tags.items() <= version.tags.items()))
        ]
        return versions[-self.newest :] if self.newest else versions

    def __str__(self) -> str:
        tags = ", ".join(f"{key}={value}" for key, value in self.tags.items())
        ways = [f"the tags {tags}"] if tags else []
        ways += [f"an alias of {', '.join(self.aliases)}"] if self.aliases else []
        return " or ".join(ways)


def refuse_none(
    candidates: Sequence[CandidateSettings],
    found: RegisteredCandidates | None,
    registered_model: str | None,
) -> None:
    """Refuse a file without candidates, and versions that cannot be found or opened."""
    if found is None:
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
    placeholder(found, registered_model)


def placeholder(
    found: RegisteredCandidates | None, registered_model: str | None
) -> list[CandidateSettings]:
    """Return a candidate that is like every version that will be found, for checks in advance."""
    if found is None or registered_model is None:
        return []
    return [found.candidate(registered_model, "1")]
