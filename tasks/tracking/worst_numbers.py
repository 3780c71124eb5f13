"""What a run says in few words: the metrics and tags that lists of runs are sorted by."""

from __future__ import annotations

import math

from bias_metrics.metrics import SUBGROUP_METRICS
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.data.identity_names import sanitize_name
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.story import GAINED, WORSE, Story
from biasgate.tasks.reporting.verdict_story import IS_CHAMPION, NO_CHAMPION

WORST_TAG = "biasgate.worst"
VERDICT = "biasgate.verdict"
WORD, EXCEPTIONS = "biasgate.word", "biasgate.exceptions"
HEADLINE, TREATED_WORST = "biasgate.headline", "biasgate.treated_worst"
WORSENED, BETTER = "biasgate.worse_than_champion", "biasgate.better_than_champion"
FAILED, INSUFFICIENT = "checks/failed", "checks/insufficient"
_LONGEST = 4_000  # characters of a tag


def headline_metrics(report: Report, verdict: Verdict) -> dict[str, float]:
    """Return the worst value of each metric, and how many checks did not pass.

    `worst/bpsn_auc` is the lowest value of all identities, and `worst_bound/bpsn_auc` the lower end
    of its interval. An AEG is worst where it is farthest from 0, on either side; its `worst_bound`
    has the same sign, and is the end that is farther from 0. `newly_flagged/gay` is the share of
    harmless comments about an identity that are flagged and were not by the champion,
    `newly_missed/gay` that of toxic ones that are missed. Undefined numbers are left out.
    """
    outcomes = [result.outcome for result in verdict.results]
    found: dict[str, float] = {
        FAILED: outcomes.count("fail"),
        INSUFFICIENT: outcomes.count("insufficient"),
    }
    for metric in SUBGROUP_METRICS:
        worst = report.bias.worst(metric)
        value, bound = worst.value.value, worst.value.low
        if value is None:
            continue
        if worst.size_high is not None:
            bound = math.copysign(worst.size_high, value)
        found[f"worst/{metric}"] = value
        if bound is not None:
            found[f"worst_bound/{metric}"] = bound
    for identity, changed in (verdict.changed or {}).items():
        for metric, one in changed.items():
            if one.value is not None:
                found[f"{metric}/{sanitize_name(identity)}"] = one.value
    return found


def headline_tags(story: Story, report: Report) -> dict[str, str]:
    """Return what people read first, the worst identity by each metric, and the digests."""
    worst = {
        f"{WORST_TAG}.{metric}": escape_invisible(group)
        for metric in SUBGROUP_METRICS
        if (group := report.bias.worst(metric).subgroup) is not None
    }
    facts = dict(CandidateStory.of(story).facts)
    known = {
        VERDICT: story.verdict.outcome,
        WORD: story.word.text,
        HEADLINE: story.headline,
        TREATED_WORST: story.treated_worst,
        WORSENED: NO_CHAMPION if story.champion is None else facts.get(WORSE, IS_CHAMPION),
        BETTER: facts.get(GAINED, ""),
    }
    if story.exceptions:
        known[EXCEPTIONS] = " ".join(story.exceptions)
    digests = {
        "biasgate.candidate_digest": report.candidate.digest,
        "biasgate.set_digest": report.evaluation_set.digest,
        "biasgate.policy_digest": story.verdict.policy.digest,
    }
    told = {key: escape_invisible(text)[:_LONGEST] for key, text in known.items() if text}
    return told | worst | digests
