"""The command line of biasgate; the library is `bias_metrics`."""

from importlib.metadata import version

__version__ = version("biasgate")
