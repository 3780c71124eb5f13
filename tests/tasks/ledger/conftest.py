from support.registry import (  # noqa: F401 - fixtures
    attacker,
    empty,
    gateway,
    key,
    registries,
    registry,
    store,
)
