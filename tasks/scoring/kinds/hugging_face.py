"""Models as files in the format of Hugging Face: from a folder, or from the hub."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from biasgate.tasks.common.errors import InputError, to_install
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.safe_models import refuse_code_of_transformer

NEEDS_TORCH = (
    f"candidates of kinds transformer and language_model need torch: {to_install('text')}."
)
_PACKAGES = ("torch", "transformers", "safetensors")
HubName = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
# No pickles: they execute code when they are loaded.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")


def require_torch() -> None:
    """Refuse an installation without torch, without the seconds that its import takes."""
    if any(find_spec(one) is None for one in _PACKAGES):
        raise InputError(NEEDS_TORCH)


class HuggingFaceModel(CandidateSettings):
    """A model whose files are in a folder or on the hub."""

    folder: ConfigPath | None = None
    """The model as `save_pretrained` writes it, with its tokenizer, in safetensors; instead of
    `hub` or `model`."""
    hub: HubName | None = None
    """Its name on the hub."""
    revision: str | None = None
    """A branch, tag or commit of it."""
    trust_remote_code: str | None = None
    """Repeat the model's name here (`hub`, or the folder's name) to let its code run."""

    def check_trust(self) -> None:
        """Refuse trust in another model's code."""
        if self.trust_remote_code not in {None, self.own_name()}:
            msg = f"`trust_remote_code` must repeat the model's own name, {self.own_name()}"
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
            remedy = f"set `trust_remote_code: {self.own_name()}`."
            refuse_code_of_transformer(folder, self.described, f"If you trust its author, {remedy}")

    @property
    def described(self) -> str:
        """The model, for messages."""
        return f"model {self.own_name()} of candidate {self.name!r}"

    def own_name(self) -> str:
        """Return the model's name, for messages and for trust."""
        return self.hub or (self.folder.name if self.folder else "")

    def model_files(self) -> Path:
        """Return the folder with the model's files, downloaded if it is on the hub."""
        if self.folder is not None:
            return self.folder
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra, and slow

        patterns = [*_FILES, *(["*.py"] if self.trust_remote_code else [])]
        try:
            return Path(
                snapshot_download(self.hub, revision=self.revision, allow_patterns=patterns)
            )
        except (OSError, ValueError) as error:  # base classes of the hub's many errors
            msg = f"{self.described} cannot be downloaded from the hub: {type(error).__name__}."
            raise InputError(msg) from error
