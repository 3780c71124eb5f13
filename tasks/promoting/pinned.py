"""The registered policy of a model: only this policy may move the model's `champion`."""

from __future__ import annotations

import getpass
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.gating.policy import Policy, read_policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Move, PolicyReference
from biasgate.tasks.ledger.ledger import Ledger, is_ledger
from biasgate.tasks.ledger.sound import require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import find_policy_objection, record_move
from biasgate.tasks.records import Context, RegisteredPolicy
from biasgate.tasks.signing.keys import SHORT_ID_LENGTH
from biasgate.tasks.store import Workplace

POLICY_TAG = "biasgate.policy"


def register_policy(reference: str, model: str, gateway: Gateway) -> tuple[Policy, Entry]:
    """Register a policy in a model's ledger: only this policy may move `champion` from now on.

    `model`: the registered model; it is created if it is missing.
    """
    policy = read_policy(reference, Path())
    if is_ledger(model):
        msg = f"`--model` must not be the name of a ledger; got {model!r}."
        raise InputError(msg)
    if policy.report_only:
        msg = f"policy {policy.name!r} must decide: it has `report_only: true`."
        raise InputError(msg)
    ledger = Ledger(gateway, model)
    require_sound(ledger)
    gateway.create_model(model)
    pin = PolicyReference(name=policy.name, digest=policy.digest)
    move = Move(action="policy", reason=f"registered by {_get_user_name()}", policy=pin)
    entry = record_move(
        ledger, move, f"policy {policy.name} {policy.digest[:SHORT_ID_LENGTH]} is required"
    )
    gateway.tag_model(model, {POLICY_TAG: f"{policy.name} {policy.digest}"})
    return policy, entry


def read_context(
    registered_model: str | None, policy: Policy, required_sets: list[str], gateway: Gateway
) -> Context:
    """Return the context that verdicts record: required sets, last entry, registered policy."""
    chain = Ledger(gateway, registered_model).chain if registered_model else Chain(())
    pin, required = chain.policy_entry, chain.policy
    is_registered = required is not None and required.digest == policy.digest
    return Context(
        required_sets=required_sets,
        ledger=chain.head,
        registered_policy=RegisteredPolicy(
            entry=pin.number,
            at=str(pin.content.time),
            before_scores=None,
        )
        if pin is not None and is_registered
        else None,
    )


@task(name="read the ledger")
def read_ledger_context(
    registered_model: str | None, policy: Policy, required_sets: list[str], workplace: Workplace
) -> Context:
    """Read the context that verdicts record from the model's ledger. A retry is safe."""
    return read_context(registered_model, policy, required_sets, workplace.gateway)


def refuse_other_policy(registered_model: str, policy: Policy, gateway: Gateway) -> None:
    """Raise an error for a policy that is neither the registered policy nor report-only."""
    pinned = Ledger(gateway, registered_model).chain.policy
    objection = find_policy_objection([policy], pinned, registered_model)
    if objection is not None and not policy.report_only:
        register = gateway.format_command("policy", "register", "FILE", "--model", registered_model)
        msg = (
            f"`policy` must be the registered policy: {objection}. Use it, leave out "
            f"`registered_model`, or register the new policy: {register}"
        )
        raise InputError(msg)


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "an unknown user"
