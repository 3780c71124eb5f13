"""Models in the format of Hugging Face, from a folder or from the hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from errno import ENOSPC
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import disk_usage
from typing import Annotated, Any

from pydantic import PrivateAttr, StringConstraints

from biasgate.tasks.common.errors import InputError, format_install_hint
from biasgate.tasks.common.files import FULL_DISK, format_size
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.progress import show_activity
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.safe_models import refuse_model_code

NEEDS_TORCH = (
    f"candidates of kind transformer need torch: {format_install_hint('text')}. "
    "Or remove them from the evaluation file; `--save FILE` copies an included evaluation."
)
_PACKAGES = ("torch", "transformers", "safetensors")
HubName = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
# No pickles: they execute code when they are loaded.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


def require_torch() -> None:
    """Refuse an installation without torch, without importing it, which takes seconds."""
    if any(find_spec(name) is None for name in _PACKAGES):
        raise InputError(NEEDS_TORCH)


class HuggingFaceModel(CandidateSettings):
    """A model with files in a folder or on the hub."""

    folder: ConfigPath | None = None
    """Folder of the model, as `save_pretrained` writes it, with its tokenizer and with weights in
    safetensors. Instead of `hub` or `model`."""
    hub: HubName | None = None
    """Name of the model on the hub."""
    revision: str | None = None
    """A branch, tag or commit of the model on the hub."""
    trust_remote_code: str | None = None
    """Repeat the model's name here (`hub`, or the folder's name) to let its code run."""
    _commit: str | None = PrivateAttr(default=None)
    """The commit of `revision` at the first download, which all tasks of a run use."""

    def check_trust(self) -> None:
        """Refuse trust in another model's code."""
        if self.trust_remote_code not in {None, self.get_name()}:
            msg = f"`trust_remote_code` must repeat the model's own name, {self.get_name()}"
            raise ValueError(msg)

    def read_config(self, folder: Path) -> dict[str, Any]:
        """Return the model's configuration."""
        file = folder / "config.json"
        if not file.exists() or not list(folder.glob("*.safetensors")):
            lacking = "weights in *.safetensors" if file.exists() else "config.json"
            msg = f"folder {folder} of candidate {self.name!r} must hold {lacking}; it does not."
            raise InputError(msg)
        self.refuse_code(folder)
        return dict(json.loads(file.read_text("utf-8")))

    def refuse_code(self, folder: Path) -> None:
        """Refuse weights or a tokenizer that need to run their own code, unless it is trusted."""
        if self.trust_remote_code is None:
            remedy = f"set `trust_remote_code: {self.get_name()}`."
            refuse_model_code(folder, self.described, f"If you trust its author, {remedy}")

    @property
    def described(self) -> str:
        """The model, for messages."""
        return f"model {self.get_name()} of candidate {self.name!r}"

    def get_name(self) -> str:
        """Return the model's name, for messages and for trust."""
        return self.hub or (self.folder.name if self.folder else "")

    def downloads(self) -> dict[str, int]:
        """Return the model on the hub, and the size of the files that the cache lacks.

        Raises
        ------
        InputError
            If the hub does not have the model or revision, or neither hub nor cache has the files.
        """
        if self.hub is None:
            return {}
        require_torch()
        with self._explain_errors():
            files = self._list_missing(self._make_fetch())
        n_bytes = sum(file.file_size for file in files)
        return {f"{self.hub} from the hub": n_bytes} if n_bytes else {}

    def fetch_files(self) -> Path:
        """Return the folder of the model's files; download missing files from the hub."""
        if self.folder is not None:
            return self.folder
        with self._explain_errors():
            return self._download()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn an error of the hub into an `InputError` with cause and remedy."""
        from huggingface_hub.errors import HTTPError  # noqa: PLC0415 - an extra, and slow

        try:
            yield
        except (OSError, ValueError, HTTPError) as error:  # base classes of the hub's many errors
            raise InputError(self._explain(error)) from error

    def _make_fetch(self) -> Callable[..., Any]:
        """Return the hub's function that downloads the model's files, or lists them."""
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
        from huggingface_hub.utils import disable_progress_bars  # noqa: PLC0415

        disable_progress_bars()  # they are drawn into pipes, and over the bars of a run
        patterns = [*_FILES, *(["*.py"] if self.trust_remote_code else [])]
        return partial(snapshot_download, self.hub, allow_patterns=patterns)

    def _list_missing(self, fetch: Callable[..., Any]) -> list[Any]:
        """Return the files that the cache lacks; pin the revision to its commit.

        If the hub refuses or does not answer, a complete cache is sufficient.
        """
        from huggingface_hub.errors import DryRunError, LocalEntryNotFoundError  # noqa: PLC0415

        revision = self._commit or self.revision
        try:
            files = fetch(revision=revision, dry_run=True)
        except DryRunError:
            with suppress(LocalEntryNotFoundError):
                self._commit = Path(fetch(revision=revision, local_files_only=True)).name
                return []
            raise
        if files:
            self._commit = files[0].commit_hash
        return [file for file in files if file.will_download]

    def _download(self) -> Path:
        """Return the complete folder in the hub's cache; first log the size of a download."""
        from huggingface_hub import constants  # noqa: PLC0415 - an extra

        fetch = self._make_fetch()
        files = self._list_missing(fetch)
        revision = self._commit or self.revision
        if n_bytes := sum(file.file_size for file in files):
            size = format_size(n_bytes)
            cache = Path(constants.HF_HUB_CACHE)
            existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
            free = disk_usage(existing).free
            if free < n_bytes:
                raise OSError(ENOSPC, f"{size} are needed, {format_size(free)} are free")
            log_message(f"downloading {self.hub}, commit {revision}, from the hub: {size}")
        with show_activity(f"downloading {self.hub}") if n_bytes else nullcontext():
            return Path(fetch(revision=revision))

    def _explain(self, error: Exception) -> str:
        """Return a sentence with the cause of a failed download and the remedy."""
        from huggingface_hub import constants, errors  # noqa: PLC0415 - an extra

        is_wrapper = isinstance(error, errors.DryRunError | errors.LocalEntryNotFoundError)
        cause = (error.__cause__ if is_wrapper else None) or error
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(cause, errors.RevisionNotFoundError):
            return (
                f"`revision` of {self.described} must be a commit, branch or tag on the hub; got "
                f"{self.revision or 'main'!r}. Copy a commit from the model's history there."
            )
        if isinstance(cause, errors.RepositoryNotFoundError) or status in {401, 403}:
            return (
                f"{self.described} must be on the hub and readable; the hub answers {status}. "
                "Check the name in `hub`. A private or gated model needs HF_TOKEN, a token of an "
                "account with access."
            )
        if isinstance(cause, errors.OfflineModeIsEnabled):
            return (
                f"{self.described} at revision {self.revision or 'main'!r} must be in the hub's "
                f"cache {constants.HF_HUB_CACHE}, since HF_HUB_OFFLINE is set; it is not. Unset "
                "HF_HUB_OFFLINE, or give a folder with the model's files as `folder`."
            )
        if isinstance(cause, OSError) and cause.errno in FULL_DISK:
            return (
                f"the hub's cache {constants.HF_HUB_CACHE} must have room for {self.described}; "
                f"{cause.strerror}. Free space there, or set HF_HOME to a folder on another disk."
            )
        if is_wrapper or isinstance(cause, errors.HTTPError | ConnectionError | TimeoutError):
            reason = type(cause).__name__ if status is None else f"status {status}"
            return (
                f"{self.described} must be downloaded, and the hub {constants.ENDPOINT} does not "
                f"answer as expected ({reason}). Run again with a network, give a folder with the "
                "model's files as `folder`, or copy the hub's cache from another machine and set "
                "HF_HUB_OFFLINE=1."
            )
        return f"{self.described} cannot be downloaded from the hub: {type(cause).__name__}."
