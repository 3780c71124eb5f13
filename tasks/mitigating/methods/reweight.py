"""Method `reweight`: weights that make labels independent of identities."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from bias_metrics.mitigation import balancing_weights
from biasgate.tasks.mitigating.methods.method import Change, RowMethod
from biasgate.tasks.mitigating.rows import TrainingRows


class Reweight(RowMethod):
    """Importance weights per identity and label; no row is added."""

    kind: Literal["reweight"]
    scheme: Literal["prior", "equal"] = "prior"
    """See `bias_metrics.mitigation.weights.balancing_weights`."""
    most: Annotated[float, Field(gt=1)] = 20.0
    """Largest weight of a row."""

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Compute the weights."""
        del pool, rng
        rows.require_classes()
        found = balancing_weights(rows.labels, rows.masks, scheme=self.scheme, most=self.most)
        apart = {
            name: abs(float(one) - found.prior)
            for name, one in found.after.items()
            if one.value is not None
        }
        name = max(apart, key=lambda one: apart[one])
        said = (
            f"Rows are weighted from {found.weights.min():.3g} to {found.weights.max():.3g}; they "
            f"count like {found.effective_rows:,.0f} of {rows.n:,} rows. Farthest from the prior "
            f"{found.prior:.3f} after it: {name} with {float(found.after[name]):.3f}."
        )
        return Change(weights=found.weights, report=found.to_dict(), sentences=(said,))
