"""What a signed attestation must be of: the model, its version, the policy and the sets.

A good signature says that a trusted key attested something, not what. Whoever hands over the
attestation of another model, or of a lenient policy, is found only if the right ones are pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.signing.statement import Annotations

_DIGEST = re.compile(r"[0-9a-f]{12,64}")


@dataclass(frozen=True)
class Pins:
    """What attestations must be of, beside the files; whatever is None may be anything.

    Raises
    ------
    InputError
        If a digest is none, or a version is named without its model.
    """

    model: str | None = None
    """The registered model."""
    version: str | None = None
    """Its version."""
    policy_digest: str | None = None
    """Digest of the policy that decided, as `biasgate policy check` prints it; 12 characters or
    more."""
    sets: Mapping[str, str] | None = None
    """The required sets by name, no more and no fewer; each with the digest of its rows, of which
    an empty one may be any."""

    def __post_init__(self) -> None:
        """Refuse a pin that pins nothing."""
        digests = [one for one in (self.sets or {}).values() if one]
        for one in [*digests, self.policy_digest]:
            if one is not None and not _DIGEST.fullmatch(one):
                msg = f"a pinned digest must be 12 to 64 characters of 0-9 and a-f; got {one!r}."
                raise InputError(msg)
        for what, text in (("model", self.model), ("version", self.version)):
            if text == "":
                msg = f"a pinned {what} must not be empty."
                raise InputError(msg)
        if self.version is not None and self.model is None:
            msg = f"a version must be pinned with its model; got version {self.version!r} alone."
            raise InputError(msg)

    def check(self, said: Sequence[Annotations]) -> Iterator[Finding]:
        """Yield which model, policy and sets are attested, and whether they are the pinned ones.

        `said` is what each attestation says about its verdict; nothing that is pinned holds if it
        says nothing.
        """
        yield self._model({one["model"] or "" for one in said})
        yield self._policy({(one["policy"], one["policyDigest"]) for one in said})
        yield self._sets({(one["evaluationSet"], one["evaluationSetDigest"]) for one in said})

    def _model(self, found: set[str]) -> Finding:
        named = _listed(one or "a model without a registered version" for one in found)
        text = f"attested is {named}."
        if self.model is None:
            free = f"{text} Any other would hold too: name the MODEL that it must be."
            return Finding("model", holds=True, sentence=free)
        wanted = f"models:/{self.model}/{self.version or ''}"
        same = [
            one == wanted if self.version else one.rpartition("/")[0] == wanted.removesuffix("/")
            for one in found
        ]
        return _pinned("model", text, wanted.removesuffix("/"), holds=same == [True])

    def _policy(self, found: set[tuple[str, str]]) -> Finding:
        text = f"it was judged by policy {_listed(f'{one} ({digest})' for one, digest in found)}."
        if self.policy_digest is None:
            free = f"{text} Any other would hold too: give the --policy-digest that it must be."
            return Finding("policy", holds=True, sentence=free)
        same = [digest.startswith(self.policy_digest) for _, digest in found]
        return _pinned("policy", text, self.policy_digest, holds=same == [True])

    def _sets(self, found: set[tuple[str, str]]) -> Finding:
        text = f"it was judged on {_listed(f'{one} ({digest})' for one, digest in found)}."
        if self.sets is None:
            free = f"{text} Any other would hold too: give each --evaluation-set that is required."
            return Finding("dataset", holds=True, sentence=free)
        known, wanted = dict(found), self.sets
        same = (
            len(known) == len(found)
            and known.keys() == wanted.keys()
            and all(known[one].startswith(digest) for one, digest in wanted.items())
        )
        named = _listed(f"{one} ({digest})" if digest else one for one, digest in wanted.items())
        return _pinned("dataset", text, named, holds=same)


def _pinned(what: str, text: str, wanted: str, *, holds: bool) -> Finding:
    told = f" That is what it must be: {wanted}." if holds else f" It must be {wanted}."
    return Finding(what, holds=holds, sentence=text + told)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts)) or "nothing"
