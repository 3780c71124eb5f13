"""Which texts mention which identity: matches whole words in every script and ignores case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import JsonValue

from biasgate.tasks.data.evaluation_set import IDENTITY, TERMS
from biasgate.tasks.data.near_words import NearTerms, NearWords, stem
from biasgate.tasks.data.scripts import (
    border_after,
    border_before,
    enclitics,
    folded,
    folded_parts,
    has_borders,
    proclitics,
    spellings,
    words_of,
)

Matching = Literal["longest", "overlap"]
_PART = "*"


class TermMatcher:
    """Finds identity terms in texts.

    Texts and terms are compared in the normal form of `biasgate.tasks.data.scripts`, and terms are
    whole words where their script has borders of words. Articles, conjunctions, prepositions,
    particles and plurals may stand before or after a word in scripts that write them together. A
    `*` at an end of a term says that the word may go on there: `*frau*` is found in *Hausfrauen*.

    Parameters
    ----------
    terms : mapping of str to sequence of str
        The terms of each identity.
    matching : {"longest", "overlap"}
        `longest` counts `african american` only for the longest term that matches there;
        `overlap` also counts it for `african` and `american`.

    Raises
    ------
    ValueError
        If an identity has no terms, or an empty one, which would match everywhere.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]], matching: Matching = "longest") -> None:
        self._listed = [[(form, _read_term(form)) for form in forms] for forms in terms.values()]
        if not all(forms and all(term.core for _, term in forms) for forms in self._listed):
            msg = "every identity must have terms, and none may be empty"
            raise ValueError(msg)
        self.identities = list(terms)
        self.matching = matching
        self._owners: dict[_Term, list[int]] = {}
        self._forms: dict[_Term, str] = {}
        for position, forms in enumerate(self._listed):
            for form, term in forms:
                self._forms.setdefault(term, form)
                owners = self._owners.setdefault(term, [])
                owners += [] if position in owners else [position]
        self._codes = {term: code for code, term in enumerate(self._owners)}
        self._unmatched = set(self._owners)
        self._spans = _Spans(self._owners)
        self._in_words = _Spans(term for term in self._owners if term.may_be_in_words)
        self._words: dict[str, list[_Term]] = {}
        for term, word in _written(term for term in self._owners if term.is_word):
            self._words.setdefault(word, []).append(term)
        for word, known in self._words.items():
            # As one of the listed words rather than as another one with something attached.
            self._words[word] = known[:1] if matching == "longest" else list(dict.fromkeys(known))
        phrases = [term for term in self._owners if not term.is_word and not term.may_be_in_words]
        self._openings = {words_of(opening)[0] for _, opening in _written(phrases)}
        self._known = self._openings.union(self._words)
        beginnings: dict[str, list[int]] = {}
        for term, owners in self._owners.items():
            if term.is_word:
                for before in proclitics(term.core[0]):
                    beginnings.setdefault(before + stem(term.core), []).extend(owners)
        self._near = NearWords(beginnings, self._words)

    def mentions(self, texts: Sequence[str]) -> np.ndarray:
        """Return which texts mention which identity."""
        return self._mentions_of(list(self._each_terms(texts)))

    def columns(self, texts: Sequence[str]) -> dict[str, pa.Array]:
        """Return columns of frozen rows: which texts mention each identity, and by which terms."""
        terms = list(self._each_terms(texts))
        mentions = self._mentions_of(terms).T.astype(np.float64, order="C")
        names = [IDENTITY + name for name in self.identities]
        columns = dict(zip(names, map(pa.array, mentions), strict=True))
        codes = [sorted({self._codes[term] for term in of_text}) for of_text in terms]
        return columns | {TERMS: pa.array(codes, pa.list_(pa.int32()))}

    def coded(self) -> list[JsonValue]:
        """Return each term by its code in `columns`: as it is listed, and of which identities."""
        return [
            [self._forms[term], [self.identities[owner] for owner in owners]]
            for term, owners in self._owners.items()
        ]

    def _each_terms(self, texts: Sequence[str]) -> Iterator[list[_Term]]:
        """Yield the terms of each text; count words like them, and the terms that were found."""
        for text in map(folded, texts):
            words = words_of(text) if self._known else []
            terms = self._terms_in(text, words)
            self._unmatched.difference_update(terms)
            if self._near.wants_next():
                self._near.look(words, {owner for term in terms for owner in self._owners[term]})
            yield terms

    def _mentions_of(self, terms: Sequence[Iterable[_Term]]) -> np.ndarray:
        pairs = [
            (row, owner)
            for row, of_text in enumerate(terms)
            for term in of_text
            for owner in self._owners[term]
        ]
        mentions = np.zeros((len(terms), len(self.identities)), dtype=np.bool_)
        rows, owners = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        mentions[rows, owners] = True
        return mentions

    def _terms_in(self, text: str, words: list[str]) -> list[_Term]:
        """Return the terms of a text. Most texts can have words alone, and need no pattern."""
        hits = self._known.intersection(words)
        if self._openings.isdisjoint(hits) and not self._in_words.any_in(text):
            return [term for hit in hits for term in self._words[hit]] if hits else []
        if self.matching == "overlap":
            return [term for term in self._owners if term.pattern.search(text)]
        return [term for term, _ in self._spans.each(text)]

    def swapped(self, text: str, rng: np.random.Generator) -> str | None:
        """Return the text with every term replaced by one of another identity.

        Each identity of the text gets another one, everywhere the same. A term is replaced by the
        term at the same place of the other's list (or its first one), so that lists in the same
        order keep plurals. Capitals stay; nothing else of the grammar is regarded.

        Returns
        -------
        str or None
            None if the text has no term, or there is no other identity.
        """
        parts = folded_parts(text)
        ends = np.cumsum([len(part) for part in parts])  # in the normal form, of each character
        others: dict[int, int] = {}
        pieces, last = [], 0
        for term, span in self._spans.each("".join(parts)):
            owner = self._owners[term][0]
            if owner not in others:
                left = [at for at in range(len(self.identities)) if at not in self._owners[term]]
                others[owner] = int(rng.choice(left)) if left else owner
            theirs = self._listed[others[owner]]
            place = [own for _, own in self._listed[owner]].index(term)
            other = theirs[place if place < len(theirs) else 0][0].strip(_PART)
            start = int(np.searchsorted(ends, span[0], "right"))
            end = int(np.searchsorted(ends, span[1] - 1, "right")) + 1
            while end < len(parts) and not parts[end]:
                end += 1
            pieces += [text[last:start], _in_case_of(text[start:end], other)]
            last = end
        swapped = "".join([*pieces, text[last:]])
        return swapped if others and swapped != text else None

    def unmatched(self) -> dict[str, JsonValue]:
        """Return the terms that have not matched any text so far, by identity.

        With `longest`, this includes terms that only occur within longer ones.
        """
        lacking: dict[str, JsonValue] = {
            name: [form for form, term in forms if term in self._unmatched]
            for name, forms in zip(self.identities, self._listed, strict=True)
        }
        return {name: forms for name, forms in lacking.items() if forms}

    def near(self) -> dict[str, NearTerms]:
        """Return the words of the texts that begin like a term and are none, by identity."""
        return self._near.summarize(self.identities)


class _Term(NamedTuple):
    """A term in the normal form."""

    core: str
    """Without `*`."""
    goes_on_before: bool
    goes_on_after: bool
    """Whether `*` stands before it, and after it."""

    @property
    def may_be_in_words(self) -> bool:
        """Whether it may stand where words have no border, or has no words."""
        ends = has_borders(self.core[0]) and has_borders(self.core[-1])
        return not ends or self.goes_on_before or self.goes_on_after or not words_of(self.core)

    @property
    def is_word(self) -> bool:
        """Whether it is one whole word."""
        return not self.may_be_in_words and words_of(self.core) == [self.core]

    @property
    def edges(self) -> tuple[str, str]:
        """What must stand before and after it."""
        before = "" if self.goes_on_before else border_before(self.core[0])
        after = "" if self.goes_on_after else border_after(self.core[-1])
        return before + _either(proclitics(self.core[0])), _either(enclitics(self.core[-1])) + after

    @property
    def cores(self) -> tuple[str, ...]:
        """How it may be spelt."""
        return tuple(dict.fromkeys(filter(str.strip, spellings(self.core))))

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of this term alone."""
        return _pattern_of(self)


def _read_term(written: str) -> _Term:
    bare = written.strip()
    before, after = bare.startswith(_PART), bare.endswith(_PART)
    if bare == _PART:
        before = after = False
    core = bare[before : len(bare) - after]
    return _Term(" ".join(folded(core).split()), before, after)


class _Spans:
    """Where terms stand in a text; of those that begin at one place, the longest."""

    def __init__(self, terms: Iterable[_Term]) -> None:
        alike: dict[tuple[str, str], list[_Term]] = {}
        for term in terms:
            alike.setdefault(term.edges, []).append(term)
        self._alike = list(alike.values())
        cores = [{core for term in known for core in term.cores} for known in self._alike]
        self._patterns = [_pattern(edges, of) for edges, of in zip(alike, cores, strict=True)]
        # A pattern that begins with a letter is searched much faster than one with a border.
        self._plain = [_pattern(("", ""), of) for of in cores]
        self._term_of = lru_cache(4096)(self._find_term)

    def any_in(self, text: str) -> bool:
        """Whether a text has one of the terms."""
        return any(
            plain.search(text) and pattern.search(text)
            for plain, pattern in zip(self._plain, self._patterns, strict=True)
        )

    def each(self, text: str) -> Iterator[tuple[_Term, tuple[int, int]]]:
        """Yield each term of a text, and where it begins and ends; only equal ones overlap."""
        kinds = [kind for kind, plain in enumerate(self._plain) if plain.search(text)]
        if len(kinds) == 1:
            for match in self._patterns[kinds[0]].finditer(text):
                yield self._term_of(kinds[0], match[1]), match.span(1)
            return
        at = 0
        while found := [
            (kind, first) for kind in kinds if (first := self._patterns[kind].search(text, at))
        ]:
            start, end = min((first.start(), -first.end()) for _, first in found)
            for kind, first in found:
                if first.span() == (start, -end):
                    yield self._term_of(kind, first[1]), first.span(1)
            at = -end

    def _find_term(self, kind: int, core: str) -> _Term:
        """Return the term that is written so, rather as it is listed."""
        known, bare = self._alike[kind], " ".join(core.split())
        exact = [term for term in known if term.core == bare]
        return (exact or [term for term in known if term.pattern.fullmatch(core)])[0]


@lru_cache(4096)
def _pattern_of(term: _Term) -> re.Pattern[str]:
    return _pattern(term.edges, term.cores)


def _pattern(edges: tuple[str, str], cores: Iterable[str]) -> re.Pattern[str]:
    """Compile the pattern of terms; between their words are any space and attached parts."""
    before, after = edges
    patterns = []
    for core in sorted(cores, key=lambda core: (-len(core), core)):
        first, *others = core.split()
        words = [rf"\s+{_either(proclitics(word[0]))}{re.escape(word)}" for word in others]
        patterns.append(re.escape(first) + "".join(words))
    return re.compile(f"{before}({'|'.join(patterns)}){after}")


def _either(parts: Sequence[str]) -> str:
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else ""


def _written(terms: Iterable[_Term]) -> Iterator[tuple[_Term, str]]:
    """Yield how terms may be written: as listed; then otherwise spelt, with what is attached."""
    known = list(terms)
    yield from ((term, term.core) for term in known)
    for term in known:
        for core in term.cores:
            for before, after in product(proclitics(core[0]), enclitics(core[-1])):
                yield term, before + core + after


def _in_case_of(model: str, word: str) -> str:
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
