# ruff: noqa: RUF001 - letters of other scripts are what this is about
"""How words are written: the normal form in which texts and terms are compared, and word borders.

The one rule: both are brought to Unicode's NFKC_Casefold (full-width letters, ligatures, case,
invisible characters); apostrophes are one; vowel marks and tatweel of Arabic and Hebrew go; and
letters that writers of Arabic, Persian, Urdu and Hindi exchange are one, as Lucene has it.
Elsewhere a comment may leave out an accent of a term, or write *ae* for *ä*, but not add one:
*judio* is *judío*, but *schwül* is not *schwul*.

A border of a word lies between two characters unless both belong to words of scripts that put
spaces between them. So in Han, Kana, Thai, Lao, Khmer, Burmese and the like it lies everywhere,
except before a mark that belongs to the letter before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, product

# Scripts that put no spaces between words: Thai to Tibetan, Burmese, Khmer, the Tai scripts,
# Balinese, Javanese; radicals, Kana, Bopomofo, Han, Yi.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ARABIC = "\u0620-\u065f\u066e-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
# What is written together with the word that follows it, in the normal form.
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
# What is written together with the word before it: plurals of Persian, the plural and oblique of
# Hindi after a consonant, the plural and particles of Korean.
_ENCLITICS = {
    re.compile(f"[{_ARABIC}]"): (("", "ها", "هاي"),),
    re.compile("[\u0915-\u0939\u0958-\u095f]"): (("", "ें", "ों", "ो"),),
    re.compile("[\uac00-\ud7a3]"): (
        ("", "들"),
        ("", *"은는이가을를의에와과도로만", "에게", "으로", "에서", "한테", "처럼", "보다"),
    ),
}
_GONE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"  # ignored by Unicode
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u08d3-\u08ff"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u093c"
)
_SAME = {
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
_LETTERS_AS_ONE = {"\u0928\u094d": "\u0902", "i\u0307": "i"}  # as well; a Turkish capital
_CHANGED = {variant: letter for letter, variants in _SAME.items() for variant in variants}
_TO_CHANGE = re.compile(f"[{_GONE}{''.join(_CHANGED)}]")
_NO_JOINER = re.compile(f"(?<=[{_ARABIC}])\u200c")
_WITHOUT_STROKE = {"ł": "l", "đ": "d", "ø": "o", "ħ": "h", "ŧ": "t"}
_IN_TWO_LETTERS = {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
_NUKTA, _FIRST_ACCENT = 7, 200  # classes of combining marks in Unicode
_MOST_SPELLINGS = 64
_ASCII_WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """Return the normal form of a text."""
    if text.isascii():
        return text.lower()
    if "\u200c" in text:  # in Persian it stands between the parts of a word, as in plurals
        text = _NO_JOINER.sub(" ", text)
    text = unicodedata.normalize("NFKC", text).casefold()
    for letters, letter in _LETTERS_AS_ONE.items():
        text = text.replace(letters, letter)
    text, n_changed = _TO_CHANGE.subn(lambda match: _CHANGED.get(match[0], ""), text)
    return unicodedata.normalize("NFKC", text) if n_changed else text


def folded_parts(text: str) -> list[str]:
    """Return the normal form of each character of a text; a mark counts with its letter.

    As many as there are characters: those of a letter with marks are its form, then empty ones.
    """
    if text.isascii():
        return list(text.lower())
    parts = []
    for letter in re.finditer(rf"(?s).[{_marks()}{_GONE}\uff9e\uff9f]*", text):
        parts += [folded(letter[0]), *[""] * (len(letter[0]) - 1)]
    return parts


def spellings(word: str) -> Iterator[str]:
    """Yield a term in the normal form, then what it is without its accents."""
    choices = []
    for letter in word:
        forms = [letter, _without_accents(letter)]
        forms += [table[letter] for table in (_WITHOUT_STROKE, _IN_TWO_LETTERS) if letter in table]
        choices.append(list(dict.fromkeys(forms)))
    yield from islice(map("".join, product(*choices)), _MOST_SPELLINGS)
    yield "".join(choice[1] if len(choice) > 1 else choice[0] for choice in choices)


def bare(word: str) -> str:
    """Return a word in the normal form without its accents."""
    return word if word.isascii() else "".join(map(_without_accents, word))


def _without_accents(letter: str) -> str:
    marks = [(part, unicodedata.combining(part)) for part in unicodedata.normalize("NFD", letter)]
    kept = [part for part, mark in marks if mark != _NUKTA and mark < _FIRST_ACCENT]
    return unicodedata.normalize("NFC", "".join(kept))


@cache
def proclitics(letter: str) -> tuple[str, ...]:
    """Return what may be written together with a word that begins with this letter.

    The first is the empty text, which is the only one in scripts without such parts of words.
    """
    return _attached(_PROCLITICS, letter)


@cache
def enclitics(letter: str) -> tuple[str, ...]:
    """Return what may be written together with a word that ends with this letter."""
    return _attached(_ENCLITICS, letter)


def _attached(
    scripts: Mapping[re.Pattern[str], Sequence[Sequence[str]]], letter: str
) -> tuple[str, ...]:
    for script, parts in scripts.items():
        if script.match(letter):
            return tuple(dict.fromkeys(map("".join, product(*parts))))
    return ("",)


def has_borders(letter: str) -> bool:
    """Whether a character belongs to a script that has borders of words."""
    return _IS_UNSPACED.match(letter) is None


@cache
def _in_word() -> str:
    """Return the class of characters that are part of a word, in scripts that have borders."""

    def is_part(letter: str) -> bool:
        is_in_word = letter.isalnum() or letter == "_" or unicodedata.category(letter)[0] == "M"
        return is_in_word and has_borders(letter)

    return _class(is_part)


def words_of(text: str) -> list[str]:
    """Return the words of a text in its normal form, in scripts that have borders of words."""
    return (_ASCII_WORD if text.isascii() else _word()).findall(text)


@cache
def _word() -> re.Pattern[str]:
    return re.compile(f"[{_in_word()}]+")


def border_before(letter: str) -> str:
    """Return the pattern of the border before a term that begins with this character."""
    return f"(?<![{_in_word()}])" if has_borders(letter) else ""


def border_after(letter: str) -> str:
    """Return the pattern of the border after a term that ends with this character."""
    return f"(?![{_in_word()}])" if has_borders(letter) else f"(?![{_marks()}])"


@cache
def _marks() -> str:
    return _class(lambda letter: unicodedata.category(letter)[0] == "M")


def _class(belongs: Callable[[str], bool]) -> str:
    """Return the inside of a class of characters up to U+FFFF, as ranges."""
    ranges: list[list[int]] = []
    for code in range(0x10000):
        if not belongs(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(re.escape(chr(low)) + "-" + re.escape(chr(high)) for low, high in ranges)
