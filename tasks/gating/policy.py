"""Policy files, whose rules for the gate are checked when they are read."""

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
    """Allow a candidate to become the first champion: checks against a champion are then skipped,
    and the verdict records it. Default: such checks are insufficient."""
    promote: Promote = "newer"
    """The passing version that replaces the champion. `newer`: a later version whose objective is
    not significantly lower. `better`: a version whose objective is significantly higher. `manual`:
    a version that a person approves, after the best gets the alias `challenger`. `never`: none."""
    objective: ObjectiveMetric = "final_score"
    """The metric that ranks several passing versions: `final_score`, `auc`, or the power mean of
    `subgroup_auc`, `bpsn_auc` or `bnsp_auc`."""
    report_only: bool = False
    """Write verdicts that neither move `champion` nor fail a command."""
    confidence: Confidence = 0.95
    """One-sided confidence of rules that do not set `confidence`."""
    correction: Literal["none", "bonferroni"] = "none"
    """The decisions that share the rate of false passes: none, or all candidates of an
    evaluation."""
    roll_up: (
        Literal["civil_comments"] | dict[Name, Annotated[list[Text], Field(min_length=1)]] | None
    ) = None
    """Categories in which identities with too few rows for a rule are judged: those of Borkan et
    al. (2019), or your own. Default: such identities are insufficient."""
    max_missing: ShareSettings | None = None
    """Largest share of comments without a score. Default: every comment needs a score."""
    max_truncated: ShareSettings | None = None
    """Largest share of comments that the model truncates. A model for which it is unknown is
    insufficient. Default: report the share without a limit."""
    shown_harm: HarmSettings | None = None
    """Limit of significant losses of an identity against the champion or the reference. Default:
    report significant losses without blocking."""
    blind: BlindSettings | None = None
    """Largest loss that the data may fail to exclude for an identity that is too small for a rule.
    Needs `roll_up`. Default: any loss, if its category passes."""
    not_measured: Annotated[list[NotMeasuredSettings], Field(default_factory=list)]
    """Identities that the sets cannot measure. A pass then excludes them explicitly."""
    rules: Annotated[list[RuleSettings], Field(min_length=1)]
    """The rules, with at least one blocking rule."""

    @model_validator(mode="after")
    def _require_blocking_rule(self) -> Self:
        if all(rule.action == "warn" for rule in self.rules):
            msg = "at least one rule must have `action: block`; this policy passes anything"
            raise ValueError(msg)
        names = [rule.name for rule in self.decision_rules()]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            msg = f"rules must have different names; {repeated[0]} is given twice: set an `id`"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_exemptions(self) -> Self:
        if self.blind is not None and self.roll_up is None:
            msg = "`blind` is about identities that are judged in categories: it needs `roll_up`"
            raise ValueError(msg)
        names = [entry.identity for entry in self.not_measured]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            msg = f"`not_measured` must name each identity once; {repeated[0]} is given twice"
            raise ValueError(msg)
        return self

    @field_validator("roll_up")
    @classmethod
    def _check_categories(cls, value: Any) -> Any:
        if isinstance(value, dict):
            Hierarchy({name: tuple(names) for name, names in value.items()})
        return value

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The categories for small identities; None without `roll_up`."""
        if self.roll_up is None or isinstance(self.roll_up, str):
            return None if self.roll_up is None else CIVIL_COMMENTS
        return Hierarchy({name: tuple(names) for name, names in self.roll_up.items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the policy's content, written into every verdict."""
        return json_digest(self.model_dump(mode="json"))

    def make_harm_limit(self, n_rivals: int) -> HarmLimit | None:
        """Return the limit of significant losses of an identity against each rival.

        The rivals share alpha, but the candidates do not. The rule blocks significant losses, so a
        smaller alpha would make it more lenient.
        """
        if self.shown_harm is None:
            return None
        return self.shown_harm.make_limit(correct_confidence(self.confidence, max(n_rivals, 1)))

    def make_small_groups(self, today: date, identities: Sequence[str] = ()) -> SmallGroups:
        """Return the treatment of the set's identities that are too small for a rule."""
        return SmallGroups(
            self.hierarchy,
            None if self.blind is None else self.blind.margins,
            {
                entry.identity: f"{entry.reason}; until {entry.expires.isoformat()}"
                for entry in self.not_measured
                if today <= entry.expires
            },
            dict(self._list_exemption_hints(today, identities)),
        )

    def _list_exemption_hints(
        self, today: date, identities: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield hints about expired or misspelled entries of `not_measured`, by identity."""
        for entry in self.not_measured:
            if entry.identity in identities and entry.expires < today:
                yield entry.identity, f"`not_measured` ended on {entry.expires.isoformat()}."
            elif entry.identity not in identities:
                for identity in get_close_matches(entry.identity, identities, n=1):
                    yield identity, f"`not_measured` has {entry.identity!r}: is it this identity?"

    def count_sharing_candidates(self, n_candidates: int) -> int:
        """Return the number of candidates that share alpha."""
        return n_candidates if self.correction == "bonferroni" else 1

    def decision_rules(self, n_sharing: int = 1) -> list[Rule]:
        """Return the rules, with confidences corrected for the candidates that share alpha."""
        return correct_for_candidates(
            [rule.make_rule(self.confidence) for rule in self.rules], n_sharing
        )

    def get_objective_confidence(self, n_sharing: int) -> float:
        """Return the one-sided confidence for the comparison of the objective.

        With `promote: newer` a significant loss keeps the champion, so a smaller alpha would be
        more lenient. Only `promote: better` is corrected.
        """
        return correct_confidence(self.confidence, n_sharing if self.promote == "better" else 1)

    def list_share_limits(self, n_sharing: int = 1) -> dict[str, ShareLimits]:
        """Return the limits of missing and truncated comments, by the name of the rule."""
        confidence = correct_confidence(self.confidence, n_sharing)
        rules = {MISSING: self.max_missing, TRUNCATED: self.max_truncated}
        return {
            rule: shares.make_limits(confidence)
            for rule, shares in rules.items()
            if shares is not None
        }


def make_policy_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of a policy file, draft 2020-12."""
    return json_schema(Policy)


def list_policy_sections(schema: JsonSchemaValue) -> dict[str, JsonSchemaValue]:
    """Return the schema of the file as `policy`, and of each section with keys by its name."""
    defined: dict[str, JsonSchemaValue] = schema["$defs"]
    return {"policy": schema} | {
        name: section for name, section in defined.items() if section.get("properties")
    }


def list_shipped_policies() -> dict[str, Path]:
    """Return the file of each shipped policy, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_policy(reference: str, folder: Path) -> Policy:
    """Read a policy by the name of a shipped policy or by its path.

    A file with the name of a shipped policy must be given as `./NAME`.

    Parameters
    ----------
    reference : str
        The name of a shipped policy, such as `default`, or a path.
    folder : Path
        The folder in which a relative path starts.

    Returns
    -------
    Policy
        The checked policy.

    Raises
    ------
    InputError
        If the policy does not exist, or a rule is wrong. The text names the place.
    """
    shipped = list_shipped_policies()
    path = shipped.get(reference) or folder / Path(reference).expanduser()
    if not path.exists():
        names = list(shipped)
        siblings = (
            Path(reference).with_name(sibling.name) for sibling in path.parent.glob("*.y*ml")
        )
        msg = (
            f"`policy` must be a file or one of {', '.join(names)}; got {reference} (looked at "
            f"{path}).{did_you_mean(reference, [*names, *sorted(map(str, siblings))])}"
        )
        raise InputError(msg)
    return read_settings(path, Policy)
