"""Nothing takes biasgate by its bare name from others: whoever registers it runs code there.

That holds for package indexes, for registries of images, and for GitHub, whose accounts cannot have
a `_` as in `YOUR_ORG`.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS, LIBRARY = "biasgate", "bias-metrics"
# `PATH/biasgate-0.1.0-py3-none-any.whl`, `biasgate @ file:///...` and `biasgate/` are not bare.
BARE = rf"(?:{OURS}|bias[-_]metrics)(?![\w/:@-]|\.\w|\s*@)"
PROSE = r"(?!(?:a|and|at|by|for|from|in|is|of|on|or|the|to|with)\b)"
TAKES_NAMES = (
    r"\b(?:(?:pip3?|pipx|conda|mamba)\s+(?:install|download|wheel)"
    r"|(?:pipx\s+run|uv\s+tool\s+run|uvx)(?![^\n`;|&]*--(?:from|spec)\b)"
    r"|uv\s+(?:pip\s+install|tool\s+install|add|run\s+--with)|(?:poetry|pdm)\s+add)"
)
IMAGE = r"\b(?:image:|FROM|(?:docker|podman|buildah)\s+(?:run|pull|from)(?:\s+-\S+)*)\s+"
FROM_AN_INDEX = re.compile(
    rf"{TAKES_NAMES}(?:[ \t]+{PROSE}[^\s`;|&]+)*?[ \t]+['\"]?{BARE}"  # a command
    rf"|--(?:from|spec)[ =]['\"]?{BARE}"
    rf"|\binstall:\s*['\"]?{BARE}"  # an input of the action
    rf"|{IMAGE}['\"]?(?:[a-z0-9_-]+/)?(?<!\blocalhost/){OURS}(?![\w/-])"
    rf"|\buses:\s*['\"]?(?!YOUR_ORG/)[\w.-]+/{OURS}\b"
    rf"|(?<![\w/.-]){OURS}\[\w[\w, ]*\]"  # the name with extras, wherever it stands
    rf"|['\"]{OURS}\s*[=<>~!]=",  # a requirement with a version
)
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".ipynb", ".txt", ".sh", ".html", ".json", ""}
NOT_OURS = {".git", ".venv", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
NOT_OURS |= {"__pycache__", "build", "demo-output", "demo-output-store", "dist", "node_modules"}


def written_files():
    """Yield paths with their texts, but what another test's command removed meanwhile."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        for path in (Path(folder, name) for name in names if name != ".coverage"):
            if path.suffix in SUFFIXES and not path.is_symlink():
                with suppress(FileNotFoundError):
                    yield path, path.read_text("utf-8")


def named_in(text):
    """Where something is installed by our bare name; a command may go on in the next line."""
    return [match[0] for match in FROM_AN_INDEX.finditer(text.replace("\\\n", " "))]


def test_no_page_action_or_message_installs_us_from_an_index():
    named = {str(path.relative_to(ROOT)): named_in(text) for path, text in written_files()}
    assert {"action.yml", "README.md", "docs/extending.md"} <= named.keys()
    # An extra that names another one is the same project to pip and uv: they ask no index for it.
    assert set(named.pop("pyproject.toml")) == {f"{OURS}[app]"}
    assert {path: found for path, found in named.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        f"pip install {OURS}",
        f"`python -m pip install --quiet '{OURS}>=0.1'` before",
        f'run `pip install "{OURS}[app,text]"`',
        f"pip install --upgrade \\\n    {OURS}\n",
        f"pip install numpy {OURS}.",
        f"uvx {OURS} demo",
        f"pipx run {OURS}",
        f"uv run --with {OURS} demo",
        f"pip install {LIBRARY}",
        f"with: {{install: {OURS}, comment: true}}",
        f"          install: '{OURS}==0.1.0'",
        f'dependencies = ["numpy", "{OURS}[app]"]',
        f'dependencies = ["{OURS}>=1"]',
        f"uvx --from {OURS} demo",
        f"pipx run --spec '{OURS}>=0.1' demo",
        f"image: {OURS}",
        f"    image: {OURS}:0.1.0 # comment",
        f"FROM team/{OURS}",
        f"docker run --rm {OURS} demo",
        f"- uses: team/{OURS}@v1",
    ],
)
def test_the_bare_name_is_found(text):
    assert named_in(text)


@pytest.mark.parametrize(
    "text",
    [
        'pip install ".[app]" in a checkout of biasgate, or its wheel',
        'pip install "PATH/biasgate-0.1.0-py3-none-any.whl[app]"',
        "pip install -c constraints.txt ./biasgate",
        '"biasgate @ file:///wheels/biasgate-0.1.0-py3-none-any.whl"',
        "uv run biasgate demo",
        "install: ./biasgate",
        'uvx --from "PATH/biasgate-0.1.0-py3-none-any.whl[app]" biasgate demo',
        'pipx run --spec "PATH/biasgate-0.1.0-py3-none-any.whl[app]" biasgate demo',
        "image: REGISTRY/biasgate:0.1.0",
        "docker run --rm localhost/biasgate demo",
        "- uses: YOUR_ORG/biasgate@COMMIT",
    ],
)
def test_a_wheel_and_a_checkout_are_not(text):
    assert not named_in(text)
