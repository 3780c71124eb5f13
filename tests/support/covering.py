"""Choosing few combinations of options that contain every pair of levels."""

from itertools import combinations

TRIES = 10


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


def cover(families, wanted, draws, *, besides=frozenset(), start=()):
    """Return rows that cover all that is wanted, greedily: each the best of some random ones.

    `families` are dicts of factors to levels; a row takes all its levels from one of them. What is
    wanted are levels or pairs. Of rows that are as good, the one with most of `besides` is taken.
    The same `draws` (a seeded `random.Random`) give the same rows.
    """
    rows, missing, more = list(start), set(wanted), set(besides)
    for row in rows:
        missing -= seen_in(row)
    while missing:
        tried = [_draw(families, min(missing), missing | more, draws) for _ in range(TRIES)]
        best = max(tried, key=lambda row: (len(missing & seen_in(row)), len(more & seen_in(row))))
        missing -= seen_in(best)
        more -= seen_in(best)
        rows.append(best)
    return rows


def seen_in(row):
    """Every level, and every two levels, of a row."""
    return levels_of(row) | pairs_of(row)


def _draw(families, levels, missing, draws):
    """Draw a row that has the given levels, and levels that make missing pairs with the others.

    The factors take their turns in a random order (Cohen, Dalal, Fredman and Patton 1997).
    """
    allowed = [
        family
        for family in families
        if all(name in family and value in family[name] for name, value in levels)
    ]
    family, row = draws.choice(allowed), dict(levels)
    for name in draws.sample(sorted(family.keys() - row.keys()), len(family) - len(row)):
        known = list(row.items())

        def new_pairs(value, name=name, known=known):
            return sum(tuple(sorted([(name, value), one])) in missing for one in known)

        row[name] = max(draws.sample(family[name], len(family[name])), key=new_pairs)
    return {name: row[name] for name in family}
