"""What the kept draws say: counts by line, and the tables of docs/evidence/gate-sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.gate_sizes.judging import Draw
from benchmarks.gate_sizes.populations import REAL, Line

Key = tuple[str, str, str, int, int]
Draws = Mapping[Key, Sequence[Draw]]
LEAST = 4  # rows of each compared class


def key_of(line: Line) -> Key:
    """Return what a line is known by."""
    return (line.scores, line.policy, line.situation.name, line.n_identities, line.n_rows)


def summary(line: Line, draws: Draws) -> dict[str, Any]:
    """Return the counts of one line.

    Parameters
    ----------
    line : Line
        The line.
    draws : mapping
        All draws, by line.

    Returns
    -------
    dict
        What the line is; `outcomes`; `blocked`, draws with a result against the candidate, by rule
        and outcome; `unnamed`, passes that do not name the identity that is worse; `shown`, draws
        with a cell shown to be worse, of any identity and of the one that is; `missed`, of the
        bounds of the loss that is planted, by the fewest rows: how many there are, and how many are
        below that loss.
    """
    found, situation = draws[key_of(line)], line.situation
    outcomes = Counter(
        "pass, except" if one["outcome"] == "pass" and one["excepted"] else one["outcome"]
        for one in found
    )
    blocked = Counter(
        against
        for one in found
        for against in {f"{rule}: {how}" for rule, _, how in one["against"]}
    )
    return {
        **dict(
            zip(("scores", "policy", "situation", "identities", "rows"), key_of(line), strict=True)
        ),
        "draws": len(found),
        "required": situation.passes,
        "outcomes": dict(outcomes),
        "blocked": dict(sorted(blocked.items())),
        "unnamed": sum(
            one["outcome"] == "pass" and situation.group not in one["named"] for one in found
        )
        if situation.group
        else 0,
        "shown": _shown(found, situation.group),
        "missed": _missed(found, line),
    }


def _shown(found: Sequence[Draw], group: str | None) -> dict[str, int]:
    def count(counts: Callable[[list[Any]], bool]) -> int:
        return sum(any(counts(cell) for cell in one["worse"]) for one in found)

    return {
        "any": count(lambda _: True),
        "any of 4 rows": count(lambda cell: cell[3] >= LEAST),
        "planted": count(lambda cell: cell[1] == group),
        "planted of 4 rows": count(lambda cell: cell[1] == group and cell[3] >= LEAST),
        "another": count(lambda cell: cell[1] != group),
    }


def _missed(found: Sequence[Draw], line: Line) -> dict[str, list[int]]:
    situation, missed = line.situation, {"2 to 3": [0, 0], "4 to 9": [0, 0], "10 and more": [0, 0]}
    for one in found:
        for metric, group, _, loss, n in one["alone"]:
            planted = (metric, group) == (situation.metric, situation.group)
            if planted and loss is not None and n >= 2:
                counts = missed["2 to 3" if n < LEAST else "4 to 9" if n < 10 else "10 and more"]
                counts[0] += 1
                counts[1] += loss < situation.loss
    return missed


def error(n: int, draws: int) -> float:
    """Return two Monte Carlo errors of a share; one more and one less are added, as at 0."""
    share = (n + 1) / (draws + 2)
    return 2 * math.sqrt(share * (1 - share) / draws)


SHOWN = ("any", "any of 4 rows", "planted", "planted of 4 rows", "another")
OUTCOMES = ("pass", "pass, except", "fail", "insufficient")
Summary = Mapping[str, Any]
Row = list[str]


def _percent(counts: Iterable[int], n: int) -> str:
    return " / ".join(f"{100 * k / n:.0f}" for k in counts)


def outcomes(one: Summary) -> str:
    """Return the shares of the outcomes in percent."""
    counts, n = one["outcomes"], one["draws"]
    errors = f"; {_percent([counts['error']], n)} errors" if "error" in counts else ""
    return _percent((counts.get(kind, 0) for kind in OUTCOMES), n) + errors


def blocked(one: Summary) -> str:
    """Return the rules that block at least one sample in twenty, the most frequent first."""
    n = one["draws"]
    most = sorted(one["blocked"].items(), key=lambda pair: -pair[1])
    return ", ".join(f"{rule} {_percent([k], n)}" for rule, k in most if k >= 0.05 * n)


def shown(one: Summary) -> str:
    """Return the shares of samples in which a cell is shown to be worse."""
    return _percent((one["shown"][kind] for kind in SHOWN), one["draws"])


def table(summaries: Sequence[Summary], cell: Callable[[Summary], str]) -> Iterator[Row]:
    """Yield the lines of a table with a column for each set size.

    The column `+-` has two Monte Carlo errors of the share of passes, in points: the largest.
    """
    sizes = sorted({one["rows"] for one in summaries})
    by_line: dict[tuple[str, str, str, int], dict[int, Summary]] = {}
    for one in summaries:
        line = one["scores"], one["policy"], one["situation"], one["identities"]
        by_line.setdefault(line, {})[one["rows"]] = one
    head = ("scores", "policy", "candidate", "identities")
    yield [*head, *map(str, sizes), "samples", "+-", "required"]
    for line, by_size in by_line.items():
        each = list(by_size.values())
        errors = [
            error(sum(k for kind, k in one["outcomes"].items() if "pass" in kind), one["draws"])
            for one in each
        ]
        draws = sorted({one["draws"] for one in each})
        allowed = each[0]["required"]
        cells = [
            *line,
            *(cell(by_size[n]) if n in by_size else "" for n in sizes),
            " to ".join(str(n) for n in dict.fromkeys((draws[0], draws[-1]))),
            f"{100 * max(errors):.0f}",
            _required(allowed),
        ]
        yield [str(one) for one in cells]


def _required(passes: float | None) -> str:
    if passes is None:
        return ""
    return f"at most {passes:.0%} pass" if passes < 1 else "none passes unnamed"


def missed_rows(summaries: Iterable[Summary]) -> Iterator[Row]:
    """Yield, by the fewest rows, how many bounds of a planted loss are below it."""
    total: dict[str, list[int]] = {}
    for one in summaries:
        for kind, (n, below) in one["missed"].items():
            known = total.setdefault(kind, [0, 0])
            known[0] += n
            known[1] += below
    for kind, (n, below) in total.items():
        if n:
            yield [kind, str(n), f"{100 * below / n:.1f}", f"{100 * error(below, n):.1f}"]


def tables(summaries: Sequence[Summary]) -> dict[str, list[Row]]:
    """Return all tables by their names.

    `outcomes`: percent that pass, pass with exceptions, fail, are insufficient. `blocking`: rules
    that block a model which should pass. `shown`: percent with a cell shown to be worse: of any
    identity, of any with 4 rows, of the planted one, of that with 4 rows, of another. `missed`:
    bounds of the planted loss, at 95 %, and how many percent are below it.
    """
    real = [one for one in summaries if one["scores"] == REAL and one["policy"] != "default"]
    return {
        "outcomes": list(table(summaries, outcomes)),
        "blocking": list(table([one for one in summaries if one["required"] is None], blocked)),
        "shown": list(table(real, shown)),
        "missed": [["fewest rows", "bounds", "below the loss", "+-"], *missed_rows(real)],
    }
