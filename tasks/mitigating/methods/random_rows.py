"""Method `random`: as many rows as `pool` adds, drawn at random: the control."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from biasgate.tasks.mitigating.methods.method import Change, RowMethod
from biasgate.tasks.mitigating.methods.pool import choose, first_ones, required, taken
from biasgate.tasks.mitigating.rows import TrainingRows


class RandomRows(RowMethod):
    """Random rows of the pool, whatever terms and lengths they have.

    If this helps as much as `pool`, more data helps, and not the balance.
    """

    needs_pool: ClassVar[bool] = True

    kind: Literal["random"]
    wrong_labels: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """As in `pool`, so that the number of rows is the same."""

    def change(
        self, rows: TrainingRows, pool: TrainingRows | None, rng: np.random.Generator
    ) -> Change:
        """Draw rows."""
        pool = required(pool, self.called)
        wanted = choose(rows, pool, rng, self.wrong_labels).chosen.size
        known = set(rows.texts)
        new = first_ones(pool.texts) & np.array([one not in known for one in pool.texts], bool)
        chosen = rng.permutation(np.flatnonzero(new))[:wanted]
        said = f"{chosen.size:,} rows of the pool are added at random, as many as `pool` adds."
        return Change(
            taken(rows, pool, chosen), report={"n_added": int(chosen.size)}, sentences=(said,)
        )
