"""An evaluation file from a table and the names of its columns, as a command takes them.

Separator, encoding, decimal comma, words of labels and a column of identity names are recognised.
What is recognised is in the file, so that it can be read, changed and run again.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from biasgate.tasks.common.errors import InputError, shown_names
from biasgate.tasks.common.files import found_instead
from biasgate.tasks.data.chunks import (
    Chunk,
    TextFormat,
    read_chunks,
    read_column_names,
    require_columns,
)
from biasgate.tasks.data.formats import is_json_lines, is_parquet
from biasgate.tasks.data.mapped_columns import guess_separator, split_names
from biasgate.tasks.data.plain_columns import is_string_type, list_words, read_plain_column
from biasgate.tasks.data.reading import ROW_NUMBER, is_decimal_comma, is_number, is_yes_word
from biasgate.tasks.data.unpacked import open_table

_SEPARATORS = (",", ";", "\t", "|")
_HEADER_BYTES = 2**20
_MOST_NAMES, _LONGEST_NAME, _MOST_WORDS = 100, 60, 4
_NO_NAMES = frozenset({"", "none", "nan", "null", "n/a", "na", "-", "[]"})
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 _.-]+")


@dataclass(frozen=True)
class TableOptions:
    """The options of the command; `label` may name the word that means toxic, as `verdict=yes`."""

    label: str
    identities: tuple[str, ...]
    scores: tuple[str, ...] = ()
    scores_file: Path | None = None
    id: str | None = None
    threshold: float | None = None


def columns_of_table(path: Path) -> list[str]:
    """Return the names of the columns of a table."""
    return read_column_names(path, _recognise_form(path, []))


def describe_table(path: Path, options: TableOptions) -> tuple[str, list[str]]:
    """Return the evaluation file of a table, and what was recognised, in sentences.

    Raises
    ------
    InputError
        If a file or a column is missing, or the meaning of a column cannot be recognised.
    """
    notes: list[str] = []
    form = _recognise_form(path, notes)
    scores_path, scores_form = path, form
    if options.scores_file is not None:
        scores_path = options.scores_file
        scores_form = _recognise_form(scores_path, notes)
    present = read_column_names(path, form)
    id_column = _id_column(options, present)
    label, _, toxic = options.label.partition("=")
    require_columns(path, [label, *options.identities], form)
    scores = _score_columns(options, id_column, scores_path, scores_form)
    table = _first_rows(path, form, [label, *options.identities])
    scored = _first_rows(scores_path, scores_form, scores)
    texts = [*_texts(table), *_texts(scored)]
    if scores_path == path:
        form = scores_form = _with_decimal(form, path, texts, notes)
    else:
        form = _with_decimal(form, path, _texts(table), notes)
        scores_form = _with_decimal(scores_form, scores_path, _texts(scored), notes)
    same_form = scores_form == form
    evaluation_set: dict[str, Any] = {
        "name": _plain_name(path.name.partition(".")[0]) or "table",
        "source": "table",
        "path": str(path.resolve()),
        "id": id_column,
        "label": label,
        **_label_values(table, label, toxic, notes),
        **_identities(path, form, table, options.identities, notes),
    }
    threshold = {} if options.threshold is None else {"threshold": options.threshold}
    candidates = [
        {
            "name": name,
            "kind": "scores",
            "path": str(scores_path.resolve()),
            "id": id_column,
            "score": column,
            **({} if same_form else scores_form.model_dump(exclude_none=True)),
            **threshold,
        }
        for name, column in zip(_candidate_names(scores, options), scores, strict=True)
    ]
    content = {
        "name": evaluation_set["name"],
        **form.model_dump(exclude_none=True),
        "evaluation_sets": [evaluation_set],
        "candidates": candidates,
        "policy": "default",
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True), notes


def _recognise_form(path: Path, notes: list[str]) -> TextFormat:
    """Return separator and encoding of a file of text."""
    if not path.exists():
        msg = f"file {path} does not exist.{found_instead(path)}"
        raise InputError(msg)
    if is_parquet(path) or is_json_lines(path):
        return TextFormat()
    encoding = None
    if not _is_encoded_in(path, "utf-8"):
        encoding = "cp1252" if _is_encoded_in(path, "cp1252") else "latin-1"
        notes.append(f"{path.name} is not UTF-8 and is read as {encoding}")
    read_column_names(path, TextFormat(encoding=encoding))  # refuses other formats
    with open_table(path) as (_, content):
        header = content.read(_HEADER_BYTES).splitlines()[:1]
    counts = {mark: b"".join(header).count(mark.encode()) for mark in _SEPARATORS}
    default = TextFormat().get_separator(path)
    mark = max(_SEPARATORS, key=lambda mark: (counts[mark], mark == default))
    if mark == default:
        return TextFormat(encoding=encoding)
    named = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "vertical bars"}[mark]
    notes.append(f"columns of {path.name} are separated by {named}")
    return TextFormat(separator=mark, encoding=encoding)


def _is_encoded_in(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_table(path) as (_, content):
        try:
            while part := content.read(2**20):
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _first_rows(path: Path, form: TextFormat, columns: Sequence[str]) -> Chunk:
    for chunk in read_chunks(path, columns, text_format=form):
        return chunk
    msg = f"file {path} must have rows; it has none."
    raise InputError(msg)


def _id_column(options: TableOptions, present: Sequence[str]) -> str:
    """Return the column of ids; rows are numbered if scores are in the same table."""
    if options.id is not None:
        return options.id
    if "id" in present:
        return "id"
    if options.scores_file is None:
        return ROW_NUMBER
    msg = (
        "`--id` must name the column of ids, which joins the scores with the table; the table has "
        f"no column 'id', but {shown_names(present)}."
    )
    raise InputError(msg)


def _score_columns(
    options: TableOptions, id_column: str, path: Path, form: TextFormat
) -> tuple[str, ...]:
    """Return the columns of scores: those named, or all others of a file of scores."""
    if options.scores:
        require_columns(path, options.scores, form)
        return options.scores
    present = read_column_names(path, form)
    if options.scores_file is not None:
        return tuple(name for name in present if name != id_column)
    msg = (
        f"`--score` must name a column of scores of {path}, once for each model; it has "
        f"{shown_names(present)}."
    )
    raise InputError(msg)


def _with_decimal(
    form: TextFormat, path: Path, texts: Sequence[str], notes: list[str]
) -> TextFormat:
    """Return the form with a decimal comma if numbers have one, and none has a point."""
    has_comma = any(map(is_decimal_comma, texts))
    if not has_comma or any("." in text for text in texts if is_number(text)):
        return form
    notes.append(f"numbers of {path.name} have a decimal comma")
    return form.model_copy(update={"decimal": ","})


def _texts(chunk: Chunk, columns: Sequence[str] | None = None) -> list[str]:
    """Return the different texts of some columns; of all by default."""
    found = []
    for column in columns or chunk.table.column_names:
        if not pa.types.is_nested(chunk.table.column(column).type):
            raw = read_plain_column(chunk, column)
            if is_string_type(raw.type):
                found += [text.strip() for text in pc.unique(raw).to_pylist() if text]
    return found


def _label_values(chunk: Chunk, column: str, toxic: str, notes: list[str]) -> dict[str, Any]:
    """Return what the words of a label column mean; nothing if it holds numbers."""
    raw = read_plain_column(chunk, column)
    words = [] if not is_string_type(raw.type) else sorted(set(_texts(chunk, [column])))
    if toxic and toxic not in words:
        msg = f"`--label {column}=WORD` must name a value of the column; {toxic!r} is not one."
        raise InputError(msg)
    if not toxic and all(is_number(word) or is_decimal_comma(word) for word in words):
        return {}
    words = list_words(pa.array([*words, *words]))  # others may be comments
    means = {word: int(word == toxic if toxic else is_yes_word(word)) for word in words}
    if sum(means.values()) != 1 or (not toxic and len(means) != 2):
        named = f" ({', '.join(map(repr, words[:5]))})" if words else ""
        msg = (
            f"column {column!r} of {chunk.path} holds words{named}: name the one that means toxic, "
            f"as in `--label {column}=WORD`."
        )
        raise InputError(msg)
    [positive] = [word for word, value in means.items() if value]
    notes.append(f"label {positive!r} counts as toxic")
    return {"label_values": means}


def _identities(
    path: Path, form: TextFormat, chunk: Chunk, columns: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """Return the columns of identities, or the names in a single column of names."""
    [first, *others] = columns
    kind = chunk.table.column(first).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    texts = [] if is_list else _texts(chunk, [first])
    if others or not (is_list or any(_is_name(text) for text in texts)):
        return {"identities": list(columns)}
    names, separator, n_empty = _names_in(path, form, first)
    is_like_text = any(
        len(name) > _LONGEST_NAME or len(name.split()) > _MOST_WORDS for name in names
    )
    if not 0 < len(names) <= _MOST_NAMES or is_like_text:
        msg = (
            f"column {first!r} of {path} must hold 0 and 1, or at most {_MOST_NAMES} names of "
            f"identities; it has {len(names):,} different texts."
        )
        raise InputError(msg)
    named: dict[str, Any] = {"column": first, "names": names}
    notes.append(f"{first} holds names of {len(names)} identities")
    if separator is not None:
        named["separator"] = separator
    if not n_empty:
        return {"identities": named}
    notes.append(f"{n_empty:,} rows without a name in {first} count as mentioning no identity")
    return {"identities": named, "identity_rows": "all"}


def _names_in(path: Path, form: TextFormat, column: str) -> tuple[list[str], str | None, int]:
    """Return the names in a column, the most frequent first, their separator, and empty rows."""
    cells: Counter[str] = Counter()
    n_empty = 0
    for chunk in read_chunks(path, [column], text_format=form):
        for cell in chunk.table.column(column).to_pylist():
            if isinstance(cell, list):
                cells.update({str(name): 1 for name in cell})
            elif cell is None or cell.strip().casefold() in _NO_NAMES:
                n_empty += 1
            else:
                cells[cell] += 1
    separator = guess_separator(cells)
    names: Counter[str] = Counter()
    for cell, n in cells.items():
        for name in split_names(cell, separator):
            if name.strip().casefold() not in _NO_NAMES:
                names[name.strip()] += n
    return [name for name, _ in names.most_common()], separator, n_empty


def _is_name(text: str) -> bool:
    return not is_number(text) and not is_decimal_comma(text) and text.casefold() not in _NO_NAMES


def _candidate_names(columns: Sequence[str], options: TableOptions) -> list[str]:
    """Return the names of the columns; of the file, if it has a single column of scores."""
    names = [_plain_name(column) or "model" for column in columns]
    if options.scores_file is not None and len(columns) == 1 and not options.scores:
        names = [_plain_name(options.scores_file.name.partition(".")[0]) or "model"]
    return [
        name if names.count(name) == 1 else f"{name} {at}" for at, name in enumerate(names, start=1)
    ]


def _plain_name(text: str) -> str:
    """Return a name that evaluation files take."""
    return _NOT_IN_NAMES.sub("_", text).strip(" _.-")[:100]
