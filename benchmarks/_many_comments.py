"""As many comments as Civil Comments has, made of real ones: halves joined, and misspelt words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

ALL = 1_804_874  # rows of the training set of Civil Comments
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def many_comments(texts: Sequence[str], rows: int, seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield comments (the first half of one and the second half of another) and the first's place.

    In every second one a letter of a word is replaced, so that the number of different words
    keeps growing as it does in real comments.
    """
    words = [text.split() for text in texts]
    rng = np.random.default_rng(seed)
    for _ in range(0, rows, 10_000):
        size = min(rows, 10_000)
        rows -= size
        chosen = rng.integers(len(words), size=(size, 2)).tolist()
        places, letters = rng.random(size=(size, 3)).tolist(), rng.choice(_LETTERS, size).tolist()
        for (one, other), (which, where, whether), letter in zip(
            chosen, places, letters, strict=True
        ):
            first, second = words[one], words[other]
            made = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
            if whether < 0.5 and made:
                at = int(which * len(made))
                letters_at = int(where * len(made[at]))
                made[at] = made[at][:letters_at] + letter + made[at][letters_at + 1 :]
            yield " ".join(made), one
