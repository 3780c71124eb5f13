"""Draw the cases without a result, and write the page."""

from __future__ import annotations

import argparse
import os

from benchmarks.coverage.campaign import SECTIONS, draw_cases
from benchmarks.coverage.page import write_page


def main() -> None:
    """Draw the cases of all sections, or of the given sections, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    names = ", ".join(section.name for section in SECTIONS)
    parser.add_argument("sections", nargs="*", help=f"only these: {names}")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="draw them again")
    options = parser.parse_args()
    sections = [
        section for section in SECTIONS if not options.sections or section.name in options.sections
    ]
    write_page(draw_cases(sections, workers=options.workers, fresh=options.fresh))


if __name__ == "__main__":
    main()
