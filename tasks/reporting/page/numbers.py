"""Numbers as a page shows them."""

from __future__ import annotations

from bias_metrics import MetricValue

NOTHING = "\N{EN DASH}"


def plus_minus(text: str) -> str:
    """Return a number with a minus sign that is as wide as a plus."""
    return text.replace("-", "\N{MINUS SIGN}")


def number(value: float, *, signed: bool = False) -> str:
    """Return a number with three decimals."""
    return plus_minus(f"{value:+.3f}" if signed else f"{value:.3f}")


def interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return an interval; nothing if there is none."""
    if low is None or high is None:
        return ""
    return f"[{number(low, signed=signed)}, {number(high, signed=signed)}]"


def with_interval(cell: MetricValue, *, signed: bool = False) -> str:
    """Return a number with its interval, if there is one."""
    if cell.value is None:
        return "undefined"
    shown = interval(cell.low, cell.high, signed=signed)
    return f"{number(cell.value, signed=signed)} {shown}".strip()


def percent(share: float | None) -> str:
    """Return a share in percent with one decimal."""
    return NOTHING if share is None else f"{thousandths(share) / 10:.1f}%"


def points(gap: float | None) -> str:
    """Return a difference of shares in percentage points, signed."""
    return NOTHING if gap is None else plus_minus(f"{thousandths(gap) / 10:+.1f}")


def thousandths(share: float) -> int:
    """Return a share as the page's data hold it."""
    return round(1000 * share)


def count(n: float) -> str:
    """Return a number of rows, or their weight."""
    return f"{n:,.0f}"
