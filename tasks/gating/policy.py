"""Policy files: the rules of the gate, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from bias_metrics._core.intervals import MIN_CLUSTERS
from bias_metrics.gate.missing import MissingLimits
from bias_metrics.gate.objective import Metric
from bias_metrics.gate.rolling import CIVIL_COMMENTS, Hierarchy
from bias_metrics.gate.rules import (
    Action,
    Mode,
    Rule,
    Waiver,
    correct_for_candidates,
    corrected_confidence,
)
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.gating.policy_missing import MissingSettings

SHIPPED = Path(__file__).parent / "policies"
Limit = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Confidence = Annotated[float, Field(gt=0.5, lt=1)]
Support = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
ThresholdName = Literal["given", "equal_errors"]
Promote = Literal["newer", "better", "never"]
# Keys that were added later: at their defaults they do not change the digest.
_ADDED = {"promote": "newer", "objective": "final_score", "roll_up": None, "max_missing": None}


class RuleSettings(Settings):
    """One rule of a policy: a limit, a margin, or both.

    Attributes
    ----------
    metric : str
        The number to judge.
    scope : str or list of str
        `overall`, `each`, `worst`, `aggregate`, or names of subgroups.
    floor, ceiling : float, optional
        The limit: a floor for AUCs, a ceiling on the size of AEGs.
    margin, reference_margin : float, optional
        By how much the number may be worse than the champion's, or the reference's.
    threshold : {"given", "equal_errors"}, optional
        For `fpr_gap` and `fnr_gap`: the threshold, each model's own, at which errors are counted.
    slice : str, optional
        A slice of the evaluation set. Default: all rows.
    mode : {"proven", "estimate"}
        `proven` compares a confidence bound with the limit, `estimate` the value itself.
    confidence : float, optional
        One-sided confidence of the bound. Default: the policy's.
    min_positives, min_negatives, min_clusters : int
        Fewest rows of each compared class, and fewest clusters, for a result.
    action : {"block", "warn"}
        Whether the rule affects the verdict.
    id : str, optional
        Name in verdicts and waivers. Default: `metric/scope`, with `/threshold` and `/slice`.
    """

    metric: str
    scope: str | list[str]
    floor: Limit | None = None
    ceiling: Limit | None = None
    margin: Limit | None = None
    reference_margin: Limit | None = None
    threshold: ThresholdName | None = None
    slice: Name | None = None
    mode: Mode = "proven"
    confidence: Confidence | None = None
    min_positives: Support = 2
    min_negatives: Support = 2
    min_clusters: Support = MIN_CLUSTERS
    action: Action = "block"
    id: Name | None = None

    @field_validator("scope")
    @classmethod
    def _names_something(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            msg = "must name `overall`, `each`, `worst`, `aggregate` or subgroups"
            raise ValueError(msg)
        return value

    @model_serializer(mode="wrap")
    def _without_threshold(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit a threshold that is not set, so that digests of older policies stay the same."""
        content: dict[str, Any] = serialise(self)
        if content.get("threshold", "") is None:
            del content["threshold"]
        return content

    @model_validator(mode="after")
    def _is_a_rule(self) -> Self:
        self.rule(0.95)
        return self

    def rule(self, confidence: float) -> Rule:
        """Return the rule in the gate's form; `confidence` is the default."""
        options = self.model_dump(exclude={"scope", "confidence"})
        scope = tuple(self.scope) if isinstance(self.scope, list) else self.scope
        return Rule(scope=scope, confidence=self.confidence or confidence, **options)


class WaiverSettings(Settings):
    """A decision that missing evidence does not block, until a date.

    Attributes
    ----------
    rule : str
        The rule's `id`, or `metric/scope`.
    group : str, optional
        The subgroup; not given for `overall`, `aggregate` and `worst`.
    reason, decided_by : str
        Why, and who decided; both are written into every verdict.
    expires : date
        The last day of the waiver, as in 2026-12-31.
    """

    rule: Text
    group: Text | None = None
    reason: Text
    decided_by: Text
    expires: date

    def waiver(self) -> Waiver:
        """Return the waiver in the gate's form."""
        return Waiver(**self.model_dump())


class Policy(Settings):
    """A policy file.

    Attributes
    ----------
    version : {1}
        Version of the policy language.
    name : str
        Name in verdicts.
    description : str
        Purpose of the policy.
    allow_first : bool
        Whether a candidate may become champion if there is none yet.
    promote : {"newer", "better", "never"}
        Which passing version replaces the champion: a later one whose objective is not shown
        to be lower; one whose objective is shown to be higher; none.
    objective : str
        The metric that ranks several passing versions: `final_score`,
        `auc`, or the power mean of `subgroup_auc`, `bpsn_auc` or `bnsp_auc`.
    report_only : bool
        Whether verdicts are written but neither move `champion` nor fail a command.
    confidence : float
        One-sided confidence of rules without their own.
    correction : {"none", "bonferroni"}
        Whether several candidates on one set share the rate of false passes.
    roll_up : "civil_comments" or dict of str to list of str, optional
        Categories in which identities are judged that have too few rows for a rule: those of
        Borkan et al. (2019), or your own. Default: such identities are insufficient.
    max_missing : MissingSettings, optional
        How many comments may have no score. Default: none may.
    rules : list of RuleSettings
        At least one of them blocking.
    waivers : list of WaiverSettings
        Missing evidence that does not block.
    """

    lists: ClassVar[Mapping[str, str]] = {
        "rules": "rules, as in [{metric: auc, scope: overall, floor: 0.8}]",
        "waivers": "waivers, each with `rule`, `group`, `reason`, `decided_by` and `expires`",
        "roll_up": "identities, as in `roll_up: {religion: [christian, muslim]}`",
        "scope": "identities, as in [gay, muslim]",
    }

    version: Literal[1]
    name: Name
    description: str = ""
    allow_first: bool = False
    promote: Promote = "newer"
    objective: Metric = "final_score"
    report_only: bool = False
    confidence: Confidence = 0.95
    correction: Literal["none", "bonferroni"] = "none"
    roll_up: (
        Literal["civil_comments"] | dict[Name, Annotated[list[Name], Field(min_length=1)]] | None
    ) = None
    max_missing: MissingSettings | None = None
    rules: Annotated[list[RuleSettings], Field(min_length=1)]
    waivers: Annotated[list[WaiverSettings], Field(default_factory=list)]

    @model_validator(mode="after")
    def _can_block(self) -> Self:
        if all(rule.action == "warn" for rule in self.rules):
            msg = "at least one rule must have `action: block`; this policy passes anything"
            raise ValueError(msg)
        names = [rule.name for rule in self.decision_rules()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"rules must have different names; {twice[0]} is given twice: set an `id`"
            raise ValueError(msg)
        unknown = sorted({one.rule for one in self.waivers} - set(names))
        if unknown:
            msg = (
                f"waivers must name rules; got {unknown[0]!r} (known: {', '.join(names)})"
                f"{did_you_mean(unknown[0], names)}"
            )
            raise ValueError(msg)
        return self

    @field_validator("roll_up")
    @classmethod
    def _is_a_hierarchy(cls, value: Any) -> Any:
        if isinstance(value, dict):
            Hierarchy({name: tuple(names) for name, names in value.items()})
        return value

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The categories in which small identities are judged."""
        if self.roll_up is None or isinstance(self.roll_up, str):
            return None if self.roll_up is None else CIVIL_COMMENTS
        return Hierarchy({name: tuple(names) for name, names in self.roll_up.items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the policy's content, written into every verdict."""
        content = self.model_dump(mode="json")
        kept = {key: value for key, value in content.items() if _ADDED.get(key) != value}
        return json_digest(kept)

    def decision_rules(self, n_candidates: int = 1) -> list[Rule]:
        """Return the rules, corrected for the candidates on one set where the policy says so."""
        rules = [one.rule(self.confidence) for one in self.rules]
        return correct_for_candidates(rules, self._share(n_candidates))

    def objective_confidence(self, n_candidates: int = 1) -> float:
        """Return the one-sided confidence at which the objective is compared."""
        return corrected_confidence(self.confidence, self._share(n_candidates))

    def missing_limits(self, n_candidates: int = 1) -> MissingLimits | None:
        """Return how many comments may have no score."""
        if self.max_missing is None:
            return None
        return self.max_missing.limits(self.objective_confidence(n_candidates))

    def _share(self, n_candidates: int) -> int:
        return n_candidates if self.correction != "none" else 1


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file, draft 2020-12."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return schema | Policy.model_json_schema()


def read_policy(reference: str, folder: Path) -> Policy:
    """Read the policy that a configuration names: a shipped one or a file.

    Parameters
    ----------
    reference : str
        The name of a shipped policy, such as `default`, or a path.
    folder : Path
        Where a relative path starts.

    Returns
    -------
    Policy
        The checked policy.

    Raises
    ------
    InputError
        If it does not exist or a rule is wrong; the text names the place.
    """
    shipped = SHIPPED / f"{reference}.yaml"
    path = shipped if shipped.exists() else folder / Path(reference).expanduser()
    if not path.exists():
        names = sorted(one.stem for one in SHIPPED.glob("*.yaml"))
        msg = (
            f"`policy` must be a file or one of {', '.join(names)}; got {reference} (looked at "
            f"{path}).{did_you_mean(reference, names)}"
        )
        raise InputError(msg)
    return read_settings(path, Policy)
