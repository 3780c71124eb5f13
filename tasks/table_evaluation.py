"""An evaluation file from a table and the names of its columns, as a command takes them.

Separator, encoding, decimal comma, words of labels and a column of identity names are recognised.
What is recognised is in the file, so that it can be read, changed and run again.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import InputError, format_column_names
from biasgate.tasks.common.files import suggest_path
from biasgate.tasks.data.chunks import (
    Chunk,
    TextFormat,
    read_chunks,
    read_column_names,
    require_columns,
)
from biasgate.tasks.data.formats import is_json_lines, is_parquet
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.data.identity_names import normalize_name
from biasgate.tasks.data.mapped_columns import NAME_SEPARATORS, guess_separator, split_names
from biasgate.tasks.data.plain_columns import (
    MAX_WORDS,
    is_string_type,
    list_words,
    normalize_value,
    read_plain_column,
)
from biasgate.tasks.data.reading import ROW_NUMBER, is_decimal_comma, is_number, parse_meaning
from biasgate.tasks.data.unpacked import open_table
from biasgate.tasks.evaluation_file import EvaluationFile
from biasgate.tasks.scoring.candidate import refuse_other_scale
from biasgate.tasks.scoring.kinds.score_file import ScoreFile, ScoreTable

_SEPARATORS = (",", ";", "\t", "|")
_HEADER_BYTES = 2**20
_MOST_NAMES, _LONGEST_NAME, _MOST_WORDS = 100, 60, 4
_MOST_SHOWN = 4
_FATES = {1: "counts as toxic", 0: "counts as harmless", None: "is left out"}
_NO_LABEL = frozenset({"", "nan", "null", "n/a", "na"})
_NO_NAMES = frozenset({"", "none", "nan", "null", "n/a", "na", "-", "[]"})
_CURE = (
    "The file must have one row for each comment of the set, and no other rows. To evaluate only "
    "the rows of both files, write new files, in pandas `t[t[{0!r}].isin(s[{1!r}])]` and "
    "`s[s[{1!r}].isin(t[{0!r}])]`, with ids read as text (`dtype=str`). If the model refused a "
    "comment, leave its score empty and set `allow_missing: true`."
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 _.-]+")


@dataclass(frozen=True)
class TableOptions:
    """The options of the command.

    `label` may name the toxic and the harmless values, as `verdict=yes/no`; `id` the column in the
    table and in the file of scores, as `Message ID=message_id`.
    """

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
    id_column, scores_id = _id_columns(options, present, scores_path, scores_form)
    label, named = _split_option(options.label, present)
    wanted = [label, *options.identities, *({id_column} - {ROW_NUMBER})]
    if options.scores_file is None:
        wanted += options.scores
    require_columns(path, wanted, form)
    scores = _score_columns(options, scores_id, scores_path, scores_form)
    counts = _count_values(path, form, [label, *options.identities])
    if not all(each.total() for each in counts.values()):
        msg = f"file {path} must have rows; it has none."
        raise InputError(msg)
    table = [text for each in counts.values() for text in each]
    scored = _texts(_first_rows(scores_path, scores_form, scores))
    if scores_path == path:
        form = scores_form = _with_decimal(form, path, [*table, *scored], notes)
    else:
        form = _with_decimal(form, path, table, notes)
        scores_form = _with_decimal(scores_form, scores_path, scored, notes)
    own, of_scores = (each.model_dump(exclude_none=True) for each in (form, scores_form))
    is_shared = own == of_scores
    evaluation_set: dict[str, Any] = {
        "name": _plain_name(path.name.partition(".")[0]) or "table",
        "source": "table",
        "path": str(path.resolve()),
        **({} if is_shared else own),
        "id": id_column,
        "label": label,
        **_label_values(path, label, named, counts.get(label, Counter()), notes),
        **_identities(path, form, counts, options.identities, notes),
    }
    threshold = {} if options.threshold is None else {"threshold": options.threshold}
    candidates = [
        {
            "name": name,
            "kind": "scores",
            "path": str(scores_path.resolve()),
            "id": scores_id,
            "score": column,
            **({} if is_shared else of_scores),
            **threshold,
        }
        for name, column in zip(_candidate_names(scores, options), scores, strict=True)
    ]
    content = {
        "name": evaluation_set["name"],
        **(own if is_shared else {}),
        "evaluation_sets": [evaluation_set],
        "candidates": candidates,
        "policy": "default",
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True), notes


def check_rows(text: str, store: Path, *, with_scores: bool) -> None:
    """Freeze the set of a described table, which the evaluation does not do again; check scores.

    Refused is every wrong value of the columns and, `with_scores`, ids without a score and a
    threshold on another scale.
    """
    evaluation = EvaluationFile.model_validate(yaml.safe_load(text))
    [source] = evaluation.evaluation_sets
    rows = freeze_source(source, store)
    for candidate in evaluation.candidates if with_scores else ():
        if isinstance(candidate, ScoreFile):
            cure = _CURE.format(source.model_dump()["id"], candidate.id)
            try:
                table = ScoreTable(candidate, cure)
                table.check(rows)
            except InputError as error:
                if "allow_missing" not in str(error):
                    raise
                msg = f"{error} For such options, write the evaluation file with `--save FILE`."
                raise InputError(msg) from None
            refuse_other_scale(candidate.name, candidate.threshold, table.scores)


def _split_option(text: str, present: Sequence[str]) -> tuple[str, str | None]:
    """Return the column in an option such as `COLUMN=MORE`, and what follows it, if anything."""
    places = [at for at, mark in enumerate(text) if mark == "="]
    if text in present or not places:
        return text, None
    at = next((at for at in places if text[:at] in present), places[0])
    return text[:at], text[at + 1 :]


def _recognise_form(path: Path, notes: list[str]) -> TextFormat:
    """Return separator and encoding of a file of text."""
    if not path.exists():
        msg = f"file {path} does not exist.{suggest_path(path)}"
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
        if chunk.table.num_rows:
            return chunk
    msg = f"file {path} must have rows; it has none."
    raise InputError(msg)


def _id_columns(
    options: TableOptions, present: Sequence[str], scores_path: Path, scores_form: TextFormat
) -> tuple[str, str]:
    """Return the column of ids in the table, and in the file of scores.

    Rows are numbered if scores are in the same table.
    """
    if options.id is None and "id" not in present:
        if options.scores_file is None:
            return ROW_NUMBER, ROW_NUMBER
        msg = (
            "`--id` must name the column of ids, which joins the scores with the table; the table "
            f"has no column 'id', but {format_column_names(present)}."
        )
        raise InputError(msg)
    of_table, of_scores = _split_option(options.id or "id", present)
    if options.scores_file is None:
        return of_table, of_table
    others = read_column_names(scores_path, scores_form)
    if of_scores is None and of_table in present and of_table not in {*others, ROW_NUMBER}:
        msg = (
            f"file {scores_path} must have the column of ids {of_table!r}, as the table has; it "
            f"has {format_column_names(others)}. If it has another name there, write it after `=`, "
            f"as in `--id {shlex.quote(f'{of_table}=NAME')}`."
        )
        raise InputError(msg)
    return of_table, of_scores or of_table


def _score_columns(
    options: TableOptions, id_column: str, path: Path, form: TextFormat
) -> tuple[str, ...]:
    """Return the columns of scores: those named, or all others of a file of scores."""
    if options.scores:
        require_columns(path, [*options.scores, *({id_column} - {ROW_NUMBER})], form)
        return options.scores
    present = read_column_names(path, form)
    if options.scores_file is not None:
        return tuple(name for name in present if name != id_column)
    msg = (
        f"`--score` must name a column of scores of {path}, once for each model; it has "
        f"{format_column_names(present)}."
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


def _texts(chunk: Chunk) -> list[str]:
    """Return the different texts of all columns."""
    found = []
    for column in chunk.table.column_names:
        if not pa.types.is_nested(chunk.table.column(column).type):
            raw = read_plain_column(chunk, column)
            if is_string_type(raw.type):
                found += [text.strip() for text in pc.unique(raw).to_pylist() if text]
    return found


def _count_values(path: Path, form: TextFormat, columns: Sequence[str]) -> dict[str, Counter[str]]:
    """Return how many rows have each text, by column; nested columns are left out."""
    counts: dict[str, Counter[str]] = {}
    for chunk in read_chunks(path, columns, text_format=form):
        for column in chunk.table.column_names:
            if not pa.types.is_nested(chunk.table.column(column).type):
                values = pc.value_counts(read_plain_column(chunk, column).cast(pa.string()))
                found = counts.setdefault(column, Counter())
                texts, numbers = (values.field(at).to_pylist() for at in (0, 1))
                for text, n in zip(texts, numbers, strict=True):
                    found[(text or "").strip()] += n
    return counts


def _is_numeric(text: str) -> bool:
    return is_number(text) or is_decimal_comma(text)


def _label_values(
    path: Path, column: str, named: str | None, counts: Counter[str], notes: list[str]
) -> dict[str, Any]:
    """Return what the values of a label column mean; only those without a label if it has numbers.

    `named`: the toxic values, and after a slash the harmless ones, as the user wrote them.
    """
    lacking = [text for text in counts if text.casefold() in _NO_LABEL]
    n_lacking = sum(counts[text] for text in lacking)
    values = {text: n for text, n in counts.items() if text not in lacking}
    means: dict[str, int | None] = {}
    harmless: set[str] = set()
    if named is not None or not _are_numbers(values):
        toxic, harmless = _read_meanings(path, column, named, values)
        by_key = dict.fromkeys(toxic, 1) | dict.fromkeys(harmless, 0)
        means = {text: by_key.get(_key(text)) for text in sorted(values)}
        for meaning, fate in _FATES.items():
            if words := {text: n for text, n in values.items() if means[text] == meaning}:
                notes.append(f"label {_listed(words)} {fate}")
    if lacking:
        fate = _FATES[0 if "" in harmless else None]
        notes.append(f"empty label ({format_count(n_lacking, 'row')}) {fate}")
    means |= dict.fromkeys(lacking, 0 if "" in harmless else None)
    return {"label_values": means} if means else {}


def _are_numbers(values: Mapping[str, int]) -> bool:
    """Return whether labels are numbers; a few wrong cells among many numbers are refused later."""
    n_words = sum(not _is_numeric(text) for text in values)
    return n_words == 0 or (len(values) > MAX_WORDS and 2 * n_words < len(values))


def _read_meanings(
    path: Path, column: str, named: str | None, values: Mapping[str, int]
) -> tuple[set[str], set[str]]:
    """Return the keys of the values that mean toxic, and of those that mean harmless."""
    present = {_key(text) for text in values}
    toxic, harmless = (
        {key for key in present if parse_meaning(key) == meaning} for meaning in (1, 0)
    )
    if named is None and toxic and harmless and toxic | harmless == present:
        return toxic, harmless
    example = f"{named or min(toxic, default='TOXIC')}/{min(harmless, default='HARMLESS')}"
    has = f"column {column!r} of {path} has {_listed(values)}"
    how = (
        "Name the toxic and the harmless values, each separated by commas, as in "
        f"`--label {shlex.quote(f'{column}={example}')}`. Rows with other values are left out."
    )
    if named is None:
        msg = f"{has}: it must be plain which are toxic, and which harmless. {how}"
        raise InputError(msg)
    slashes = [at for at, mark in enumerate(named) if mark == "/"]
    for at in [None, *slashes]:  # a value may have a slash
        parts = [named] if at is None else [named[:at], named[at + 1 :]]
        toxic, *rest = (_split_values(part, present) for part in parts)
        if toxic <= present and all(keys <= {*present, ""} for keys in rest):
            break
    else:
        [unknown, *_] = sorted(toxic.union(*rest) - present)
        msg = f"`--label {column}=...` must name values of the column; {unknown!r} is not: {has}."
        raise InputError(msg)
    harmless = rest[0] if rest else present - toxic
    if toxic & harmless:
        msg = f"`--label {column}={named}` must name a value once: as toxic, or as harmless."
        raise InputError(msg)
    if rest or len(harmless) == 1:
        return toxic, harmless
    if not harmless:
        example = shlex.quote(f"{column}={named}/")
        how = f"If empty cells are harmless, write `--label {example}`."
    msg = f"{has}: it must be plain which are harmless. {how}"
    raise InputError(msg)


def _split_values(text: str, present: Collection[str]) -> set[str]:
    """Return the keys of values separated by commas; of a single one if the text is a value."""
    return {_key(text)} if _key(text) in present else set(map(_key, text.split(",")))


def _key(text: str) -> str:
    """Return what all spellings of a value have in common, as `Yes` and `yes`, or 1 and 1.0."""
    return normalize_name(normalize_value(text))


def _listed(values: Mapping[str, int]) -> str:
    """Return short words with the rows that have them; a count of others: they may be comments."""
    words = sorted(values, key=lambda text: (-values[text], text))
    are_repeated = 2 * len(words) <= sum(values.values())
    if not are_repeated or not list_words(pa.array(words * 2, pa.string())):
        return format_count(len(words), "different value")
    return ", ".join(f"{text!r} ({format_count(values[text], 'row')})" for text in words)


def _identities(
    path: Path,
    form: TextFormat,
    counts: Mapping[str, Counter[str]],
    columns: Sequence[str],
    notes: list[str],
) -> dict[str, Any]:
    """Return the columns of identities, or the names in a single column of names."""
    [first, *others] = columns
    if not others and (first not in counts or any(map(_is_name, counts[first]))):
        return _identity_names(path, form, counts, first, notes)
    words: dict[str, float] = {}
    marked: list[str] = []
    rated: list[str] = []
    for column in columns:
        texts = counts.get(column, Counter())
        means = {text: parse_meaning(text) for text in texts if text.casefold() not in _NO_NAMES}
        words |= {
            text: mean for text, mean in means.items() if mean is not None and not is_number(text)
        }
        if means and len(means) < len(texts):
            (marked if set(means.values()) == {1.0} else rated).append(column)
    for meaning, said in ((1, "a mention"), (0, "no mention")):
        if named := sorted(word for word, mean in words.items() if mean == meaning):
            notes.append(f"identity {', '.join(map(repr, named))} counts as {said}")
    if not marked:
        return {"identities": list(columns)}
    if rated:
        msg = (
            f"empty cells must mean the same in all identity columns of {path}; column "
            f"{marked[0]!r} has only marks and empty cells, column {rated[0]!r} also other values. "
            "Write 0 into the cells of comments without a mention."
        )
        raise InputError(msg)
    notes.append(
        f"empty cells in {', '.join(marked)} count as not mentioned: no other cell there means that"
    )
    return {"identities": list(columns), "identity_rows": "all"}


def _identity_names(
    path: Path,
    form: TextFormat,
    counts: Mapping[str, Counter[str]],
    column: str,
    notes: list[str],
) -> dict[str, Any]:
    """Return the names in a column of names."""
    spellings, separator, n_empty = _names_in(path, form, column, counts.get(column))
    names = [max(each, key=lambda name: each[name]) for each in spellings.values()]
    long = [name for name in names if len(name) > _LONGEST_NAME or len(name.split()) > _MOST_WORDS]
    for mark in NAME_SEPARATORS if separator else ():
        parts = [map(normalize_name, name.split(mark)) for name in names if mark in name]
        if any(part in spellings for each in parts for part in each):
            msg = (
                f"names in column {column!r} of {path} must have a single separator; they have "
                f"{separator!r} and {mark!r}. Use one, as in pandas: "
                f"`t[{column!r}] = t[{column!r}].str.replace({mark!r}, {separator!r})`."
            )
            raise InputError(msg)
    if not 0 < len(names) <= _MOST_NAMES or long:
        has = f"{len(names):,} different texts"
        if long:
            has += f", {len(long):,} longer than {_MOST_WORDS} words or {_LONGEST_NAME} characters"
        msg = (
            f"column {column!r} of {path} must hold 0 and 1, or at most {_MOST_NAMES} names of "
            f"identities; it has {has}."
        )
        raise InputError(msg)
    named: dict[str, Any] = {"column": column, "names": names}
    notes.append(f"{column} holds names of {format_count(len(names), 'identity', 'identities')}")
    if merged := [" = ".join(map(repr, each)) for each in spellings.values() if len(each) > 1]:
        more = f", and {len(merged) - _MOST_SHOWN:,} more" * (len(merged) > _MOST_SHOWN)
        notes.append(f"spellings of the same name: {', '.join(merged[:_MOST_SHOWN])}{more}")
    if separator is not None:
        named["separator"] = separator
    if not n_empty:
        return {"identities": named}
    notes.append(f"{n_empty:,} rows without a name in {column} count as mentioning no identity")
    return {"identities": named, "identity_rows": "all"}


def _names_in(
    path: Path, form: TextFormat, column: str, cells: Counter[str] | None
) -> tuple[dict[str, Counter[str]], str | None, int]:
    """Return the spellings of each name, the most frequent first, their separator, and empty rows.

    `cells`: how many rows have each text; None for a column of lists.
    """
    names: Counter[str] = Counter()
    n_empty, separator = 0, None
    if cells is None:
        for chunk in read_chunks(path, [column], text_format=form):
            for cell in chunk.table.column(column).to_pylist():
                n_empty += cell is None
                names.update({str(name).strip() for name in cell or ()})
    else:
        filled = {cell: n for cell, n in cells.items() if cell.casefold() not in _NO_NAMES}
        n_empty = sum(cells.values()) - sum(filled.values())
        separator = guess_separator(filled)
        for cell, n in filled.items():
            for name in split_names(cell, separator):
                names[name.strip()] += n
    spellings: dict[str, Counter[str]] = {}
    for name, n in names.items():
        if name.casefold() not in _NO_NAMES:
            spellings.setdefault(normalize_name(name), Counter())[name] = n
    order = sorted(spellings, key=lambda name: -spellings[name].total())
    return {name: spellings[name] for name in order}, separator, n_empty


def _is_name(text: str) -> bool:
    is_word = not _is_numeric(text) and text.casefold() not in _NO_NAMES
    return is_word and parse_meaning(text) is None


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
