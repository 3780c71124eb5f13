from types import SimpleNamespace

import numpy as np

from biasgate.extend import ANALYSES


def test_the_share_is_of_the_comments_that_mention_the_identity():
    scores, gay = np.array([0.0, 0.5, 0.999, 0.2]), np.array([True, True, False, False])
    rows = SimpleNamespace(y_score=scores, masks={"gay": gay, "deaf": np.zeros(4, bool)})
    analysis = ANALYSES.validate_python("saturation").analyse(rows)
    assert analysis.result == {"shares": {"gay": 0.5, "deaf": None}}
    assert analysis.sentences == ("50% of the scores of gay are within 0.01 of 0 or 1.",)
