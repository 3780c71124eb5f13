"""Policy files: the rules of the gate, checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bias_metrics.gate import Action, Rule
from tasks.configuration import read_settings
from tasks.errors import InputError
from tasks.files import json_digest
from tasks.settings import Name, Settings

SHIPPED = Path(__file__).parent.parent / "deployments" / "policies"
Limit = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Support = Annotated[int, Field(ge=1)]


class RuleSettings(Settings):
    """One rule of a policy; `bias_metrics.gate.Rule` says what the options mean.

    Attributes
    ----------
    metric : str
        The number to judge.
    scope : str or list of str
        `overall`, `each`, `aggregate`, or names of subgroups.
    floor, ceiling : float, optional
        The limit: a floor for AUCs, a ceiling on the size of AEGs.
    mode : {"estimate"}
        What is held against the limit: the value itself.
    min_positives, min_negatives : int
        Support.
    action : {"block", "warn"}
        Whether the rule counts for the verdict.
    """

    metric: str
    scope: str | list[str]
    floor: Limit | None = None
    ceiling: Limit | None = None
    mode: Literal["estimate"] = "estimate"
    min_positives: Support = 1
    min_negatives: Support = 1
    action: Action = "block"

    @field_validator("scope")
    @classmethod
    def _names_something(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            msg = "must name `overall`, `each`, `aggregate` or subgroups"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _is_a_rule(self) -> Self:
        self.rule()
        return self

    def rule(self) -> Rule:
        """Return the rule that the gate decides by."""
        options = self.model_dump(exclude={"mode", "scope"})
        scope = tuple(self.scope) if isinstance(self.scope, list) else self.scope
        return Rule(scope=scope, **options)


class Policy(Settings):
    """A policy file.

    Attributes
    ----------
    version : {1}
        Version of the policy language.
    name : str
        Name in verdicts.
    allow_first : bool
        Whether a candidate may become champion where there is none yet.
    rules : list of RuleSettings
        At least one of them blocking.
    """

    version: Literal[1]
    name: Name
    allow_first: bool = False
    rules: Annotated[list[RuleSettings], Field(min_length=1)]

    @model_validator(mode="after")
    def _can_block(self) -> Self:
        if all(rule.action == "warn" for rule in self.rules):
            msg = "at least one rule must have `action: block`; this policy passes anything"
            raise ValueError(msg)
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the policy's content, written into every verdict."""
        return json_digest(self.model_dump(mode="json"))


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
        If it does not exist or a rule is wrong; the place is named.
    """
    shipped = SHIPPED / f"{reference}.yaml"
    path = shipped if shipped.exists() else folder / Path(reference).expanduser()
    if not path.exists():
        names = ", ".join(sorted(one.stem for one in SHIPPED.glob("*.yaml")))
        msg = f"`policy` must be a file or one of {names}; got {reference} (looked at {path})."
        raise InputError(msg)
    return read_settings(path, Policy)


def rules_of(policy: dict[str, Any]) -> list[Rule]:
    """Return the rules of a policy that was passed as plain values."""
    return [one.rule() for one in Policy.model_validate(policy).rules]
