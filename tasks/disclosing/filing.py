"""Filing files: a provider's description of a labelled sample for a transparency report."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from biasgate.tasks.common.settings import Name, Settings, SliceName
from biasgate.tasks.common.yaml_files import read_settings

OFFICIAL_LANGUAGES = (
    *("bg", "es", "cs", "da", "de", "et", "el", "en", "fr", "ga", "hr", "it"),
    *("lv", "lt", "hu", "mt", "nl", "pl", "pt", "ro", "sk", "sl", "fi", "sv"),
)
"""The official languages of the Union."""
Applicability = Literal["Total number", "Own-initiative", "NAM Total", "NAM Trusted Flagger"]
APPLIES_TO: dict[Applicability, str] = {
    "Total number": "All",
    "Own-initiative": "All",
    "NAM Total": "Only for providers of hosting services, including online platforms",
    "NAM Trusted Flagger": "Only for providers of online platforms",
}
"""Scopes of the form, with the providers to which each applies."""
FilingText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
_LANGUAGES = frozenset(
    (
        *("aa", "ab", "ae", "af", "ak", "am", "an", "ar", "as", "av", "ay", "az", "ba", "be"),
        *("bg", "bi", "bm", "bn", "bo", "br", "bs", "ca", "ce", "ch", "co", "cr", "cs"),
        *("cu", "cv", "cy", "da", "de", "dv", "dz", "ee", "el", "en", "eo", "es", "et", "eu"),
        *("fa", "ff", "fi", "fj", "fo", "fr", "fy", "ga", "gd", "gl", "gn", "gu", "gv", "ha"),
        *("he", "hi", "ho", "hr", "ht", "hu", "hy", "hz", "ia", "id", "ie", "ig", "ii", "ik"),
        *("io", "is", "it", "iu", "ja", "jv", "ka", "kg", "ki", "kj", "kk", "kl", "km", "kn"),
        *("ko", "kr", "ks", "ku", "kv", "kw", "ky", "la", "lb", "lg", "li", "ln", "lo", "lt"),
        *("lu", "lv", "mg", "mh", "mi", "mk", "ml", "mn", "mr", "ms", "mt", "my", "na", "nb"),
        *("nd", "ne", "ng", "nl", "nn", "no", "nr", "nv", "ny", "oc", "oj", "om", "or", "os"),
        *("pa", "pi", "pl", "ps", "pt", "qu", "rm", "rn", "ro", "ru", "rw", "sa", "sc", "sd"),
        *("se", "sg", "sh", "si", "sk", "sl", "sm", "sn", "so", "sq", "sr", "ss", "st", "su"),
        *("sv", "sw", "ta", "te", "tg", "th", "ti", "tk", "tl", "tn", "to", "tr", "ts", "tt"),
        *("tw", "ty", "ug", "uk", "ur", "uz", "ve", "vi", "vo", "wa", "wo", "xh", "yi", "yo"),
        *("za", "zh", "zu"),
    )
)
# Codes of three letters for languages with a code of two letters in the form.
_LONG_CODES = frozenset(
    (
        *("bul", "spa", "ces", "cze", "dan", "deu", "ger", "est", "ell", "gre", "eng", "fra"),
        *("fre", "gle", "hrv", "ita", "lav", "lit", "hun", "mlt", "nld", "dut", "pol", "por"),
        *("ron", "rum", "slk", "slo", "slv", "fin", "swe"),
    )
)
_FEWEST_LETTERS = 4


def _check_language(code: str) -> str:
    main, _, region = code.partition("-")
    is_known = len(main) > len("de") or main in _LANGUAGES
    if not is_known or main in _LONG_CODES or (region and main in OFFICIAL_LANGUAGES):
        msg = f"must be a code of ISO 639 such as de, without a region; got {code!r}"
        raise ValueError(msg)
    return code


def _check_words(text: str) -> str:
    if sum(map(str.isalpha, text)) < _FEWEST_LETTERS:
        msg = f"must be in words, for readers of the filing; got {text!r}"
        raise ValueError(msg)
    return text


Language = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$"),
    AfterValidator(_check_language),
]
FilingWords = Annotated[FilingText, AfterValidator(_check_words)]
_NO_RULE = (
    "must be given: without the rule by which comments were drawn, the numbers cannot be "
    "interpreted. Write `sampling: {kind: random, rule: ..., population: ..., labels: ...}`"
)


class Period(Settings):
    """A reporting period."""

    start: dt.date = Field(alias="from")
    end: dt.date = Field(alias="to")
    """First and last day."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.end < self.start:
            msg = f"`from` must not be later than `to`; got {self.start} and {self.end}"
            raise ValueError(msg)
        return self

    @property
    def text(self) -> str:
        """The period in the format of the form."""
        return f"{self.start.isoformat()}/{self.end.isoformat()}"


class Sampling(Settings):
    """Origin of the labelled comments."""

    kind: Literal["random", "constructed"]
    """`random`: drawn from the service with known probabilities; weights of the set are their
    inverse. `constructed`: a test suite, which does not measure how often the service errs."""
    rule: FilingWords
    """Rule of the draw, as in "every 400th comment of the period, whatever was decided"."""
    population: FilingWords
    """Comments from which the sample was drawn."""
    labels: FilingWords
    """Description of the labellers, and if they saw the classifier's decision."""


class Appeals(Settings):
    """Decisions contested by users, for comparison with the sample."""

    decisions: Annotated[int, Field(gt=0)]
    """Comments on which the classifier acted."""
    overturned: Annotated[int, Field(ge=0)]
    """Decisions that were reversed."""

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.overturned > self.decisions:
            msg = f"`overturned` must be at most `decisions`; got {self.overturned:,}"
            raise ValueError(msg)
        return self

    @property
    def upheld(self) -> float:
        """Share of decisions that were not reversed, sometimes reported as accuracy."""
        return 1 - self.overturned / self.decisions


class Recall(Settings):
    """Recall of an identity's terms, on comments labelled by people.

    Of `of` comments that mention the identity, the terms find `found`.
    """

    found: Annotated[int, Field(ge=0)]
    of: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.of == 0:
            msg = (
                "`of` must be at least 1, the number of comments in which people found the "
                "identity; got 0. Have people read more, or label identities"
            )
            raise ValueError(msg)
        if self.found > self.of:
            msg = f"`found` must be at most `of`; got {self.found:,} of {self.of:,}"
            raise ValueError(msg)
        return self


class FiledClassifier(Settings):
    """A candidate in use."""

    purpose: FilingText | None = None
    """Use of the classifier."""
    threshold: float | None = None
    """Lowest score that is flagged. Default: `threshold` of the candidate."""
    appeals: Appeals | None = None


class Filing(Settings):
    """Content of a filing file."""

    service: FilingText
    """Name of the service in the form."""
    period: Period
    scope: Applicability = "Total number"
    """Scope of the form that the sample covers."""
    evaluation_set: Name | None = None
    """Evaluation set of the sample. Default: the only set of the results."""
    sampling: Sampling
    ground_truth: Literal["labels", "appeals"] = "labels"
    """Ground truth of decisions: labels by people. `appeals` is refused, with an explanation."""
    classifiers: dict[Name, FiledClassifier] = Field(default_factory=dict)
    """Candidates in use. Default: all of the results."""
    language: Language | None = None
    """Language of the sample, if it has a single language."""
    languages: dict[SliceName, Language] = Field(default_factory=dict)
    """Languages by `slices` of the set, as in `{german: de}`, for rows of very large platforms."""
    surfaces: list[SliceName] = Field(default_factory=list)
    """Further slices of the set for Part 11, such as comments and profiles."""
    recall_of_terms: dict[str, Recall] = Field(default_factory=dict)
    """Recall of terms, by identity, for identities that are found by terms."""
    not_measured: list[FilingText] = Field(default_factory=list)
    """Content that the sample does not cover: images, audio, other languages."""

    @model_validator(mode="before")
    @classmethod
    def _require_sampling(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value.get("sampling"):
            msg = f"`sampling` {_NO_RULE}"
            raise ValueError(msg)
        return value

    @field_validator("classifiers", mode="before")
    @classmethod
    def _map_names(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {name: {} for name in value if isinstance(name, str)}
        if isinstance(value, dict):
            return {name: entry or {} for name, entry in value.items()}
        return value

    @model_validator(mode="after")
    def _check_languages(self) -> Self:
        if self.language is not None and self.languages:
            msg = "give `language` of the whole sample, or `languages` of its slices, not both"
            raise ValueError(msg)
        codes = list(self.languages.values())
        if duplicates := sorted({code for code in codes if codes.count(code) > 1}):
            msg = f"`languages` must name each language once; {duplicates[0]} is given twice"
            raise ValueError(msg)
        return self


def read_filing(path: Path) -> Filing:
    """Read a filing file.

    Raises
    ------
    InputError
        If values are missing or wrong; lists every wrong key.
    """
    return read_settings(path.resolve(), Filing)
