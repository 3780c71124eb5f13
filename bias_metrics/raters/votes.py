"""How likely a comment is to be called toxic by a rater, given its votes, score and subgroups.

A comment has an underlying fraction: the share of all raters who would call it toxic. Its votes
are a sample of that. The model says how underlying fractions are distributed among comments with
the same score and subgroups: a Beta distribution whose two exponents, and a third term that lets
its shape depart from a Beta, are cubics in the normal score of the rank. Each subgroup, and
each frequent number of raters, shifts the log-odds by an intercept and a slope. A number of raters
also shifts the spread, since comments with more raters may be of another kind. Fractions are on a
grid that has the label threshold as one of its edges. The model is fitted by penalised maximum
likelihood of the votes. Given its own votes, each comment's fraction has a distribution of its own.

Score and subgroups must be in the model. Redrawing labels from votes alone would make them
independent of the score given the votes: each redrawn label has the noise of the votes twice, and
every AUC falls. Votes and score are taken as independent given the underlying fraction: raters did
not see the score, and the model was not trained on these votes.

References
----------
Efron (2016), Biometrika 103 (an exponential family for what is observed with noise). Meng (1994),
Statistical Science 9 (what an imputation must condition on).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray
from bias_metrics._core.ranks import Floats
from bias_metrics._core.same_cluster import Codes
from bias_metrics.raters.expected import SortedRows

_BINS, _FARTHEST = 40, 7.0  # of the grid, and its last edges in log-odds
_TERMS = 3
_PRIOR = (
    3.0,
    2.0,
    1.0,
    0.5,
)  # standard deviations of coefficients by degree, for terms of size 1 to 3
_PAIRS = tuple(combinations_with_replacement(range(_TERMS), 2))
_STEPS, _CLOSE = 100, 1e-4
_DAMPED = 1e-2


@dataclass(frozen=True, eq=False)
class Grid:
    """Underlying fractions in bins."""

    edges: Floats  # (b + 1,): From 0 to 1; the threshold is one of them
    threshold: float  # A fraction of at least this makes a comment toxic

    @classmethod
    def of(cls, threshold: float) -> Grid:
        """Make a grid that is finer near 0 and 1."""
        steps = np.linspace(-_FARTHEST, _FARTHEST, _BINS - 1)
        edges = np.concatenate([[0.0, threshold, 1.0], 1 / (1 + np.exp(-steps))])
        return cls(np.unique(edges), threshold)

    @property
    def nodes(self) -> Floats:
        """The middle of each bin."""
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2)

    @property
    def terms(self) -> Floats:
        """The three terms of the exponential family, shape (b, 3), each with mean 0."""
        nodes = self.nodes
        odds = np.log(nodes) - np.log1p(-nodes)
        found = np.stack([odds / 3, (np.log(nodes) + np.log1p(-nodes)) / 3, odds**3 / 10], axis=1)
        return np.asarray(found - found.mean(axis=0))


@dataclass(frozen=True, eq=False)
class State:
    """The model at some coefficients."""

    coefficients: Floats  # (q,): The coefficients
    likelihood: float  # Penalised log likelihood of the votes
    # before, after, (c, b): distribution of the fractions of each cell, without and given its
    # votes.
    before: Floats
    after: Floats


class VoteModel:
    """The distribution of underlying fractions, fitted to votes.

    Parameters
    ----------
    cells : VoteCells
        The votes.
    grid : Grid
        The fractions.
    """

    def __init__(self, cells: VoteCells, grid: Grid) -> None:
        self.cells = cells
        self.grid = grid
        nodes = grid.nodes
        self._width = np.log(np.diff(grid.edges))
        self._of_votes = np.outer(cells.toxic, np.log(nodes))
        self._of_votes += np.outer(cells.harmless, np.log1p(-nodes))
        self._terms = grid.terms
        common = cells.common
        self._designs = [np.hstack([common, cells.own]), np.hstack([common, cells.kinds]), common]
        own, kinds = _PRIOR[:2] * (cells.own.shape[1] // 2), _PRIOR[:1] * cells.kinds.shape[1]
        deviations = [*_PRIOR, *own, *_PRIOR, *kinds, *_PRIOR]
        self._penalty = np.array(deviations) ** -2.0
        sizes = [design.shape[1] for design in self._designs]
        ends = np.cumsum([0, *sizes])
        self._parts = [slice(start, end) for start, end in pairwise(ends)]
        self._n = int(ends[-1])

    def fit(self) -> State:
        """Return the most likely model: Newton's method, damped as far as it must be."""
        known, damped = self.at(np.zeros(self._n)), _DAMPED
        for _ in range(_STEPS):
            gradient = self.cells.count @ self._scores(known) - self._penalty * known.coefficients
            curved = _positive(self.curvature(known))
            slower = damped * np.diag(np.diag(curved))
            tried = self.at(known.coefficients + np.linalg.solve(curved + slower, gradient))
            gained = tried.likelihood - known.likelihood
            known, damped = (tried, damped / 3) if gained >= 0 else (known, 5 * damped)
            if abs(gained) < _CLOSE:
                break
        return known

    def at(self, coefficients: Floats) -> State:
        """Return the model at these coefficients."""
        mixed = np.stack(
            [
                one @ coefficients[part]
                for one, part in zip(self._designs, self._parts, strict=True)
            ],
            axis=1,
        )
        log = mixed @ self._terms.T + self._width
        before, total = _normalised(log)
        after, with_votes = _normalised(log + self._of_votes)
        penalty = float(self._penalty @ coefficients**2) / 2
        return State(
            coefficients, float(self.cells.count @ (with_votes - total)) - penalty, before, after
        )

    def _scores(self, state: State) -> Floats:
        """Return the gradient of the log likelihood of one row of each cell, shape (c, q)."""
        apart = (state.after - state.before) @ self._terms
        parts = [one * apart[:, [j]] for j, one in enumerate(self._designs)]
        return np.hstack(parts)

    def curvature(self, state: State) -> Floats:
        """Return minus the second derivative of the penalised log likelihood, shape (q, q)."""
        less = self._covariances(state.before) - self._covariances(state.after)
        found = np.diag(self._penalty)
        for at, (a, b) in enumerate(_PAIRS):
            weighted = self._designs[a].T * (self.cells.count * less[:, at])
            part = weighted @ self._designs[b]
            found[self._parts[a], self._parts[b]] += part
            if a != b:
                found[self._parts[b], self._parts[a]] += part.T
        return found

    def _covariances(self, shares: Floats) -> Floats:
        """Return the covariance of each pair of terms in each cell, shape (c, pairs)."""
        products = [self._terms[:, a] * self._terms[:, b] for a, b in _PAIRS]
        means = shares @ np.column_stack([self._terms, *products])
        both = [means[:, a] * means[:, b] for a, b in _PAIRS]
        return np.asarray(means[:, _TERMS:] - np.column_stack(both))

    def spread(self, best: State, clusters: Codes | None) -> Floats:
        """Return a root of the coefficients' covariance that allows for clusters, shape (q, q)."""
        scores, count = self._scores(best), self.cells.count
        if clusters is None:
            middle = (scores.T * count) @ scores
        else:
            rows = self.cells.of_row
            sums = [np.bincount(clusters, one[rows]).astype(np.float64) for one in scores.T]
            middle = np.stack(sums) @ np.stack(sums).T
        inverse = np.linalg.inv(_positive(self.curvature(best)))
        values, vectors = np.linalg.eigh(inverse @ middle @ inverse)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def draw(self, best: State, spread: Floats, rng: np.random.Generator) -> Floats:
        """Draw the underlying fraction of each row, shape (n,), from a model drawn first."""
        drawn = self.at(best.coefficients + spread @ rng.standard_normal(self._n))
        total = np.cumsum(drawn.after, axis=1)
        place = rng.random(self.cells.of_row.size)
        bins = np.zeros(place.size, dtype=np.intp)
        for below in total[:, :-1].T:
            bins += place > below[self.cells.of_row]
        low, high = self.grid.edges[bins], self.grid.edges[bins + 1]
        return np.asarray(low + (high - low) * rng.random(place.size))


def _normalised(log: Floats) -> tuple[Floats, Floats]:
    """Return distributions from log weights, and the logarithms of their totals."""
    most = log.max(axis=1, keepdims=True)
    weights = np.exp(log - most)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, (np.log(total) + most)[:, 0]


def _positive(curved: Floats) -> Floats:
    """Make a matrix positive definite by adding to its diagonal, if it is not."""
    least = float(np.linalg.eigvalsh(curved)[0])
    floor = _PRIOR[0] ** -2
    return curved if least >= floor / 2 else curved + (floor - least) * np.eye(len(curved))


# ---- Comments with the same votes, about the same score and the same subgroups, counted together


LEVELS = 200  # of scores: by rank, about equally many rows each
_EXACT = 1e6  # fractions are told apart to this many parts
_FREQUENT, _MOST_NUMBERS = 0.01, 8  # numbers of raters with terms of their own

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VoteCells:
    """The distinct combinations of votes, score level and subgroups."""

    of_row: npt.NDArray[np.intp]  # The cell of each row
    count: Floats  # (c,): Rows in each cell
    toxic: Floats  # toxic, harmless, (c,): votes on each comment of the cell
    harmless: Floats
    # (c, 4): Hermite polynomials of degree 0 to 3 of the normal score of the cell's level, each
    # with mean 0 and variance 1 over normal scores.
    common: Floats
    # (c, k): 1 in the cells of each frequent number of raters but the most frequent one, 0 in
    # others.
    kinds: Floats
    # (c, 2 (G + k)): For each subgroup and each of these numbers, 1 and the normal score in its
    # cells, 0 in others.
    own: Floats

    @classmethod
    def of(
        cls,
        fraction: Floats,
        n_raters: Counts,
        rows: SortedRows,
        masks: Mapping[str, BoolArray],
    ) -> VoteCells:
        """Find the cells."""
        n = fraction.size
        place = np.empty(n)
        place[rows.order] = (rows.left + rows.right) / (2 * n)
        level = np.floor(place * min(LEVELS, n)).astype(np.int64)
        columns = [np.rint(fraction * _EXACT).astype(np.int64), n_raters, level, *masks.values()]
        first, of_row = _distinct(columns)
        count = np.bincount(of_row).astype(np.float64)
        normal = _normal_scores((level[first] + 0.5) / min(LEVELS, n))
        common = _polynomials(normal)
        kinds = _by_number(n_raters, n_raters[first])
        parts = [*(mask[first] for mask in masks.values()), *kinds]
        own = [common[:, :2] * inside[:, None] for inside in parts]
        nothing = common[:, :0]
        toxic = fraction[first] * n_raters[first]
        harmless = n_raters[first] - toxic
        return cls(
            of_row,
            count,
            toxic,
            harmless,
            common,
            np.hstack([nothing, *(kind[:, None] for kind in kinds)]),
            np.hstack([nothing, *own]),
        )


def _by_number(n_raters: Counts, of_cell: Counts) -> list[BoolArray]:
    """Return which cells have each frequent number of raters, and which a rare one.

    The most frequent number is left out: others are compared with it.
    """
    numbers, counts = np.unique(n_raters, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    frequent = [one for one in order[:_MOST_NUMBERS] if counts[one] >= _FREQUENT * n_raters.size]
    rare = ~np.isin(of_cell, numbers[frequent])
    found = [of_cell == numbers[one] for one in frequent[1:]]
    return [*found, rare] if rare.any() else found


def _distinct(
    columns: list[npt.NDArray[np.generic]],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first row of each distinct combination, and the combination of each row."""
    codes = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        codes = np.unique(codes * values.size + code, return_inverse=True)[1]
    first, of_row = np.unique(codes, return_index=True, return_inverse=True)[1:]
    return first, of_row


def _polynomials(x: Floats) -> Floats:
    return np.stack([x**0, x, (x**2 - 1) / 2**0.5, (x**3 - 3 * x) / 6**0.5], axis=1)


def _normal_scores(shares: Floats) -> Floats:
    inverse = NormalDist().inv_cdf
    levels, of = np.unique(shares, return_inverse=True)
    return np.array([inverse(float(level)) for level in levels])[of]
