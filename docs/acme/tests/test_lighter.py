from types import SimpleNamespace

import numpy as np

from biasgate.extend import METHODS


def test_a_comment_that_mentions_an_identity_counts_half_as_much():
    rows = SimpleNamespace(mentions=np.array([[True, False], [False, False]]))
    change = METHODS.validate_python("lighter").change(rows, None, np.random.default_rng(0))
    assert change.weights[0] == change.weights[1] / 2
