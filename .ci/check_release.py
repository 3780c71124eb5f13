"""Refuse a release with disagreeing tag, metadata, changelog or citation.

    python .ci/check_release.py dist [TAG]

The version is in pyproject.toml, since GitHub's archives have no tags.
"""

from __future__ import annotations

import re
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

REPOSITORY = Path(__file__).resolve().parent.parent


def find_problems(version: str, tag: str | None, changelog: str, citation: str) -> list[str]:
    """Return the disagreements with the version of the wheel."""
    problems = []
    if tag is not None:
        if tag != f"v{version}":
            problems.append(f"the tag must be v{version}, the version in pyproject.toml; got {tag}")
        heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
        if not re.search(heading, changelog, re.MULTILINE):
            problems.append(f"CHANGELOG.md must have the heading `## {version} (YYYY-MM-DD)`")
    if f"\nversion: {version}\n" not in citation:
        problems.append(f"CITATION.cff must have `version: {version}`")
    return problems


def main(folder: Path, tag: str | None) -> None:
    """Check the version of the built wheel."""
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        version = Parser().parsestr(archive.read(name).decode())["Version"]
    texts = [(REPOSITORY / name).read_text("utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    if problems := find_problems(version, tag, *texts):
        sys.exit("\n".join(problems))
    print(f"release: {version} agrees with {tag or 'itself; no tag was given'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
