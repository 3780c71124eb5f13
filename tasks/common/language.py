"""The reader's language: messages by a catalogue, numbers by locale; English unless another is set.

A message is a whole clause or sentence with named places, so that a language may order them anew.
What is put into a place is isolated from what is around it, as names may be written in another
direction. Texts that programs keep (sentences of checks, reasons) stay English and say so.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from markupsafe import Markup, escape

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable

if TYPE_CHECKING:
    from babel import Locale

Language = Literal["en", "de", "fr", "es", "ar"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_ENGLISH: Language = "en"
_CATALOGUES = Path(__file__).parent / "catalogues"
# Unicode's isolates: of a name, by its own direction; of English; their end.
_NAME, _WRITTEN, _END = "\N{FIRST STRONG ISOLATE}", "\N{LEFT-TO-RIGHT ISOLATE}", "\u2069"
_ISOLATES = re.compile(f"([{_NAME}{_WRITTEN}{_END}])")
_NOTHING = Markup(), Markup()
_NAMED = Markup("<bdi>{}</bdi>"), Markup('<bdi dir="ltr">{}</bdi>')
_TAGS = {
    _WRITTEN: (Markup('<span lang="en" dir="ltr">'), Markup("</span>")),
}
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_now: ContextVar[Language] = ContextVar("language", default=_ENGLISH)


class Said(str):
    """A text of the catalogue, in whose places names are isolated and escaped already."""

    __slots__ = ()


@contextmanager
def reading(language: str) -> Iterator[None]:
    """Say everything in a language, until the end of the block.

    Raises
    ------
    InputError
        If there is no catalogue of it.
    """
    known = next((one for one in LANGUAGES if one == language), None)
    if known is None:
        msg = f"`language` must be one of {', '.join(LANGUAGES)}; got {language!r}."
        raise InputError(msg)
    token = _now.set(known)
    try:
        yield
    finally:
        _now.reset(token)


def language() -> Language:
    """Return the code of the language in use."""
    return _now.get()


def is_english() -> bool:
    """Return whether it is English, in which nothing is looked up."""
    return _now.get() == _ENGLISH


def direction() -> Literal["ltr", "rtl"]:
    """Return the direction in which it is written."""
    return "rtl" if _now.get() == "ar" else "ltr"


def marked(message: str) -> str:
    """Mark a message that is looked up elsewhere."""
    return message


def looked_up(message: str) -> str:
    """Return a message of the catalogue with its places unfilled."""
    return message if is_english() else _catalogue(_now.get()).gettext(message)


def phrase(message: str, /, **places: str | int) -> str:
    """Return a message with its places filled."""
    return _filled(looked_up(message), places)


def phrase_of(n: int, one: str, several: str, /, **places: str | int) -> str:
    """Return the message for a number, which is its place `n`."""
    if is_english():
        text = one if n == 1 else several
    else:
        text = _catalogue(_now.get()).ngettext(one, several, n)
    return _filled(text, {"n": n, **places})


def listed(parts: Iterable[str], separator: str = ", ") -> str:
    """Return names or clauses one after the other; the separator is a message."""
    text = looked_up(separator).join(map(_placed, parts))
    return text if is_english() else Said(text)


def as_written(text: str) -> str:
    """Return a text that stays English, marked as such in other languages."""
    return text if is_english() or not text else Said(f"{_WRITTEN}{printable(text)}{_END}")


def escaped(text: str) -> str:
    """Return a text whose names cannot rewrite a line; one of the catalogue is so already."""
    return text if isinstance(text, Said) else printable(text)


def lowered(text: str) -> str:
    """Return a text in small letters."""
    return Said(text.lower()) if isinstance(text, Said) else text.lower()


def as_sentence(text: str) -> str:
    """Return a clause as a sentence: with a capital first and a full stop."""
    first = text[:1].upper() + text[1:]
    return ended(first if is_english() else Said(first))


def ended(text: str) -> str:
    """Return a sentence with a full stop, which it may have."""
    whole = text if text.rstrip(_END).endswith(".") else f"{text}."
    return whole if is_english() else Said(whole)


def without_stop(text: str) -> str:
    """Return a sentence without its full stop, for more to follow."""
    if text.endswith(f".{_END}"):
        return Said(f"{text[:-2]}{_END}")
    cut = text.removesuffix(".")
    return Said(cut) if isinstance(text, Said) else cut


def visible(text: str, *, keep: str = "") -> str:
    """Return a text for a line of plain characters: with isolates only where they are needed."""
    if is_english():
        return printable(text, keep=keep)
    if not isinstance(text, Said) or not _is_balanced(text):
        return printable(text, keep=keep + SPACES)
    if direction() == "ltr":
        text = _ISOLATES.sub("", text)
    return str(printable(text, keep=keep + SPACES + _NAME + _WRITTEN + _END))


def as_html(text: str, coded: Callable[[str], Markup]) -> Markup:
    """Return a text of the catalogue as HTML, with elements for isolates.

    `coded` makes HTML of what is no name. A text in which isolates do not match is shown escaped.
    """
    if not _is_balanced(text):
        return escape(printable(text, keep=SPACES))
    parts, opened = [Markup()], [""]
    for part in _ISOLATES.split(text):
        if part in {_NAME, _WRITTEN}:
            opened.append(part)
            parts.append(_TAGS.get(part, _NOTHING)[0])
        elif part == _END:
            parts.append(_TAGS.get(opened.pop(), _NOTHING)[1])
        else:
            parts.append(isolated_html(part) if opened[-1] == _NAME else coded(part))
    return Markup().join(parts)


def isolated_html(value: str) -> Markup:
    """Return a name or a number as HTML, isolated except in English.

    What has no letter has no direction of its own, and is read as numbers are.
    """
    text = printable(value, keep=SPACES)
    return escape(text) if is_english() else _NAMED[not any(map(str.isalpha, text))].format(text)


def _is_balanced(text: str) -> bool:
    depth = 0
    for sign in _ISOLATES.findall(text):
        depth += -1 if sign == _END else 1
        if depth < 0:
            return False
    return depth == 0


def _filled(text: str, places: dict[str, str | int]) -> str:
    filled = text.format(**{name: _placed(value) for name, value in places.items()})
    return filled if is_english() else Said(filled)


def isolated(name: str) -> str:
    """Return a name isolated from what is around it, and escaped; as it is in English."""
    return _placed(name)


def _placed(value: str | int) -> str:
    if isinstance(value, int):
        return whole_number(value)
    if is_english() or isinstance(value, Said):
        return value
    return Said(f"{_NAME}{printable(value, keep=SPACES)}{_END}")


# ---- Numbers by locale


def whole_number(n: float) -> str:
    """Return a number without decimals, in groups of three digits."""
    if is_english():
        return f"{n:,.0f}"
    from babel.numbers import format_decimal  # noqa: PLC0415 - English needs none of it

    return str(format_decimal(n, format="#,##0", locale=_locale(_now.get())))


def by_locale(number: str) -> str:
    """Return a number without groups with the decimal sign of the language."""
    return number if is_english() else number.replace(".", decimal_sign())


def decimal_sign() -> str:
    """Return what stands before decimals."""
    return "." if is_english() else str(_locale(_now.get()).number_symbols["latn"]["decimal"])


def percent_sign() -> str:
    """Return what stands after a number in percent, with its space."""
    if is_english():
        return "%"
    pattern = str(_locale(_now.get()).percent_formats[None].pattern)
    return pattern.rpartition("0")[2].replace("\u200e", "")


@cache
def _locale(code: str) -> Locale:
    from babel import Locale  # noqa: PLC0415

    return Locale.parse(code)


@cache
def _catalogue(code: str) -> gettext.GNUTranslations:
    from babel.messages.mofile import write_mo  # noqa: PLC0415
    from babel.messages.pofile import read_po  # noqa: PLC0415

    compiled = BytesIO()
    with (_CATALOGUES / f"{code}.po").open("rb") as file:
        write_mo(compiled, read_po(file, locale=code))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
