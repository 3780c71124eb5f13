"""Shards of scored rows, and a count file for them."""

import numpy as np
import pandas as pd
import yaml

COMMENT = "secretword"
N, N_SHARDS = 3_000, 3
FILE = {
    "name": "chats",
    "source": "shards",
    "path": "shards/*.parquet",
    "label": "toxicity",
    "identities": ["gay", "muslim"],
    "candidate": {"name": "next", "score": "new", "threshold": 0.5},
    "champion": {"name": "now", "score": "old", "threshold": 0.5},
    "policy": "own.yaml",
}
POLICY = {
    "version": 1,
    "name": "own",
    "allow_first": True,
    "shown_harm": {"tolerance": 0.02},
    "rules": [
        {"metric": "auc", "scope": "overall", "floor": 0.7, "margin": 0.05},
        {"metric": "bpsn_auc", "scope": "each", "floor": 0.6, "margin": 0.2},
        {"metric": "fpr_gap", "scope": "each", "ceiling": 0.2, "threshold": "given"},
        {"metric": "final_score", "scope": "aggregate", "floor": 0.6},
    ],
}


def frame(seed):
    """The rows of one shard; the last ten were not rated for identities."""
    rng = np.random.default_rng(seed)
    toxic = rng.random(N) < 0.3
    groups = {name: (rng.random(N) < 0.3).astype(float) for name in FILE["identities"]}
    known = rng.normal(2 * toxic, 1)
    scores = {
        name: 1 / (1 + np.exp(1 - known - rng.normal(0, 0.2, N))).round(3)
        for name in ("new", "old")
    }
    found = pd.DataFrame({"id": np.arange(N), "comment_text": COMMENT, "toxicity": toxic * 0.6})
    found = found.assign(**groups, **scores)
    found.loc[N - 10 :, "muslim"] = np.nan
    return found


def write_shards(folder, n_shards=N_SHARDS, **changes):
    """Write shards, the policy and the count file; return the path of the last."""
    (folder / "shards").mkdir()
    for number in range(n_shards):
        frame(number).to_parquet(folder / f"shards/part-{number}.parquet")
    (folder / "own.yaml").write_text(yaml.safe_dump(POLICY))
    return write_file(folder, **changes)


def write_file(folder, **changes):
    path = folder / "chats.yaml"
    path.write_text(yaml.safe_dump(FILE | changes))
    return path


def everything():
    """All measured rows."""
    rows = pd.concat([frame(number) for number in range(N_SHARDS)])
    return rows.dropna()
