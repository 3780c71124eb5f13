"""The command: draw what is missing, and write the page."""

from __future__ import annotations

import argparse
import os

from benchmarks.coverage.campaign import SECTIONS, draw
from benchmarks.coverage.page import write_page


def main() -> None:
    """Draw the cases of all sections, or of those named, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("sections", nargs="*", help="only these: " + ", ".join(NAMES))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="draw them again")
    options = parser.parse_args()
    wanted = [one for one in SECTIONS if not options.sections or one.name in options.sections]
    found = draw(wanted, workers=options.workers, fresh=options.fresh)
    write_page(found)


NAMES = [one.name for one in SECTIONS]

if __name__ == "__main__":
    main()
