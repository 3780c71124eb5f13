"""Whether the files of a version are still the ones that were judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import plain
from biasgate.tasks.data.formats import read_as
from biasgate.tasks.mlflow_server.artifact_hosts import without_password
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.records import Bound, Verdict
from biasgate.tasks.signing.manifest import Manifest, told


@dataclass(frozen=True)
class VersionFiles:
    """The files of a version as they are now, read once, when a verdict is compared with them."""

    version: ModelVersion
    """The version."""
    read: Callable[[], Manifest]
    """Returns their manifest."""
    place: Callable[[], str]
    """Returns where the registry says that they are, for a message."""
    required: bool = False
    """Whether a verdict that records no files does not hold."""

    @classmethod
    def of(cls, version: ModelVersion, gateway: Gateway) -> VersionFiles:
        """Look the files up in the registry, as MLflow does when it loads the version."""
        return cls(version, partial(gateway.manifest, version), partial(gateway.place_of, version))

    @cached_property
    def manifest(self) -> Manifest | InputError:
        """Their manifest, or why there is none."""
        try:
            return self.read()
        except InputError as error:
            return error

    def compare(self, verdict: Verdict, name: str) -> Finding:
        """Compare with the files that the verdict on a set names."""
        of = f"the files of {self.version.uri}"
        bound = verdict.candidate.bound
        if bound.what == "nothing":
            text = f"{of} were not recorded with the verdict on {name}. {bound.not_bound}"
            return Finding("model", holds=not self.required, sentence=f"{text} Not checked.")
        text = f"{of} are the ones that were judged on {name}."
        problem = self._problem(bound)
        sentence = text if problem is None else f"{text} {problem}"
        return Finding("model", holds=problem is None, sentence=sentence)

    def _problem(self, bound: Bound) -> str | None:
        """Return how the files differ from the recorded ones; None if they do not."""
        try:
            recorded = Manifest.from_dict(plain(bound.files))
        except InputError as error:
            return str(error)
        if recorded.digest != bound.digest:
            return "The verdict's list of files does not have the digest that the verdict names."
        if isinstance(self.manifest, InputError):
            return str(self.manifest)
        if bound.what == "scores" and _contents(recorded) == _contents(self.manifest):
            return None  # a file of scores is registered once, whatever its name before the ending
        differ = told(recorded.differences(self.manifest))
        return f"Different in {without_password(self.place())}: {differ}." if differ else None


def _contents(manifest: Manifest) -> list[tuple[str, tuple[str, bool]]]:
    """Return what is in each file, and how its name says that it is read."""
    return [(one.sha256, read_as(one.path)) for one in manifest.files]
