"""The command line of biasgate, and checks for deploy scripts; the library is `bias_metrics`."""

from importlib.metadata import version

from biasgate.deploy import open_champion, require_attestation, require_champion

__all__ = ["__version__", "open_champion", "require_attestation", "require_champion"]

__version__ = version("biasgate")
