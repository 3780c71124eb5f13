"""Whether a policy can judge a set, before anything is trained or scored."""

from __future__ import annotations

from pathlib import Path

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import SLICE, EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import EACH_SLICE, over_slices


@task(name="check policy", task_run_name="check policy for {source.name}")
def check_policy(policy: Policy, source: SourceSettings, set_folder: str) -> None:
    """Refuse a set that cannot be measured or judged, before anything is trained or scored.

    Only reads.
    """
    frozen = EvaluationSet.load(Path(set_folder))
    _, _, choices = choose_rows(frozen, source)
    if choices.weights == "probability":
        refuse_thresholds(policy, source.name)
    refuse_unknown_names(policy, *_names(source, frozen))


def _names(source: SourceSettings, frozen: EvaluationSet) -> tuple[list[str], list[str]]:
    """Return the identities and slices of a set."""
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
    of_slices = [*slices, *sorted(columns)]
    for rule in over_slices(policy.decision_rules(), slices):
        groups = rule.named_groups
        for what, names, known in (
            ("scope", groups, identities),
            ("slice", (rule.slice,) if rule.slice else (), of_slices),
        ):
            unknown = [name for name in names if name not in known]
            if unknown:
                msg = (
                    f"policy {policy.name!r}: `{what}` of rule {rule.name} must be known to the "
                    f"evaluation set; got {unknown[0]!r} (known: {', '.join(known) or 'none'})."
                    f"{did_you_mean(unknown[0], known)}"
                )
                raise InputError(msg)
