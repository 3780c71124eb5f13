"""Tokens kept on disk, so that candidates with the same tokenizer split each comment once."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from biasgate.tasks.common.files import json_digest, whole_file
from biasgate.tasks.scoring.kinds.transformer_tokens import Tokenizer, Tokens

_FORMAT = 1
_LENGTHS, _NUMBERS = "lengths", "numbers"


class KeptTokens:
    """The tokens of sets of texts, by what the tokenizer does and by the texts.

    What cannot be read or written is not an error: the texts are then tokenised again.

    Parameters
    ----------
    folder : Path
        Where to keep them; private, since tokens are texts.
    tokenizer : Tokenizer
        The tokenizer.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._state = tokenizer.state
        self._folder = folder

    def read(self, texts: Sequence[str]) -> Tokens | None:
        """Return the tokens of these texts, if they are kept."""
        path = self._path(texts)
        if path is None or not path.exists():
            return None
        with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as found:
                values = {name: found[name].astype(np.int64) for name in found.files}
            numbers, lengths = values.pop(_NUMBERS), values.pop(_LENGTHS)
            whole = len(numbers) == len(lengths) == len(texts)
            if whole and all(len(one) == lengths.sum() for one in values.values()):
                return Tokens(numbers, lengths, values)
        return None

    def write(self, texts: Sequence[str], tokens: Tokens) -> None:
        """Keep the tokens of these texts."""
        path = self._path(texts)
        if path is None:
            return
        arrays = {_NUMBERS: tokens.numbers, _LENGTHS: tokens.lengths} | tokens.values
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as temporary, temporary.open("wb") as stream:
                small = {name: _small(one) for name, one in arrays.items()}
                np.savez(stream, allow_pickle=False, **small)

    def _path(self, texts: Sequence[str]) -> Path | None:
        if self._state is None:
            return None
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        digest = hashlib.sha256(lengths.tobytes())
        digest.update("".join(texts).encode("utf-8", "surrogatepass"))
        key = json_digest([_FORMAT, self._state, digest.hexdigest()])
        return self._folder / key[:2] / f"{key}.npz"


def _small(values: np.ndarray) -> np.ndarray:
    """Return whole numbers of at least 0 in as few bytes as they need."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))
