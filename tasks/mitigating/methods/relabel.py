"""Method `relabel`: change toxic labels that comments about nobody contradict."""

from __future__ import annotations

from typing import Literal

import numpy as np

from bias_metrics.mitigation import relabel_to_prior
from bias_metrics.parts import counted
from biasgate.tasks.mitigating.methods.method import Change, MethodUndoneError, RowMethod
from biasgate.tasks.mitigating.rows import TrainingRows

# Rows of each class, without any of the identities, that a ranker can be learned from.
_FEWEST = 50
# Scores closer than this are ties, so that no machine's rounding decides.
_DIGITS = 9
_READ_THEM = (
    "Read some of these comments: where the label was right, the model learns to miss abuse. Their "
    "ids are in the report."
)


class Relabel(RowMethod):
    """Labels become harmless until each identity is toxic as often as comments without any.

    A model of words learns from the comments that mention none of the identities. Where an
    identity is labelled toxic more often than these, at the same length, the toxic labels that
    this model contradicts most are changed. Labels that it agrees with are kept, so an identity
    that is truly insulted more often stays so.
    """

    kind: Literal["relabel"]

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Choose the labels to change."""
        del pool, rng
        rows.require_classes()
        others = np.asarray(~rows.mentions.any(axis=1))
        fewest = min(int((others & rows.labels).sum()), int((others & ~rows.labels).sum()))
        if fewest < _FEWEST:
            msg = (
                f"method {self.called}: training set {rows.name!r} must have {_FEWEST} toxic and "
                f"{_FEWEST} harmless comments that mention none of the identities; it has "
                f"{fewest} of one class. Balance fewer identities by `only`."
            )
            raise MethodUndoneError(msg)
        scores = _ranked(rows, others)
        found = relabel_to_prior(rows.labels, scores, rows.buckets, rows.mentions, threshold=0.5)
        labels = rows.table["label"].to_numpy().copy()
        labels[found.chosen] = 0.0
        kept = sum(one.excess - one.changed for one in found.cells)
        n = counted(found.chosen.size, "label is", "labels are")
        said = [f"{n} changed from toxic to harmless, of {rows.n:,}. {_READ_THEM}"]
        if kept:
            said.append(
                f"{counted(kept, 'more label was', 'more labels were')} in excess, but comments "
                "without any of the identities agree with them: they are kept."
            )
        ids = rows.table["id"].take(found.chosen).to_pylist()
        cells = [row | {"term": rows.identities[row["term"]]} for row in found.rows()]
        report = {"n_changed": len(ids), "n_kept": kept, "cells": cells, "changed": ids}
        return Change(labels=labels, report=report, sentences=tuple(said))


def _ranked(rows: TrainingRows, others: np.ndarray) -> np.ndarray:
    """Return how toxic each row is by a model of the other rows; 1/2 is as likely as not.

    Classes are weighted alike, so that what is rare is not taken for harmless.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - slow
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, strip_accents="unicode"),
        LogisticRegression(C=10.0, class_weight="balanced", max_iter=1000),
    )
    learned = [text for text, one in zip(rows.texts, others, strict=True) if one]
    model.fit(learned, rows.labels[others])
    return np.asarray(model.predict_proba(rows.texts)[:, 1].round(_DIGITS))
