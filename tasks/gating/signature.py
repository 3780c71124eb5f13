"""Digests and signatures of verdicts, and the tags of a model version."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.records import LoggedVerdict

SIGNING_KEY = "BIASGATE_SIGNING_KEY"
FILES_DIGEST = "biasgate.files_digest"
# Keys that are added to a verdict after the decision.
_ADDED = frozenset({"run_id", "signature"})


def verdict_digest(verdict: Mapping[str, Any]) -> str:
    """SHA-256 of a verdict, without run and signature."""
    return json_digest({key: value for key, value in verdict.items() if key not in _ADDED})


def sign(digest: str) -> str | None:
    """Return the HMAC-SHA-256 of a digest with `BIASGATE_SIGNING_KEY`; None without a key."""
    key = os.environ.get(SIGNING_KEY)
    return hmac.new(key.encode(), digest.encode(), hashlib.sha256).hexdigest() if key else None


def is_signed(digest: str, signature: str | None) -> bool:
    """Whether a signature is valid for a digest and the key that is set."""
    expected = sign(digest)
    return bool(expected and signature and hmac.compare_digest(expected, signature))


def tags_of(verdicts: Sequence[LoggedVerdict]) -> dict[str, str]:
    """Return the tags for a model version with these verdicts, one group per set.

    `biasgate.required_sets` names the sets on which a pass is required; `biasgate.files_digest`
    is the digest of the files that were judged.
    """
    required = [one["evaluation_set"] for one in verdicts if one["evaluation_set"]["required"]]
    tags = {"biasgate.required_sets": ",".join(one["name"] for one in required)}
    for verdict in verdicts:
        bound = verdict["candidate"].get("bound")
        if bound is not None and bound["digest"] is not None:
            tags[FILES_DIGEST] = bound["digest"]
        prefix = f"biasgate.{verdict['evaluation_set']['name']}"
        tags[f"{prefix}.verdict"] = str(verdict["outcome"])
        tags[f"{prefix}.verdict_digest"] = verdict_digest(verdict)
        tags[f"{prefix}.set_digest"] = str(verdict["evaluation_set"]["digest"])
        tags[f"{prefix}.policy"] = f"{verdict['policy']['name']} {verdict['policy']['digest']}"
        tags[f"{prefix}.run_id"] = str(verdict["run_id"])
    return tags
