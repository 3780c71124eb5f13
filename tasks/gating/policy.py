"""Policy files: the rules of the gate, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from bias_metrics.gate import (
    CIVIL_COMMENTS,
    MISSING,
    TRUNCATED,
    HarmLimit,
    Hierarchy,
    ObjectiveMetric,
    Rule,
    ShareLimits,
    SmallGroups,
    correct_confidence,
    correct_for_candidates,
)
from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.settings import Name, Settings, json_schema
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.gating.policy_rules import (
    BlindSettings,
    Confidence,
    HarmSettings,
    NotMeasuredSettings,
    RuleSettings,
    ShareSettings,
    Text,
)

SHIPPED = Path(__file__).parent / "policies"
Promote = Literal["newer", "better", "manual", "never"]


class Policy(Settings):
    """A policy file."""

    explained_by = "biasgate schema policy"
    lists: ClassVar[Mapping[str, str]] = {
        "rules": "rules, as in [{metric: auc, scope: overall, floor: 0.8}]",
        "not_measured": "identities, each with `identity`, `reason` and `expires`",
        "roll_up": "identities, as in `roll_up: {religion: [christian, muslim]}`",
        "scope": "identities, as in [gay, muslim]",
    }

    version: Literal[1]
    """Version of the policy language."""
    name: Name
    """Name in verdicts."""
    description: str = ""
    """Purpose of the policy."""
    allow_first: bool = False
    """Whether a candidate may become champion if there is none yet: checks against a champion are
    then skipped, and the verdict says so. Without it they are insufficient."""
    promote: Promote = "newer"
    """Which passing version replaces the champion: a later one whose objective is not significantly
    lower; one whose objective is significantly higher; the one that a person approves, after the
    best gets the alias `challenger`; none."""
    objective: ObjectiveMetric = "final_score"
    """The metric that ranks several passing versions: `final_score`, `auc`, or the power mean of
    `subgroup_auc`, `bpsn_auc` or `bnsp_auc`."""
    report_only: bool = False
    """Whether verdicts are written but neither move `champion` nor fail a command."""
    confidence: Confidence = 0.95
    """One-sided confidence of rules without their own."""
    correction: Literal["none", "bonferroni"] = "none"
    """Which decisions share the rate of false passes: none, or the candidates of one evaluation."""
    roll_up: (
        Literal["civil_comments"] | dict[Name, Annotated[list[Text], Field(min_length=1)]] | None
    ) = None
    """Categories in which identities are judged that have too few rows for a rule: those of Borkan
    et al. (2019), or your own. Default: such identities are insufficient."""
    max_missing: ShareSettings | None = None
    """How many comments may have no score. Default: none may."""
    max_truncated: ShareSettings | None = None
    """How many comments the model may truncate. A model for which that is unknown is insufficient.
    Default: any number; they are reported."""
    shown_harm: HarmSettings | None = None
    """That no identity may be shown to be worse than with the champion or the reference. Default:
    losses that are shown are told, and do not block."""
    blind: BlindSettings | None = None
    """Which loss may stay open of an identity that is too small for a rule. Needs `roll_up`.
    Default: any, if its category passes."""
    not_measured: Annotated[list[NotMeasuredSettings], Field(default_factory=list)]
    """Identities that the sets cannot measure. A pass is then for the others, and says so."""
    rules: Annotated[list[RuleSettings], Field(min_length=1)]
    """At least one of them blocking."""

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
        return self

    @model_validator(mode="after")
    def _has_a_ground(self) -> Self:
        if self.blind is not None and self.roll_up is None:
            msg = "`blind` is about identities that are judged in categories: it needs `roll_up`"
            raise ValueError(msg)
        names = [entry.identity for entry in self.not_measured]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"`not_measured` must name each identity once; {twice[0]} is given twice"
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
        return json_digest(self.model_dump(mode="json"))

    def harm_limit(self, n_rivals: int) -> HarmLimit | None:
        """Return by how much an identity may be shown to be worse than with each rival.

        The rivals share alpha, and candidates do not: the rule blocks what is shown, so that a
        smaller alpha would be lenient.
        """
        if self.shown_harm is None:
            return None
        return self.shown_harm.limit(correct_confidence(self.confidence, max(n_rivals, 1)))

    def small_groups(self, today: date, identities: Sequence[str] = ()) -> SmallGroups:
        """Return how those of a set's identities are judged that are too small for a rule."""
        return SmallGroups(
            self.hierarchy,
            None if self.blind is None else self.blind.margins,
            {
                entry.identity: f"{entry.reason}; until {entry.expires.isoformat()}"
                for entry in self.not_measured
                if today <= entry.expires
            },
            dict(self._hints(today, identities)),
        )

    def _hints(self, today: date, identities: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with entries of `not_measured`, by the identity that is meant."""
        for entry in self.not_measured:
            if entry.identity in identities and entry.expires < today:
                yield entry.identity, f"`not_measured` ended on {entry.expires.isoformat()}."
            elif entry.identity not in identities:
                for meant in get_close_matches(entry.identity, identities, n=1):
                    yield meant, f"`not_measured` has {entry.identity!r}: is it this identity?"

    def n_sharing_alpha(self, n_candidates: int) -> int:
        """Return how many of the candidates share alpha."""
        return n_candidates if self.correction == "bonferroni" else 1

    def decision_rules(self, n_sharing: int = 1) -> list[Rule]:
        """Return the rules, each at its confidence if so many candidates share alpha."""
        return correct_for_candidates(
            [rule.rule(self.confidence) for rule in self.rules], n_sharing
        )

    def objective_confidence(self, n_sharing: int) -> float:
        """Return the one-sided confidence at which the objective is compared.

        With `promote: newer` a shown loss keeps the champion: a smaller alpha would be lenient.
        """
        return correct_confidence(self.confidence, n_sharing if self.promote == "better" else 1)

    def share_limits(self, n_sharing: int = 1) -> dict[str, ShareLimits]:
        """Return how many comments may have no score, and be truncated, by the name of the rule."""
        confidence = correct_confidence(self.confidence, n_sharing)
        rules = {MISSING: self.max_missing, TRUNCATED: self.max_truncated}
        return {rule: one.limits(confidence) for rule, one in rules.items() if one is not None}


def policy_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of a policy file, draft 2020-12."""
    return json_schema(Policy)


def sections_of_policy(schema: JsonSchemaValue) -> dict[str, JsonSchemaValue]:
    """Return the whole file under `policy`, and each section that has keys under its name."""
    defined: dict[str, JsonSchemaValue] = schema["$defs"]
    return {"policy": schema} | {name: of for name, of in defined.items() if of.get("properties")}


def shipped_policies() -> dict[str, Path]:
    """Return the file of each shipped policy, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_policy(reference: str, folder: Path) -> Policy:
    """Read the policy that a configuration names: a shipped one or a file.

    A file that is called as a shipped policy is `./NAME`.

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
    shipped = shipped_policies()
    path = shipped.get(reference) or folder / Path(reference).expanduser()
    if not path.exists():
        names = list(shipped)
        beside = (Path(reference).with_name(one.name) for one in path.parent.glob("*.y*ml"))
        msg = (
            f"`policy` must be a file or one of {', '.join(names)}; got {reference} (looked at "
            f"{path}).{did_you_mean(reference, [*names, *sorted(map(str, beside))])}"
        )
        raise InputError(msg)
    return read_settings(path, Policy)
