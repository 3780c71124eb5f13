"""Identity terms found in comments: beside one regular expression, and beside `pyahocorasick`.

English: 24 identities in Civil Comments, repeated, against one regular expression of all terms
with a group each, which is what biasgate used before it knew scripts. Mandarin and Arabic: the
cases of Multilingual HateCheck with its terms, repeated, against an Aho-Corasick automaton in C
that finds the terms as parts of texts: without borders, on the texts as they are and in the normal
form. Times are of the processor; ratios below 1 are shorter than the rival's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle, islice

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
    figures = _english(n_rows)
    for language in ("mandarin", "arabic"):
        figures |= _in_parts(language, n_rows * 5 // 9)
    return Measurement(
        inputs={"comments, English": n_rows, "comments, others": n_rows * 5 // 9, "identities": 24},
        figures=figures,
        packages=("numpy", "pyahocorasick"),
    )


def _english(n_rows: int) -> dict[str, float]:
    texts = _repeated(load_training_comments()[0], n_rows)
    return _compared(
        "English",
        texts,
        lambda: TermMatcher(TERMS).mentions,
        {"one regular expression": lambda: _one_pattern(TERMS)},
    )


def _in_parts(language: str, n_rows: int) -> dict[str, float]:
    known = json.loads(
        (locate_real_data() / "multilingual_hatecheck_terms.json").read_text("utf-8")
    )
    cases = pd.read_parquet(locate_real_data() / "multilingual_hatecheck.parquet")
    texts = _repeated(cases.loc[cases["language"] == language, "text"].tolist(), n_rows)
    terms = known[language]
    return _compared(
        language.title(),
        texts,
        lambda: TermMatcher(terms).mentions,
        {
            "pyahocorasick, as they are": lambda: _automaton(terms, lambda text: text),
            "pyahocorasick, normal form": lambda: _automaton(terms, fold_text),
        },
    )


Find = Callable[[Sequence[str]], np.ndarray]


def _compared(
    language: str,
    texts: Sequence[str],
    ours: Callable[[], Find],
    rivals: Mapping[str, Callable[[], Find]],
) -> dict[str, float]:
    """Return comments a second, and the ratio of the time to that of each rival."""
    contenders = {"biasgate": ours, **rivals}
    times = time_contenders(
        {name: lambda make=make: _found(make(), texts) for name, make in contenders.items()},
        ROUNDS,
        {},
        time.process_time,
    )
    figures = {
        f"{language}, comments/s, {name}": len(texts) / min(of) for name, of in times.items()
    }
    return figures | {
        f"{language}, time, ratio to {name}": compute_median_ratio(times["biasgate"], times[name])
        for name in rivals
    }


def _found(find: Find, texts: Sequence[str]) -> int:
    return sum(
        int(find(texts[start : start + ROWS_A_CHUNK]).sum())
        for start in range(0, len(texts), ROWS_A_CHUNK)
    )


def _repeated(texts: Sequence[str], n_rows: int) -> list[str]:
    return list(islice(cycle(texts), n_rows))


def _one_pattern(terms: Mapping[str, Sequence[str]]) -> Find:
    owner = {word: at for at, words in enumerate(terms.values()) for word in words}
    longest_first = sorted(owner, key=len, reverse=True)
    groups = "|".join("(" + r"\s+".join(map(re.escape, w.split())) + ")" for w in longest_first)
    pattern = re.compile(rf"(?<!\w)(?:{groups})(?!\w)", re.IGNORECASE)
    owners = [owner[word] for word in longest_first]

    def find(texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), len(terms)), dtype=np.bool_)
        for row, text in enumerate(texts):
            for match in pattern.finditer(text):
                found[row, owners[(match.lastindex or 0) - 1]] = True
        return found

    return find


def _automaton(terms: Mapping[str, Sequence[str]], form: Callable[[str], str]) -> Find:
    automaton = ahocorasick.Automaton()
    pairs = chain.from_iterable(((form(w), at) for w in ws) for at, ws in enumerate(terms.values()))
    for word, at in pairs:
        automaton.add_word(word, at)
    automaton.make_automaton()

    def find(texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), len(terms)), dtype=np.bool_)
        for row, text in enumerate(texts):
            for _, at in automaton.iter(form(text)):
                found[row, at] = True
        return found

    return find
