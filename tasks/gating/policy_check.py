"""Checks that a policy can judge a set, before training and scoring."""

from __future__ import annotations

from pathlib import Path

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import SLICE, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import EACH_SLICE, expand_slices


@task(name="check policy", task_run_name="check policy for {source.name}")
def check_policy(policy: Policy, source: SourceSettings, set_folder: str) -> None:
    """Refuse a set that cannot be measured or judged, before training and scoring.

    Reads the frozen set and writes no files. Safe to retry.
    """
    frozen = EvaluationSet.load(Path(set_folder))
    _, _, choices = choose_rows(frozen, source)
    if choices.weights == "probability":
        refuse_thresholds(policy, source.name)
    refuse_unknown_names(policy, *_list_names(source, frozen))


def _list_names(source: SourceSettings, frozen: EvaluationSet) -> tuple[list[str], list[str]]:
    """Return the measured identities and the slices of a set."""
    slices = [column.removeprefix(SLICE) for column in frozen.columns if column.startswith(SLICE)]
    return source.measured_identities(frozen.identities), slices


def refuse_thresholds(policy: Policy, name: str) -> None:
    """Refuse rules at a threshold for a set with sampling weights."""
    for rule in policy.decision_rules():
        if rule.threshold is not None:
            msg = (
                f"policy {policy.name!r}: rule {rule.name} needs error rates at a threshold, which "
                f"are not measured for sampling weights, as evaluation set {name!r} has. Remove "
                "the rule; rates without the weights would be those of the sample."
            )
            raise InputError(msg)


def refuse_unknown_names(policy: Policy, identities: list[str], slices: list[str]) -> None:
    """Refuse a policy whose rules name subgroups or slices that a set lacks."""
    columns = {name.rpartition(".")[0] + EACH_SLICE for name in slices if "." in name}
    known_slices = [*slices, *sorted(columns)]
    for rule in expand_slices(policy.decision_rules(), slices):
        groups = rule.named_groups
        for key, names, known_names in (
            ("scope", groups, identities),
            ("slice", (rule.slice,) if rule.slice else (), known_slices),
        ):
            unknown = [name for name in names if name not in known_names]
            if unknown:
                msg = (
                    f"policy {policy.name!r}: `{key}` of rule {rule.name} must be known to the "
                    f"evaluation set; got {unknown[0]!r} (known: "
                    f"{', '.join(known_names) or 'none'}).{did_you_mean(unknown[0], known_names)}"
                )
                raise InputError(msg)
