from support.registry import attacker, empty, gateway, key, promoted, store  # noqa: F401 - fixtures
