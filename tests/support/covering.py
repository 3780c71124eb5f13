"""Choosing few combinations of options that contain every pair of levels."""

from itertools import combinations

TRIES = 40


def pairs_of(row):
    """Every two levels of a row, as a set; a level is (factor, value)."""
    return set(combinations(sorted(row.items()), 2))


def levels_of(row):
    """Every level of a row."""
    return {(level,) for level in row.items()}


def all_pairs(families):
    """Every two levels that some family allows together."""
    return {
        tuple(sorted([(one, a), (other, b)]))
        for levels in families
        for one, other in combinations(sorted(levels), 2)
        for a in levels[one]
        for b in levels[other]
    }


def all_levels(families):
    """Every level that some family allows."""
    return {((name, a),) for levels in families for name in levels for a in levels[name]}


def cover(families, wanted, seen_in, draws, start=()):
    """Return rows that cover all that is wanted, greedily: each the best of some random ones.

    `families` are dicts of factors to levels; a row takes all its levels from one of them.
    The same `draws` (a seeded `random.Random`) give the same rows.
    """
    rows = list(start)
    missing = set(wanted).difference(*map(seen_in, rows))
    while missing:
        tried = [_draw(families, min(missing), draws) for _ in range(TRIES)]
        best = max(tried, key=lambda row: len(missing & seen_in(row)))
        missing -= seen_in(best)
        rows.append(best)
    return rows


def _draw(families, levels, draws):
    """Draw a row that has the given levels."""
    allowed = [
        family
        for family in families
        if all(name in family and value in family[name] for name, value in levels)
    ]
    family = draws.choice(allowed)
    return {name: draws.choice(values) for name, values in family.items()} | dict(levels)
