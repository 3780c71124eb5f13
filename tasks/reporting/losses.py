"""Words for what is shown to be worse, and for whose comments it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import Loss
from biasgate.tasks.common.printable import printable

_NAMED = 3


def summary(worsened: Sequence[Loss], rival: str = "the champion") -> str:
    """Say in two sentences who is shown to be worse, and whose numbers only share their comments.

    Parameters
    ----------
    worsened : sequence of Loss
        What is shown, the largest loss first.
    rival : str, default="the champion"
        What it is worse than.

    Returns
    -------
    str
        "" if nothing is shown.

    Examples
    --------
    >>> known = {"first": 0.7, "second": 0.8, "worse_by": 0.1, "low": -0.12, "high": -0.08}
    >>> known |= {"metric": "bpsn_auc", "worse_by_at_least": 0.08}
    >>> own, shared = {"group": "muslim", "without": []}, {"group": "jewish", "without": ["muslim"]}
    >>> print(summary([{**known, **own}, {**known, **shared}]))
    Shown to be worse than the champion: muslim (bpsn_auc by at least 0.080). Also jewish, but not \
without comments that mention muslim.
    """
    own = [cell for cell in worsened if not cell.without]
    if not own:
        return ""
    causes = list(dict.fromkeys(cell.group for cell in own))
    each = [_largest([cell for cell in own if cell.group == name]) for name in causes]
    told = "; ".join(each[:_NAMED]) + _more(len(each), "; and {} more")
    others: dict[str, tuple[str, ...]] = {}
    for cell in worsened:
        if cell.group not in causes:
            others[cell.group] = max(others.get(cell.group, ()), cell.without, key=len)
    sentences = [f"Shown to be worse than {printable(rival)}: {told}."]
    for without in dict.fromkeys(others.values()):
        names = [name for name, left_out in others.items() if left_out == without]
        shared = f"not without comments that mention {_listed(without, 'or')}"
        sentences.append(f"Also {_listed(names, 'and')}, but {shared}.")
    return " ".join(sentences)


def in_words(cell: Loss) -> str:
    """Return one number, what it was, and without whose comments it is not shown."""
    text = f"{printable(cell.group)}: {cell.metric} {cell.first:.3f}"
    text = f"{text}, was {cell.second:.3f}"
    return f"{text} ({shared_with(cell)})" if cell.without else text


def shared_with(cell: Loss) -> str:
    """Return without whose comments a number is no longer shown to be worse; "" if it is so."""
    left_out = cell.without
    return f"not without comments that mention {_listed(left_out, 'or')}" if left_out else ""


def _largest(cells: Sequence[Loss]) -> str:
    first, n = cells[0], len(cells) - 1
    more = f", {n:,} more {'number' if n == 1 else 'numbers'}" if n else ""
    by = f"{first.metric} by at least {first.worse_by_at_least:.3f}"
    return f"{printable(first.group)} ({by}{more})"


def _listed(names: Sequence[str], word: str) -> str:
    told = [printable(name) for name in names[:_NAMED]]
    if len(names) > len(told):
        told.append(f"{len(names) - len(told):,} more")
    *first, last = told
    return f"{', '.join(first)} {word} {last}" if first else last


def _more(n: int, text: str) -> str:
    return text.format(f"{n - _NAMED:,}") if n > _NAMED else ""
