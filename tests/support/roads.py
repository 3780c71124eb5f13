"""From the options of a road to its evaluation file, its policy, and the expected results."""

import yaml
from support.road_rows import LISTED, NAMES, TERMS, THRESHOLDS, template_options, write_scores
from support.scorers import score

SHARED = "shared"
LENIENT, IMPOSSIBLE, TOO_MANY = 0.01, 0.999, 1_000_000
SPLITS = {
    "wilds": {"one": "test", "several": ["test", "val"]},
    "all_data": {"one": "test", "several": ["test", "train"]},
}
KAGGLE_SPLITS = {"one": "test_public", "several": ["train", "test_private"]}


def write_road(road, folder, rows, inputs, served):
    """Write the files of a road into a folder; return the evaluation file."""
    write_scores(folder / score_file(road), [(row["id"], score(row["text"], "a")) for row in rows])
    write_scores(folder / "old.csv", [(row["id"], score(row["text"], "old")) for row in rows])
    policy = policy_of(road, list(rows[0]["identities"]))
    (folder / "own.yaml").write_text(yaml.safe_dump(policy), "utf-8")
    old = {"name": "old", "kind": "scores", "path": "old.csv"}
    candidate = candidate_of(road["kind"], road, inputs, served)
    content = {
        "name": "road",
        "evaluation_sets": [set_of(road, list(rows[0]["identities"]), inputs)],
        "candidates": [candidate],
        "policy": "own.yaml",
    }
    if road["champion"] == "registry":
        content["registered_model"] = SHARED
        alias = {"name": "champion", "kind": "mlflow", "model": f"models:/{SHARED}@champion"}
        content["champion"] = alias | {"allow_training_rows": True}
    elif road["champion"] == "none yet":
        content["registered_model"] = folder.name
        if road["kind"] == "scores" and road["score_file"] == "registered":
            candidate["register"] = folder.name
    else:
        content["champion"] = old
    if asked := analyses_of(road):
        content["analyses"] = asked
    if road["correction"] == "bonferroni":  # which needs a second candidate to do anything
        content["candidates"].append(old | {"name": "second"})
    if road["limits"] in {"reference", "all"}:
        content["reference"] = old | {"name": "reference"}
    path = folder / "road.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return path


def analyses_of(road):
    """The analyses of a road: on half of them, with an option that has its own expectations."""
    return ["intersections"] if road["power_mean_groups"] == "two" else []


def score_file(road):
    """The name of the file of scores."""
    endings = {"gz": "csv.gz", "parquet": "parquet"}
    return f"scores.{endings.get(road['score_file'], 'csv')}"


def set_of(road, identities, inputs):
    """The evaluation set of a road."""
    label_from, identity_from = THRESHOLDS[road["thresholds"]]
    common = {
        "name": "comments",
        "identity_rows": road["identity_rows"],
        "background": road["background"],
        "label_threshold": label_from,
        "identity_threshold": identity_from,
    }
    if road["power_mean_groups"] == "two":
        common["power_mean_groups"] = identities[:2]
    if road["source"] == "templates":
        return common | {"source": "templates"} | template_options(road)
    if road["source"].startswith("table"):
        return common | _table_options(road, inputs)
    return common | {"source": "civil_comments"} | _release_options(road, inputs)


def _release_options(road, inputs):
    options = {
        "zip": {"url": f"{inputs.url}/release.zip"},
        "tar": {"url": f"{inputs.url}/release.tar.gz"},
    }.get(road["source"], {"folder": str(inputs.folder / road["source"])})
    if road["identities"] != "default":
        options["identities"] = list(LISTED) if road["identities"] == "listed" else "all"
    if road["label"] == "subtype":
        options["label"] = "identity_attack"
    if road["split"] != "default":
        options["split"] = SPLITS.get(road["source"], KAGGLE_SPLITS)[road["split"]]
    return options


def _table_options(road, inputs):
    pinned = {"source": "huggingface", "parquet": [str(inputs.folder / "table.parquet")]}
    repository = {"source": "huggingface", "folder": str(inputs.folder / "repository")}
    options = {"table_pinned": pinned, "table_repository": repository | {"split": "test"}}.get(
        road["source"], {"source": "table", "path": str(inputs.folder / road["source"])}
    )
    part = "split" if options["source"] == "table" else "part"
    options |= {
        "text": "comment_text",
        "id": "row_number" if road["id"] == "row_number" else "id",
    }
    options |= {
        "fraction": {"label": "toxicity"},
        "values": {"label": "kind_of", "label_values": {"BAD": 1, "NOT_BAD": 0}},
        "boolean": {"label": "yes"},
    }[road["label"]]
    some = {name: TERMS[name] for name in ("african", "african american")}
    options |= {
        "listed": {"identities": list(LISTED)},
        "renamed": {"identities": {"Black people": "black", "Muslims": "muslim"}},
        "terms": {"terms": TERMS, "matching": "longest"},
        "overlap": {"terms": TERMS, "matching": "overlap"},
        "both": {"identities": list(LISTED), "terms": some},
        "twenty_four": {"identities": inputs.identities},
        "named": {"identities": {"column": "mentions", "names": NAMES}},
    }[road["identities"]]
    if road["cluster"] == "thread":
        options["cluster"] = "article_id"
    if road["slices"] != "none":
        renamed = road["slices"] == "renamed"
        options["slices"] = {"half": "male_or_not"} if renamed else ["male_or_not"]
    if road["split"] != "default":
        options |= {part: road["split"], "test_fraction": 0.4}
    return options


def candidate_of(kind, road, inputs, served):
    """Return a candidate of one kind, named after its kind."""
    options = {
        "scores": {"path": score_file(road), "threshold": 0.5},
        "tfidf": {
            "train_on": {
                "name": "training",
                "source": "table",
                "path": str(inputs.folder / "train.csv"),
                "text": "comment_text",
                "label": "toxicity",
                "identities": ["muslim"],
            },
            "max_features": 1500,
        },
        "mlflow": {"model": f"models:/{SHARED}/1"},
        "python": {"call": "support.scorers:count_hostile", "version": "1"},
        "http": {"url": served, "version": "1"},
        "transformer": {"folder": str(inputs.folder / "encoder"), "toxic_label": "toxic"},
    }[kind]
    if kind == "http" and road["endpoint"] == "column":
        options["column"] = "comment"
    if road["rows_a_shard"] == "few":
        options["rows_a_shard"] = 150
    return {"name": kind, "kind": kind, "allow_training_rows": True} | options


def policy_of(road, identities):
    """Return the policy of a road: its rules, and one that always passes."""
    rules = [_rule(road, *one, identities) for one in _RULES[road["rules"]]]
    base = {"metric": "auc", "scope": "overall", "floor": LENIENT, "id": "base"}
    policy = {
        "version": 1,
        "name": "own",
        "allow_first": True,
        "report_only": road["report_only"] == "yes",
        "correction": road["correction"],
        "rules": [base, *rules],
    }
    return policy | ({"confidence": 0.9} if road["confidence"] == "own" else {})


_RULES = {
    "overall+each_gap": [("auc", "overall"), ("negative_aeg", "each")],
    "each+named_gap": [("bpsn_auc", "each"), ("positive_aeg", "named")],
    "worst+final": [("subgroup_auc", "worst"), ("final_score", "aggregate")],
    "named+worst_gap+means": [
        ("bnsp_auc", "named"),
        ("negative_aeg", "worst"),
        ("bpsn_auc", "aggregate"),
    ],
}


def _rule(road, metric, scope, identities):
    gap, lenient = metric.endswith("_aeg"), road["strictness"] != "impossible"
    limit = ("ceiling", 0.5 if lenient else 1e-6) if gap else ("floor", LENIENT)
    if not gap and not lenient:
        limit = ("floor", IMPOSSIBLE)
    width = 1e-9 if not lenient else 0.5
    checks = {
        "limit": [limit],
        "margin": [("margin", width)],
        "reference": [("reference_margin", width)],
        "all": [limit, ("margin", width), ("reference_margin", width)],
    }[road["limits"]]
    rule = {
        "metric": metric,
        "scope": identities[:2] if scope == "named" else scope,
        "mode": road["mode"],
        "action": road["action"],
        "id": f"{metric} {scope}",
        **dict(checks),
    }
    if road["slices"] in {"own+rule", "listed+rule"} if "slices" in road else False:
        rule["slice"] = "short" if road["slices"] == "own+rule" else "male_or_not"
    if road["strictness"] == "unsupported":
        rule |= {"min_positives": TOO_MANY, "min_negatives": TOO_MANY}
    if road["confidence"] == "own":
        rule["confidence"] = 0.8
    return rule


def possible_outcomes(road):
    """Return the verdicts that a road may end with."""
    if road["action"] == "warn":
        return {"pass"}
    judged = road["limits"] in {"limit", "all"}  # a margin is skipped where nobody is champion
    if road["strictness"] == "lenient":
        return {"pass", "insufficient"} if _has_few_clusters(road) else {"pass"}
    if road["strictness"] == "unsupported":
        return {"insufficient"} | (set() if judged else {"pass"})
    return {"fail"} if judged else {"pass", "fail", "insufficient"}


def _has_few_clusters(road):
    """Whether a rule is about a slice of some of the rows: fewer clusters than it needs."""
    part = road["split"] != "default" and road.get("slices") == "listed+rule"
    return part and road.get("cluster", "none") != "none"
