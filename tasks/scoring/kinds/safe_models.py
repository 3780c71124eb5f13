"""Models that are opened without running code from their files.

A model from a registry may declare a format and contain another, and MLflow's loaders trust the
declaration. Here, the declaration never selects a loader: files are read only by loaders of formats
without code (skops without further types, safetensors).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Early: skops looks for each of its functions in all modules that were imported before it.
import scipy.special  # noqa: F401

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.mlflow_server.model_folders import read_flavours

# Everything that MLflow writes for scikit-learn saved as skops. Other keys change what it loads.
_KEYS = {
    "python_function": {"env", "loader_module", "model_path", "predict_fn", "python_version"},
    "sklearn": {
        "code",
        "pickled_model",
        "serialization_format",
        "sklearn_version",
        "skops_trusted_types",
    },
}
_PREDICT = ("predict", "predict_proba", "predict_log_proba")
_SCHEMA = "schema.json"  # every skops file has it
# In the configuration of a transformer: keys with code to import, or to fetch from the hub.
_CODE = ("auto_map", "custom_pipelines")
_KERNELS = ("attn_implementation", "experts_implementation")


class UnsafeModelError(InputError):
    """A model that could run its own code when it is loaded."""


@dataclass(frozen=True)
class SkopsModel:
    """A scikit-learn model in a skops file."""

    path: Path
    predict: str
    """Name of the method that returns predictions."""
    name: str
    """The model, for messages."""

    def load(self) -> Any:
        """Return the scikit-learn object; refuse types that skops does not list as safe."""
        import skops.io  # noqa: PLC0415 - imports scikit-learn, which takes a second
        from skops.io.exceptions import UntrustedTypesFoundException  # noqa: PLC0415

        try:
            return skops.io.load(self.path)
        except UntrustedTypesFoundException as error:
            types = ", ".join(skops.io.get_untrusted_types(file=self.path))
            problem = f"{self.path.name} holds types that may run code: {types}"
            raise _make_error(self.name, problem) from error
        except Exception as error:
            msg = (
                f"{self.name} must be readable as skops; {self.path.name} is not "
                f"({type(error).__name__})."
            )
            raise InputError(msg) from error


def find_skops_model(folder: Path, model: str) -> SkopsModel:
    """Return the single skops file of a model folder that both MLflow and biasgate load."""
    name = f"model {model}"
    flavours = read_flavours(folder)
    if not isinstance(flavours, dict) or set(flavours) != set(_KEYS):
        names = ", ".join(map(str, flavours)) if isinstance(flavours, dict) else "nothing"
        hint = ""
        if isinstance(flavours, dict) and "transformers" in flavours:
            hint = " Or open it with `kind: transformer`, which reads safetensors only."
        raise _make_error(name, f"it has {names}", hint)
    pyfunc, sklearn = flavours["python_function"], flavours["sklearn"]
    file = sklearn.get("pickled_model") if isinstance(sklearn, dict) else None
    for flavour, keys in _KEYS.items():
        content = flavours[flavour]
        unknown = sorted(content.keys() - keys) if isinstance(content, dict) else ["no options"]
        if unknown:
            raise _make_error(name, f"its MLmodel has `{unknown[0]}` in {flavour}")
    for key, value, expected in (
        ("loader_module", pyfunc.get("loader_module"), "mlflow.sklearn"),
        ("serialization_format", sklearn.get("serialization_format"), "skops"),
        ("code", sklearn.get("code"), None),
        ("skops_trusted_types", sklearn.get("skops_trusted_types") or None, None),
        ("model_path", pyfunc.get("model_path"), file),
    ):
        if value != expected:
            raise _make_error(name, f"its MLmodel has {key}: {value!r:.100}")
    predict = pyfunc.get("predict_fn", "predict")
    if predict not in _PREDICT:
        raise _make_error(name, f"its MLmodel has predict_fn: {predict!r:.100}")
    if not isinstance(file, str) or "/" in file or "\\" in file or not _is_skops(folder / file):
        is_missing = isinstance(file, str) and not (folder / file).exists()
        problem = "is missing" if is_missing else "is not in the format of skops"
        raise _make_error(name, f"its file {file!r:.100} {problem}")
    return SkopsModel(folder / file, predict, name)


def refuse_model_code(folder: Path, name: str, remedy: str) -> None:
    """Refuse a transformer if its configuration names code to import or to fetch.

    `folder`: weights or tokenizer, as written by `save_pretrained`.
    """
    if (folder / "adapter_config.json").exists():
        msg = f"{name} must hold all its weights; adapter_config.json names another model. {remedy}"
        raise UnsafeModelError(msg)
    for path in sorted(folder.glob("*config*.json")):
        content = None
        with suppress(OSError, ValueError):  # reported when the file is needed
            content = json.loads(path.read_text("utf-8"))
        for key, value in _iterate_items(content):
            is_fetched = key.strip("_") in _KERNELS and "/" in str(value)
            if (key in _CODE and value) or is_fetched:
                msg = f"{name} contains its own code: {path.name} has `{key}`. {remedy}"
                raise UnsafeModelError(msg)


def _is_skops(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return _SCHEMA in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _make_error(name: str, problem: str, hint: str = "") -> UnsafeModelError:
    return UnsafeModelError(
        f"{name} must be in a format that does not execute code on load (scikit-learn as skops); "
        f"{problem}. If you trust its author, set `trusted: true` in the evaluation file.{hint}"
    )


def _iterate_items(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth."""
    if isinstance(content, Mapping):
        yield from ((str(key), value) for key, value in content.items())
        content = list(content.values())
    for value in content if isinstance(content, list) else ():
        yield from _iterate_items(value)
