"""Identity terms found in comments, against a regular expression and `pyahocorasick`.

English: 24 identities in Civil Comments, repeated, against a single regular expression of all terms
with a group each. Mandarin and Arabic: the cases of Multilingual HateCheck with its terms,
repeated, against an Aho-Corasick automaton in C that finds the terms as parts of texts: without
borders, on the original texts and in the normal form. Times are of the processor; ratios below 1
are shorter than the rival's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice

import ahocorasick
import numpy as np
import pandas as pd

from benchmarks._comments import load_training_comments, locate_real_data
from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from biasgate.tasks.data.scripts import fold_text
from biasgate.tasks.data.terms import TermMatcher

ROWS, ROUNDS, ROWS_A_CHUNK = 1_800_000, 1, 100_000
TERMS = {
    "male": ["man", "men", "male", "males", "he", "him", "his"],
    "female": ["woman", "women", "female", "females", "she", "her", "hers"],
    "transgender": ["transgender", "trans", "transsexual"],
    "other_gender": ["nonbinary", "genderqueer"],
    "heterosexual": ["heterosexual", "heterosexuals", "straight people"],
    "homosexual_gay_or_lesbian": ["gay", "gays", "lesbian", "lesbians", "homosexual"],
    "bisexual": ["bisexual", "bisexuals"],
    "other_sexual_orientation": ["asexual", "queer", "lgbt"],
    "christian": ["christian", "christians", "catholic", "catholics", "church"],
    "jewish": ["jew", "jews", "jewish"],
    "muslim": ["muslim", "muslims", "islam", "islamic"],
    "hindu": ["hindu", "hindus"],
    "buddhist": ["buddhist", "buddhists"],
    "atheist": ["atheist", "atheists"],
    "other_religion": ["sikh", "sikhs", "mormon", "mormons"],
    "black": ["black people", "blacks", "african american", "african americans"],
    "white": ["white people", "whites", "caucasian"],
    "asian": ["asian", "asians", "chinese", "japanese"],
    "latino": ["latino", "latinos", "latina", "hispanic", "mexican"],
    "other_race": ["native american", "first nations", "indigenous"],
    "physical_disability": ["wheelchair", "blind", "deaf", "paralyzed"],
    "intellectual_disability": ["autistic", "autism", "down syndrome"],
    "mental_illness": ["mentally ill", "schizophrenic", "bipolar", "depression"],
    "other_disability": ["disabled", "disability", "handicapped"],
}


def measure(rows: int | None = None) -> Measurement:
    """Time each language: 1.8 million English comments, a million of the others."""
    n_rows = rows or ROWS
    english, _ = load_training_comments()
    figures = _compare_matchers(
        "English", english, n_rows, TERMS, {"one regular expression": _make_pattern}
    )
    folder = locate_real_data()
    all_terms = json.loads((folder / "multilingual_hatecheck_terms.json").read_text("utf-8"))
    cases = pd.read_parquet(folder / "multilingual_hatecheck.parquet")
    for language in ("mandarin", "arabic"):
        figures |= _compare_matchers(
            language.title(),
            cases.loc[cases["language"] == language, "text"].tolist(),
            n_rows * 5 // 9,
            all_terms[language],
            {
                "pyahocorasick, as they are": lambda terms: _make_automaton(terms, str),
                "pyahocorasick, normal form": lambda terms: _make_automaton(terms, fold_text),
            },
        )
    return Measurement(
        inputs={"comments, English": n_rows, "comments, others": n_rows * 5 // 9, "identities": 24},
        figures=figures,
        packages=("numpy", "pyahocorasick"),
    )


Terms = Mapping[str, Sequence[str]]
Find = Callable[[Sequence[str]], np.ndarray]


def _compare_matchers(
    language: str,
    texts: Sequence[str],
    n_rows: int,
    terms: Terms,
    rivals: Mapping[str, Callable[[Terms], Find]],
) -> dict[str, float]:
    """Return comments a second, and the ratios of the time to the rivals' times."""
    repeated = list(islice(cycle(texts), n_rows))

    def count_mentions(make: Callable[[Terms], Find]) -> int:
        find = make(terms)
        starts = range(0, n_rows, ROWS_A_CHUNK)
        return sum(int(find(repeated[row : row + ROWS_A_CHUNK]).sum()) for row in starts)

    makers = {"biasgate": lambda terms: TermMatcher(terms).mentions, **rivals}
    times, _ = time_contenders(
        {name: partial(count_mentions, make) for name, make in makers.items()},
        ROUNDS,
        clock=time.process_time,
    )
    figures = {
        f"{language}, comments/s, {name}": n_rows / min(seconds) for name, seconds in times.items()
    }
    return figures | {
        f"{language}, time, ratio to {name}": compute_median_ratio(times["biasgate"], times[name])
        for name in rivals
    }


def _make_pattern(terms: Terms) -> Find:
    columns = {word: column for column, words in enumerate(terms.values()) for word in words}
    longest_first = sorted(columns, key=len, reverse=True)
    groups = "|".join("(" + r"\s+".join(map(re.escape, w.split())) + ")" for w in longest_first)
    pattern = re.compile(rf"(?<!\w)(?:{groups})(?!\w)", re.IGNORECASE)
    column_by_group = [columns[word] for word in longest_first]

    def find(texts: Sequence[str]) -> np.ndarray:
        mentions = np.zeros((len(texts), len(terms)), dtype=np.bool_)
        for row, text in enumerate(texts):
            for match in pattern.finditer(text):
                mentions[row, column_by_group[(match.lastindex or 0) - 1]] = True
        return mentions

    return find


def _make_automaton(terms: Terms, normalize: Callable[[str], str]) -> Find:
    automaton = ahocorasick.Automaton()
    for column, words in enumerate(terms.values()):
        for word in words:
            automaton.add_word(normalize(word), column)
    automaton.make_automaton()

    def find(texts: Sequence[str]) -> np.ndarray:
        mentions = np.zeros((len(texts), len(terms)), dtype=np.bool_)
        for row, text in enumerate(texts):
            for _, column in automaton.iter(normalize(text)):
                mentions[row, column] = True
        return mentions

    return find
