"""Realistic comments, odd ones included, and ways to score them in tests."""

import pyarrow as pa

ODD = [
    "",
    " ",
    "\n\t",
    "x" * 100_000,
    "word " * 20_000,
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "أهلا وسهلا بكم في المكتبة",
    "\u202egnirts desrever a\u202c \u05e9\u05dc\u05d5\u05dd",
    "a null\x00byte",
    "\ufb01ne \uff37\uff49\uff44\uff45 e\u0301",
    'quotes " and \\ and \r\n, lines',
]


def batch(texts):
    """Return rows as they are passed to a scorer."""
    ids = [f"c{i}" for i in range(len(texts))]
    return pa.RecordBatch.from_pydict(
        {"id": pa.array(ids), "text": pa.array(texts, pa.large_string())}
    )
