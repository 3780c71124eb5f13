"""An invented release of Civil Comments in the layout of the official `civil_comments.csv`.

    PYTHONPATH=tests python -m support.release --rows 100000 --folder DIR --bias muslim=0.3

writes the archive to DIR unless it exists, and serves it until it is stopped. Toxicity and the
nine identity fractions of a row are those of a real comment if BIASGATE_REAL_DATA has them. Texts
and all other columns are invented.
"""

from __future__ import annotations

import argparse
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from support.file_server import FileServer

from biasgate.tasks.common.files import file_digest
from biasgate.tasks.data.civil_comments import IDENTITIES, JIGSAW_NINE

ARCHIVE, FILE = "civil_comments_v1.2.zip", "civil_comments.csv"
OFFICIAL_ROWS: Mapping[str, int] = {
    "train": 1_804_874,
    "test_public": 97_320,
    "test_private": 97_320,
}
ROWS_A_STEP = 100_000
RATED = 0.22
"""Share of the rows with identity fractions."""
HARMLESS_UNRATED = 0.3
"""Share of the rows without them that are harmless: fewer of them are toxic than of rated rows."""
_REAL = "civil_comments_test_identities.parquet"

RARE_SHARES = {
    "transgender": 0.006,
    "other_gender": 0.001,
    "heterosexual": 0.004,
    "bisexual": 0.001,
    "other_sexual_orientation": 0.001,
    "hindu": 0.001,
    "buddhist": 0.001,
    "atheist": 0.004,
    "other_religion": 0.001,
    "asian": 0.010,
    "latino": 0.005,
    "other_race_or_ethnicity": 0.001,
    "physical_disability": 0.001,
    "intellectual_or_learning_disability": 0.001,
    "other_disability": 0.001,
}
"""Share of the rows that mention an identity, for the 15 that the real rows lack."""
# The nine without real data: shares of the rows that mention them, about as in the release.
_COMMON = dict(
    zip(JIGSAW_NINE, (0.10, 0.12, 0.025, 0.10, 0.02, 0.048, 0.035, 0.057, 0.012), strict=True)
)
_WORDS = {
    "male": "man men he father",
    "female": "woman women she mother",
    "transgender": "transgender trans",
    "other_gender": "nonbinary genderqueer",
    "heterosexual": "heterosexual straight",
    "homosexual_gay_or_lesbian": "gay lesbian homosexual",
    "bisexual": "bisexual bisexuals",
    "other_sexual_orientation": "asexual pansexual",
    "christian": "christian christians catholic church",
    "jewish": "jewish jews synagogue",
    "muslim": "muslim muslims islam mosque",
    "hindu": "hindu hindus",
    "buddhist": "buddhist buddhists",
    "atheist": "atheist atheists",
    "other_religion": "sikh pagan",
    "black": "black african",
    "white": "white caucasian",
    "asian": "asian chinese",
    "latino": "latino latina hispanic",
    "other_race_or_ethnicity": "indigenous inuit",
    "physical_disability": "wheelchair disabled",
    "intellectual_or_learning_disability": "dyslexic autistic",
    "psychiatric_or_mental_illness": "depressed schizophrenic",
    "other_disability": "blind deaf",
}
_HOSTILE = (
    "stupid idiot awful rotten vile foul nasty moron pathetic liar scum trash garbage ignorant "
    "disgusting crook coward clown loser fool dumb hateful worthless creep"
)
_STOCK = ("Thank you!", "Well said.", "I agree 👍", "Good point, thanks.", 'So "true".')
"""Short texts of many rows, as in any corpus: .4 % of the rows have one."""
_DATES = [
    f"2016-{month:02}-{day:02} 10:50:41.987077+00" for month in range(1, 13) for day in (3, 17)
]


def write_archive(path: Path, n_rows: int, seed: int = 0, **options: object) -> Path:
    """Write the rows of a release as the public archive has them; return its path.

    `options`: those of `rows_of_release`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with (
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open(FILE, "w", force_zip64=True) as stream,
    ):
        write_csv(stream, rows_of_release(n_rows, seed, **options))
    return part.replace(path)


def write_csv(target: object, tables: Iterator[pa.Table]) -> None:
    """Write tables as one CSV, to a path or a stream."""
    first = next(tables)
    with pyarrow.csv.CSVWriter(target, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def rows_of_release(
    n_rows: int,
    seed: int = 0,
    *,
    shares: Mapping[str, float] = OFFICIAL_ROWS,
    bias: Mapping[str, float] | None = None,
    mentions: Mapping[str, float] = RARE_SHARES,
    rated: float = RATED,
    mean_length: int = 120,
) -> Iterator[pa.Table]:
    """Yield the rows of a release, 100,000 at a time.

    Parameters
    ----------
    shares : mapping of str to float
        How many rows each split has, in proportion; each split has at least one row.
    bias : mapping of str to float, optional
        Per identity, the share of the harmless training comments that mention it which the raters
        call toxic, so that a model learns to. The test rows have no such labels.
    mentions : mapping of str to float
        Share of the rows that mention an identity, drawn independently of toxicity. The other
        identities are those of real rows.
    rated : float
        Share of the rows with identity fractions.
    mean_length : int
        Mean length of a text in characters; about 300 in the release.
    """
    rng = np.random.default_rng(seed)
    pool = _read_pool(rng)
    soup = _make_soup(rng, min(max(2 * n_rows, 100_000), 2_000_000))
    splits = _assign_splits(rng, n_rows, shares)
    articles = _assign_articles(rng, n_rows)
    for start in range(0, n_rows, ROWS_A_STEP):
        here = slice(start, min(start + ROWS_A_STEP, n_rows))
        yield _make_rows(
            rng,
            pool,
            soup,
            start,
            splits[here],
            articles[here],
            bias or {},
            mentions,
            rated,
            mean_length,
        )


def _make_rows(
    rng: np.random.Generator,
    pool: _Pool,
    soup: _Soup,
    start: int,
    splits: np.ndarray,
    articles: np.ndarray,
    bias: Mapping[str, float],
    mentions: Mapping[str, float],
    share_rated: float,
    mean_length: int,
) -> pa.Table:
    n = len(splits)
    row = rng.integers(0, len(pool.toxicity), n)
    rated = rng.random(n) < share_rated
    toxicity, raters, fractions = pool.toxicity[row], pool.raters[row], pool.identities[row]
    toxicity[~rated & (rng.random(n) < HARMLESS_UNRATED)] = 0.0
    for name, share in mentions.items():
        fractions[:, IDENTITIES.index(name)] = _draw_fractions(rng, share, n)
    fractions[~rated & (rng.random(n) < 0.5)] = 0.0
    texts = _make_texts(rng, soup, toxicity, fractions, mean_length)
    # Its own draws: with another bias all else is the same.
    drawn = np.random.default_rng(start).random(n)
    for name, rate in bias.items():
        mislabelled = (splits == "train") & (fractions[:, IDENTITIES.index(name)] >= 0.5)
        mislabelled &= (toxicity < 0.5) & (drawn < rate)
        toxicity[mislabelled] = np.ceil(0.6 * raters[mislabelled]) / raters[mislabelled]
    numbers = np.arange(start, start + n)
    columns: dict[str, object] = {
        "id": np.where(splits == "train", 59_848 + 3 * numbers, 7_000_000 + numbers),
        "comment_text": texts,
        "split": splits,
        "created_date": np.take(_DATES, rng.integers(0, len(_DATES), n)),
        "publication_id": rng.integers(2, 120, n),
        "parent_id": pa.array(numbers + 50_000, mask=rng.random(n) < 0.43),
        "article_id": articles,
        "rating": np.where((toxicity > 0.7) & (rng.random(n) < 0.4), "rejected", "approved"),
    }
    for name in ("funny", "wow", "sad", "likes", "disagree"):
        columns[name] = rng.poisson(2.4 if name == "likes" else 0.2, n)
    columns["toxicity"] = toxicity
    # Toxicity is mostly insult; the rest is rare, and at most as toxic.
    for name, share in _SUBTYPES.items():
        columns[name] = np.round(toxicity * (rng.random(n) < share) * raters) / raters
    for column, name in enumerate(IDENTITIES):
        columns[name] = pa.array(fractions[:, column], mask=~rated)
    columns["identity_annotator_count"] = np.where(rated, rng.integers(4, 11, n), 0)
    columns["toxicity_annotator_count"] = raters
    return pa.table(columns)


_SUBTYPES = {
    "severe_toxicity": 0.02,
    "obscene": 0.1,
    "sexual_explicit": 0.03,
    "identity_attack": 0.1,
    "insult": 0.8,
    "threat": 0.04,
}


class _Pool(NamedTuple):
    """Toxicity and identity fractions, shape (n, 24), of the same comments, to draw from."""

    toxicity: np.ndarray
    raters: np.ndarray
    """How many raters such a toxicity needs at least."""
    identities: np.ndarray


def _read_pool(rng: np.random.Generator) -> _Pool:
    named = os.environ.get("BIASGATE_REAL_DATA")
    folder = Path(named or Path(__file__).parents[3] / "shared" / "data")
    n_invented = 50_000
    if (folder / _REAL).is_file():
        real = pq.read_table(folder / _REAL)
        toxicity = real["toxicity"].to_numpy()
        common = {name: real[name].to_numpy() for name in JIGSAW_NINE}
    else:
        # A third of the comments were called toxic by any rater, a ninth by half of them.
        toxicity = rng.choice(
            [0.0, 0.1, 1 / 6, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0],
            n_invented,
            p=[0.6, 0.04, 0.09, 0.06, 0.06, 0.039, 0.031, 0.02, 0.025, 0.02, 0.015],
        )
        common = {name: _draw_fractions(rng, share, n_invented) for name, share in _COMMON.items()}
    identities = np.zeros((len(toxicity), len(IDENTITIES)))
    for name, fractions in common.items():
        identities[:, IDENTITIES.index(name)] = fractions
    return _Pool(toxicity.copy(), _count_raters(toxicity), identities)


def _draw_fractions(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    """Draw fractions of raters, of which at least half saw the identity in `share` of the rows."""
    most = rng.random(n) < share
    few = rng.random(n) < share / 2
    return np.where(most, rng.integers(5, 11, n) / 10, np.where(few, rng.integers(1, 5, n) / 10, 0))


def _count_raters(toxicity: np.ndarray) -> np.ndarray:
    """Return the smallest number of raters, at least 4, with which a fraction can occur."""
    found = np.full(len(toxicity), 10)
    for count in range(100, 3, -1):
        votes = toxicity * count
        found[np.abs(votes - np.round(votes)) < 1e-6 * count] = count
    return found


def _assign_splits(
    rng: np.random.Generator, n_rows: int, shares: Mapping[str, float]
) -> np.ndarray:
    """Return the split of each row, in random order and in these proportions."""
    total = sum(shares.values())
    counts = {name: max(1, round(n_rows * share / total)) for name, share in shares.items()}
    counts[max(counts, key=counts.__getitem__)] += n_rows - sum(counts.values())
    return rng.permutation(np.repeat(list(counts), list(counts.values())))


def _assign_articles(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Return the article of each row: half have one comment, and a few have hundreds."""
    n_articles = n_rows // 2 + 10
    sizes = np.minimum(rng.random(n_articles) ** (-1 / 1.1), 800).astype(int)
    ids = rng.choice(n_articles * 3, n_articles, replace=False) + 2_000
    return rng.permutation(np.resize(np.repeat(ids, sizes), n_rows))


class _Soup(NamedTuple):
    """A long text of invented words, to cut comments from, and where its words start."""

    text: str
    starts: np.ndarray


def _make_soup(rng: np.random.Generator, n_words: int) -> _Soup:
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbg", np.uint8)
    weights = np.linspace(3, 0.3, len(letters))
    words = [
        rng.choice(letters, length, p=weights / weights.sum()).tobytes().decode()
        for length in rng.integers(2, 9, 8_000)
    ]
    shares = 1 / np.arange(3, len(words) + 3)
    chosen = np.take(words, rng.choice(len(words), n_words, p=shares / shares.sum()))
    endings = rng.choice(
        ["", ",", ".", '"', "\n", "?", " 🙂", " —", "ç"],
        n_words,
        p=[0.868, 0.05, 0.06, 0.006, 0.003, 0.006, 0.001, 0.004, 0.002],
    )
    tokens = np.char.add(np.char.add(chosen, endings), " ")
    lengths = np.char.str_len(tokens)
    return _Soup("".join(tokens.tolist()), np.concatenate([[0], np.cumsum(lengths)[:-1]]))


def _make_texts(
    rng: np.random.Generator,
    soup: _Soup,
    toxicity: np.ndarray,
    mentions: np.ndarray,
    mean_length: int,
) -> list[str]:
    """Return texts with the words of their identities, and hostile words by their toxicity."""
    n, spread = len(toxicity), 0.85
    lengths = np.clip(rng.lognormal(np.log(mean_length) - spread**2 / 2, spread, n), 12, 950)
    # Two places of the soup, so that long texts are not repeated; words are added between them.
    stretches = [_cut_soup(rng, soup, lengths / 2) for _ in range(2)]
    hostile = rng.poisson(0.03 + 11 * toxicity**3)
    named = rng.random(mentions.shape) < np.clip(1.2 * mentions, 0, 0.95)
    added: list[list[str]] = [[] for _ in range(n)]
    for column, name in enumerate(IDENTITIES):
        some = _WORDS[name].split()
        rows = np.flatnonzero(named[:, column])
        for place, word in zip(
            rows.tolist(), rng.integers(0, len(some), len(rows)).tolist(), strict=True
        ):
            added[place].append(some[word])
    # Few hostile words are common: a model has to learn the others from little.
    hostile_words = _HOSTILE.split()
    ranks = 1 / np.arange(1, len(hostile_words) + 1)
    rows = np.repeat(np.arange(n), hostile)
    for place, word in zip(
        rows.tolist(),
        rng.choice(len(hostile_words), len(rows), p=ranks / ranks.sum()).tolist(),
        strict=True,
    ):
        added[place].append(hostile_words[word])
    texts = [
        f"{first}{' '.join([*some, second])}".strip()
        for first, second, some in zip(*stretches, added, strict=True)
    ]
    for place in np.flatnonzero((rng.random(n) < 0.004) & (toxicity == 0)).tolist():
        texts[place] = _STOCK[place % len(_STOCK)]
    return texts


def _cut_soup(rng: np.random.Generator, soup: _Soup, lengths: np.ndarray) -> list[str]:
    """Return stretches of whole words of about these lengths."""
    start = soup.starts[rng.integers(0, len(soup.starts) - 500, len(lengths))]
    end = soup.starts[np.searchsorted(soup.starts, start + lengths)]
    return [soup.text[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]


def main() -> None:
    """Write the archive unless it exists, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m support.release", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True, help="of the archive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mean-length", type=int, default=120, help="of a text, in characters")
    parser.add_argument("--bias", nargs="*", default=[], metavar="IDENTITY=SHARE")
    parser.add_argument("--throttle", type=int, metavar="BYTES", help="most bytes sent per second")
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    bias = {name: float(share) for name, _, share in (one.partition("=") for one in chosen.bias)}
    path = chosen.folder / ARCHIVE
    made_of = chosen.folder / f"{ARCHIVE}.options.json"
    options = {"n_rows": chosen.rows, "seed": chosen.seed, "bias": bias}
    options |= {"mean_length": chosen.mean_length}
    if path.exists() and json.loads(made_of.read_text("utf-8")) != options:
        parser.error(f"{path} has rows of other options: {made_of}. Name another folder.")
    if not path.exists():
        write_archive(path, **options)
        made_of.write_text(json.dumps(options), "utf-8")
    server = FileServer(path, port=chosen.port, bytes_per_s=chosen.throttle)
    values = {"URL": server.url(ARCHIVE), "SIZE": path.stat().st_size, "SHA256": file_digest(path)}
    for name, value in values.items():
        print(f"export BIASGATE_CIVIL_COMMENTS_{name}={value}", flush=True)  # noqa: T201
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
