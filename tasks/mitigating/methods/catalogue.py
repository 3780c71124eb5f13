"""Catalogue of the methods in configurations: the kinds here and those of installed packages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, TypeAdapter, ValidationInfo

from biasgate.tasks.common.catalogue import Catalogue
from biasgate.tasks.common.code import collect_code_versions
from biasgate.tasks.mitigating.methods.method import Method

_HERE = "biasgate.tasks.mitigating.methods"
METHODS = Catalogue(
    key="kind",
    group="biasgate.mitigations",
    base=Method,
    own={
        "pool": f"{_HERE}.row_methods:Pool",
        "random": f"{_HERE}.row_methods:RandomRows",
        "reweight": f"{_HERE}.row_methods:Reweight",
        "swap": f"{_HERE}.row_methods:Swap",
    },
)


def list_method_code(method: Method) -> list[str | None]:
    """Return a fingerprint of a method's code: releases, and digests of its files."""
    return collect_code_versions(type(method), Method, METHODS.find_package(method.kind))


def _read_method(value: Any, info: ValidationInfo) -> Method:
    """Create a method from a section, or from a plain name with default options."""
    return METHODS.read({"kind": value} if isinstance(value, str) else value, info)


AnyMethod = Annotated[SerializeAsAny[Method], BeforeValidator(_read_method)]
ANY_METHOD: TypeAdapter[Method] = TypeAdapter(AnyMethod)
