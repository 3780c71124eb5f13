"""The command line of biasgate, and the check for deploy scripts; the library is `bias_metrics`."""

from importlib.metadata import version

from biasgate.deploy import open_champion, require_champion

__all__ = ["__version__", "open_champion", "require_champion"]

__version__ = version("biasgate")
