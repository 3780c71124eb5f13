"""Verdicts in a word, a line or a sentence.

The texts contain names of identities, sets and candidates: escape them for the medium.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from bias_metrics.gate import HARM_RULE as HARM
from bias_metrics.gate import Loss
from bias_metrics.parts import format_count
from bias_metrics.thresholds import CountedShare, ErrorsByTerm, TermErrors
from biasgate.tasks.check_messages import describe_check, describe_exception, describe_loss
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.outcomes import COPY, EXCEPT, REPORTED, WORDS, Word, get_outcome_words
from biasgate.tasks.records import CandidateDecision, Verdict, is_champions_copy

MOST_EXCEPTIONS = 12
MARKED = {"missing": "without a score", "truncated": "truncated"}
"""The words for comments by their kind in a report."""
_MAX_NAMES = 3  # most names in a list
IN_TITLE = 2  # most names in the words for an outcome


def get_verdict_words(*verdicts: Verdict) -> Word:
    """Return the words for the verdicts on a candidate, from one set or from several.

    A pass is qualified by the number of identities that it is proven for, by its exceptions, or as
    a copy of the champion. A block for significant harm names the identities.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    outcome = next(name for name in ("error", "fail", "insufficient", "pass") if name in outcomes)
    if any(verdict.policy.report_only for verdict in verdicts):
        return REPORTED
    if outcome == "fail":
        return replace(WORDS[outcome], text=_describe_block(verdicts))
    if outcome != "pass":
        return WORDS[outcome]
    if all(map(is_champions_copy, verdicts)):
        return replace(WORDS[outcome], text=COPY)
    counts = [(len(verdict.holds_for.identities), verdict.holds_for.of) for verdict in verdicts]
    n_proven, n_identities = min(counts, key=lambda pair: pair[0] / pair[1] if pair[1] else 1.0)
    text = WORDS[outcome].text
    if n_proven < n_identities:
        text = f"Passed for {n_proven:,} of {n_identities:,} identities"
    elif any(verdict.exceptions for verdict in verdicts):
        text = EXCEPT
    return replace(WORDS[outcome], text=text)


def _describe_block(verdicts: Sequence[Verdict]) -> str:
    """Return the words for a block, with the significantly worse identities, the worst first."""
    worse = (
        str(result.group)
        for verdict in verdicts
        for result in verdict.results
        if result.rule == HARM and result.outcome == "fail" and result.action == "block"
    )
    # Leave out an identity whose loss is not significant without a worse identity's comments.
    independent = {
        cell.group for verdict in verdicts for cell in verdict.worsened if not cell.without
    }
    groups = list(dict.fromkeys(worse))
    names = [name for name in groups if name in independent] or groups
    if not names:
        return WORDS["fail"].text
    return f"Blocked: worse for {shorten_names(names, IN_TITLE)}"


def list_exception_lines(
    verdicts: Sequence[Verdict], most: int = MOST_EXCEPTIONS, *, name_sets: bool = False
) -> list[str]:
    """Return lines with the proven identities of a pass, its exceptions and all reservations.

    Only a pass has exceptions; any outcome may have reservations, which come last. Identities that
    are not measured for the same reason share a line. With several verdicts, or with `name_sets`,
    each line names the set. After `most` exceptions, a line gives the number of the others.
    """
    reservations = list_reservation_lines(verdicts, name_sets=name_sets)
    if any(verdict.outcome != "pass" or verdict.policy.report_only for verdict in verdicts):
        return reservations
    omits_set = len(verdicts) == 1 and not name_sets
    lines = [
        escape_invisible(line)
        for verdict in verdicts
        for line in _iter_exceptions(verdict, omits_set=omits_set)
    ]
    n_more = len(lines) - most
    if n_more <= 0:
        return [*lines, *reservations]
    return [*lines[:most], f"And {n_more:,} more in verdict.json.", *reservations]


def list_reservation_lines(verdicts: Sequence[Verdict], *, name_sets: bool = False) -> list[str]:
    """Return the reservations of the verdicts as lines, which name the sets if there are several.

    Sets with the same reservation share a line. `name_sets`: also name a single set.
    """
    pairs = (
        (verdict.evaluation_set.name, text) for verdict in verdicts for text in verdict.reservations
    )
    omits_set = len(verdicts) == 1 and not name_sets
    return [
        escape_invisible(text if omits_set else f"{shorten_names(names)}: {text}")
        for text, names in group_names(pairs).items()
    ]


def _iter_exceptions(verdict: Verdict, *, omits_set: bool) -> Iterator[str]:
    on_set = "" if omits_set else f" on {verdict.evaluation_set.name}"
    names, n_identities = verdict.holds_for.identities, verdict.holds_for.of
    if len(names) < n_identities:
        yield (
            f"Passed{on_set} only for {', '.join(names)}."
            if names
            else (f"Passed{on_set} for no identity on its own.")
        )
    unmeasured: dict[str, list[str]] = {}
    for entry in verdict.exceptions:
        if entry.reason is not None:
            unmeasured.setdefault(entry.reason, []).append(str(entry.group))
        else:
            yield f"Exception{on_set}: {describe_exception(entry)}"
    for reason, groups in unmeasured.items():
        yield f"Exception{on_set}: not measured ({reason}): {', '.join(groups)}."


def summarize_outcome(decision: CandidateDecision, verdicts: Sequence[Verdict]) -> str:
    """Summarize a candidate's outcome: the first check against it, and the decision."""
    failures = [
        describe_check(result)
        for verdict in verdicts
        if verdict.candidate.name == decision.candidate and verdict.evaluation_set.required
        for result in verdict.results
        if result.outcome == decision.outcome != "pass" and result.action == "block"
    ]
    more = f" {format_count(len(failures) - 1, 'more such check')}." if len(failures) > 1 else ""
    reasons = [f"{sentence}{more}" for sentence in failures[:1]]
    exceptions = decision.exceptions or []
    return " ".join(
        [f"{get_outcome_words(decision).text}.", *reasons, decision.sentence, *exceptions]
    )


def describe_losses(worsened: Sequence[Loss], rival: str = "the champion") -> str:
    """Name the significantly worse identities, and those that only share comments with them.

    `worsened`: the losses, the largest first.

    Examples
    --------
    >>> known = {"first": 0.7, "second": 0.8, "worse_by": 0.1, "low": -0.12, "high": -0.08}
    >>> known |= {"metric": "bpsn_auc", "worse_by_at_least": 0.08}
    >>> own, shared = {"group": "muslim"}, {"group": "jewish", "without": ("muslim",)}
    >>> print(describe_losses([Loss(**known, **own), Loss(**known, **shared)]))
    Significantly worse than the champion: muslim (bpsn_auc by at least 0.080). Also jewish, but \
not without comments that mention muslim.
    """
    own = [cell for cell in worsened if not cell.without]
    if not own:
        return f"No identity is significantly worse than under {escape_invisible(rival)}."
    causes = list(dict.fromkeys(cell.group for cell in own))
    descriptions: list[str] = []
    for name in causes:
        cells = [cell for cell in own if cell.group == name]
        more_numbers = f", {format_count(len(cells) - 1, 'more number')}" if len(cells) > 1 else ""
        descriptions.append(f"{escape_invisible(name)} ({describe_loss(cells[0])}{more_numbers})")
    more = (
        f"; and {len(descriptions) - _MAX_NAMES:,} more" if len(descriptions) > _MAX_NAMES else ""
    )
    others: dict[str, tuple[str, ...]] = {}
    for cell in worsened:
        if cell.group not in causes:
            others[cell.group] = max(others.get(cell.group, ()), cell.without, key=len)
    first = "; ".join(descriptions[:_MAX_NAMES])
    sentences = [f"Significantly worse than {escape_invisible(rival)}: {first}{more}."]
    for without in dict.fromkeys(others.values()):
        names = [name for name, other_without in others.items() if other_without == without]
        excluded = join_names(without, "or")
        also = f"Also {join_names(names, 'and')}, but not without comments that mention {excluded}."
        sentences.append(also)
    return " ".join(sentences)


_WORDS_BY_CHANGE = {
    "newly_flagged": ("harmless", "newly flagged"),
    "newly_missed": ("toxic", "newly missed"),
}


def describe_changed_decisions(changed: Mapping[str, Mapping[str, CountedShare]]) -> str:
    """Name the identities whose decisions change most, with the shares and their intervals.

    Examples
    --------
    >>> shares = {"newly_flagged": CountedShare(12, 480, 0.009, 0.051)}
    >>> shares["newly_missed"] = CountedShare(0, 90, 0.0, 0.06)
    >>> print(describe_changed_decisions({"muslim": shares}))
    12 of 480 harmless comments that mention "muslim" are newly flagged (2.5% [0.9%, 5.1%])
    """
    sentences = []
    for metric, (kind, change) in _WORDS_BY_CHANGE.items():
        shares = {name: group_shares[metric] for name, group_shares in changed.items()}
        nonzero = {name: share for name, share in shares.items() if share.count}
        if not nonzero:
            continue
        name = max(nonzero, key=lambda key: (nonzero[key].low or 0.0, nonzero[key].value or 0.0))
        largest = nonzero[name]
        interval = ""
        if largest.low is not None and largest.high is not None:
            interval = f" [{100 * largest.low:.1f}%, {100 * largest.high:.1f}%]"
        percent = f"{100 * (largest.value or 0.0):.1f}%{interval}"
        counts = (
            f"{largest.count:,} of {largest.n:,} {kind} comments that mention "
            f'"{escape_invisible(name)}"'
        )
        sentences.append(f"{counts} are {change} ({percent})")
    return "; ".join(sentences) or "no comment that mentions an identity is newly flagged or missed"


_MAX_LETTERS = 40
_ERRORS_BY_RATE = {
    "false_positive_rate": ("harmless", "flagged", "mean_score_negative"),
    "false_negative_rate": ("toxic", "missed", "mean_score_positive"),
}


def describe_worse_terms(errors: ErrorsByTerm, at: str = "", identity: str | None = None) -> str:
    """Name the terms with significantly worse numbers than all comments.

    Terms with worse error rates come first, then those with only a worse mean score. `at`: words
    for the threshold, if it is not the threshold in use. `identity`: only its terms.

    Examples
    --------
    >>> every, ann = CountedShare(9, 200, 0.01, 0.1), CountedShare(8, 8, 0.4, 1.0)
    >>> terms = [
    ...     TermErrors("names", term, 8, 8, {"false_positive_rate": ann}) for term in ("Ann", "Bea")
    ... ]
    >>> print(describe_worse_terms(ErrorsByTerm(0.5, 0.95, {"false_positive_rate": every}, terms)))
    8 of 8 harmless comments with "Ann" (names) are flagged (100.0% [40.0, 100.0]; 4.5% of all), \
also "Bea"
    """
    sentences = []
    for rate, overall in errors.overall.items():
        kind, error, mean = _ERRORS_BY_RATE[rate]
        worse = _select_terms(errors.list_worse_terms(rate), identity)
        if worse:
            share, (term, also) = worse[0].rates[rate], _format_terms(worse)
            ends = f"[{_format_percent(share.low)}, {_format_percent(share.high)}]"
            sentences.append(
                f"{share.count:,} of {share.n:,} {kind} comments with {term} are {error}{at} "
                f"({_format_percent(share.value)}% {ends}; "
                f"{_format_percent(overall.value)}% of all){also}"
            )
        if mean not in errors.mean_scores:
            continue
        others = [
            term
            for term in _select_terms(errors.list_worse_terms(mean), identity)
            if term not in worse
        ]
        if others:
            score, (term, also) = others[0].mean_scores[mean], _format_terms(others)
            sentences.append(
                f"the mean score of {kind} comments with {term} is {score.value:.3g} "
                f"[{score.low:.3g}, {score.high:.3g}] ({errors.mean_scores[mean].value:.3g} of all)"
                f"{also}"
            )
    return "; ".join(sentences)


def name_worse_terms(errors: ErrorsByTerm) -> str:
    """Return the names of the significantly worse terms, by identity.

    Examples
    --------
    >>> every, ann = CountedShare(9, 200, 0.01, 0.1), CountedShare(8, 8, 0.4, 1.0)
    >>> terms = [
    ...     TermErrors("names", term, 8, 8, {"false_positive_rate": ann}) for term in ("Ann", "Bea")
    ... ]
    >>> print(name_worse_terms(ErrorsByTerm(0.5, 0.95, {"false_positive_rate": every}, terms)))
    "Ann" (names), also "Bea"
    """
    by_identity: dict[str, list[TermErrors]] = {}
    for term in chain.from_iterable(map(errors.list_worse_terms, errors.numbers)):
        terms = by_identity.setdefault(term.subgroup, [])
        terms += [] if term in terms else [term]
    return "; ".join("".join(_format_terms(terms)) for terms in by_identity.values())


def _select_terms(terms: Iterable[TermErrors], identity: str | None) -> list[TermErrors]:
    return [term for term in terms if identity in {None, term.subgroup}]


def _format_terms(terms: Sequence[TermErrors]) -> tuple[str, str]:
    """Return the first term with its identity, and a list of the other terms."""
    names = [escape_invisible(term.term) for term in terms]
    shortened = [
        name if len(name) <= _MAX_LETTERS else f"{name[:_MAX_LETTERS]}..." for name in names
    ]
    first, *others = dict.fromkeys(f'"{name}"' for name in shortened)
    also = f", also {shorten_names(others)}" if others else ""
    return f"{first} ({escape_invisible(terms[0].subgroup)})", also


def _format_percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.1f}"


def shorten_names(names: Sequence[str], most: int = _MAX_NAMES) -> str:
    """Return the first names, and the number of the others."""
    first, more = ", ".join(names[:most]), len(names) - most
    return first if more <= 0 else f"{first} and {more:,} more"


def group_names(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs of name and text by text, and return the names of each text."""
    names_by_text: dict[str, list[str]] = {}
    for name, text in pairs:
        names_by_text.setdefault(text, []).append(name)
    return names_by_text


def join_names(names: Iterable[str], word: str) -> str:
    """Return the first names as an enumeration, with a word before the last name."""
    all_names = list(map(escape_invisible, names))
    shown = all_names[:_MAX_NAMES]
    shown += [f"{len(all_names) - _MAX_NAMES:,} more"] if len(all_names) > _MAX_NAMES else []
    *first, last = shown
    return f"{', '.join(first)} {word} {last}" if first else last
