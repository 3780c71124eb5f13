"""Draw every case, keeping what is done, so that an interrupted campaign can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.coverage import (
    aggregates,
    calibrated,
    cells,
    clustered,
    differences,
    rare,
    rates,
    weighted,
)
from benchmarks.coverage.held import Case, Held

RESULTS = Path(__file__).parent.parent / "results" / "coverage.json"


@dataclass(frozen=True)
class Section:
    """Cases that make one table.

    Attributes
    ----------
    name : str
        Its place on the page.
    head : sequence of str
        What the cases' descriptions are.
    cases : sequence of Case
        The cases.
    draws : int
        Samples of each.
    """

    name: str
    head: Sequence[str]
    cases: Sequence[Case]
    draws: int = 2_000


SECTIONS = (
    Section("cells", cells.HEAD, cells.CELLS),
    Section("spreads", cells.HEAD, cells.SPREADS),
    Section("tiny", [*aggregates.TINY_HEAD, "number"], aggregates.TINY),
    Section("differing", aggregates.HEAD, aggregates.DIFFERING),
    Section("paired", differences.HEAD, differences.PAIRED),
    Section("power", differences.HEAD, differences.POWER),
    Section("weighted", weighted.HEAD, weighted.WEIGHTED),
    Section("crossing", clustered.HEAD, clustered.CROSSING),
    Section("nested", clustered.HEAD, clustered.NESTED),
    Section("apart", clustered.HEAD, clustered.APART),
    Section("few", clustered.HEAD, clustered.FEW),
    Section("large", clustered.HEAD, clustered.LARGE),
    Section("models", clustered.HEAD, clustered.TWO_MODELS),
    Section("many", clustered.HEAD[:-1], clustered.MANY),
    Section("wide", clustered.HEAD[:-1], clustered.WIDE, 20_000),
    Section("rates", rates.HEAD, rates.RATES),
    Section("shared", rates.HEAD, rates.SHARED),
    Section("rare", rare.HEAD, rare.RARE),
    Section("calibrated", calibrated.HEAD, calibrated.CALIBRATED),
)

Found = dict[str, dict[str, Held]]


def draw(sections: Iterable[Section], *, workers: int, fresh: bool = False) -> Found:
    """Draw the cases that have no result yet; return all results by case and number.

    Results are kept in benchmarks/results/coverage.json after each case; `fresh` draws those of
    these sections again.
    """
    wanted = {
        _key(case, section.draws): (case, section.draws)
        for section in sections
        for case in section.cases
    }
    known = {key: one for key, one in load().items() if not (fresh and key in wanted)}
    missing = {key: one for key, one in wanted.items() if key not in known}
    with ProcessPoolExecutor(workers) as pool:
        started = {pool.submit(_hold, *one): key for key, one in missing.items()}
        for done, future in enumerate(as_completed(started), 1):
            known[started[future]] = future.result()
            save(known)
            print(f"{done} of {len(missing)}: {started[future]}", flush=True)
    return known


def result_of(found: Found, section: Section, case: Case) -> Mapping[str, Held]:
    """Return the results of one case, by number."""
    return found[_key(case, section.draws)]


def load() -> Found:
    """Return the results that are kept."""
    if not RESULTS.exists():
        return {}
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {
        key: {
            name: Held(**{k: math.nan if v is None else v for k, v in one.items()})
            for name, one in numbers.items()
        }
        for key, numbers in stored.items()
    }


def save(found: Found) -> None:
    """Keep the results."""
    plain = {
        key: {
            name: {k: None if math.isnan(v) else v for k, v in asdict(one).items()}
            for name, one in found[key].items()
        }
        for key in sorted(found)
    }
    RESULTS.write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _key(case: Case, draws: int) -> str:
    return f"{draws} x {case!r}"


def _hold(case: Case, draws: int) -> dict[str, Held]:
    return case.hold(draws)
