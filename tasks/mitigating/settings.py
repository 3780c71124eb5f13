"""The section `mitigation` of an evaluation file."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from biasgate.tasks.common.settings import Settings
from biasgate.tasks.data.freezing import Source
from biasgate.tasks.mitigating.methods.catalogue import ANY_METHOD, AnyMethod
from biasgate.tasks.mitigating.methods.method import Method

_DEFAULT_METHODS = ("reweight", "swap")
_POOL_METHODS = ("pool", "random")


class Mitigation(Settings):
    """Settings of `biasgate mitigate`."""

    methods: Annotated[tuple[AnyMethod, ...], Field(min_length=1)] | None = None
    """Default: `reweight` and `swap`; with a `pool` also `pool` and `random`."""
    pool: Source | None = None
    """Comments that are assumed to be non-toxic, for the methods `pool` and `random`."""
    only: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The identities to balance. Default: all of the training set."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Which rows are added."""

    @model_validator(mode="after")
    def _check_coherence(self) -> Self:
        names = [method.called for method in self.list_methods()]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            msg = (
                f"`methods` must have different names; {duplicates[0]} is given twice: add a `name`"
            )
            raise ValueError(msg)
        lacking_pool = [
            method.called
            for method in self.list_methods()
            if method.needs_pool and self.pool is None
        ]
        if lacking_pool:
            msg = (
                f"method {lacking_pool[0]} takes rows from a `pool`: give a pool of comments that "
                "are assumed to be non-toxic"
            )
            raise ValueError(msg)
        return self

    def list_methods(self) -> list[Method]:
        """Return the methods in the file, or the default methods."""
        if self.methods is not None:
            return list(self.methods)
        kinds = (*(_POOL_METHODS if self.pool is not None else ()), *_DEFAULT_METHODS)
        return [ANY_METHOD.validate_python(kind) for kind in kinds]
