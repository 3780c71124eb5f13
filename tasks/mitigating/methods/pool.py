"""Method `pool`: add non-toxic comments of the affected terms, after Dixon et al. (2018)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from bias_metrics import PoolChoice
from bias_metrics.mitigation import balance_with_pool
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mitigating.methods.method import Change, RowMethod
from biasgate.tasks.mitigating.rows import TrainingRows, added_rows, fresh_ids


class Pool(RowMethod):
    """Rows of the pool until each term is toxic as often as its bucket of length."""

    needs_pool: ClassVar[bool] = True

    kind: Literal["pool"]
    wrong_labels: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the pool that is assumed to be toxic in truth; more rows are added then."""

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Choose rows, and say how far the pool went."""
        pool = required(pool, self.called)
        found = choose(rows, pool, rng, self.wrong_labels)
        lacking = [
            {
                "term": rows.identities[one.term],
                "bucket": one.bucket,
                "needed": one.needed.value,
                "added": one.added,
                "lacking": one.lacking,
                "share_after": one.share_after,
                "prior": one.prior,
            }
            for one in found.lacking
        ]
        cells = [row | {"term": rows.identities[row["term"]]} for row in found.rows()]
        report = {
            "n_added": int(found.chosen.size),
            "wrong_labels": self.wrong_labels,
            "n_unfilled": len(lacking),
            "unfilled": lacking,
            "cells": cells,
        }
        said = [
            (
                f"{found.chosen.size:,} of {pool.n:,} rows of the pool are added; its share of "
                f"wrong labels is taken as {self.wrong_labels:g}."
            )
        ]
        if lacking:
            some = ", ".join(dict.fromkeys(str(one["term"]) for one in lacking[:5]))
            said.append(
                f"The pool could not fill {len(lacking)} of {len(cells)} terms and lengths "
                f"({some}{', ...' if len(lacking) > 5 else ''}); it went as far as it could."
            )
        return Change(taken(rows, pool, found.chosen), report=report, sentences=tuple(said))


def required(pool: TrainingRows | None, called: str) -> TrainingRows:
    """Return the pool; refuse its absence, and toxic rows in it."""
    if pool is None:
        msg = f"method {called} must have a `pool` of non-toxic comments in `mitigation`."
        raise InputError(msg)
    n_toxic = int(pool.labels.sum())
    if n_toxic:
        msg = (
            f"pool {pool.name!r} must have no toxic rows; {n_toxic:,} of {pool.n:,} are labelled "
            "toxic. Remove them from the file: added rows are learned as non-toxic."
        )
        raise InputError(msg)
    return pool


def require_identities(pool: TrainingRows, rows: TrainingRows) -> None:
    """Refuse a pool without the training set's identities, where people labelled these."""
    lacking = [one for one in rows.identities if one not in pool.masks]
    if rows.matcher is None and lacking:
        msg = f"pool {pool.name!r} must have the identities of {rows.name!r}; lacks {lacking[0]}."
        raise InputError(msg)


def choose(
    rows: TrainingRows, pool: TrainingRows, rng: np.random.Generator, wrong_labels: float
) -> PoolChoice:
    """Choose the rows that balance the terms; texts of the training set are not added again."""
    rows.require_classes()
    known = set(rows.texts)
    new = np.array([text not in known for text in pool.texts], dtype=bool)
    new &= first_ones(pool.texts)
    found = balance_with_pool(
        rows.labels,
        rows.buckets,
        rows.mentions,
        pool.buckets[new],
        mentions_of(rows, pool)[new],
        rng=rng,
        wrong_labels=wrong_labels,
    )
    return PoolChoice(np.flatnonzero(new)[found.chosen], found.cells)


def first_ones(texts: list[str]) -> np.ndarray:
    """Return which texts occur for the first time."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(text, at) == at for at, text in enumerate(texts)], bool)


def mentions_of(rows: TrainingRows, pool: TrainingRows) -> np.ndarray:
    """Return which rows of the pool mention which of the training set's identities."""
    require_identities(pool, rows)
    if rows.matcher is None:
        return np.stack([pool.masks[name] for name in rows.identities], axis=1)
    found = rows.matcher.mentions(pool.texts)
    return found[:, [rows.matcher.identities.index(name) for name in rows.identities]]


def taken(rows: TrainingRows, pool: TrainingRows, chosen: np.ndarray) -> pa.Table:
    """Return the chosen rows of a pool with the columns of the training set."""
    ids = pool.table["id"].take(pa.array(chosen)).to_pylist()
    texts = [pool.texts[at] for at in chosen.tolist()]
    identities = None
    if rows.matcher is None:
        names = [one for one in rows.table.column_names if one.startswith("identity/")]
        identities = np.stack(
            [pool.table[one].to_numpy()[chosen] >= pool.identity_threshold for one in names], axis=1
        )
    return added_rows(rows, fresh_ids(rows, ids, pool.name), texts, np.zeros(len(ids)), identities)
