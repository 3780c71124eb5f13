"""Method `lighter`: comments that mention an identity count less."""

import numpy as np

from biasgate.extend import Method, MethodUndoneError, TrainingChange


class Lighter(Method):
    weight: float = 0.5

    def change(self, rows, pool, rng):
        named = rows.mentions.any(axis=1)
        if not named.any():
            raise MethodUndoneError(f"method {self.called}: no comment mentions an identity.")
        weights = np.where(named, self.weight, 1.0)
        return TrainingChange(
            weights=weights / weights.mean(),
            report={"n_lighter": int(named.sum())},
            sentences=(f"{named.sum():,} comments count {self.weight:g} times.",),
        )
