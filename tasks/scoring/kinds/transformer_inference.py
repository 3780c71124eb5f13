"""Logits of a transformer, as fast as the hardware allows; needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError

try:
    import torch
    import transformers
    from safetensors import SafetensorError
except ImportError as error:
    msg = 'candidates of kind transformer need torch: pip install "biasgate[app,text]".'
    raise InputError(msg) from error

_PACK = "_reorder_linear_weight"
# The libraries that affect a training, whatever their builds.
LIBRARIES = (torch.__version__.partition("+")[0], transformers.__version__)
# Texts that are tokenised at a time, while the previous ones are computed.
TEXTS_AHEAD = 1024
# On a CPU the data of a batch should fit into the caches.
_TOKENS_A_BATCH = {"cpu": 1_024, "cuda": 131_072}
# Texts are padded to a multiple of this many tokens.
_STEP = 8
# The tokenizer's output for a text: ids, mask and so on, each of n tokens.
Tokens = dict[str, list[int]]


def chosen_precision(wanted: str) -> str:
    """Return `float32` or `bfloat16`; for `auto`, the faster one on this hardware."""
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

    Parameters
    ----------
    folder : Path
        As `save_pretrained` writes it, weights in safetensors.
    of : str
        The model, for messages.
    precision : str
        `float32` or `bfloat16`.
    max_tokens : int
        Longer texts are truncated, at the latest at the model's own limit.
    tokens_a_batch : int, optional
        Most tokens in one batch, padding included.
    trust_remote_code : bool
        Whether code in the folder may run.

    Raises
    ------
    InputError
        If the folder does not hold a complete sequence classifier.
    """

    def __init__(
        self,
        folder: Path,
        of: str,
        *,
        precision: str = "float32",
        max_tokens: int = 512,
        tokens_a_batch: int | None = None,
        trust_remote_code: bool = False,
        tokenizer_folder: Path | None = None,
    ) -> None:
        transformers.utils.logging.disable_progress_bar()
        self._of = of
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._budget = tokens_a_batch or _TOKENS_A_BATCH[self._device.type]
        options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(tokenizer_folder or folder), **options
            )
            model, told = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(folder),
                dtype=getattr(torch, precision),
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            msg = f"{of} cannot be loaded: {str(error).splitlines()[0]}"
            raise InputError(msg) from error
        lacking = sorted({*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])})
        if lacking:
            msg = (
                f"{of} must hold all weights of a sequence classifier; it lacks "
                f"{', '.join(lacking[:3])} ({len(lacking)} in all). Is it fine-tuned already?"
            )
            raise InputError(msg)
        if tokenizer.pad_token_id is None:
            msg = f"the tokenizer of {of} must have a padding token; it has none."
            raise InputError(msg)
        self._tokenizer = tokenizer
        # One permanent thread: each new one would keep its own memory.
        self._ahead = ThreadPoolExecutor(1, "tokenizer")
        self._max_tokens: int = min(
            max_tokens,
            tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", None) or max_tokens,
        )
        self._model = model.to(self._device).eval()
        _exact_last_layer(self._model)
        if self._device.type == "cpu":
            pack_layers(self._model)

    def logits(self, texts: Sequence[str]) -> np.ndarray:
        """Return the logits of each text, shape (n, labels), float32, in the order of the texts.

        Texts of similar length share a batch, so that there is little padding; the longest
        come first, so that a lack of memory shows at once. The next texts are tokenised while
        the previous batches are computed.
        """
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]), reverse=True)
        parts = [order[at : at + TEXTS_AHEAD] for at in range(0, len(order), TEXTS_AHEAD)]
        found = np.empty((len(texts), self._model.config.num_labels), dtype=np.float32)
        made = self._ahead.map(self._tokens, ([texts[at] for at in part] for part in parts))
        waiting: list[tuple[int, Tokens]] = []
        for part, tokens in zip(parts, made, strict=True):
            *full, waiting = self._batches([*waiting, *zip(part, tokens, strict=True)])
            self._fill(found, full)
        self._fill(found, [waiting] if waiting else [])
        return found

    def _fill(self, found: np.ndarray, batches: Sequence[list[tuple[int, Tokens]]]) -> None:
        """Compute batches and store their logits; a GPU gets all before the first is read back."""
        answers = [self._batch([tokens for _, tokens in batch]) for batch in batches]
        for batch, answer in zip(batches, answers, strict=True):
            found[[at for at, _ in batch]] = answer.float().cpu().numpy()

    def _tokens(self, texts: list[str]) -> list[Tokens]:
        made = self._tokenizer(texts, truncation=True, max_length=self._max_tokens)
        return [{name: values[at] for name, values in made.items()} for at in range(len(texts))]

    def _batches(self, rows: list[tuple[int, Tokens]]) -> Iterator[list[tuple[int, Tokens]]]:
        """Split rows, the longest first, into batches of as many tokens as allowed.

        The last batch has the rest. Padded lengths and full batches have few shapes, because
        kernels are compiled and cached for each shape.
        """
        rows = sorted(rows, key=lambda row: -len(row[1]["input_ids"]))
        while rows:
            size = max(self._budget // self._padded(rows[0][1]), 1)
            yield rows[:size]
            rows = rows[size:]

    def _padded(self, tokens: Tokens) -> int:
        """Return the number of tokens of a text, rounded up for padding."""
        steps = max(-(-len(tokens["input_ids"]) // _STEP), 1)
        return min(steps * _STEP, self._max_tokens)

    def _batch(self, rows: list[Tokens]) -> Any:
        """Compute one batch; if memory runs out, halve this and all later ones."""
        n_padded = max(map(self._padded, rows))
        try:
            with torch.inference_mode():
                given = self._tokenizer.pad(
                    rows, "max_length", max_length=n_padded, return_tensors="pt"
                )
                return self._model(**given.to(self._device)).logits
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        if len(rows) == 1:
            n_tokens = len(rows[0]["input_ids"])
            msg = f"{self._of} must fit into memory with one comment of {n_tokens} tokens."
            raise InputError(msg)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        self._budget = min(self._budget, max(len(rows) * n_padded // 2, 1))
        half = len(rows) // 2
        return torch.cat([self._batch(rows[:half]), self._batch(rows[half:])])


def pack_layers(model: Any) -> None:
    """Let oneDNN compute the linear layers on a CPU, from weights laid out for it once.

    On processors not from Intel it is more than twice as fast in single precision as MKL, which
    torch uses by default. If torch was built without oneDNN, nothing changes.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, _PACK)):
        return
    for layer in model.modules():
        if type(layer) is torch.nn.Linear:
            weight = getattr(torch.ops.mkldnn, _PACK)(layer.weight.detach())
            layer.forward = partial(_packed, weight=weight, bias=layer.bias)


def _packed(given: Any, *, weight: Any, bias: Any) -> Any:
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


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch ran out of memory, on GPU or CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
