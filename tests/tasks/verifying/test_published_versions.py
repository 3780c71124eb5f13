"""What was published of registered versions, to compare two of them."""

from contextlib import ExitStack

import pytest
from support.promoted import MODEL

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.reporting.comparing import compare_published
from biasgate.tasks.verifying.own_verdicts import published_of


def test_two_versions_are_compared_by_the_rows_of_their_verdicts(gateway, promoted):
    versions = [promoted()[0], promoted()[0]]
    names = tuple(one.uri for one in versions)
    with ExitStack() as kept:
        sides = [published_of(name, gateway, kept) for name in names]
        [found] = compare_published(*sides, names)
    assert (found.evaluation_set, found.paired) == ("comments", True)
    assert found.comparison["overall"]["n"] == 600
    alias = f"models:/{MODEL}@champion"
    with ExitStack() as kept:
        [same] = compare_published(sides[1], published_of(alias, gateway, kept), names)
    assert same.comparison["overall"]["auc"]["value"] == 0


def test_an_unknown_version_is_refused(gateway, promoted):
    none = r"must be in the registry .* \(known: none\)\. .* `registered_model: NAME` registers"
    with ExitStack() as kept, pytest.raises(InputError, match=none):
        published_of("models:/toxic/1", gateway, kept)
    promoted()
    other = rf"must be in the registry .* \(known: {MODEL}\)\. Did you mean '{MODEL}'\?$"
    with ExitStack() as kept, pytest.raises(InputError, match=other):
        published_of("models:/toxic/1", gateway, kept)
