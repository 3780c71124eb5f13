"""Headline metrics and tags of a run, for sorting and reading lists of runs."""

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
_MAX_TAG_LENGTH = 4_000  # characters of a tag


def collect_headline_metrics(report: Report, verdict: Verdict) -> dict[str, float]:
    """Return the worst value of each metric, and the numbers of failed and undecided checks.

    - `worst/bpsn_auc` is the lowest value over all identities, and `worst_bound/bpsn_auc` the lower
      bound of its interval
    - the worst AEG is the value farthest from 0, on either side; its `worst_bound` is the bound of
      the same sign that is farther from 0
    - `newly_flagged/gay` is the share of harmless comments that mention an identity and are flagged
      by the candidate, but not by the champion
    - `newly_missed/gay` is the share of toxic comments that are missed by the candidate, but not by
      the champion

    Undefined numbers are left out.
    """
    outcomes = [result.outcome for result in verdict.results]
    metrics: dict[str, float] = {
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
        metrics[f"worst/{metric}"] = value
        if bound is not None:
            metrics[f"worst_bound/{metric}"] = bound
    for identity, changed in (verdict.changed or {}).items():
        for metric, share in changed.items():
            if share.value is not None:
                metrics[f"{metric}/{sanitize_name(identity)}"] = share.value
    return metrics


def collect_headline_tags(story: Story, report: Report) -> dict[str, str]:
    """Return the summary of a run, the worst identity by each metric, and the digests."""
    worst = {
        f"{WORST_TAG}.{metric}": escape_invisible(group)
        for metric in SUBGROUP_METRICS
        if (group := report.bias.worst(metric).subgroup) is not None
    }
    facts = dict(CandidateStory.from_story(story).facts)
    summary = {
        VERDICT: story.verdict.outcome,
        WORD: story.word.text,
        HEADLINE: story.headline,
        TREATED_WORST: story.worst_text,
        WORSENED: NO_CHAMPION if story.champion is None else facts.get(WORSE, IS_CHAMPION),
        BETTER: facts.get(GAINED, ""),
    }
    if story.exceptions:
        summary[EXCEPTIONS] = " ".join(story.exceptions)
    digests = {
        "biasgate.candidate_digest": report.candidate.digest,
        "biasgate.set_digest": report.evaluation_set.digest,
        "biasgate.policy_digest": story.verdict.policy.digest,
    }
    shortened = {
        key: escape_invisible(text)[:_MAX_TAG_LENGTH] for key, text in summary.items() if text
    }
    return shortened | worst | digests
