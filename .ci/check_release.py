"""Refuse a release whose tag, metadata, changelog and citation do not agree.

    python .ci/check_release.py dist [TAG]

The version stands in pyproject.toml, since the archives that GitHub hands out have no tags.
"""

from __future__ import annotations

import re
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

REPOSITORY = Path(__file__).resolve().parent.parent


def objections(version: str, tag: str | None, changelog: str, citation: str) -> list[str]:
    """Return what does not agree with the version of the wheel."""
    found = []
    if tag is not None:
        if tag != f"v{version}":
            found.append(f"the tag must be v{version}, the version in pyproject.toml; got {tag}")
        if not re.search(
            rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE
        ):
            found.append(f"CHANGELOG.md must have the heading `## {version} (YYYY-MM-DD)`")
    if f"\nversion: {version}\n" not in citation:
        found.append(f"CITATION.cff must have `version: {version}`")
    return found


def main(folder: Path, tag: str | None) -> None:
    """Read the version of the wheel that was built."""
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        version = Parser().parsestr(archive.read(name).decode())["Version"]
    texts = [(REPOSITORY / one).read_text("utf-8") for one in ("CHANGELOG.md", "CITATION.cff")]
    if problems := objections(version, tag, *texts):
        sys.exit("\n".join(problems))
    print(f"release: {version} agrees with {tag or 'itself; no tag was given'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
