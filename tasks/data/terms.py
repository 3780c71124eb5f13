"""Matcher of identity terms in texts: whole words, in every script, without regard to case."""

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
from biasgate.tasks.data.near_words import NearTerms, NearWordCounter, stem_word
from biasgate.tasks.data.scripts import (
    build_left_boundary,
    build_right_boundary,
    fold_characters,
    fold_text,
    has_word_boundaries,
    list_enclitics,
    list_proclitics,
    list_spellings,
    split_words,
)

Matching = Literal["longest", "overlap"]
_WILDCARD = "*"


class TermMatcher:
    """Matcher of identity terms in texts.

    Texts and terms are compared in the normal form of `biasgate.tasks.data.scripts`. Terms match
    whole words if their script has word boundaries. In scripts that attach articles, conjunctions,
    prepositions, particles or plurals to a word, a term also matches with them. A `*` at an end of
    a term matches the rest of a word: `*frau*` matches *Hausfrauen*.

    Parameters
    ----------
    terms : mapping of str to sequence of str
        Terms by identity.
    matching : {"longest", "overlap"}
        `longest` counts `african american` only for the longest term that matches there;
        `overlap` also counts it for `african` and `american`.

    Raises
    ------
    ValueError
        If an identity lacks terms, or has an empty term, which would match everywhere.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]], matching: Matching = "longest") -> None:
        self._listed = [[(form, _parse_term(form)) for form in forms] for forms in terms.values()]
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
        self._scanner = _TermScanner(self._owners)
        self._partial_scanner = _TermScanner(term for term in self._owners if term.can_be_in_words)
        self._words: dict[str, list[_Term]] = {}
        for term, word in _list_written_forms(term for term in self._owners if term.is_word):
            self._words.setdefault(word, []).append(term)
        for word, candidates in self._words.items():
            # Listed words come first, before other terms with clitics that give the same word.
            unique = list(dict.fromkeys(candidates))
            self._words[word] = unique[:1] if matching == "longest" else unique
        phrases = [term for term in self._owners if not term.is_word and not term.can_be_in_words]
        self._openings = {split_words(opening)[0] for _, opening in _list_written_forms(phrases)}
        self._known_words = self._openings.union(self._words)
        beginnings: dict[str, list[int]] = {}
        for term, owners in self._owners.items():
            if term.is_word:
                for before in list_proclitics(term.core[0]):
                    beginnings.setdefault(before + stem_word(term.core), []).extend(owners)
        self._near_words = NearWordCounter(beginnings, self._words)

    def mentions(self, texts: Sequence[str]) -> np.ndarray:
        """Return the mask of mentions, shape (n_texts, n_identities)."""
        return self._build_mentions(list(self._find_terms(texts)))

    def build_columns(self, texts: Sequence[str]) -> dict[str, pa.Array]:
        """Return columns for frozen rows: mentions by identity, and the matched terms."""
        terms = list(self._find_terms(texts))
        mentions = self._build_mentions(terms).T.astype(np.float64, order="C")
        names = [IDENTITY + name for name in self.identities]
        columns = dict(zip(names, map(pa.array, mentions), strict=True))
        codes = [sorted({self._codes[term] for term in text_terms}) for text_terms in terms]
        return columns | {TERMS: pa.array(codes, pa.list_(pa.int32()))}

    def list_coded_terms(self) -> list[JsonValue]:
        """Return each term as listed, with its identities, in the order of the codes."""
        return [
            [self._forms[term], [self.identities[owner] for owner in owners]]
            for term, owners in self._owners.items()
        ]

    def _find_terms(self, texts: Sequence[str]) -> Iterator[list[_Term]]:
        """Yield a list of terms per text; record matched terms and count similar words."""
        for text in map(fold_text, texts):
            words = split_words(text) if self._known_words else []
            terms = self._match_terms(text, words)
            self._unmatched.difference_update(terms)
            if self._near_words.is_next_counted():
                mentioned = {owner for term in terms for owner in self._owners[term]}
                self._near_words.count_words(words, mentioned)
            yield terms

    def _build_mentions(self, terms: Sequence[Iterable[_Term]]) -> np.ndarray:
        pairs = [
            (row, owner)
            for row, text_terms in enumerate(terms)
            for term in text_terms
            for owner in self._owners[term]
        ]
        mentions = np.zeros((len(terms), len(self.identities)), dtype=np.bool_)
        rows, owners = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        mentions[rows, owners] = True
        return mentions

    def _match_terms(self, text: str, words: list[str]) -> list[_Term]:
        """Return the terms of a text; search for patterns only if looking up words can miss any."""
        hits = self._known_words.intersection(words)
        if self._openings.isdisjoint(hits) and not self._partial_scanner.has_term(text):
            return [term for hit in hits for term in self._words[hit]] if hits else []
        if self.matching == "overlap":
            return [term for term in self._owners if term.pattern.search(text)]
        return [term for term, _ in self._scanner.find_spans(text)]

    def swap_terms(self, text: str, rng: np.random.Generator) -> str | None:
        """Replace every term of a text with a term of another identity.

        Each identity is replaced with a random other identity, the same throughout the text. The
        new term is at the same index of the other's list, or its first term. Lists in the same
        order thus keep plurals. Capitals are kept; other grammar is ignored.

        Returns
        -------
        str or None
            None if the text contains no term, or if all identities share its terms.
        """
        parts = fold_characters(text)
        ends = np.cumsum([len(part) for part in parts])  # of each character, in the normal form
        replacements: dict[int, int] = {}
        pieces, position = [], 0
        for term, span in self._scanner.find_spans("".join(parts)):
            owner = self._owners[term][0]
            if owner not in replacements:
                others = [i for i in range(len(self.identities)) if i not in self._owners[term]]
                replacements[owner] = int(rng.choice(others)) if others else owner
            forms = self._listed[replacements[owner]]
            index = [listed for _, listed in self._listed[owner]].index(term)
            replacement = forms[index if index < len(forms) else 0][0].strip(_WILDCARD)
            start = int(np.searchsorted(ends, span[0], "right"))
            end = int(np.searchsorted(ends, span[1] - 1, "right")) + 1
            while end < len(parts) and not parts[end]:
                end += 1
            pieces += [text[position:start], _match_case(text[start:end], replacement)]
            position = end
        result = "".join([*pieces, text[position:]])
        return result if replacements and result != text else None

    def list_unmatched(self) -> dict[str, JsonValue]:
        """Return the terms without a match in any text so far, by identity.

        With `longest`, this includes terms that only occur within longer terms.
        """
        terms: dict[str, JsonValue] = {
            name: [form for form, term in forms if term in self._unmatched]
            for name, forms in zip(self.identities, self._listed, strict=True)
        }
        return {name: forms for name, forms in terms.items() if forms}

    def summarize_near_words(self) -> dict[str, NearTerms]:
        """Return the counts of unlisted words that begin like terms, by identity."""
        return self._near_words.summarize(self.identities)


class _Term(NamedTuple):
    """A term in the normal form."""

    core: str
    """The term without `*`."""
    is_open_before: bool
    is_open_after: bool
    """True if the term begins, or ends, with `*`."""

    @property
    def can_be_in_words(self) -> bool:
        """True if it may match inside of a word, or contains no word characters."""
        ends = has_word_boundaries(self.core[0]) and has_word_boundaries(self.core[-1])
        return not ends or self.is_open_before or self.is_open_after or not split_words(self.core)

    @property
    def is_word(self) -> bool:
        """True if it is a single whole word."""
        return not self.can_be_in_words and split_words(self.core) == [self.core]

    @property
    def edges(self) -> tuple[str, str]:
        """Patterns of the text before and after it."""
        before = "" if self.is_open_before else build_left_boundary(self.core[0])
        after = "" if self.is_open_after else build_right_boundary(self.core[-1])
        proclitics = _join_alternatives(list_proclitics(self.core[0]))
        enclitics = _join_alternatives(list_enclitics(self.core[-1]))
        return before + proclitics, enclitics + after

    @property
    def cores(self) -> tuple[str, ...]:
        """Its spellings."""
        return tuple(dict.fromkeys(filter(str.strip, list_spellings(self.core))))

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of this term only."""
        return _compile_term(self)


def _parse_term(text: str) -> _Term:
    text = text.strip()
    before, after = text.startswith(_WILDCARD), text.endswith(_WILDCARD)
    if text == _WILDCARD:
        before = after = False
    core = text[before : len(text) - after]
    return _Term(" ".join(fold_text(core).split()), before, after)


class _TermScanner:
    """Search for terms in a text; if several begin at the same position, the longest matches."""

    def __init__(self, terms: Iterable[_Term]) -> None:
        groups: dict[tuple[str, str], list[_Term]] = {}
        for term in terms:
            groups.setdefault(term.edges, []).append(term)
        self._groups = list(groups.values())
        cores = [{core for term in group for core in term.cores} for group in self._groups]
        self._patterns = [
            _compile_pattern(edges, group) for edges, group in zip(groups, cores, strict=True)
        ]
        # Searching a pattern that begins with a letter is much faster than with a boundary.
        self._plain_patterns = [_compile_pattern(("", ""), group) for group in cores]
        self._get_term = lru_cache(4096)(self._find_term)

    def has_term(self, text: str) -> bool:
        """Check if a text contains any of the terms."""
        return any(
            plain.search(text) and pattern.search(text)
            for plain, pattern in zip(self._plain_patterns, self._patterns, strict=True)
        )

    def find_spans(self, text: str) -> Iterator[tuple[_Term, tuple[int, int]]]:
        """Yield each term of a text with its start and end; only equal spans overlap."""
        kinds = [kind for kind, plain in enumerate(self._plain_patterns) if plain.search(text)]
        if len(kinds) == 1:
            for match in self._patterns[kinds[0]].finditer(text):
                yield self._get_term(kinds[0], match[1]), match.span(1)
            return
        position = 0
        while matches := [
            (kind, first)
            for kind in kinds
            if (first := self._patterns[kind].search(text, position))
        ]:
            start, negative_end = min((match.start(), -match.end()) for _, match in matches)
            for kind, match in matches:
                if match.span() == (start, -negative_end):
                    yield self._get_term(kind, match[1]), match.span(1)
            position = -negative_end

    def _find_term(self, kind: int, core: str) -> _Term:
        """Return the term with this spelling; a term listed with it has priority."""
        terms, spelling = self._groups[kind], " ".join(core.split())
        exact = [term for term in terms if term.core == spelling]
        return (exact or [term for term in terms if term.pattern.fullmatch(core)])[0]


@lru_cache(4096)
def _compile_term(term: _Term) -> re.Pattern[str]:
    return _compile_pattern(term.edges, term.cores)


def _compile_pattern(edges: tuple[str, str], cores: Iterable[str]) -> re.Pattern[str]:
    """Compile the pattern of terms; any whitespace and clitics may be between their words."""
    before, after = edges
    patterns = []
    for core in sorted(cores, key=lambda core: (-len(core), core)):
        first, *others = core.split()
        pattern = re.escape(first)
        for word in others:
            pattern += rf"\s+{_join_alternatives(list_proclitics(word[0]))}{re.escape(word)}"
        patterns.append(pattern)
    return re.compile(f"{before}({'|'.join(patterns)}){after}")


def _join_alternatives(parts: Sequence[str]) -> str:
    return f"(?:{'|'.join(parts)})" if len(parts) > 1 else ""


def _list_written_forms(terms: Iterable[_Term]) -> Iterator[tuple[_Term, str]]:
    """Yield the written forms of terms: first as listed, then other spellings with clitics."""
    listed = list(terms)
    yield from ((term, term.core) for term in listed)
    for term in listed:
        for core in term.cores:
            for before, after in product(list_proclitics(core[0]), list_enclitics(core[-1])):
                yield term, before + core + after


def _match_case(model: str, word: str) -> str:
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
