"""What a whole page says: of one candidate on one set, or of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.common.outcomes import word_of
from biasgate.tasks.measuring.cautions import unmeasured
from biasgate.tasks.records import Choices, Details, Report, Summary, Verdict
from biasgate.tasks.reporting.page.grids import Grid, shown_rows, side_by_side
from biasgate.tasks.reporting.page.numbers import count
from biasgate.tasks.reporting.page.parts import Part, describe
from biasgate.tasks.reporting.page.texts import Quoted

_LICENCES = {
    "civil_comments": "Civil Comments, published by Jigsaw under CC0 1.0",
    "templates": "phrases that biasgate generated",
}
_NO_LICENCE = "not known to biasgate; ask whoever published the data"
_WORDS = {
    "label_threshold": "a comment is toxic if its label is at least",
    "identity_threshold": "it mentions an identity if the fraction is at least",
    "identity_rows": "comments that were not rated for every identity",
    "background": "an identity is compared with",
    "population": "the verdict is about",
    "n_rows": "comments of the set",
    "n_rows_rated": "comments that were rated for every identity",
    "n_rows_measured": "comments that were measured",
    "confidence": "confidence of each interval",
    "weights": "meaning of the weights",
    "n_clusters": "clusters of comments that are not independent",
    "split": "part of the comments",
}
_MEANINGS = {
    "rated": "are left out",
    "all": "are measured; no rating counts as no mention",
    "outside_subgroup": "all comments that do not mention it",
    "no_identity": "comments that mention no identity",
    "these_rows": "exactly these phrases",
    "probability": "sampling weights",
    "frequency": "how many comments a row stands for",
}


@dataclass(frozen=True)
class Counts:
    """The measured rows that mention an identity, by label."""

    name: str
    n: str
    n_toxic: str
    n_harmless: str


@dataclass(frozen=True)
class SetView:
    """An evaluation set: its rows, and how they were chosen.

    Attributes
    ----------
    name, digest, licence : str
        What it is.
    unrated : str
        How many rows were left out, and why; empty if none were.
    choices : tuple of (str, str)
        In words.
    files : tuple of (str, str)
        The files that it was read from, with their digests.
    counts : tuple of Counts
        By identity, after all rows.
    left_out : str
        A note if some identities are not listed.
    grids : tuple of Grid
        The candidates side by side, for each metric; empty for a single candidate.
    """

    name: str
    digest: str
    licence: str
    unrated: str
    choices: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]
    counts: tuple[Counts, ...]
    left_out: str
    grids: tuple[Grid, ...]


@dataclass(frozen=True)
class Line:
    """The verdict on a candidate, and what became of it."""

    name: str
    status: str
    word: str
    sentence: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes
    ----------
    title : str
        Name of the evaluation, or of the candidate.
    of_evaluation : bool
        Whether it is about a whole evaluation.
    decided_on, policy : str
        The day of the verdicts, and the policy's name.
    status, word : str
        The outcome.
    lines : tuple of Line
        One for each candidate.
    sets : tuple of SetView
        The evaluation sets.
    parts : tuple of Part
        Each candidate on each set.
    models : tuple of str
        Registered models that the verdicts are about.
    versions : tuple of (str, str)
        Of the software.
    """

    title: str
    of_evaluation: bool
    decided_on: str
    policy: str
    status: str
    word: str
    lines: tuple[Line, ...]
    sets: tuple[SetView, ...]
    parts: tuple[Part, ...]
    models: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    @property
    def n_passed(self) -> int:
        """How many candidates passed."""
        return sum(one.status == "pass" for one in self.lines)

    @property
    def has_quotes(self) -> bool:
        """Whether it quotes comments."""
        return any(one.quotes for one in self.parts)

    @property
    def names(self) -> frozenset[str]:
        """Names that others chose, which sentences may quote."""
        found = {self.title, self.policy, *(one.name for one in self.lines)}
        for one in self.sets:
            found |= {one.name, *(row.name for row in one.counts)}
        return frozenset(found)


Judged = tuple[Report, Verdict, Details]


def candidate_page(report: Report, verdict: Verdict, details: Details) -> Page:
    """Return the page of one candidate on one set."""
    part = describe("a", report, verdict, details)
    name = report["candidate"]["name"]
    judged = part.judged
    line = Line(name, judged.status, judged.word, judged.counted, (part,))
    return _page(name, [line], [(report, verdict, details)], of_evaluation=False)


def evaluation_page(
    summary: Summary,
    judged: Mapping[tuple[str, str], Judged],
    quotes: Mapping[tuple[str, str], tuple[Quoted, ...]] = MappingProxyType({}),
) -> Page:
    """Return the page of an evaluation.

    Parameters
    ----------
    summary : mapping
        As in `summary.json`.
    judged : mapping of (str, str) to (Report, Verdict, Details)
        By set and candidate.
    quotes : mapping of (str, str) to tuple of Quoted
        Comments to quote, also by set and candidate; none unless a user asked for them.
    """
    parts = [
        replace(describe(f"p{at}", *one), quotes=quotes.get(place, ()))
        for at, (place, one) in enumerate(judged.items())
    ]
    lines = [
        Line(
            decision["candidate"],
            "reported" if decision["report_only"] else decision["outcome"],
            word_of(decision).text,
            decision["sentence"],
            tuple(one for one in parts if one.candidate == decision["candidate"]),
        )
        for decision in summary["decisions"]
    ]
    return _page(summary["evaluation"], lines, list(judged.values()), of_evaluation=True)


def _page(
    title: str, lines: Sequence[Line], judged: Sequence[Judged], *, of_evaluation: bool
) -> Page:
    by_set: dict[str, list[Judged]] = {}
    for one in judged:
        by_set.setdefault(one[0]["evaluation_set"]["name"], []).append(one)
    statuses = [one.status for one in lines]
    order = ("error", "fail", "insufficient", "reported", "pass")
    worst = next(one for one in order if one in statuses)
    _, verdict, details = judged[0]
    uris = {one["candidate"].get("model", "") for one, _, _ in judged}
    models = {one.removeprefix("models:/").partition("/")[0] for one in uris if one}
    return Page(
        title=title,
        of_evaluation=of_evaluation,
        decided_on=verdict["decided_on"],
        policy=verdict["policy"]["name"],
        status=worst,
        word=next(one.word for one in lines if one.status == worst),
        lines=tuple(lines),
        sets=tuple(_set(ones) for ones in by_set.values()),
        parts=tuple(part for line in lines for part in line.parts),
        models=tuple(sorted(models)),
        versions=(
            ("biasgate", verdict["code"]["version"]),
            *details["versions"].items(),
        ),
    )


def _set(judged: Sequence[Judged]) -> SetView:
    report = judged[0][0]
    evaluation_set, bias = report["evaluation_set"], report["bias"]
    choices, subgroups = evaluation_set["choices"], bias["subgroups"]
    source = choices.get("source", {})
    shown, left_out = shown_rows(subgroups)
    n, n_toxic = bias["overall"]["n"], bias["overall"]["n_positive"]
    numbers = [("all comments", n, n_toxic, n - n_toxic)]
    for name in shown:
        one = subgroups[name]
        numbers.append((name, one["n"], one["n_positive"], one["n_negative"]))
    pairs = [(one, verdict) for one, verdict, _ in judged]
    return SetView(
        name=evaluation_set["name"],
        digest=evaluation_set["digest"],
        licence=_LICENCES.get(str(source.get("source")), _NO_LICENCE),
        unrated=unmeasured(choices) or "",
        choices=tuple(_choices(choices)),
        files=tuple((str(name), str(one)) for name, one in source.get("files", {}).items()),
        counts=tuple(Counts(name, *map(count, found)) for name, *found in numbers),
        left_out=left_out,
        grids=tuple(side_by_side(pairs, one) for one in SUBGROUP_METRICS)
        if len(judged) > 1
        else (),
    )


def _choices(choices: Choices) -> Iterator[tuple[str, str]]:
    for key, words in _WORDS.items():
        value = choices.get(key)
        if value is not None:
            named = key in {"identity_rows", "background", "population", "weights"}
            text = f"{value:,}" if isinstance(value, int) else str(value)
            yield words, _MEANINGS[text] if named else text
