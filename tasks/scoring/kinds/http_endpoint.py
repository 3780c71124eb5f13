"""Candidate kind `http`: a served model, called as its preset says."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.secrets import remember
from biasgate.tasks.scoring.asking.guard import OF_JUDGES, Asking, Option
from biasgate.tasks.scoring.asking.templates import placeholders
from biasgate.tasks.scoring.candidate import CandidateSettings, Version
from biasgate.tasks.scoring.http.hosts import plain_url, refuse_unnamed_host
from biasgate.tasks.scoring.http.parts import Combine, Positive, Price
from biasgate.tasks.scoring.http.preset import Preset, Protocol, read_preset
from biasgate.tasks.scoring.kinds.http_scorer import EndpointScorer
from biasgate.tasks.store import Workplace

MLFLOW, CUSTOM = "mlflow", "custom"
# What a kill may lose costs time or money where a service has limits.
_ROWS_A_SHARD = 500


class HttpEndpoint(Asking, CandidateSettings):
    """A served model, called in batches."""

    kind: Literal["http"]
    preset: str = MLFLOW
    """How its requests and answers look: a preset's name, or `custom`."""
    protocol: Protocol | None = None
    """For `preset: custom`: how they look."""
    url: Annotated[str, AfterValidator(plain_url)]
    """The full URL, as in `http://127.0.0.1:5000/invocations`. Default: the preset's."""
    sends_text_to: str | None = None
    """The host of the URL, by name: without it, comments do not leave this machine."""
    version: Version
    """Version of the model behind it. Scores are reused while it stays the same; without it they
    never are."""
    combine: Combine | None = None
    """How several categories become one score. Default: the preset's."""
    column: str | None = None
    """For MLflow: name of the text column, if the model takes a table. Default: an array."""
    output: str | None = None
    """For MLflow: the column of the score, if the model returns a table."""
    label: str | None = None
    """For MLflow: the toxic one of two labels, if the model returns the winning label and its
    score."""
    token_env: str | None = None
    """Environment variable with the secret. Default: the preset's, if the URL is the preset's."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Texts per request; number of parallel requests."""
    requests_per_second: Positive | None = None
    tokens_per_second: Positive | None = None
    """Limits that are kept. Default: those that the service publishes."""
    price: Price | None = None
    """What the service asks. Default: what it publishes."""
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Limit for one try of a request, from the connection to the last byte of the answer."""
    tries: Annotated[int, Field(ge=1)] = 6
    """Most tries of a request whose answer is 429, 5xx or missing."""

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, value: Any) -> Any:
        """Take what the candidate does not say from its preset."""
        if not isinstance(value, dict):
            return value
        name = value.get("preset", MLFLOW)
        if name == CUSTOM or not isinstance(name, str):
            return {"batch_size": 1} | value if name == CUSTOM else value
        preset = read_preset(name)
        known: dict[str, Any] = {"batch_size": preset.limits.texts}
        if preset.url is not None:
            known["url"] = preset.url
        if preset.limits.requests_per_second or preset.price:
            known["rows_a_shard"] = _ROWS_A_SHARD
        return known | value

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if (self.protocol is None) == (self.preset == CUSTOM):
            msg = "`protocol` must be given for `preset: custom`, and for no other"
            raise ValueError(msg)
        preset = self.used
        for key in ("column", "output", "label"):
            if preset.reads != "predictions" and getattr(self, key) is not None:
                msg = f"`{key}` is for MLflow models; preset {self.preset} is for others"
                raise ValueError(msg)
        self._check_options(preset)
        self._check_judge(preset)
        if self.batch_size > preset.limits.texts and preset.reads != "predictions":
            msg = (
                f"`batch_size` must be at most {preset.limits.texts} for preset {self.preset}; "
                f"got {self.batch_size}"
            )
            raise ValueError(msg)
        return self

    def _check_options(self, preset: Protocol) -> None:
        options = [*preset.options, *(self.asked.options if preset.is_judge else ())]
        unknown = sorted(set(self.options) - set(options))
        if unknown:
            known = ", ".join(options) or "none"
            msg = (
                f"`options` must be options of preset {self.preset}; got {unknown[0]} "
                f"(known: {known})"
            )
            raise ValueError(msg)
        for name, value in self.filled_options.items():
            if value is None:
                msg = f"`options` must have `{name}` for preset {self.preset}"
                raise ValueError(msg)
        if preset.needs_categories and not self.categories:
            msg = (
                f"`categories` must name the toxic label, or labels, for preset {self.preset}, as "
                "in `categories: [toxic]`"
            )
            raise ValueError(msg)

    def _check_judge(self, preset: Protocol) -> None:
        if not preset.is_judge:
            given = {"guard", *OF_JUDGES} & self.model_fields_set
            if given:
                msg = f"`{min(given)}` is for judges; preset {self.preset} is none"
                raise ValueError(msg)
            return
        self.check_asked()
        asked, used = self.asked, set(placeholders(preset.request))
        if "prompt" in used and not isinstance(asked.prompt, str):
            msg = f"`prompt` must be a text for preset {self.preset}, which takes no messages"
            raise ValueError(msg)
        if asked.template is not None and "template" not in used and self.prompt is None:
            msg = (
                f"`prompt` must be given for guard {self.guard} behind preset {self.preset}, which "
                "cannot set variables of the model's chat template "
                f"({', '.join(asked.template)}): the messages that its own template expects"
            )
            raise ValueError(msg)

    @property
    def used(self) -> Protocol:
        """The preset, or the candidate's own protocol."""
        return self.protocol if self.protocol is not None else read_preset(self.preset)

    @property
    def filled_options(self) -> dict[str, Option]:
        """The preset's options, with the candidate's values; a guard's are not among them."""
        return {name: self.options.get(name, one) for name, one in self.used.options.items()}

    @property
    def may_miss(self) -> bool:
        """Whether some comments may stay without a score."""
        return self.used.may_miss

    @property
    def scores_in_levels(self) -> bool:
        """Whether it is meant that scores have few values, even two."""
        in_levels = self.used.is_judge and self.asked.score_as == "level"
        return in_levels or self.allow_two_valued

    @property
    def digest(self) -> str:
        """SHA-256 of what affects the scores."""
        if self.preset == MLFLOW:
            return json_digest(
                ["http", self.url, self.version, self.column, self.output, self.label]
            )
        judge = [self.asked.model_dump(mode="json")] if self.used.is_judge else []
        return json_digest(
            [
                *["http", self.preset, self.used.digest, self.url, self.version],
                *[self.filled_options, self.categories, self.combine, *judge],
            ]
        )

    def secret(self) -> str | None:
        """Return the secret; None if there is none.

        Raises
        ------
        InputError
            If its environment variable is not set.
        """
        preset, variable = self.used, self.token_env
        if variable is None and isinstance(preset, Preset) and self.url == preset.url:
            variable = preset.token_env
        return read_secret(variable, f"candidate {self.name!r}") if variable else None

    def check(self) -> None:
        """Refuse a host that is not named, and a missing secret."""
        refuse_unnamed_host(self.url, self.sends_text_to, f"candidate {self.name!r}")
        self.secret()

    def open(self, workplace: Workplace) -> EndpointScorer:
        """Open lazily: nothing is connected yet."""
        del workplace
        self.check()
        return EndpointScorer(self)


def read_secret(variable: str, of: str) -> str:
    """Return what an environment variable holds, and hide it in all messages.

    Raises
    ------
    InputError
        If it is not set, or cannot be part of a header.
    """
    secret = os.environ.get(variable, "").strip()
    if not secret:
        msg = f"environment variable {variable} must hold the token of {of}; it is not set."
        raise InputError(msg)
    remember(variable, secret)
    if not secret.isascii() or not secret.isprintable():
        msg = (
            f"environment variable {variable} must hold the token of {of}: visible characters of "
            "ASCII, on one line. It holds others; was it copied with something else?"
        )
        raise InputError(msg)
    return secret
