"""Logits of a transformer, as fast as the hardware allows; needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.transformer_tokens import Tokenizer, Tokens, n_tokens

try:
    import torch
    import transformers
    from safetensors import SafetensorError

    from biasgate.tasks.scoring.kinds.transformer_packing import packing_for, sent
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
        # One permanent thread: each new one would keep its own memory.
        self._ahead = ThreadPoolExecutor(1, "tokenizer")
        self._max_tokens: int = min(
            max_tokens,
            tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", None) or max_tokens,
        )
        self._tokenizer = Tokenizer(tokenizer, self._max_tokens)
        self._model = model.to(self._device).eval()
        self._packing = packing_for(self._model)
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
        made = self._ahead.map(
            self._tokenizer.tokens, ([texts[at] for at in part] for part in parts)
        )
        waiting: list[tuple[int, Tokens]] = []
        places: list[int] = []
        answers: list[Any] = []  # a GPU computes on while these stay there

        def compute(batch: list[tuple[int, Tokens]]) -> None:
            answers.append(self._batch([tokens for _, tokens in batch]))
            places.extend(at for at, _ in batch)

        for part, tokens in zip(parts, made, strict=True):
            *full, waiting = self._batches([*waiting, *zip(part, tokens, strict=True)])
            for batch in full:
                compute(batch)
        if waiting:
            compute(waiting)
        found = np.empty((len(texts), self._model.config.num_labels), dtype=np.float32)
        if answers:
            found[places] = torch.cat(answers).float().cpu().numpy()
        return found

    def _batches(self, rows: list[tuple[int, Tokens]]) -> Iterator[list[tuple[int, Tokens]]]:
        """Split rows, the longest first, into batches of as many tokens as allowed.

        The last batch has the rest. Padded lengths and full batches have few shapes, because
        kernels are compiled and cached for each shape.
        """
        rows = sorted(rows, key=lambda row: -n_tokens(row[1]))
        lengths = np.array([n_tokens(tokens) for _, tokens in rows])
        at = 0
        while at < len(rows):
            size = max(self._fitting(lengths[at:]), 1)
            yield rows[at : at + size]
            at += size

    def _fitting(self, lengths: np.ndarray) -> int:
        """Return how many of the texts, the longest first, are a full batch."""
        if self._packs:
            return int(np.searchsorted(np.cumsum(lengths), self._budget, "right"))
        return self._budget // self._padded(int(lengths[0]))

    @property
    def _packs(self) -> bool:
        return self._packing is not None and self._packing.packs

    def _padded(self, length: int) -> int:
        """Return the number of tokens of a text, rounded up for padding."""
        return min(max(-(-length // _STEP), 1) * _STEP, self._max_tokens)

    def _batch(self, rows: list[Tokens]) -> Any:
        """Compute one batch; if memory runs out, halve this and all later ones."""
        n_padded = self._padded(max(map(n_tokens, rows)))
        try:
            return self._forward(rows, n_padded)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        if len(rows) == 1:
            length = n_tokens(rows[0])
            msg = f"{self._of} must fit into memory with one comment of {length} tokens."
            raise InputError(msg)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        self._budget = min(self._budget, max(len(rows) * n_padded // 2, 1))
        half = len(rows) // 2
        return torch.cat([self._batch(rows[:half]), self._batch(rows[half:])])

    @torch.inference_mode()
    def _forward(self, rows: list[Tokens], n_padded: int) -> Any:
        real = self._tokenizer.which_are_real(rows, n_padded)
        given = self._tokenizer.padded(rows, real)
        if self._packing is not None:
            self._packing.begin(real)
        if self._packs:
            given.pop("attention_mask", None)
        return self._model(**{name: sent(one, self._device) for name, one in given.items()}).logits


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
