"""Comments at the size of Civil Comments, generated from halves of real comments and typos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

ALL = 1_804_874  # rows of the training set of Civil Comments
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def generate_comments(texts: Sequence[str], rows: int, seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield comments joined from two halves, with the index of the text of the first half.

    In half of the comments a letter of a word is replaced, so that the number of different words
    grows as in real comments.
    """
    words = [text.split() for text in texts]
    rng = np.random.default_rng(seed)
    for _ in range(0, rows, 10_000):
        size = min(rows, 10_000)
        rows -= size
        pairs = rng.integers(len(words), size=(size, 2)).tolist()
        places, letters = rng.random(size=(size, 3)).tolist(), rng.choice(_LETTERS, size).tolist()
        for (first_index, second_index), (word_place, letter_place, typo), letter in zip(
            pairs, places, letters, strict=True
        ):
            first, second = words[first_index], words[second_index]
            comment = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
            if typo < 0.5 and comment:
                word = int(word_place * len(comment))
                position = int(letter_place * len(comment[word]))
                comment[word] = comment[word][:position] + letter + comment[word][position + 1 :]
            yield " ".join(comment), first_index
