"""Part 8 rows and the text of Part 11 for transparency reports under the Digital Services Act.

The form is Annex I of Commission Implementing Regulation (EU) 2024/2835. This helps whoever files;
it is no legal advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from bias_metrics import MetricValue
from bias_metrics.parts import wilson_interval
from bias_metrics.thresholds import GroupIndicators
from biasgate.tasks.common.csv_files import format_csv
from biasgate.tasks.common.files import whole_file, write_json
from biasgate.tasks.common.markdown import escape_markdown, format_table_row
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.disclosing.classifiers import (
    CONFIDENCE,
    Classifier,
    classifiers_of,
    left_out,
    overstatement,
    percent,
)
from biasgate.tasks.disclosing.filing import (
    APPLIES_TO,
    OFFICIAL_LANGUAGES,
    Filing,
    Recall,
    Sampling,
)
from biasgate.tasks.reporting.results import Results
from biasgate.tasks.wording import get_verdict_words, list_exception_lines

COLUMNS = (
    *("Applicability", "Service", "Reporting period", "Section", "Indicator", "Scope", "Value"),
    "Contextual Information",
)
"""The columns of the form."""
SECTION = "Use of automated means for content moderation"
INDICATOR = "Accuracy of the automated means - {}"
ASKED = ("accuracy", "precision", "recall")
PART_8, PART_11, NUMBERS = "part8.csv", "part11.md", "transparency.json"
REHEARSAL = "part8_not_for_filing.csv"
_LARGE = "Only for VLOPs"
_Z = 1.959963984540054
_LEVEL = f"{100 * CONFIDENCE:g}%"

NO_ADVICE = (
    "biasgate computed this from a labelled sample. It supports the filing and is not legal "
    "advice: the provider decides what the form requires, and whether this meets it."
)
_CONSTRUCTED = (
    "NOT FOR FILING: the comments are a test suite, not a sample of the service. Its shares, above "
    "all accuracy and precision, do not describe the service."
)
_RATES = {
    "recall": "recall (true positive rate): the share of toxic comments that is flagged",
    "true_negative_rate": "specificity (true negative rate): the share of non-toxic comments that "
    "is not flagged",
    "precision": "precision (positive predictive value): the share of flagged comments that is "
    "toxic",
    "negative_predictive_value": "negative predictive value: the share of unflagged comments that "
    "is not toxic",
    "false_negative_rate": "miss rate (false negative rate): the share of toxic comments that is "
    "not flagged",
    "false_positive_rate": "fall-out (false positive rate): the share of non-toxic comments that "
    "is flagged",
    "false_discovery_rate": "false discovery rate: the share of flagged comments that is not toxic",
    "false_omission_rate": "false omission rate: the share of unflagged comments that is toxic",
}
"""The rates that the form's instructions name, in words."""
_SHORT = ("TPR", "TNR", "PPV", "NPV", "FNR", "FPR", "FDR", "FOR")
# By the share of right decisions: what it means if wrong ones are shown to be apart.
_APART = {
    "true_negative_rate": "non-toxic comments that mention {group} are flagged {side}",
    "recall": "toxic comments that mention {group} are missed {side}",
    "precision": "a {share} share of the flagged comments that mention {group} is not toxic",
    "negative_predictive_value": "a {share} share of the unflagged comments that "
    "mention {group} is toxic",
    "accuracy": "decisions on comments that mention {group} are wrong {side}",
}


@dataclass(frozen=True)
class Transparency:
    """What was written."""

    files: Sequence[Path]
    """Part 8, Part 11 and all numbers."""
    sentences: Sequence[str]
    """What whoever files must know."""


def write_transparency(results: Results, filing: Filing, output: Path) -> Transparency:
    """Write Part 8 rows, the text of Part 11, and every number as JSON.

    Rows of a test suite get a name that says that they are not to be filed.

    Raises
    ------
    InputError
        If something is missing, or would mislead; with what to do.
    """
    found = classifiers_of(results, filing)
    others = left_out(results, found)
    filed = PART_8 if filing.sampling.kind == "random" else REHEARSAL
    output.mkdir(parents=True, exist_ok=True)
    for old in (PART_8, REHEARSAL):
        (output / old).unlink(missing_ok=True)
    for name, text in (
        # RFC 4180 ends lines so.
        (filed, format_csv(COLUMNS, (row.values() for row in part_8(found, filing)), "\r\n")),
        (PART_11, part_11(found, filing, others)),
    ):
        with whole_file(output / name) as temporary:
            temporary.write_bytes(text.encode())
    write_json(output / NUMBERS, numbers_of(found, filing, others))
    files = [output / name for name in (filed, PART_11, NUMBERS)]
    sentences = [*([_CONSTRUCTED] if filed == REHEARSAL else []), *_others(others), NO_ADVICE]
    return Transparency(files, sentences)


# ---- Part 8


def part_8(found: Sequence[Classifier], filing: Filing) -> list[dict[str, str]]:
    """Return the rows of the form that a sample answers: three for each classifier and scope."""
    rows = []
    for classifier in found:
        for applies, scope, group in _scopes(classifier, filing):
            for name in ASKED:
                share = group.shares[name]
                values = (
                    applies,
                    filing.service,
                    filing.period.text,
                    SECTION,
                    INDICATOR.format(name.capitalize()),
                    scope,
                    "" if share.value is None else f"{share.value:.4f}",
                    _context(classifier, filing, group, name),
                )
                rows.append(
                    dict(
                        zip(
                            COLUMNS,
                            (escape_invisible(" ".join(one.split())) for one in values),
                            strict=True,
                        )
                    )
                )
    return rows


def _scopes(classifier: Classifier, filing: Filing) -> Iterator[tuple[str, str, GroupIndicators]]:
    """Yield whom the form asks, the scope and the numbers."""
    yield APPLIES_TO[filing.scope], filing.scope, classifier.indicators.overall
    if filing.language in OFFICIAL_LANGUAGES:
        yield _LARGE, filing.language, classifier.indicators.overall
    for name, code in filing.languages.items():
        if code in OFFICIAL_LANGUAGES:
            yield _LARGE, code, classifier.slices[name]


def _context(classifier: Classifier, filing: Filing, group: GroupIndicators, name: str) -> str:
    share = group.shares[name]
    says = {
        "accuracy": f"the share of all {group.n:,} comments with the right decision",
        "precision": f"the share of the {group.n_flagged:,} flagged comments that is toxic",
        "recall": f"the share of the {group.n_positive:,} toxic comments that is flagged",
    }
    return " ".join(
        [
            *([_CONSTRUCTED] if filing.sampling.kind == "constructed" else []),
            f"Classifier {classifier.name} ({classifier.version}), which flags a comment if its",
            f"score is at least {classifier.indicators.threshold:g}. {_interval(share)}.",
            f"n = {group.n:,} labelled comments. {name.capitalize()}: {says[name]}.",
            *_sample(filing.sampling),
            *_allowed(classifier),
            f"Evidence SHA-256 {classifier.evidence_digest};",
            f"verdict SHA-256 {classifier.verdict_digest}.",
        ]
    )


def _interval(share: MetricValue) -> str:
    if share.value is None:
        return f"Undefined: {share.reason}"
    if share.low is None or share.high is None:
        return f"No interval: {share.reason}"
    return f"{_LEVEL} interval {share.low:.4f} to {share.high:.4f}"


def _sample(sampling: Sampling) -> Iterator[str]:
    kind = "random sample" if sampling.kind == "random" else "test suite"
    for what, said in (
        (f"Sampling ({kind})", sampling.rule),
        ("Population", sampling.population),
        ("Labels", sampling.labels),
    ):
        yield f"{what}: {said.rstrip('.')}."


def _allowed(classifier: Classifier) -> Iterator[str]:
    if classifier.is_weighted:
        yield "Comments count by their sampling weights."
    if classifier.n_clusters is not None:
        yield (
            f"The comments are from {classifier.n_clusters:,} clusters, such as threads; intervals "
            "account for dependence within clusters."
        )
    if classifier.n_missing:
        yield f"{classifier.n_missing:,} comments without a score are not counted."
    if classifier.n_unrated:
        yield (
            f"{classifier.n_unrated:,} comments are not counted by identity, since their "
            "identities were not rated."
        )


# ---- Part 11


def part_11(found: Sequence[Classifier], filing: Filing, others: Sequence[str] = ()) -> str:
    """Return the text about accuracy and error of automated means, and how they vary."""
    lines = [
        (
            f"# Automated means of {escape_markdown(filing.service)}: accuracy, error and control "
            "groups"
        ),
        "",
        f"Reporting period {filing.period.text}.",
        "",
        escape_markdown(NO_ADVICE),
        "",
        *(
            [f"**{escape_markdown(_CONSTRUCTED)}**", ""]
            if filing.sampling.kind == "constructed"
            else []
        ),
        *_method(filing),
    ]
    for classifier in found:
        lines += ["", *_of_classifier(classifier, filing)]
    lines += ["", *_unmeasured(found, filing, others), "", *_evidence(found)]
    return "\n".join(lines) + "\n"


def _method(filing: Filing) -> Iterator[str]:
    yield "## Method"
    yield ""
    yield from (f"- {escape_markdown(line)}" for line in _sample(filing.sampling))
    yield (
        "- A comment is toxic here if its labellers found it toxic. A classifier flags a comment "
        "if its score is at least its threshold. Only these labels are used as ground truth, not "
        "appeals or other judgements."
    )
    yield (
        f"- Brackets are {_LEVEL} confidence intervals. The share in the whole population may "
        "differ from the share in the sample; about 95 of 100 such samples give an interval that "
        "contains it. Intervals do not account for wrong labels."
    )
    yield "- The rates:"
    for short, words in zip(_SHORT, _RATES.values(), strict=True):
        yield f"  - {short}: {words}."


def _of_classifier(classifier: Classifier, filing: Filing) -> Iterator[str]:
    overall, verdict = classifier.indicators.overall, classifier.published.verdict
    yield f"## {escape_markdown(classifier.name)}"
    yield ""
    if classifier.purpose is not None:
        yield f"{escape_markdown(classifier.purpose)}"
        yield ""
    yield (
        f"This classifier ({escape_markdown(classifier.version)}) flags a comment if its score "
        "is at least "
        f"{classifier.indicators.threshold:g}. Of {overall.n:,} labelled comments "
        f"{overall.n_positive:,} are toxic; it flags {overall.n_flagged:,}. "
        f"{escape_markdown(' '.join(_allowed(classifier)))}"
    ).rstrip()
    yield ""
    groups = {"all comments": overall, **classifier.indicators.subgroups}
    yield "Rates by control group, in percent. A group is the comments that mention an identity."
    yield ""
    yield from _table("control group", groups, dict(zip(_SHORT, _RATES, strict=True)))
    if classifier.slices:
        yield ""
        yield "By language or surface, in percent:"
        yield ""
        named = {
            f"{name} ({filing.languages[name]})" if name in filing.languages else name: group
            for name, group in classifier.slices.items()
        }
        yield from _table("part", named, {name.capitalize(): name for name in ASKED})
    yield ""
    yield from _differences(classifier)
    yield ""
    word = get_verdict_words(verdict)
    yield (
        "The verdict of the deployment gate on this classifier, by policy "
        f"{escape_markdown(verdict.policy.name)} on {verdict.decided_on}: "
        f"{escape_markdown(word.text)}."
    )
    for check in classifier.published.story.unmet:
        yield f"- {escape_markdown(check.word)}: {escape_markdown(check.sentence)}"
    for line in list_exception_lines([verdict]):
        yield f"- {escape_markdown(line)}"
    told = overstatement(classifier)
    if told is not None:
        yield ""
        yield f"Why appeals are not used as ground truth. {escape_markdown(told)}"


def _table(
    what: str, groups: Mapping[str, GroupIndicators], columns: Mapping[str, str]
) -> Iterator[str]:
    yield format_table_row([what, "n", "toxic", *columns])
    yield format_table_row(["---", "--:", "--:", *["--:"] * len(columns)])
    for name, group in groups.items():
        cells = [_percents(group.shares[column]) for column in columns.values()]
        yield format_table_row(
            [escape_markdown(name), f"{group.n:,}", f"{group.n_positive:,}", *cells]
        )


def _percents(share: MetricValue) -> str:
    if share.value is None:
        return f"undefined ({escape_markdown(share.reason or '')})"
    value = f"{100 * share.value:.1f}"
    if share.low is None or share.high is None:
        return f"{value} (no interval)"
    return f"{value} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _differences(classifier: Classifier) -> Iterator[str]:
    n_gaps, groups = classifier.indicators.n_gaps, classifier.indicators.subgroups
    if not groups:
        yield "No control group was measured."
        return
    shown = [
        (group, name, gap)
        for group, numbers in groups.items()
        for name, gap in numbers.gaps.items()
        if gap.low is not None and gap.high is not None and not gap.low <= 0 <= gap.high
    ]
    background = classifier.published.report.bias.background
    others = (
        "comments that mention no measured identity"
        if background == "no_identity"
        else "all comments that do not mention it"
    )
    yield (
        f"Differences between control groups. The comments that mention an identity are compared "
        f"with {others}, by accuracy, recall, specificity, precision and negative predictive "
        f"value: {n_gaps:,} differences. The list has the differences whose interval excludes 0. "
        f"These intervals are simultaneous: all {n_gaps:,} together hold at {_LEVEL} (Bonferroni)."
    )
    yield ""
    for group, name, gap in shown:
        yield f"- {_shown(group, name, groups[group].shares[name], gap)}"
    if not shown:
        yield "- No interval excludes 0."
    yield ""
    yield (
        f"The other {n_gaps - len(shown):,} are not statistically significant, which does not "
        "prove that they are 0: the sample may be too small. Precision and negative predictive "
        "value also depend on how many comments of a group are toxic: groups can differ in them "
        "even if the classifier errs equally often on each."
    )


def _shown(group: str, name: str, own: MetricValue, gap: MetricValue) -> str:
    assert own.value is not None  # noqa: S101
    assert gap.value is not None  # noqa: S101
    assert gap.low is not None  # noqa: S101
    assert gap.high is not None  # noqa: S101
    wrong, others = 1 - own.value, 1 - own.value + gap.value
    more, share = ("more", "larger") if gap.value < 0 else ("less", "smaller")
    text = _APART[name].format(group=escape_markdown(group), side=f"{more} often", share=share)
    low, high = sorted((abs(gap.low), abs(gap.high)))
    return (
        f"{text[0].upper()}{text[1:]}: {percent(wrong)} against {percent(others)}, "
        f"{100 * abs(gap.value):.1f} points {more} [{100 * low:.1f}, {100 * high:.1f}]."
    )


def _others(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield (
            f"Classifiers of the same evaluation that are left out of this filing: "
            f"{', '.join(map(escape_invisible, names))}."
        )


def _unmeasured(found: Sequence[Classifier], filing: Filing, left: Sequence[str]) -> Iterator[str]:
    yield "## What was not measured"
    yield ""
    yield from (f"- {escape_markdown(line)}" for line in _others(left))
    for said in filing.not_measured:
        yield f"- {escape_markdown(said)}"
    languages = [*filing.languages.values(), *filter(None, [filing.language])]
    others = [language for language in languages if language not in OFFICIAL_LANGUAGES]
    if others:
        yield (
            f"- {escape_markdown(', '.join(others))}: not among the official languages of the "
            "Union; "
            "measured here, without rows in Part 8."
        )
    if languages:
        missing = [one for one in OFFICIAL_LANGUAGES if one not in languages]
        yield f"- Official languages without a sample: {', '.join(missing) or 'none'}."
    else:
        yield "- Separate languages: the sample does not record the language of its comments."
    for classifier in found[:1]:
        names = classifier.published.report.bias.subgroups
        yield (
            f"- Any identity except {escape_markdown(', '.join(names)) or 'none'}; and the "
            "authors of the "
            "comments: a control group here is the comments that mention an identity."
        )
        for name, recall in filing.recall_of_terms.items():
            if name in names:
                yield f"- {_recall(name, recall)}"
    intersections = all(
        "intersections" in (classifier.published.report.analyses or {}) for classifier in found
    )
    if not intersections:
        yield "- Intersections of identities."
    yield (
        "- The number of measures or notices processed by automated means: fill these rows of "
        "Part 8 from the service's own records."
    )


def _recall(name: str, recall: Recall) -> str:
    low, high = wilson_interval(recall.found / recall.of, recall.of, _Z)
    return (
        f"Mentions of {escape_markdown(name)} without any of its terms: people found {recall.of:,} "
        f"comments that mention it, and the terms find {recall.found:,} "
        f"({percent(recall.found / recall.of)} [{percent(low)}, {percent(high)}])."
    )


def _evidence(found: Sequence[Classifier]) -> Iterator[str]:
    yield "## Evidence"
    yield ""
    yield "Every number can be recomputed from these files (SHA-256):"
    yield ""
    for classifier in found:
        verdict = classifier.published.verdict
        yield f"- {escape_markdown(classifier.name)}: evidence `{classifier.evidence_digest}`"
        yield f"- {escape_markdown(classifier.name)}: verdict `{classifier.verdict_digest}`"
        yield (
            f"- {escape_markdown(classifier.name)}: labelled comments "
            f"`{verdict.evaluation_set.digest}`"
        )
        yield f"- {escape_markdown(classifier.name)}: policy `{verdict.policy.digest}`"


# ---- All numbers


def numbers_of(
    found: Sequence[Classifier], filing: Filing, others: Sequence[str] = ()
) -> dict[str, JsonValue]:
    """Return what was filed and every number behind it."""
    return {
        "schema_version": 1,
        "filing": filing.model_dump(mode="json", by_alias=True),
        "left_out": list(others),
        "classifiers": {
            classifier.name: {
                "version": classifier.version,
                "evidence_digest": classifier.evidence_digest,
                "verdict_digest": classifier.verdict_digest,
                "n_clusters": classifier.n_clusters,
                "n_missing": classifier.n_missing,
                "n_unrated": classifier.n_unrated,
                "is_weighted": classifier.is_weighted,
                "indicators": classifier.indicators.to_dict(),
                "slices": {name: group.to_dict() for name, group in classifier.slices.items()},
            }
            for classifier in found
        },
    }
