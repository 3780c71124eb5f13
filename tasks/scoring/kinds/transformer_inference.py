"""Logits of a transformer, computed as fast as the hardware allows; needs torch."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, whole_file
from biasgate.tasks.scoring.kinds.hugging_face import NEEDS_TORCH
from biasgate.tasks.scoring.kinds.transformer_tokens import Tokenizer, Tokens

try:
    import torch
    import transformers
    from safetensors import SafetensorError

    from biasgate.tasks.scoring.kinds.transformer_tokens import make_packing, send_arrays
except ImportError as error:
    raise InputError(NEEDS_TORCH) from error

_PACK = "_reorder_linear_weight"
# Versions of the libraries that affect a training, without their builds.
LIBRARIES = (torch.__version__.partition("+")[0], transformers.__version__)
# Number of texts that are tokenised while the previous texts are computed.
TEXTS_AHEAD = 512
# On a CPU the data of a batch should fit into the caches.
_TOKENS_A_BATCH = {"cpu": 1_024, "cuda": 131_072}
# Texts are padded to a multiple of this many tokens. A GPU multiplies best in eights.
STEPS = {"cpu": 2, "cuda": 8}


def count_parallel_calls() -> int:
    """Return the number of parallel calls of `Classifier.logits` that keep the device busy.

    Between calls, a GPU would wait until the first texts of the next call are tokenised.
    """
    return 2 if torch.cuda.is_available() else 1


def choose_precision(precision: str) -> str:
    """Replace `auto` by the faster of `float32` and `bfloat16` on this hardware."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        features = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        is_fast = any(getattr(torch.cpu, name, bool)() for name in features)
    return "bfloat16" if is_fast else "float32"


class Classifier:
    """A sequence classifier and its tokenizer, on a GPU if available.

    `folder`: as written by `save_pretrained`, with weights in safetensors. `described`: the model,
    for messages. `precision`: `float32` or `bfloat16`. `max_tokens`: longer texts are truncated;
    the model's own limit also applies. `tokens_a_batch`: most tokens in a batch, including padding.
    `trust_remote_code`: whether code in the folder may run. `tokenizer_folder`: by default
    `folder`. `kept_tokens`: folder to share tokens with other models of the same tokenizer.
    """

    def __init__(
        self,
        folder: Path,
        described: str,
        *,
        precision: str = "float32",
        max_tokens: int = 512,
        tokens_a_batch: int | None = None,
        trust_remote_code: bool = False,
        tokenizer_folder: Path | None = None,
        kept_tokens: Path | None = None,
    ) -> None:
        transformers.utils.logging.disable_progress_bar()
        self._described = described
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._budget = tokens_a_batch or _TOKENS_A_BATCH[self._device.type]
        options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        with explain_loading(described, self._device):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(tokenizer_folder or folder), **options
            )
            model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(folder),
                dtype=getattr(torch, precision),
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
            model.to(self._device)
        missing = sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])})
        if missing:
            msg = (
                f"{described} must hold all weights of a sequence classifier; it lacks "
                f"{', '.join(missing[:3])} ({len(missing)} in all). Is it fine-tuned already?"
            )
            raise InputError(msg)
        if tokenizer.pad_token_id is None:
            msg = f"the tokenizer of {described} must have a padding token; it has none."
            raise InputError(msg)
        # A single permanent thread, since each new thread would keep its own memory.
        self._executor = ThreadPoolExecutor(1, "tokenizer")
        self._max_tokens: int = min(
            max_tokens,
            tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", None) or max_tokens,
        )
        self._tokenizer = Tokenizer(tokenizer, self._max_tokens)
        state = self._tokenizer.state
        self._kept = KeptTokens(kept_tokens, state) if kept_tokens and state else None
        self._model = model.eval()
        self._packing = make_packing(self._model)
        self._forward_lock = Lock()  # the packing is stored in the model until a batch has started
        _widen_last_layer(self._model)
        if self._device.type == "cpu":
            pack_layers(self._model)

    def logits(self, texts: Sequence[str]) -> np.ndarray:
        """Return the logits, shape (n, labels), float32, in the order of the texts."""
        return self.classify(texts)[0]

    def classify(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits, and a mask of truncated texts, shape (n,).

        Several threads may call this at a time.

        Texts of similar length share a batch, to reduce padding. The longest come first, so that a
        lack of memory is detected early. The next texts are tokenised while the previous batches
        are computed.
        """
        batches = self._make_batches(self._tokenize(texts))
        computed = [(batch, self._compute_batch(batch)) for batch in batches]
        logits = np.empty((len(texts), self._model.config.num_labels), dtype=np.float32)
        truncated = np.zeros(len(texts), dtype=np.bool_)
        if computed:  # copied at the end, so that a GPU never waits
            numbers = np.concatenate([batch.numbers for batch, _ in computed])
            logits[numbers] = torch.cat([part for _, part in computed]).float().cpu().numpy()
            truncated[numbers] = np.concatenate([batch.truncated for batch, _ in computed])
        return logits, truncated

    def _tokenize(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """Yield the tokens of `TEXTS_AHEAD` texts at a time, the longest texts first."""
        kept = None if self._kept is None else self._kept.read(texts)
        if kept is not None:
            for start in range(0, len(texts), TEXTS_AHEAD):
                yield kept.select(start, min(start + TEXTS_AHEAD, len(texts)))
            return
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]), reverse=True)
        parts = [order[at : at + TEXTS_AHEAD] for at in range(0, len(order), TEXTS_AHEAD)]
        tokenized: list[Tokens] = []
        for part in self._executor.map(partial(self._tokenizer.tokenize, texts), parts):
            if self._kept is not None:
                tokenized.append(part)
            yield part
        if self._kept is not None and tokenized:
            self._kept.write(texts, Tokens.join(tokenized))

    def _make_batches(self, parts: Iterable[Tokens]) -> Iterator[Tokens]:
        """Yield batches of as many tokens as allowed, the longest texts first.

        The last batch has the rest. Padded lengths and full batches have few shapes, because
        kernels are compiled and cached for each shape.
        """
        waiting: list[Tokens] = []
        for part in parts:
            waiting.append(part)
            if sum(int(tokens.lengths.sum()) for tokens in waiting) > self._budget:
                waiting = [(yield from self._split_full(waiting))]
        if waiting:
            yield (yield from self._split_full(waiting))

    def _split_full(self, parts: list[Tokens]) -> Generator[Tokens, None, Tokens]:
        """Yield full batches, and return the remaining texts."""
        rows = Tokens.join(parts).sort_by_length()
        while (size := self._choose_size(rows.lengths)) < len(rows.lengths):
            yield rows.select(0, size)
            rows = rows.select(size, len(rows.lengths))
        return rows

    def _choose_size(self, lengths: np.ndarray) -> int:
        """Return the number of texts in a full batch, given their sorted lengths."""
        if self._is_packed:
            return max(int(np.searchsorted(np.cumsum(lengths), self._budget, "right")), 1)
        return max(self._budget // self._round_length(int(lengths[0])), 1)

    @property
    def _is_packed(self) -> bool:
        return self._packing is not None and self._packing.is_active

    def _round_length(self, length: int) -> int:
        """Return the number of tokens of a text, rounded up for padding."""
        step = STEPS[self._device.type]
        return min(max(-(-length // step), 1) * step, self._max_tokens)

    def _compute_batch(self, batch: Tokens) -> Any:
        """Compute a batch; if memory runs out, halve this batch and all later batches."""
        try:
            return self._forward(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if len(batch.lengths) == 1:
                work = f" with a single comment of {batch.lengths[0]} tokens"
                options = "`max_tokens` or `tokens_a_batch`"
                raise make_memory_error(self._described, self._device, work, options) from error
        # Outside, since the error refers to the memory of the batch.
        n_rows, longest = len(batch.lengths), int(batch.lengths.max())
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        size = int(batch.lengths.sum()) if self._is_packed else n_rows * self._round_length(longest)
        self._budget = min(self._budget, max(size // 2, 1))
        halves = batch.select(0, n_rows // 2), batch.select(n_rows // 2, n_rows)
        return torch.cat([self._compute_batch(half) for half in halves])

    def _forward(self, batch: Tokens) -> Any:
        with self._forward_lock, torch.inference_mode():
            if self._packing is not None and self._packing.is_active:
                return self._model(**self._packing.pack_batch(batch)).logits
            n_padded = self._round_length(int(batch.lengths.max()))
            inputs = self._tokenizer.pad_batch(batch, n_padded)
            values = send_arrays(list(inputs.values()), self._device)
            return self._model(**dict(zip(inputs, values, strict=True))).logits


def pack_layers(model: Any) -> None:
    """Let oneDNN compute the linear layers on a CPU, with weights in its own layout.

    On processors of other makers than Intel, in single precision, it is more than twice as fast as
    MKL, torch's default. Layers are not changed if torch was built without oneDNN, or if the
    processor does not support their half precision.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, _PACK)):
        return
    unsupported = {
        dtype
        for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16"))
        if not getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")()
    }
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype not in unsupported:
            weight = getattr(torch.ops.mkldnn, _PACK)(layer.weight.detach())
            layer.forward = partial(_compute_linear, weight=weight, bias=layer.bias)


def _compute_linear(inputs: Any, *, weight: Any, bias: Any) -> Any:
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")  # noqa: SLF001 - as torch.compile does


def _widen_last_layer(model: Any) -> None:
    """Compute the last layer in single precision, since rounded logits would tie."""
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and layer.out_features == model.config.num_labels
    ]
    if layers and layers[-1].weight.dtype != torch.float32:
        layers[-1].float().register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))


_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: Exception) -> bool:
    """Return True if torch ran out of memory, on GPU or CPU."""
    has_message = any(message in str(error) for message in _MEMORY_MESSAGES)
    return isinstance(error, torch.OutOfMemoryError) or has_message


def make_memory_error(described: str, device: Any, work: str = "", options: str = "") -> InputError:
    """Return the error for a model that does not fit into memory.

    `work`: its input, as in ` with one comment of 5 tokens`. `options`: the options to lower.
    """
    where, remedy = "memory", "take a machine with more memory"
    if device.type == "cuda":
        where, remedy = "the GPU's memory", "hide the GPU with CUDA_VISIBLE_DEVICES= (empty)"
    first = f"lower {options}, " if options else ""
    return InputError(
        f"{described} must fit into {where}{work}; it does not. To continue, {first}use "
        f"`precision: bfloat16`, end other processes that use {where}, or {remedy}. Finished "
        "shards are kept."
    )


@contextmanager
def explain_loading(described: str, device: Any) -> Iterator[None]:
    """Explain errors that occur when a model is loaded onto a device."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise make_memory_error(described, device) from error
        msg = f"{described} cannot be loaded: {str(error).splitlines()[0]}"
        raise InputError(msg) from error


_FORMAT = 2
_LENGTHS, _NUMBERS, _TRUNCATED = "lengths", "numbers", "truncated"


class KeptTokens:
    """A cache of the tokens of texts, by the tokenizer's state and the texts.

    Files that cannot be read or written are not an error: the texts are tokenised again.

    `folder`: private, since tokens reveal texts. `state`: the tokenizer's.
    """

    def __init__(self, folder: Path, state: str) -> None:
        self._folder, self._state = folder, state

    def read(self, texts: Sequence[str]) -> Tokens | None:
        """Return the kept tokens of a list of texts, if they exist."""
        path = self._path(texts)
        if not path.exists():
            return None
        with suppress(OSError):
            os.utime(path)  # files that were not used lately may be removed
        with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                values = {name: arrays[name].astype(np.int64) for name in arrays.files}
            numbers, lengths = values.pop(_NUMBERS), values.pop(_LENGTHS)
            truncated = values.pop(_TRUNCATED).astype(np.bool_)
            is_complete = len(numbers) == len(lengths) == len(truncated) == len(texts)
            if is_complete and all(len(value) == lengths.sum() for value in values.values()):
                return Tokens(numbers, lengths, truncated, values)
        return None

    def write(self, texts: Sequence[str], tokens: Tokens) -> None:
        """Keep the tokens of a list of texts."""
        path = self._path(texts)
        arrays = {_NUMBERS: tokens.numbers, _LENGTHS: tokens.lengths} | tokens.values
        arrays[_TRUNCATED] = tokens.truncated.astype(np.int64)
        for name, array in arrays.items():  # in the smallest integer type that holds the values
            arrays[name] = array.astype(np.min_scalar_type(int(array.max(initial=0))))
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as temporary, temporary.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)

    def _path(self, texts: Sequence[str]) -> Path:
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        digest = hashlib.sha256(lengths.tobytes())
        digest.update("".join(texts).encode("utf-8", "surrogatepass"))
        key = json_digest([_FORMAT, self._state, digest.hexdigest()])
        return self._folder / key[:2] / f"{key}.npz"
