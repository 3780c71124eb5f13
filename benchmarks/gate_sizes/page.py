"""Counts of the saved draws by line, and the tables of docs/evidence/gate-sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.gate_sizes.judging import Draw
from benchmarks.gate_sizes.populations import Key, Line, Situation

LEAST = 4  # rows of each compared class


def summarise_draws(line: Line, all_draws: Mapping[Key, Sequence[Draw]]) -> dict[str, Any]:
    """Return the counts of a line.

    Returns
    -------
    dict
        The key of the line; `outcomes`; `blocked`, draws with a result against the candidate, by
        rule and outcome; `unnamed`, passes that do not name the planted identity; `shown`, draws
        with a significantly worse cell, of any identity and of the planted identity; `missed`, by
        the fewest rows: the number of bounds of the planted loss, and of bounds below it.
    """
    draws, situation = all_draws[line.key], line.situation
    outcomes = Counter(
        "pass, except" if draw["outcome"] == "pass" and draw["excepted"] else draw["outcome"]
        for draw in draws
    )
    blocked = Counter(
        result
        for draw in draws
        for result in {f"{rule}: {outcome}" for rule, _, outcome in draw["against"]}
    )
    return {
        **dict(zip(("scores", "policy", "situation", "identities", "rows"), line.key, strict=True)),
        "draws": len(draws),
        "required": situation.passes,
        "outcomes": dict(outcomes),
        "blocked": dict(sorted(blocked.items())),
        "unnamed": sum(
            draw["outcome"] == "pass" and situation.group not in draw["named"] for draw in draws
        )
        if situation.group
        else 0,
        "shown": _count_shown(draws, situation.group),
        "missed": _count_missed(draws, situation),
    }


def _count_shown(draws: Sequence[Draw], group: str | None) -> dict[str, int]:
    def count(is_counted: Callable[[list[Any]], bool]) -> int:
        return sum(any(map(is_counted, draw["worse"])) for draw in draws)

    return {
        "any": count(lambda _: True),
        "any of 4 rows": count(lambda cell: cell[3] >= LEAST),
        "planted": count(lambda cell: cell[1] == group),
        "planted of 4 rows": count(lambda cell: cell[1] == group and cell[3] >= LEAST),
        "another": count(lambda cell: cell[1] != group),
    }


def _count_missed(draws: Sequence[Draw], situation: Situation) -> dict[str, list[int]]:
    missed = {"2 to 3": [0, 0], "4 to 9": [0, 0], "10 and more": [0, 0]}
    for draw in draws:
        for metric, group, _, loss, n in draw["alone"]:
            is_planted = (metric, group) == (situation.metric, situation.group)
            if is_planted and loss is not None and n >= 2:
                counts = missed["2 to 3" if n < LEAST else "4 to 9" if n < 10 else "10 and more"]
                counts[0] += 1
                counts[1] += loss < situation.loss
    return missed


def compute_error(n: int, draws: int) -> float:
    """Return two Monte Carlo errors of a share, with a further success and failure."""
    share = (n + 1) / (draws + 2)
    return 2 * math.sqrt(share * (1 - share) / draws)


SHOWN = ("any", "any of 4 rows", "planted", "planted of 4 rows", "another")
OUTCOMES = ("pass", "pass, except", "fail", "insufficient")
Summary = Mapping[str, Any]
Row = list[str]


def _format_shares(counts: Iterable[int], n: int) -> str:
    return " / ".join(f"{100 * k / n:.0f}" for k in counts)


def format_outcomes(summary: Summary) -> str:
    """Return the shares of the outcomes in percent."""
    counts, n = summary["outcomes"], summary["draws"]
    errors = f"; {_format_shares([counts['error']], n)} errors" if "error" in counts else ""
    return _format_shares((counts.get(kind, 0) for kind in OUTCOMES), n) + errors


def format_blocked(summary: Summary) -> str:
    """Return the rules that block at least 5 % of the samples, the most frequent first."""
    n = summary["draws"]
    most = sorted(summary["blocked"].items(), key=lambda pair: -pair[1])
    return ", ".join(f"{rule} {_format_shares([k], n)}" for rule, k in most if k >= 0.05 * n)


def format_shown(summary: Summary) -> str:
    """Return the shares of samples with a significantly worse cell."""
    return _format_shares((summary["shown"][kind] for kind in SHOWN), summary["draws"])


def make_table(summaries: Sequence[Summary], cell: Callable[[Summary], str]) -> Iterator[Row]:
    """Yield the lines of a table with a column for each set size.

    The column `+-` has two Monte Carlo errors of the share of passes, in points: the largest.
    """
    sizes = sorted({summary["rows"] for summary in summaries})
    by_line: dict[tuple[str, ...], dict[int, Summary]] = {}
    for summary in summaries:
        line = tuple(summary[key] for key in ("scores", "policy", "situation", "identities"))
        by_line.setdefault(line, {})[summary["rows"]] = summary
    head = ("scores", "policy", "candidate", "identities")
    yield [*head, *map(str, sizes), "samples", "+-", "required"]
    for line, by_size in by_line.items():
        errors = [
            compute_error(
                sum(n for outcome, n in summary["outcomes"].items() if "pass" in outcome),
                summary["draws"],
            )
            for summary in by_size.values()
        ]
        draws = sorted({summary["draws"] for summary in by_size.values()})
        required = next(iter(by_size.values()))["required"]
        limit = "" if required is None else "none passes unnamed"
        if required is not None and required < 1:
            limit = f"at most {required:.0%} pass"
        cells = [
            *line,
            *(cell(by_size[n]) if n in by_size else "" for n in sizes),
            " to ".join(str(n) for n in dict.fromkeys((draws[0], draws[-1]))),
            f"{100 * max(errors):.0f}",
            limit,
        ]
        yield list(map(str, cells))


def iter_missed(summaries: Iterable[Summary]) -> Iterator[Row]:
    """Yield, by the fewest rows, the bounds of planted losses, and the share below them."""
    total: dict[str, list[int]] = {}
    for summary in summaries:
        for kind, counts in summary["missed"].items():
            total[kind] = [
                n + more for n, more in zip(total.get(kind, (0, 0)), counts, strict=True)
            ]
    for kind, (n, below) in total.items():
        if n:
            error = compute_error(below, n)
            yield [kind, str(n), f"{100 * below / n:.1f}", f"{100 * error:.1f}"]


def make_tables(summaries: Sequence[Summary]) -> dict[str, list[Row]]:
    """Return all tables by their names.

    `outcomes`: percent that pass, pass with exceptions, fail, are insufficient. `blocking`: rules
    that block a model which should pass. `shown`: percent with a significantly worse cell: of any
    identity, of any with 4 rows, of the planted identity, of that with 4 rows, of another.
    `missed`: bounds of the planted loss, at 95 %, and the percentage below it.
    """
    fair = [summary for summary in summaries if summary["required"] is None]
    return {
        "outcomes": list(make_table(summaries, format_outcomes)),
        "blocking": list(make_table(fair, format_blocked)),
        "shown": list(make_table(summaries, format_shown)),
        "missed": [["fewest rows", "bounds", "below the loss", "+-"], *iter_missed(summaries)],
    }
