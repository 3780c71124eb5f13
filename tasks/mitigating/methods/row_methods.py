"""Methods that add or weight training rows.

`pool` adds non-toxic comments with the affected terms, after Dixon et al. (2018). Its control,
`random`, adds the same number of comments at random. `reweight` weights rows, and `swap` adds
comments with the terms of other identities.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from bias_metrics.mitigation import PoolChoice, balance_with_pool, balancing_weights
from bias_metrics.parts import format_count, reaches_cut
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.mitigating.methods.method import Method, MethodUndoneError, TrainingChange
from biasgate.tasks.mitigating.rows import TrainingRows, build_rows, make_unique_ids


class Pool(Method):
    """Rows of the pool until each term is toxic as often as its bucket of length."""

    needs_pool: ClassVar[bool] = True

    kind: Literal["pool"]

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> TrainingChange:
        """Choose rows of the pool, and report the cells that it could not fill."""
        pool = require_pool(pool, self.called)
        choice = choose_rows(rows, pool, rng)
        unfilled = [
            {
                "term": rows.identities[cell.term],
                "bucket": cell.bucket,
                "needed": cell.needed,
                "added": cell.added,
                "lacking": cell.lacking,
                "share_after": cell.share_after,
                "prior": cell.prior,
            }
            for cell in choice.unfilled_cells
        ]
        cells = [cell | {"term": rows.identities[cell["term"]]} for cell in choice.rows()]
        report = {
            "n_added": int(choice.chosen.size),
            "n_unfilled": len(unfilled),
            "unfilled": unfilled,
            "cells": cells,
        }
        sentences = [f"{choice.chosen.size:,} of {pool.n:,} rows of the pool are added."]
        if unfilled:
            names = ", ".join(dict.fromkeys(str(cell["term"]) for cell in unfilled[:5]))
            sentences.append(
                f"The pool could not fill {len(unfilled)} of {len(cells)} pairs of term and length "
                f"({names}{', ...' if len(unfilled) > 5 else ''}) completely."
            )
        return TrainingChange(
            take_rows(rows, pool, choice.chosen), report=report, sentences=tuple(sentences)
        )


def require_pool(pool: TrainingRows | None, method: str) -> TrainingRows:
    """Return the pool; refuse a missing pool, and a pool with toxic rows."""
    if pool is None:
        msg = f"method {method} must have a `pool` of non-toxic comments in `mitigation`."
        raise InputError(msg)
    n_toxic = int(pool.labels.sum())
    if n_toxic:
        msg = (
            f"pool {pool.name!r} must not have toxic rows; {n_toxic:,} of {pool.n:,} are labelled "
            "toxic. Remove them from the file: added rows are learned as non-toxic."
        )
        raise InputError(msg)
    return pool


def require_pool_identities(pool: TrainingRows, rows: TrainingRows) -> None:
    """Refuse a pool without the training set's identities, if annotators labelled them."""
    missing = [identity for identity in rows.identities if identity not in pool.masks]
    if rows.matcher is None and missing:
        msg = f"pool {pool.name!r} must have the identities of {rows.name!r}; lacks {missing[0]}."
        raise InputError(msg)


def choose_rows(rows: TrainingRows, pool: TrainingRows, rng: np.random.Generator) -> PoolChoice:
    """Choose rows of a pool that balance the terms, without texts of the training set."""
    rows.require_classes()
    training_texts = set(rows.texts)
    is_new = np.array([text not in training_texts for text in pool.texts], dtype=bool)
    is_new &= mask_first_texts(pool.texts)
    choice = balance_with_pool(
        rows.labels,
        rows.buckets,
        rows.mentions,
        pool.buckets[is_new],
        match_identities(rows, pool)[is_new],
        rng=rng,
    )
    return PoolChoice(np.flatnonzero(is_new)[choice.chosen], choice.cells)


def mask_first_texts(texts: list[str]) -> np.ndarray:
    """Return a mask of the first occurrence of each text."""
    first_index: dict[str, int] = {}
    return np.array([first_index.setdefault(text, i) == i for i, text in enumerate(texts)], bool)


def match_identities(rows: TrainingRows, pool: TrainingRows) -> np.ndarray:
    """Return the mentions of the training set's identities in the pool, a column per identity."""
    require_pool_identities(pool, rows)
    if rows.matcher is None:
        return np.stack([pool.masks[name] for name in rows.identities], axis=1)
    mentions = rows.matcher.mentions(pool.texts)
    return mentions[:, [rows.matcher.identities.index(name) for name in rows.identities]]


def take_rows(rows: TrainingRows, pool: TrainingRows, chosen: np.ndarray) -> pa.Table:
    """Return the chosen rows of a pool with the columns of the training set."""
    ids = pool.table["id"].take(pa.array(chosen)).to_pylist()
    texts = [pool.texts[i] for i in chosen.tolist()]
    identities = None
    if rows.matcher is None:
        names = [column for column in rows.table.column_names if column.startswith("identity/")]
        identities = np.stack(
            [
                reaches_cut(pool.table[name].to_numpy(), pool.identity_threshold)[chosen]
                for name in names
            ],
            axis=1,
        )
    return build_rows(
        rows, make_unique_ids(rows, ids, pool.name), texts, np.zeros(len(ids)), identities
    )


class RandomRows(Method):
    """Random rows of the pool, whatever terms and lengths they have.

    If this helps as much as `pool`, more data helps, and not the balance.
    """

    needs_pool: ClassVar[bool] = True

    kind: Literal["random"]

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> TrainingChange:
        """Draw as many rows as `pool` would add."""
        pool = require_pool(pool, self.called)
        n_wanted = choose_rows(rows, pool, rng).chosen.size
        training_texts = set(rows.texts)
        is_new = mask_first_texts(pool.texts) & np.array(
            [text not in training_texts for text in pool.texts], bool
        )
        chosen = rng.permutation(np.flatnonzero(is_new))[:n_wanted]
        sentence = f"{chosen.size:,} rows of the pool are added at random, as many as `pool` adds."
        return TrainingChange(
            take_rows(rows, pool, chosen),
            report={"n_added": int(chosen.size)},
            sentences=(sentence,),
        )


class Reweight(Method):
    """Importance weights per identity and label; no row is added."""

    kind: Literal["reweight"]
    scheme: Literal["prior", "equal"] = "prior"
    """`prior`: toxic comments become as frequent with each identity as without it. `equal`: each
    identity and label has the same weight."""
    most: Annotated[float, Field(gt=1)] = 20.0
    """Largest weight of a row."""

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> TrainingChange:
        """Compute the weights."""
        del pool, rng
        rows.require_classes()
        weighting = balancing_weights(rows.labels, rows.masks, scheme=self.scheme, most=self.most)
        distances = {
            name: abs(float(share) - weighting.prior)
            for name, share in weighting.after.items()
            if share.value is not None
        }
        farthest = max(distances, key=lambda name: distances[name])
        share_after = float(weighting.after[farthest])
        sentence = (
            f"Weights are {weighting.weights.min():.3g} to {weighting.weights.max():.3g}; the "
            f"effective sample size is {weighting.effective_rows:,.0f} of {rows.n:,} rows. "
            f"Farthest from the prior {weighting.prior:.3f} after weighting: {farthest} with "
            f"{share_after:.3f}."
        )
        return TrainingChange(
            weights=weighting.weights, report=weighting.to_dict(), sentences=(sentence,)
        )


class Swap(Method):
    """Add comments with the identities swapped; each keeps its label."""

    kind: Literal["swap"]
    copies: Annotated[int, Field(ge=1, le=20)] = 1
    """Swapped versions of each comment that mentions an identity."""

    def require(self, rows: TrainingRows) -> None:
        """Refuse rows without terms to swap."""
        self._require_matcher(rows)

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> TrainingChange:
        """Swap the terms."""
        del pool
        matcher = self._require_matcher(rows)
        known_texts, ids, texts, labels = set(rows.texts), [], [], []
        table_labels = rows.table["label"].to_numpy()
        table_ids = rows.table["id"].to_pylist()
        for i, text in enumerate(rows.texts):
            for copy in range(self.copies):
                swapped = matcher.swap_terms(text, rng)
                if swapped is not None and swapped not in known_texts:
                    known_texts.add(swapped)
                    ids.append(f"swap-{copy}/{table_ids[i]}")
                    texts.append(swapped)
                    labels.append(table_labels[i])
        added = build_rows(rows, make_unique_ids(rows, ids, self.called), texts, labels)
        sentence = (
            f"{format_count(len(ids), 'comment is', 'comments are')} added with terms of other "
            "identities. Terms are swapped "
            "without regard to grammar: plurals, articles and words of two meanings may be wrong."
        )
        return TrainingChange(
            added, report={"n_added": len(ids), "grammar": "not regarded"}, sentences=(sentence,)
        )

    def _require_matcher(self, rows: TrainingRows) -> TermMatcher:
        if rows.matcher is None or len(rows.matcher.identities) < 2:
            msg = (
                f"left out, because training set {rows.name!r} needs `terms` of at least two "
                "identities to swap."
            )
            raise MethodUndoneError(msg)
        return rows.matcher
