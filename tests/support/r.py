"""R, whose packages are the reference of some numbers."""

import shutil
import subprocess

import pytest


def require_r(library):
    """Skip where R or one of its packages is missing."""
    asked = [shutil.which("Rscript") or "false", "-e", f"library({library})"]
    if subprocess.run(asked, check=False, capture_output=True).returncode:
        pytest.skip(f"needs R with {library} (Debian: r-cran-{library.lower()})")
