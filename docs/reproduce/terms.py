"""Cases of Multilingual HateCheck in which an identity is found, by three ways to find its words.

    BIASGATE_REAL_DATA=data python docs/reproduce/terms.py

A case is a sentence of a template, filled with an identity. Recall is the share of cases in which
the identity is found, among cases with a place for an identity in the template. Cases that disguise
its word (functions `spell_*`) are counted separately. A case is wrong if another identity is found.
Prints rows of Markdown, without texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biasgate.tasks.data.terms import TermMatcher

DATA = Path(os.environ["BIASGATE_REAL_DATA"])
Terms = Mapping[str, Sequence[str]]
GERMAN = {  # forms from a dictionary: the set's files have the words by case
    "women": ["Frau", "Frauen"],
    "trans people": ["Transmensch", "Transmenschen"],
    "gay people": ["Schwuler", "Schwule", "Schwulen"],
    "black people": ["Schwarzer", "Schwarze", "Schwarzen"],
    "disabled people": ["Behinderter", "Behinderte", "Behinderten"],
    "jews": ["Jude", "Juden"],
    "refugees": ["Flüchtling", "Flüchtlings", "Flüchtlinge", "Flüchtlingen"],
}


def main() -> None:
    """Print one row for each language."""
    terms = json.loads((DATA / "multilingual_hatecheck_terms.json").read_text("utf-8"))
    cases = pd.read_parquet(DATA / "multilingual_hatecheck.parquet")
    for language, words in sorted((terms | {"german": GERMAN}).items()):
        own = cases[cases["language"] == language].reset_index(drop=True)
        cells = [_format_shares(own, list(words), find(words, own["text"])) for find in WAYS]
        print(f"| {language.title()} | " + " | ".join(cells) + " |")


def _format_shares(cases: pd.DataFrame, names: list[str], found: np.ndarray) -> str:
    columns = {name: column for column, name in enumerate(names)}
    own = cases["target"].map(columns).fillna(-1).astype(int)
    is_own = own.to_numpy()[:, None] == np.arange(len(names))
    hit, wrong = (found & is_own).any(axis=1), (found & ~is_own).any(axis=1)
    named = cases["names_identity"].to_numpy() & is_own.any(axis=1)
    hides = cases["functionality"].str.startswith("spell_").to_numpy()
    plain = f"{100 * hit[named & ~hides].mean():.1f}"
    return f"{plain} | {100 * hit[named & hides].mean():.1f} | {100 * wrong.mean():.2f}"


def _find_parts(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    folded = [[word.lower() for word in words] for words in terms.values()]
    return np.array(
        [[any(word in text.lower() for word in words) for words in folded] for text in texts]
    )


def _find_words(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    patterns = [
        re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
        for words in terms.values()
    ]
    return np.array([[pattern.search(text) is not None for pattern in patterns] for text in texts])


def _find_by_script(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    return TermMatcher(terms).mentions(list(texts))


WAYS: tuple[Callable[[Terms, Sequence[str]], np.ndarray], ...] = (
    _find_parts,
    _find_words,
    _find_by_script,
)

if __name__ == "__main__":
    main()
