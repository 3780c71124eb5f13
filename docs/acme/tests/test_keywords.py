import pyarrow as pa

from biasgate.extend import CANDIDATES

ROWS = pa.record_batch({"id": ["1", "2"], "text": ["Good morning", "You IDIOT"]})


def test_a_comment_scores_the_share_of_its_words_that_are_on_the_list():
    options = {"name": "list", "kind": "keywords", "words": ["idiot"]}
    with CANDIDATES.validate_python(options).open(None) as scorer:
        assert scorer.score(ROWS).tolist() == [0.0, 0.5]


def test_another_list_has_another_digest():
    lists = [["idiot"], ["idiot", "fool"]]
    options = [{"name": "list", "kind": "keywords", "words": words} for words in lists]
    first, second = [CANDIDATES.validate_python(option).open(None).digest for option in options]
    assert first != second
