"""The command line of biasgate, and checks for deploy scripts; the library is `bias_metrics`."""

from pathlib import Path

# On a system without symbolic links, git writes a file in place of each link.
if not Path(__file__).with_name("tasks").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

from biasgate.deploy import open_champion, require_attestation, require_champion

__all__ = ["__version__", "open_champion", "require_attestation", "require_champion"]


def __getattr__(name: str) -> str:
    """Read the version on demand only, since that takes a fourth of the time of `--help`."""
    if name != "__version__":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib.metadata import version  # noqa: PLC0415

    return version("biasgate")
