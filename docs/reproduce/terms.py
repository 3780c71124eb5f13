"""Which cases of Multilingual HateCheck name an identity, by three ways to find its words.

    BIASGATE_REAL_DATA=data python docs/reproduce/terms.py

A case is one sentence of a template, filled with one identity. Recall is the share of the cases
whose template has a place for an identity in which the identity is found. Cases that write its word
so as to hide it (functions `spell_*`) count apart. A case is wrong if an identity is found that is
not its own. Prints rows of Markdown, and no text.
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
GERMAN = {  # whose words stand in the set's files by case; these are the forms of a dictionary
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
        of = cases[cases["language"] == language].reset_index(drop=True)
        cells = [_cells(of, list(words), find(words, of["text"])) for find in WAYS]
        print(f"| {language.title()} | " + " | ".join(cells) + " |")


def _cells(cases: pd.DataFrame, names: list[str], found: np.ndarray) -> str:
    own = cases["target"].map({name: at for at, name in enumerate(names)}).fillna(-1).astype(int)
    is_own = own.to_numpy()[:, None] == np.arange(len(names))
    hit, wrong = (found & is_own).any(axis=1), (found & ~is_own).any(axis=1)
    named = cases["names_identity"].to_numpy() & is_own.any(axis=1)
    hides = cases["functionality"].str.startswith("spell_").to_numpy()
    plain = f"{100 * hit[named & ~hides].mean():.1f}"
    return f"{plain} | {100 * hit[named & hides].mean():.1f} | {100 * wrong.mean():.2f}"


def _as_parts(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    folded = [[word.lower() for word in words] for words in terms.values()]
    return np.array([[any(w in text.lower() for w in of) for of in folded] for text in texts])


def _as_words(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    patterns = [
        re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
        for words in terms.values()
    ]
    return np.array([[pattern.search(text) is not None for pattern in patterns] for text in texts])


def _by_script(terms: Terms, texts: Sequence[str]) -> np.ndarray:
    return TermMatcher(terms).mentions(list(texts))


WAYS: tuple[Callable[[Terms, Sequence[str]], np.ndarray], ...] = (_as_parts, _as_words, _by_script)

if __name__ == "__main__":
    main()
