"""Count files, which configure the shards to count and the policy that judges the counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, JsonValue, model_validator

from bias_metrics.gate import list_needed_thresholds
from bias_metrics.metrics import GIVEN, METRICS
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.settings import Name, Settings
from biasgate.tasks.common.yaml_files import read_settings
from biasgate.tasks.counting.stores import Location, get_shard_name, list_files, open_shard
from biasgate.tasks.data import reading
from biasgate.tasks.data.chunks import Chunk, require_columns
from biasgate.tasks.data.table import FileSource
from biasgate.tasks.evidence.answers import missing_threshold
from biasgate.tasks.evidence.counted import FILE, Shard, quote_name, read_counted
from biasgate.tasks.evidence.file import SCORE
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.gating.policy import Policy, read_policy
from biasgate.tasks.gating.policy_check import refuse_unknown_names

ENDING = ".counts"
_N_THREADS = 8
_MISSING_SCORE_HINT = "Score them, or remove these rows: counted rows need a score of every model."
_NOT_IN_KEY = {
    "path",
    "policy",
    "earlier",
    "manifest",
    "background",
    "power_mean_groups",
    "candidate",
    "champion",
    "reference",
}


class CountedModel(Settings):
    """A model whose scores are a column of the shards."""

    name: Name
    """Name of the model in the verdict."""
    score: str
    """Column with the scores of the model."""
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Score at or above which the model flags a comment, for rules on error rates."""


class CountFile(FileSource):
    """The content of a count file: a table in many files, with scores as columns."""

    explained_by = "biasgate schema count"
    refused: ClassVar[Mapping[str, str]] = {
        "cluster": "counts need independent rows; judge rows in clusters as `source: table`",
        "slices": "counts are not kept per slice",
        "slices_in": "counts are not kept per slice",
        "population": "counts must come from a sample of comments",
        "required": "a count file has a single set, which decides its verdict",
        "sample": "all rows of the shards are counted; use `split` to count a part",
    }

    source: Literal["shards"]
    """Counts of scores in shards."""
    path: Location  # type: ignore[assignment] # each shard is a file when it is read
    """The shards, as in `shards/*.parquet` or `s3://bucket/day/*.parquet`: CSV, JSON lines or
    Parquet; or files `*.counts` that biasgate wrote."""
    id: str = reading.ROW_NUMBER
    manifest: Location | None = None
    """Output of `sha256sum shards/*`. Shards that are missing, unlisted or changed are refused."""
    candidate: CountedModel
    """The model to judge."""
    champion: CountedModel | None = None
    """The model in use, with which the candidate is compared."""
    reference: CountedModel | None = None
    """A further model, for rules with a `reference_margin`."""
    earlier: Location | None = None
    """Files `evidence.counts` of earlier days, as in `days/*/evidence.counts`, for warnings about
    significant changes of identities. Their count files must have the same `name`, columns and
    models."""
    policy: str = "default"
    """Name of a shipped policy, or a path."""
    bits: Annotated[int, Field(ge=0, le=20)] = 12
    """2^bits bins per factor of two. Another bit halves the brackets and doubles the files."""

    @model_validator(mode="after")
    def _require_frequency_weights(self) -> Self:
        if self.is_weighted and self.weight_kind != "frequency":
            msg = "`weight` must have `weight_kind: frequency`, since counts are whole numbers"
            raise ValueError(msg)
        return self

    @property
    def models(self) -> dict[str, CountedModel]:
        """The configured models, by role."""
        given = {role: getattr(self, role) for role in ("candidate", "champion", "reference")}
        return {role: model for role, model in given.items() if model is not None}

    def list_shards(self) -> list[str]:
        """Return the paths or URLs of the shards, in order."""
        return list_files(self.path)

    def list_earlier_files(self) -> list[str]:
        """Return the paths or URLs of the evidence of earlier days, in order."""
        return [] if self.earlier is None else list_files(self.earlier)

    def check(self) -> None:
        """Refuse shards that are missing or lack a column, before any shard is counted."""
        shards = self.list_shards()
        if not shards:
            msg = f"`path` must name files, as in shards/*.parquet; {self.path} names none."
            raise InputError(msg)
        if self.earlier is not None and not self.list_earlier_files():
            msg = f"`earlier` must name files, as in days/*/{FILE}; {self.earlier} names none."
            raise InputError(msg)
        count_files = [shard for shard in shards if get_shard_name(shard).endswith(ENDING)]
        row_shards = [shard for shard in shards if shard not in count_files]
        if not count_files:
            self._refuse_other_names(shards)
        with ThreadPoolExecutor(_N_THREADS) as pool:  # a store may take long to answer
            for _ in pool.map(self._require_columns, row_shards):
                pass
            for _ in pool.map(self._require_same_settings, count_files):
                pass

    def _require_columns(self, shard: str) -> None:
        with open_shard(shard, only_columns=True) as path:
            require_columns(path, self._list_columns(), self)

    def _require_same_settings(self, shard: str) -> None:
        """Refuse counts that were made with other settings, since their numbers differ."""
        with open_shard(shard) as path:
            counted = read_counted(path)
        counts = counted.counts[CANDIDATE]
        actual = set(counts.names), counts.bits, counted.record.key, counted.counts.keys()
        if actual != (set(self.list_identity_names()), self.bits, self.key, self.models.keys()):
            msg = (
                f"counts must be made with the settings of this count file; those in "
                f"{quote_name(shard)} were made with another `name`, other columns, models, "
                "`bits`, or thresholds of labels or identities. Restore those settings, or count "
                "again."
            )
            raise InputError(msg)

    @property
    def key(self) -> str:
        """A digest of all settings that determine the counts of a shard."""
        options = self.model_dump(mode="json", exclude=_NOT_IN_KEY)
        models = {role: model.score for role, model in self.models.items()}
        return json_digest({**options, **models, "conversion": self.conversion})

    def select_shard(self, path: Path) -> CountFile:
        """Return these settings with a single shard as source."""
        return self.model_copy(update={"path": path})

    def provenance(self) -> dict[str, JsonValue]:
        """Return the options that determine the rows; shards have their own digests."""
        return {"source": self.source, "key": self.key}

    def read_manifest(self) -> dict[str, str] | None:
        """Return the names of the shards in the manifest by digest; None without a manifest."""
        if self.manifest is None:
            return None
        names_by_digest: dict[str, str] = {}
        try:
            with open_shard(self.manifest) as path:
                lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"`manifest` must be a readable file; {self.manifest}: {type(error).__name__}."
            raise InputError(msg) from error
        for number, line in enumerate(lines):
            match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
            if match is None or match[1] in names_by_digest:
                msg = (
                    f"`manifest` must have a line for each shard, as `sha256sum` writes them, and "
                    f"each content once (file {self.manifest}, row {number})."
                )
                raise InputError(msg)
            names_by_digest[match[1]] = Path(match[2]).name
        return names_by_digest

    def refuse_other_shards(self, shards: list[Shard]) -> None:
        """Refuse shards whose digests differ from those of the manifest, regardless of names."""
        expected = self.read_manifest()
        if expected is None:
            return
        counted = {shard.sha256: shard.name for shard in shards}
        for digest, name in sorted(expected.items(), key=itemgetter(1)):
            if digest not in counted:
                msg = (
                    f"shard {quote_name(name)} must have the content that `manifest` names, "
                    f"{digest[:12]}…; no shard has it."
                )
                raise InputError(msg)
        for digest, name in sorted(counted.items(), key=itemgetter(1)):
            if digest not in expected:
                msg = f"shard {quote_name(name)} ({digest[:12]}…) must be in `manifest`; it is not."
                raise InputError(msg)

    def _refuse_other_names(self, shards: list[str]) -> None:
        """Refuse more or fewer shards of a name than in the manifest; folders are ignored."""
        expected = self.read_manifest()
        if expected is None:
            return
        n_counted, n_listed = Counter(map(get_shard_name, shards)), Counter(expected.values())
        for name in sorted(n_listed - n_counted):
            msg = f"shard {quote_name(name)} of `manifest` must be counted; it is missing."
            raise InputError(msg)
        for name in sorted(n_counted - n_listed):
            reason = (
                "it is not" if not n_listed[name] else f"{n_counted[name]} shards have this name"
            )
            msg = f"shard {quote_name(name)} must be in `manifest`; {reason}."
            raise InputError(msg)

    def _list_columns(self) -> list[str]:
        return [*super()._list_columns(), *(model.score for model in self.models.values())]

    def _convert_chunk(self, chunk: Chunk) -> pa.Table:
        rows = super()._convert_chunk(chunk)
        for role, model in self.models.items():
            scores = reading.convert_scores(
                chunk, model.score, rows["id"], missing_hint=_MISSING_SCORE_HINT
            )
            rows = rows.append_column(SCORE + role, scores)
        return rows


def read_count_file(path: Path) -> tuple[CountFile, Policy]:
    """Read a count file and its policy, and check both before any shard is counted."""
    path = path.resolve()
    settings = read_settings(path, CountFile)
    policy = read_policy(settings.policy, path.parent)
    _refuse_rules(policy, settings)
    refuse_unknown_names(policy, settings.list_identity_names(), [])
    settings.read_manifest()
    settings.check()
    return settings, policy


def _refuse_rules(policy: Policy, settings: CountFile) -> None:
    """Refuse a policy that needs information that counts lack."""
    for feature, reason in _list_unsupported(policy, settings):
        msg = f"policy {policy.name!r} must not have {feature} if it judges counts: {reason}."
        raise InputError(msg)
    for role in list_needed_thresholds(policy.decision_rules()).get(GIVEN, ()):
        model = settings.models.get(role)
        if model is not None and model.threshold is None:
            raise InputError(missing_threshold(role, model.name))


def _list_unsupported(policy: Policy, settings: CountFile) -> Iterator[tuple[str, str]]:
    """Yield each feature of the policy that counts do not support, with the reason."""
    if policy.max_missing is not None:
        yield "`max_missing`", "a row without a score is refused when it is counted"
    if policy.max_truncated is not None:
        yield "`max_truncated`", "counts do not say which comments were truncated"
    for rule in policy.decision_rules():
        if rule.slice is not None:
            yield f"rule {rule.name} on a slice", "counts are not kept per slice"
        if METRICS[rule.metric].needs_rival:
            yield f"rule {rule.name}", "changed decisions are known only from rows"
        if rule.reference_margin is not None and settings.reference is None:
            yield f"rule {rule.name} with `reference_margin`", "`reference` is not set"
