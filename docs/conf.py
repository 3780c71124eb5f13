"""How Sphinx builds the site from the pages that docs/site.py has put together: `make docs`."""

import re
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

project = "biasgate"
author = "The biasgate maintainers"
project_copyright = author
release = installed("biasgate")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["**/*.py", "reproduce/**"]

nb_execution_mode = "off"  # a test runs the notebook
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "none"  # the docstrings say it, with shapes and units
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
# `n` is an attribute of many results; a notebook has lines for the shell.
suppress_warnings = ["ref.python", "misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = f"biasgate {release}"
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
}
html_sidebars = {"index": []}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search.js"))
html_copy_source = False
html_show_sourcelink = False
html_extra_path = ["schemas"]
html_context = {"default_mode": "auto"}


def setup(app: Any) -> None:
    """Show what docstrings have between single backticks as code."""
    app.connect("autodoc-process-docstring", as_code)


def as_code(*given: Any) -> None:
    """Double the backticks, as reStructuredText wants them."""
    lines: list[str] = given[-1]
    lines[:] = [re.sub(r"(?<!`)` ?([^`]+?) ?`(?!`)", r"``\1``", line) for line in lines]
