"""The options of sources, sets and policies, and the combinations (roads) that cover them."""

import random

from support.covering import all_levels, all_pairs, cover

COMMON = {
    "identity_rows": ["rated", "all"],
    "background": ["outside_subgroup", "no_identity"],
    "power_mean_groups": ["all", "two"],
    "thresholds": ["half", "lower"],
    "rows_a_shard": ["default", "few"],
    "score_file": ["registered", "csv", "gz", "parquet"],
    "endpoint": ["array", "column"],
    # Options of the policy. Each level of `rules` has several rules, which share the options below.
    "rules": ["overall+each_gap", "each+named_gap", "worst+final", "named+worst_gap+means"],
    "limits": ["limit", "margin", "reference", "all"],
    "strictness": ["lenient", "impossible", "unsupported"],
    "mode": ["proven", "estimate"],
    "confidence": ["default", "own"],
    "correction": ["none", "bonferroni"],
    "report_only": ["no", "no", "yes"],
    "action": ["block", "warn"],
    "champion": ["registry", "none yet", "file"],
}
CIVIL_COMMENTS = COMMON | {
    "source": ["kaggle", "zip", "tar", "all_data", "wilds", "civil_comments"],
    "identities": ["default", "listed", "twenty_four"],
    "label": ["fraction", "subtype"],
    "split": ["default", "one", "several"],
    "slices": ["own", "own+rule"],
}
TABLE = COMMON | {
    "source": [
        *("table.csv", "table.csv.gz", "table.jsonl", "table.parquet"),
        *("table_repository", "table_pinned"),  # of Hugging Face
    ],
    "identities": ["listed", "renamed", "terms", "overlap", "both", "twenty_four", "named"],
    "label": ["fraction", "values", "boolean"],
    "split": ["default", "test", "train"],
    "slices": ["none", "listed", "renamed", "listed+rule"],
    "cluster": ["none", "thread"],
    "id": ["column", "row_number"],
}
TEMPLATES = COMMON | {
    "source": ["templates"],
    "identities": ["default", "listed", "spelled", "twenty_four"],
    "split": ["default", "all"],
}
# What is trained here is registered: a file is no champion then. torch is for slow roads.
TRAINED = {"kind": ["tfidf"], "champion": ["registry", "none yet"]}
AT_HAND = {"kind": ["scores", "mlflow", "python", "http"]}
WITH_TORCH = {"kind": ["transformer"]}
SEED = 10  # of the combinations: with it there are few roads
SOURCES = (CIVIL_COMMENTS, TABLE, TEMPLATES)
EVERY_OPTION_FAMILIES = [source | kinds for source in SOURCES for kinds in (TRAINED, AT_HAND)]
FAMILIES = [*EVERY_OPTION_FAMILIES, *(source | WITH_TORCH for source in SOURCES)]


# Each source gives the same rows: what it meets does not matter.
ALL_PAIRS = {pair for pair in all_pairs(FAMILIES) if all(name != "source" for name, _ in pair)}
# The first roads cover every level; together with the others they cover every pair of options.
EVERY_OPTION = cover(
    EVERY_OPTION_FAMILIES,
    all_levels(EVERY_OPTION_FAMILIES),
    random.Random(SEED),  # noqa: S311
    besides=ALL_PAIRS,
)
ALL = cover(FAMILIES, ALL_PAIRS, random.Random(SEED), start=EVERY_OPTION)  # noqa: S311
# A road takes up to 20 seconds: one of each family of sources is for every run of the tests.
FAST = [
    next(road for road in ALL if road["source"] in sources and road["kind"] in kinds)
    for sources, kinds in (
        (CIVIL_COMMENTS["source"], ["mlflow"]),
        (["table.csv", "table.jsonl", "table.parquet"], ["python", "scores"]),
        (TEMPLATES["source"], AT_HAND["kind"]),
    )
]


def named(road):
    """Return a short name for a road that says which options it combines."""
    return f"{ALL.index(road):02d}-{road['source']}-{road['kind']}-{road['rules']}"
