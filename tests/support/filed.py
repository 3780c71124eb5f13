"""A site with two classifiers and comments in three languages, judged, and what it files."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
from support.judged import judge, summary_of
from support.judging import policy_of

from biasgate.tasks.common.files import write_json
from biasgate.tasks.signing.statement import attest_verdict

N = 2000
RULES = ({"metric": "auc", "scope": "overall", "floor": 0.6},)
THRESHOLDS = {"first": 0.5, "second": 0.4}
FILING = {
    "service": "Example Board",
    "period": {"from": "2026-07-01", "to": "2026-12-31"},
    "sampling": {
        "kind": "random",
        "rule": "Every 400th comment of the period, whatever was decided about it",
        "population": "All comments that were posted in the period",
        "labels": "Two moderators, who did not see the score; a third one where they differed",
    },
    "languages": {"german": "de", "french": "fr", "arabic": "ar"},
    "surfaces": ["profiles"],
    "not_measured": ["Images and audio"],
}


def comments():
    """Comments with labels, identities, languages and the scores of two classifiers."""
    rng = np.random.default_rng(0)
    label = rng.random(N) < 0.2
    gay, muslim = rng.random(N) < 0.25, rng.random(N) < 0.1
    language = rng.integers(0, 3, N)
    first = np.clip(0.35 * label + 0.65 * rng.random(N), 0, 1)
    # The second one flags harmless comments that mention gay people.
    second = np.clip(first + 0.25 * (gay & ~label) - 0.2 * (language == 1), 0, 1)
    return pd.DataFrame(
        {
            "id": [f"c{row}" for row in range(N)],
            "label": label,
            "gay": gay,
            "muslim": muslim,
            "german": language == 0,
            "french": language == 1,
            "arabic": language == 2,
            "profiles": rng.random(N) < 0.3,
            "first": first,
            "second": second,
        }
    )


def judge_site(folder, site, thresholds=THRESHOLDS, **options):
    """Write what an evaluation of both classifiers writes into a folder."""
    each = {}
    for name in thresholds:
        columns = {"id": pa.array(site["id"]), "label": site["label"].to_numpy()}
        for kind, keys in (
            ("identity", ("gay", "muslim")),
            ("slice", ("german", "french", "arabic", "profiles")),
        ):
            columns |= {f"{kind}/{key}": site[key].to_numpy() for key in keys}
        columns["score/candidate"] = site[name].to_numpy()
        for key in ("cluster", "rated"):
            if key in site:
                columns[key] = site[key].to_numpy()
        each[name] = columns
    return judge_rows(folder, each, thresholds, **options)


def judge_rows(folder, each, thresholds, **options):
    """Write what an evaluation of classifiers writes, given the evidence of each."""
    judged = []
    for name, columns in each.items():
        place, options_of = folder / "sample" / name, {"threshold": thresholds[name]} | options
        found = judge(place, columns, name=name, of_set="sample", rules=RULES, **options_of)
        write_json(place / "report.json", found[0])
        write_json(place / "verdict.json", found[1])
        policy = policy_of(*RULES, report_only=options.get("report_only", False))
        write_json(place / "policy.json", policy.model_dump(mode="json"))
        attest_verdict(found[1], place, None)
        (place / "report.html").write_text("<p>a page</p>", "utf-8")
        judged.append(found)
    write_json(folder / "summary.json", summary_of(judged, "site"))
    return folder


def verdict_of(folder, name):
    """The verdict on a classifier, as it is written."""
    return json.loads((folder / "sample" / name / "verdict.json").read_text("utf-8"))
