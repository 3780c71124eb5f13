"""Count files: which shards are counted, and by which policy the counts are judged."""

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
from biasgate.tasks.counting.stores import Location, here, name_of, named
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
_AT_ONCE = 8
_IF_NONE = "Score them, or remove these rows: counted rows need a score of every model."
_DECIDES_LATER = {
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
    """Its name in the verdict."""
    score: str
    """Column of its scores."""
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """At or above which it flags a comment, for rules on error rates."""


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
    """A file that `sha256sum shards/*` wrote: a shard that is missing, is not in it or has other
    content is refused."""
    candidate: CountedModel
    """The model that is judged; its scores are a column of the shards."""
    champion: CountedModel | None = None
    """The model in use, that the candidate must not be worse than."""
    reference: CountedModel | None = None
    """A further model, for rules with a `reference_margin`."""
    earlier: Location | None = None
    """Files `evidence.counts` of earlier days, as in `days/*/evidence.counts`: numbers
    of identities that moved since then by more than chance are warned of. Their count files must
    have the same `name`, columns and models."""
    policy: str = "default"
    """Name of a shipped policy, or a path."""
    bits: Annotated[int, Field(ge=0, le=20)] = 12
    """2^bits bins for each factor of two. One more halves the brackets, and doubles the files."""

    @model_validator(mode="after")
    def _can_be_counted(self) -> Self:
        if self.is_weighted and self.weight_kind != "frequency":
            msg = "`weight` must have `weight_kind: frequency`, since counts are whole numbers"
            raise ValueError(msg)
        return self

    @property
    def models(self) -> dict[str, CountedModel]:
        """By role."""
        given = {role: getattr(self, role) for role in ("candidate", "champion", "reference")}
        return {role: one for role, one in given.items() if one is not None}

    def shards(self) -> list[str]:
        """Return the paths or URLs of the shards, in order."""
        return named(self.path)

    def earlier_files(self) -> list[str]:
        """Return the evidence of earlier days, in order."""
        return [] if self.earlier is None else named(self.earlier)

    def check(self) -> None:
        """Refuse shards that are missing or lack a column, before any of them is counted."""
        shards = self.shards()
        if not shards:
            msg = f"`path` must name files, as in shards/*.parquet; {self.path} names none."
            raise InputError(msg)
        if self.earlier is not None and not self.earlier_files():
            msg = f"`earlier` must name files, as in days/*/{FILE}; {self.earlier} names none."
            raise InputError(msg)
        counts = [shard for shard in shards if name_of(shard).endswith(ENDING)]
        of_rows = [shard for shard in shards if shard not in counts]
        if not counts:
            self._refuse_other_names(shards)
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # a store may take long to answer
            for _ in pool.map(self._require_columns, of_rows):
                pass
            for _ in pool.map(self._require_own, counts):
                pass

    def _require_columns(self, shard: str) -> None:
        with here(shard, columns_alone=True) as path:
            require_columns(path, self._list_columns(), self)

    def _require_own(self, shard: str) -> None:
        """Refuse counts that another count file would have made: they are of other numbers."""
        with here(shard) as path:
            found = read_counted(path)
        own = found.counts[CANDIDATE]
        names = set(own.names), own.bits, found.record.key, found.counts.keys()
        if names != (set(self.list_identity_names()), self.bits, self.key, self.models.keys()):
            msg = (
                f"counts must be made with the settings of this count file; those in "
                f"{quote_name(shard)} were made with another `name`, other columns, models, "
                "`bits`, or thresholds of labels or identities. Restore those settings, or count "
                "again."
            )
            raise InputError(msg)

    @property
    def key(self) -> str:
        """A digest of everything that decides the counts of a shard."""
        kept = self.model_dump(mode="json", exclude=_DECIDES_LATER)
        models = {role: one.score for role, one in self.models.items()}
        return json_digest({**kept, **models, "conversion": self.conversion})

    def of_shard(self, path: Path) -> CountFile:
        """Return the source of one shard's rows."""
        return self.model_copy(update={"path": path})

    def provenance(self) -> dict[str, JsonValue]:
        """Return the options that decide the rows; shards are known by their own digests."""
        return {"source": self.source, "key": self.key}

    def expected(self) -> dict[str, str] | None:
        """Return the name of each shard that the manifest names, by its digest."""
        if self.manifest is None:
            return None
        found: dict[str, str] = {}
        try:
            with here(self.manifest) as path:
                lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"`manifest` must be a readable file; {self.manifest}: {type(error).__name__}."
            raise InputError(msg) from error
        for number, line in enumerate(lines):
            match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
            if match is None or match[1] in found:
                msg = (
                    f"`manifest` must have a line for each shard, as `sha256sum` writes them, and "
                    f"each content once (file {self.manifest}, row {number})."
                )
                raise InputError(msg)
            found[match[1]] = Path(match[2]).name
        return found

    def refuse_other_shards(self, shards: list[Shard]) -> None:
        """Refuse shards whose content is not that of the manifest's, whatever their names."""
        expected = self.expected()
        if expected is None:
            return
        known = {shard.sha256: shard.name for shard in shards}
        for digest, name in sorted(expected.items(), key=itemgetter(1)):
            if digest not in known:
                msg = (
                    f"shard {quote_name(name)} must have the content that `manifest` names, "
                    f"{digest[:12]}…; no shard has it."
                )
                raise InputError(msg)
        for digest, name in sorted(known.items(), key=itemgetter(1)):
            if digest not in expected:
                msg = f"shard {quote_name(name)} ({digest[:12]}…) must be in `manifest`; it is not."
                raise InputError(msg)

    def _refuse_other_names(self, shards: list[str]) -> None:
        """Refuse more or fewer shards of a name than the manifest has; folders do not count."""
        expected = self.expected()
        if expected is None:
            return
        known, listed = Counter(map(name_of, shards)), Counter(expected.values())
        for name in sorted(listed - known):
            msg = f"shard {quote_name(name)} of `manifest` must be counted; it is missing."
            raise InputError(msg)
        for name in sorted(known - listed):
            told = "it is not" if not listed[name] else f"{known[name]} shards have this name"
            msg = f"shard {quote_name(name)} must be in `manifest`; {told}."
            raise InputError(msg)

    def _list_columns(self) -> list[str]:
        return [*super()._list_columns(), *(model.score for model in self.models.values())]

    def _convert_chunk(self, chunk: Chunk) -> pa.Table:
        rows = super()._convert_chunk(chunk)
        for role, one in self.models.items():
            scores = reading.convert_scores(chunk, one.score, rows["id"], missing_hint=_IF_NONE)
            rows = rows.append_column(SCORE + role, scores)
        return rows


def read_count_file(path: Path) -> tuple[CountFile, Policy]:
    """Read a count file and its policy, and check everything that can be checked now."""
    path = path.resolve()
    found = read_settings(path, CountFile)
    policy = read_policy(found.policy, path.parent)
    _refuse_rules(policy, found)
    refuse_unknown_names(policy, found.list_identity_names(), [])
    found.expected()
    found.check()
    return found, policy


def _refuse_rules(policy: Policy, settings: CountFile) -> None:
    """Refuse a policy that needs what counts do not have."""
    for what, why in _lacking(policy, settings):
        msg = f"policy {policy.name!r} must not have {what} if it judges counts: {why}."
        raise InputError(msg)
    for role in list_needed_thresholds(policy.decision_rules()).get(GIVEN, ()):
        model = settings.models.get(role)
        if model is not None and model.threshold is None:
            raise InputError(missing_threshold(role, model.name))


def _lacking(policy: Policy, settings: CountFile) -> Iterator[tuple[str, str]]:
    """Yield what counts cannot be judged by, and why."""
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
