# ruff: noqa: RUF001 - this module is about letters of other scripts
"""Orthography of many scripts: the normal form of texts and terms, and word boundaries.

The normal form is Unicode's NFKC_Casefold (full-width letters, ligatures, case, invisible
characters) with three additions. All apostrophes are the same character. Vowel marks and tatweel of
Arabic and Hebrew are removed. Letters that writers of Arabic, Persian, Urdu and Hindi interchange
are the same letter, as in Lucene. In other scripts a comment may omit an accent of a term, or write
*ae* for *ä*, but not add an accent: *judio* matches *judío*, but *schwül* does not match *schwul*.

A word boundary is between any two characters, unless both are word characters of scripts with
spaces between words. In Han, Kana, Thai, Lao, Khmer, Burmese and similar scripts it is thus
everywhere, except before a combining mark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, product

# Scripts without spaces between words: Thai to Tibetan, Burmese, Khmer, the Tai scripts,
# Balinese, Javanese; radicals, Kana, Bopomofo, Han, Yi.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_UNSPACED_PATTERN = re.compile(f"[{_UNSPACED}]")
_ARABIC = "\u0620-\u065f\u066e-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
# Parts that are written together with the following word, in the normal form.
_PROCLITICS = {
    # and, so; then in, as, to, with or without the article, and this, on, from in dialects
    re.compile(f"[{_ARABIC}]"): (
        ("", "و", "ف"),
        ("", "ال", "بال", "كال", "لال", "هال", "عال", "مال", "لل", "ب", "ك", "ل"),
    ),
    # and; that, when; in, as, to, from; the article
    re.compile("[\u05d0-\u05ea]"): (
        ("", "ו"),
        ("", "ש", "כש", "לכש", "מש"),
        ("", "ב", "כ", "ל", "מ"),
        ("", "ה"),
    ),
}
# Parts that are written together with the preceding word: plurals of Persian, the plural and
# oblique of Hindi after a consonant, the plural and particles of Korean.
_ENCLITICS = {
    re.compile(f"[{_ARABIC}]"): (("", "ها", "هاي"),),
    re.compile("[\u0915-\u0939\u0958-\u095f]"): (("", "ें", "ों", "ो"),),
    re.compile("[\uac00-\ud7a3]"): (
        ("", "들"),
        ("", *"은는이가을를의에와과도로만", "에게", "으로", "에서", "한테", "처럼", "보다"),
    ),
}
_REMOVED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"  # ignored by Unicode
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u08d3-\u08ff"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u093c"
)
_VARIANTS = {
    "'": "’‘ʼ′`´ʹ\u02bb",
    "-": "\u2010",
    "i": "ı",
    "ا": "أإآٱ",
    "و": "ؤ",
    "ي": "ىیئےۓ",
    "ه": "ةۀہھەۂۃ",
    "ك": "ک",
    "\u0902": "\u0901",  # a nasal of Hindi
}
_LETTER_SEQUENCES = {"\u0928\u094d": "\u0902", "i\u0307": "i"}  # the nasal; a Turkish capital
_REPLACEMENTS = {variant: letter for letter, variants in _VARIANTS.items() for variant in variants}
_REPLACEABLE = re.compile(f"[{_REMOVED}{''.join(_REPLACEMENTS)}]")
_NON_JOINER = re.compile(f"(?<=[{_ARABIC}])\u200c")
_STROKED_LETTERS = {"ł": "l", "đ": "d", "ø": "o", "ħ": "h", "ŧ": "t"}
_DIGRAPHS = {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
_NUKTA, _FIRST_ACCENT = 7, 200  # classes of combining marks in Unicode
_MAX_SPELLINGS = 64
_ASCII_WORD = re.compile(r"\w+")


def fold_text(text: str) -> str:
    """Return the normal form of a text."""
    if text.isascii():
        return text.lower()
    if "\u200c" in text:  # Persian separates the parts of a word with it, as in plurals
        text = _NON_JOINER.sub(" ", text)
    text = unicodedata.normalize("NFKC", text).casefold()
    for letters, letter in _LETTER_SEQUENCES.items():
        text = text.replace(letters, letter)
    text, n_changed = _REPLACEABLE.subn(lambda match: _REPLACEMENTS.get(match[0], ""), text)
    return unicodedata.normalize("NFKC", text) if n_changed else text


def fold_characters(text: str) -> list[str]:
    """Return the normal form of a text by its characters, in a list of the same length.

    A letter with marks has its whole normal form at the letter, and empty strings at the marks.
    """
    if text.isascii():
        return list(text.lower())
    parts = []
    for letter in re.finditer(rf"(?s).[{_build_mark_class()}{_REMOVED}\uff9e\uff9f]*", text):
        parts += [fold_text(letter[0]), *[""] * (len(letter[0]) - 1)]
    return parts


def list_spellings(word: str) -> Iterator[str]:
    """Yield the spellings of a term in the normal form: itself first, then without accents."""
    choices = []
    for letter in word:
        forms = [letter, _strip_letter_accents(letter)]
        forms += [table[letter] for table in (_STROKED_LETTERS, _DIGRAPHS) if letter in table]
        choices.append(list(dict.fromkeys(forms)))
    yield from islice(map("".join, product(*choices)), _MAX_SPELLINGS)
    yield "".join(choice[1] if len(choice) > 1 else choice[0] for choice in choices)


def strip_accents(word: str) -> str:
    """Return a word in the normal form, without accents."""
    return word if word.isascii() else "".join(map(_strip_letter_accents, word))


def _strip_letter_accents(letter: str) -> str:
    marks = [(part, unicodedata.combining(part)) for part in unicodedata.normalize("NFD", letter)]
    remaining = [part for part, mark in marks if mark != _NUKTA and mark < _FIRST_ACCENT]
    return unicodedata.normalize("NFC", "".join(remaining))


@cache
def list_proclitics(letter: str) -> tuple[str, ...]:
    """Return the proclitics that may precede a word that begins with this letter.

    The first is the empty string, which is the only proclitic in most scripts.
    """
    return _combine_clitics(_PROCLITICS, letter)


@cache
def list_enclitics(letter: str) -> tuple[str, ...]:
    """Return the enclitics that may follow a word that ends with this letter."""
    return _combine_clitics(_ENCLITICS, letter)


def _combine_clitics(
    scripts: Mapping[re.Pattern[str], Sequence[Sequence[str]]], letter: str
) -> tuple[str, ...]:
    """Return all combinations of the clitics in a letter's script."""
    for script, parts in scripts.items():
        if script.match(letter):
            return tuple(dict.fromkeys(map("".join, product(*parts))))
    return ("",)


def has_word_boundaries(letter: str) -> bool:
    """Check if a character's script puts boundaries, such as spaces, between words."""
    return _UNSPACED_PATTERN.match(letter) is None


@cache
def _build_word_class() -> str:
    """Return the character class of word characters in scripts with word boundaries."""

    def is_word_character(letter: str) -> bool:
        is_in_word = letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M"
        return is_in_word and has_word_boundaries(letter)

    return _build_character_class(is_word_character)


def split_words(text: str) -> list[str]:
    """Return the words of a text in the normal form; scripts without boundaries are skipped."""
    return (_ASCII_WORD if text.isascii() else _compile_word_pattern()).findall(text)


@cache
def _compile_word_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_build_word_class()}]+")


def build_left_boundary(letter: str) -> str:
    """Return the pattern of the boundary before a term that begins with this character."""
    return f"(?<![{_build_word_class()}])" if has_word_boundaries(letter) else ""


def build_right_boundary(letter: str) -> str:
    """Return the pattern of the boundary after a term that ends with this character."""
    characters = _build_word_class() if has_word_boundaries(letter) else _build_mark_class()
    return f"(?![{characters}])"


@cache
def _build_mark_class() -> str:
    return _build_character_class(lambda letter: unicodedata.category(letter)[0] == "M")


def _build_character_class(belongs: Callable[[str], bool]) -> str:
    """Return a class of characters up to U+FFFF as ranges, without the brackets."""
    ranges: list[list[int]] = []
    for code in range(0x10000):
        if not belongs(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(re.escape(chr(low)) + "-" + re.escape(chr(high)) for low, high in ranges)
