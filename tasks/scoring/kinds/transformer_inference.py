"""Logits of a transformer, as fast as the hardware allows; needs torch."""

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

    from biasgate.tasks.scoring.kinds.transformer_tokens import packing_for, sent
except ImportError as error:
    raise InputError(NEEDS_TORCH) from error

_PACK = "_reorder_linear_weight"
# The libraries that affect a training, whatever their builds.
LIBRARIES = (torch.__version__.partition("+")[0], transformers.__version__)
# Texts that are tokenised at a time, while the previous ones are computed.
TEXTS_AHEAD = 512
# On a CPU the data of a batch should fit into the caches.
_TOKENS_A_BATCH = {"cpu": 1_024, "cuda": 131_072}
# Texts are padded to a multiple of this many tokens. A GPU multiplies best in eights.
STEPS = {"cpu": 2, "cuda": 8}


def calls_at_once() -> int:
    """Return how many calls of `Classifier.logits` at a time keep the device busy.

    A GPU would wait between two calls, until the first texts of the next one are tokenised.
    """
    return 2 if torch.cuda.is_available() else 1


def chosen_precision(wanted: str) -> str:
    """Return the precision; for `auto`, the faster one of `float32` and `bfloat16` here."""
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        known = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        fast = any(getattr(torch.cpu, name, bool)() for name in known)
    return "bfloat16" if fast else "float32"


class Classifier:
    """A sequence classifier and its tokenizer, on the GPU if there is one.

    `folder`: as `save_pretrained` writes it, weights in safetensors. `described`: the model, for
    messages. `precision`: `float32` or `bfloat16`. `max_tokens`: longer texts are truncated, at the
    latest at the model's own limit. `tokens_a_batch`: most tokens in one batch, padding included.
    `trust_remote_code`: whether code in the folder may run. `tokenizer_folder`: where the tokenizer
    is, if it is elsewhere. `kept_tokens`: where tokens are kept for other models with the same
    tokenizer.
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
        with loading(described, self._device):
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
        # One permanent thread: each new one would keep its own memory.
        self._ahead = ThreadPoolExecutor(1, "tokenizer")
        self._max_tokens: int = min(
            max_tokens,
            tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", None) or max_tokens,
        )
        self._tokenizer = Tokenizer(tokenizer, self._max_tokens)
        state = self._tokenizer.state
        self._kept = KeptTokens(kept_tokens, state) if kept_tokens and state else None
        self._model = model.eval()
        self._packing = packing_for(self._model)
        self._starting = Lock()  # the packing of a batch is kept in the model until it has started
        _exact_last_layer(self._model)
        if self._device.type == "cpu":
            pack_layers(self._model)

    def logits(self, texts: Sequence[str]) -> np.ndarray:
        """Return the logits of each text, shape (n, labels), float32, in the order of the texts."""
        return self.classify(texts)[0]

    def classify(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits of each text, and which texts were truncated, shape (n,).

        Several threads may call this at a time.

        Texts of similar length share a batch, so that there is little padding; the longest
        come first, so that a lack of memory shows at once. The next texts are tokenised while
        the previous batches are computed.
        """
        computed = [(batch, self._batch(batch)) for batch in self._batches(self._tokens(texts))]
        logits = np.empty((len(texts), self._model.config.num_labels), dtype=np.float32)
        truncated = np.zeros(len(texts), dtype=np.bool_)
        if computed:  # read back at the end, so that a GPU never waits
            batches, answers = zip(*computed, strict=True)
            numbers = np.concatenate([batch.numbers for batch in batches])
            logits[numbers] = torch.cat(answers).float().cpu().numpy()
            truncated[numbers] = np.concatenate([batch.truncated for batch in batches])
        return logits, truncated

    def _tokens(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """Yield the tokens of some texts at a time, those of the longest texts first."""
        kept = None if self._kept is None else self._kept.read(texts)
        if kept is not None:
            for start in range(0, len(texts), TEXTS_AHEAD):
                yield kept.part(start, min(start + TEXTS_AHEAD, len(texts)))
            return
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]), reverse=True)
        parts = [order[at : at + TEXTS_AHEAD] for at in range(0, len(order), TEXTS_AHEAD)]
        tokenized: list[Tokens] = []
        for part in self._ahead.map(partial(self._tokenizer.tokens, texts), parts):
            if self._kept is not None:
                tokenized.append(part)
            yield part
        if self._kept is not None and tokenized:
            self._kept.write(texts, Tokens.joined(tokenized))

    def _batches(self, parts: Iterable[Tokens]) -> Iterator[Tokens]:
        """Yield batches of as many tokens as allowed, the longest texts first.

        The last batch has the rest. Padded lengths and full batches have few shapes, because
        kernels are compiled and cached for each shape.
        """
        waiting: list[Tokens] = []
        for part in parts:
            waiting.append(part)
            if sum(int(tokens.lengths.sum()) for tokens in waiting) > self._budget:
                waiting = [(yield from self._full_batches(waiting))]
        if waiting:
            yield (yield from self._full_batches(waiting))

    def _full_batches(self, parts: list[Tokens]) -> Generator[Tokens, None, Tokens]:
        """Yield full batches of these texts, and return the rest of them."""
        rows = Tokens.joined(parts).longest_first()
        size = self._fitting(rows.lengths)
        while size < len(rows.lengths):
            yield rows.part(0, size)
            rows = rows.part(size, len(rows.lengths))
            size = self._fitting(rows.lengths)
        return rows

    def _fitting(self, lengths: np.ndarray) -> int:
        """Return how many of the texts, the longest first, are a full batch."""
        if self._packs:
            return max(int(np.searchsorted(np.cumsum(lengths), self._budget, "right")), 1)
        return max(self._budget // self._padded(int(lengths[0])), 1)

    @property
    def _packs(self) -> bool:
        return self._packing is not None and self._packing.packs

    def _padded(self, length: int) -> int:
        """Return the number of tokens of a text, rounded up for padding."""
        step = STEPS[self._device.type]
        return min(max(-(-length // step), 1) * step, self._max_tokens)

    def _batch(self, batch: Tokens) -> Any:
        """Compute one batch; if memory runs out, halve this and all later ones."""
        try:
            return self._forward(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if len(batch.lengths) == 1:
                work = f" with a single comment of {batch.lengths[0]} tokens"
                lower = "`max_tokens` or `tokens_a_batch`"
                raise lack_of_memory(self._described, self._device, work, lower) from error
        # Outside, since the error holds on to the memory of the batch.
        n_rows, longest = len(batch.lengths), int(batch.lengths.max())
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        size = int(batch.lengths.sum()) if self._packs else n_rows * self._padded(longest)
        self._budget = min(self._budget, max(size // 2, 1))
        halves = batch.part(0, n_rows // 2), batch.part(n_rows // 2, n_rows)
        return torch.cat([self._batch(half) for half in halves])

    def _forward(self, batch: Tokens) -> Any:
        with self._starting, torch.inference_mode():
            if self._packing is not None and self._packing.packs:
                return self._model(**self._packing.packed(batch)).logits
            inputs = self._tokenizer.padded(batch, self._padded(int(batch.lengths.max())))
            values = sent(list(inputs.values()), self._device)
            return self._model(**dict(zip(inputs, values, strict=True))).logits


def pack_layers(model: Any) -> None:
    """Let oneDNN compute the linear layers on a CPU, from weights laid out for it once.

    On processors not from Intel it is more than twice as fast in single precision as MKL, which
    torch uses by default. If torch was built without oneDNN, or the processor lacks what it needs
    for layers in half precision, these are left as they are.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, _PACK)):
        return
    lacking = {
        kind
        for kind, name in ((torch.bfloat16, "bf16"), (torch.float16, "fp16"))
        if not getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")()
    }
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype not in lacking:
            weight = getattr(torch.ops.mkldnn, _PACK)(layer.weight.detach())
            layer.forward = partial(_compute_linear, weight=weight, bias=layer.bias)


def _compute_linear(given: Any, *, weight: Any, bias: Any) -> Any:
    return torch.ops.mkldnn._linear_pointwise(given, weight, bias, "none", [], "")  # noqa: SLF001 - what torch.compile turns a linear layer into


def _exact_last_layer(model: Any) -> None:
    """Compute the last layer in single precision: rounded logits would tie."""
    last = [
        layer
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear) and layer.out_features == model.config.num_labels
    ]
    if last and last[-1].weight.dtype != torch.float32:
        last[-1].float().register_forward_pre_hook(lambda _, given: (given[0].float(),))


_SHORT_OF_MEMORY = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: Exception) -> bool:
    """Whether torch ran out of memory, on GPU or CPU."""
    is_short = any(part in str(error) for part in _SHORT_OF_MEMORY)
    return isinstance(error, torch.OutOfMemoryError) or is_short


def lack_of_memory(described: str, device: Any, work: str = "", lower: str = "") -> InputError:
    """Return the error of a model that does not fit into memory.

    `work`: what it had to do, as in ` with one comment of 5 tokens`. `lower`: the options to lower.
    """
    where, remedy = "memory", "take a machine with more memory"
    if device.type == "cuda":
        where, remedy = "the GPU's memory", "hide the GPU with CUDA_VISIBLE_DEVICES= (empty)"
    first = f"lower {lower}, " if lower else ""
    return InputError(
        f"{described} must fit into {where}{work}; it does not. To continue, {first}use "
        f"`precision: bfloat16`, end other processes that use {where}, or {remedy}. Finished "
        "shards are kept."
    )


@contextmanager
def loading(described: str, device: Any) -> Iterator[None]:
    """Explain why a model cannot be loaded onto a device."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise lack_of_memory(described, device) from error
        msg = f"{described} cannot be loaded: {str(error).splitlines()[0]}"
        raise InputError(msg) from error


_FORMAT = 2
_LENGTHS, _NUMBERS, _TRUNCATED = "lengths", "numbers", "truncated"


class KeptTokens:
    """The tokens of sets of texts, by what the tokenizer does and by the texts.

    What cannot be read or written is not an error: the texts are then tokenised again.

    `folder`: where to keep them; private, since tokens are texts. `state`: the tokenizer's.
    """

    def __init__(self, folder: Path, state: str) -> None:
        self._folder, self._state = folder, state

    def read(self, texts: Sequence[str]) -> Tokens | None:
        """Return the tokens of these texts, if they are kept."""
        path = self._path(texts)
        if not path.exists():
            return None
        with suppress(OSError):
            os.utime(path)  # what was not used lately may be removed
        with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                values = {name: arrays[name].astype(np.int64) for name in arrays.files}
            numbers, lengths = values.pop(_NUMBERS), values.pop(_LENGTHS)
            truncated = values.pop(_TRUNCATED).astype(np.bool_)
            whole = len(numbers) == len(lengths) == len(truncated) == len(texts)
            if whole and all(len(value) == lengths.sum() for value in values.values()):
                return Tokens(numbers, lengths, truncated, values)
        return None

    def write(self, texts: Sequence[str], tokens: Tokens) -> None:
        """Keep the tokens of these texts."""
        path = self._path(texts)
        arrays = {_NUMBERS: tokens.numbers, _LENGTHS: tokens.lengths} | tokens.values
        arrays[_TRUNCATED] = tokens.truncated.astype(np.int64)
        for name, array in arrays.items():  # whole numbers in as few bytes as they need
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
