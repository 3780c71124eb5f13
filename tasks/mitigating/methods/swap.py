"""Method `swap`: add each comment with a term again, with the term of another identity."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from bias_metrics.parts import counted
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.mitigating.methods.method import Change, MethodUndoneError, RowMethod
from biasgate.tasks.mitigating.rows import TrainingRows, added_rows, fresh_ids


class Swap(RowMethod):
    """Counterfactual augmentation: the swapped comment keeps its label."""

    kind: Literal["swap"]
    copies: Annotated[int, Field(ge=1, le=20)] = 1
    """Swapped versions of each comment that mentions an identity."""

    def require(self, rows: TrainingRows) -> None:
        """Refuse rows without terms to swap."""
        self._matcher(rows)

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Swap the terms."""
        del pool
        matcher = self._matcher(rows)
        known, ids, texts, labels = set(rows.texts), [], [], []
        given = rows.table["label"].to_numpy()
        named = rows.table["id"].to_pylist()
        for at, text in enumerate(rows.texts):
            for copy in range(self.copies):
                swapped = matcher.swapped(text, rng)
                if swapped is not None and swapped not in known:
                    known.add(swapped)
                    ids.append(f"swap-{copy}/{named[at]}")
                    texts.append(swapped)
                    labels.append(given[at])
        added = added_rows(rows, fresh_ids(rows, ids, self.called), texts, labels)
        said = (
            f"{counted(len(ids), 'comment is', 'comments are')} added with terms of other "
            "identities. Terms are swapped "
            "without regard to grammar: plurals, articles and words of two meanings may be wrong."
        )
        return Change(
            added, report={"n_added": len(ids), "grammar": "not regarded"}, sentences=(said,)
        )

    def _matcher(self, rows: TrainingRows) -> TermMatcher:
        if rows.matcher is None or len(rows.matcher.identities) < 2:
            msg = (
                f"left out, because training set {rows.name!r} needs `terms` of at least two "
                "identities, whose words are swapped."
            )
            raise MethodUndoneError(msg)
        return rows.matcher
