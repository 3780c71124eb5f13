"""Fine-tuning a transformer, in plain torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError

from bias_metrics import roc_auc
from bias_metrics.parts import counted
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.progress import Advance, progress
from biasgate.tasks.data.hashed_parts import uniform_hash
from biasgate.tasks.scoring.candidate import LogMetrics
from biasgate.tasks.scoring.kinds.fine_tuning import FineTuning
from biasgate.tasks.scoring.kinds.transformer_inference import chosen_precision, is_out_of_memory

# Batches of similar length are formed within shuffled blocks of this many batches.
_BATCHES_SORTED = 50
_ROWS_A_BATCH_SCORED = 64


class FineTuner:
    """A pretrained encoder that becomes a classifier with two labels.

    `encoder`: folder of the pretrained model in safetensors, with tokenizer. `of`: the candidate,
    for messages. `labels`: names of the negative and the positive class. `options`: options of the
    training. `max_tokens`: longer comments are truncated. `trust_remote_code`: whether the model's
    own code may run.
    """

    def __init__(
        self,
        encoder: Path,
        of: str,
        labels: tuple[str, str],
        options: FineTuning,
        *,
        max_tokens: int,
        trust_remote_code: bool = False,
    ) -> None:
        self._of, self._options = of, options
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        local = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        with self._random():
            self.model = self._loaded(encoder, labels, **local)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(encoder), **local)
        positions = getattr(self.model.config, "max_position_embeddings", None) or max_tokens
        # Saved with the tokenizer, so that scoring truncates where training did.
        self.tokenizer.model_max_length = min(max_tokens, positions)

    def fit(
        self,
        texts: Iterable[list[str]],
        positive: np.ndarray,
        log: LogMetrics,
        weights: np.ndarray | None = None,
    ) -> None:
        """Train, stop early, keep the best epoch's weights.

        `positive`: whether each is positive. `log`: called with `loss/training`, `loss/validation`
        and `auc/validation` of each epoch. `weights`: how much each comment counts, in training and
        in validation. Only ratios matter.
        """
        rows, held_out = self._tokenised(texts), self._held_out
        weights = np.ones(len(positive)) if weights is None else weights
        counting = weights > 0
        for part, where in ((~held_out & counting, "training"), (held_out & counting, "held-out")):
            if not 0 < positive[part].sum() < part.sum():
                msg = (
                    f"{where} rows of {self._of} must have both classes; "
                    f"{counted(int(part.sum()), 'row has', 'rows have')} "
                    f"{counted(int(positive[part].sum()), 'positive')}. Give more rows."
                )
                raise InputError(msg)
        with self._random():
            try:
                self._train(rows, positive, weights, log)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                msg = (
                    f"training of {self._of} must fit into memory; it does not. Lower "
                    "`batch_size` or `max_tokens`."
                )
                raise InputError(msg) from error
        self.model.to("cpu").eval()

    def _train(
        self, rows: _Rows, positive: np.ndarray, weights: np.ndarray, log: LogMetrics
    ) -> None:
        options, rng = self._options, np.random.default_rng(self._options.seed)
        training, validation = np.flatnonzero(~self._held_out), np.flatnonzero(self._held_out)
        self.model.to(self._device)
        loss_of = Loss(positive, weights, training, balanced=options.class_weight is not None)
        batches_an_epoch = -(-len(training) // options.batch_size)
        n_steps = min(options.max_epochs * batches_an_epoch, options.max_steps or np.inf)
        step = _Step(self.model, options, int(n_steps))
        best, best_auc, since = None, -np.inf, 0
        with progress(f"train {self._of}", total=n_steps, unit="batches") as advance:
            for epoch in range(options.max_epochs):
                batches = rows.shuffled(training, options.batch_size, rng)
                losses = list(self._steps(batches, rows, loss_of, step, advance))
                auc, loss = self._validated(rows, validation, loss_of)
                told = {"loss/training": float(np.mean(losses)), "loss/validation": loss}
                log(told | {"auc/validation": auc}, epoch + 1)
                since += 1
                if auc > best_auc:
                    best_auc, since = auc, 0
                    weights = self.model.state_dict().items()
                    best = {name: weight.to("cpu", copy=True) for name, weight in weights}
                if since == options.patience or step.done:
                    break
        self.model.load_state_dict(best)

    def _steps(
        self,
        batches: Iterable[np.ndarray],
        rows: _Rows,
        loss_of: Loss,
        step: _Step,
        advance: Advance,
    ) -> Iterator[float]:
        self.model.train()
        for batch in batches:
            if step.done:
                return
            loss = loss_of(self._logits(rows, batch), batch)
            if not torch.isfinite(loss):
                msg = (
                    f"the loss of {self._of} must stay finite; it does not. Lower `learning_rate`."
                )
                raise InputError(msg)
            step(loss)
            advance(1)
            yield float(loss.detach())

    def _validated(self, rows: _Rows, validation: np.ndarray, loss_of: Loss) -> tuple[float, float]:
        """Return AUC and loss on the held-out rows."""
        self.model.eval()
        order = validation[np.argsort(rows.lengths[validation], kind="stable")]
        with torch.inference_mode():
            cuts = range(0, len(order), _ROWS_A_BATCH_SCORED)
            parts = (order[at : at + _ROWS_A_BATCH_SCORED] for at in cuts)
            logits = torch.cat([self._logits(rows, part) for part in parts])
            loss = float(loss_of(logits, order))
        margin = (logits[:, 1] - logits[:, 0]).cpu().numpy()
        auc = roc_auc(loss_of.positive[order], margin, sample_weight=loss_of.weights[order])
        return float(auc.value or 0.0), loss

    def _logits(self, rows: _Rows, batch: np.ndarray) -> Any:
        given = self.tokenizer.pad({"input_ids": rows.tokens(batch)}, return_tensors="pt")
        half = self._options.mixed_precision and chosen_precision("auto") == "bfloat16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=half):
            return self.model(**given.to(self._device)).logits.float()

    def _tokenised(self, texts: Iterable[list[str]]) -> _Rows:
        """Tokenise all texts, and choose the held-out rows."""
        rows, held_out = [], []
        for part in texts:
            made = self.tokenizer(part, truncation=True, return_attention_mask=False)
            rows += [np.asarray(one, dtype=np.int32) for one in made["input_ids"]]
            keys = (uniform_hash(f"{self._options.seed}\n{text}") for text in part)
            held_out += [key < self._options.validation_fraction for key in keys]
        self._held_out = np.array(held_out, dtype=bool)
        return _Rows(rows)

    def _loaded(self, encoder: Path, labels: tuple[str, str], **options: bool) -> Any:
        told_of = transformers.utils.logging.get_verbosity()
        transformers.utils.logging.set_verbosity_error()  # it would warn that the last layer is new
        try:
            model, told = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(encoder),
                id2label=dict(enumerate(labels)),
                label2id={label: at for at, label in enumerate(labels)},
                problem_type="single_label_classification",
                dtype=torch.float32,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # another classifier's last layer
                output_loading_info=True,
                **options,
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            msg = f"{self._of} cannot be loaded: {str(error).splitlines()[0]}"
            raise InputError(msg) from error
        finally:
            transformers.utils.logging.set_verbosity(told_of)
        prefix = model.base_model_prefix + "."
        lacking = sorted(
            key for key in told["missing_keys"] if key.startswith(prefix) and "pooler" not in key
        )
        if lacking:
            msg = (
                f"{self._of} must hold all weights of an encoder; it lacks "
                f"{', '.join(lacking[:3])} ({len(lacking)} in all)."
            )
            raise InputError(msg)
        return model

    @contextmanager
    def _random(self) -> Iterator[None]:
        """Seed torch's global generator, which layers and dropout use, and restore it after."""
        with torch.random.fork_rng():
            torch.manual_seed(self._options.seed)
            yield


class _Step:
    """Steps of the optimiser, one at a time, until all are done."""

    def __init__(self, model: Any, options: FineTuning, n_steps: int) -> None:
        weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
        groups = [
            {"params": [weight for weight in weights if weight.ndim > 1]},
            {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
        ]
        self._weights, self._max_norm, self._left = weights, options.max_gradient_norm, n_steps
        self._optimizer = torch.optim.AdamW(
            groups, lr=options.learning_rate, weight_decay=options.weight_decay
        )
        self._schedule = transformers.get_linear_schedule_with_warmup(
            self._optimizer, int(options.warmup_fraction * n_steps), n_steps
        )

    @property
    def done(self) -> bool:
        """Whether no step is left."""
        return self._left == 0

    def __call__(self, loss: Any) -> None:
        """Do one step along the gradient of a loss."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._weights, self._max_norm)
        self._optimizer.step()
        self._schedule.step()
        self._left -= 1


class _Rows:
    """Tokens of many texts, four bytes each."""

    def __init__(self, tokens: list[np.ndarray]) -> None:
        self._tokens = tokens
        self.lengths = np.array([len(token) for token in tokens])

    def tokens(self, batch: np.ndarray) -> list[list[int]]:
        """Return the tokens of some rows."""
        return [self._tokens[at].tolist() for at in batch]

    def shuffled(
        self, rows: np.ndarray, size: int, rng: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """Yield batches in random order, each with rows of similar length."""
        rows = rng.permutation(rows)
        batches = []
        for start in range(0, len(rows), size * _BATCHES_SORTED):
            some = rows[start : start + size * _BATCHES_SORTED]
            some = some[np.argsort(self.lengths[some], kind="stable")]
            batches += [some[at : at + size] for at in range(0, len(some), size)]
        for at in rng.permutation(len(batches)):
            yield batches[at]


class Loss:
    """Mean cross entropy of a batch, weighted by row and by class.

    The mean is over the weights of the classes alone: a batch of heavy rows counts more than one of
    light rows.

    `positive`: whether each row is positive. `weights`: how much each row counts, at least 0. Only
    ratios matter. `training`: the rows to train on; their mean weight becomes 1. `balanced`:
    whether each class is weighted by the inverse of its share of these rows.
    """

    def __init__(
        self, positive: np.ndarray, weights: np.ndarray, training: np.ndarray, *, balanced: bool
    ) -> None:
        self.positive = positive
        self.weights = weights / weights[training].mean()
        self._of_class = np.ones(len(positive))
        if balanced:
            share = np.average(positive[training], weights=weights[training])
            self._of_class = np.where(positive, 1 / (2 * share), 1 / (2 * (1 - share)))

    def __call__(self, logits: Any, rows: np.ndarray) -> Any:
        """Return the loss of some rows, from their logits of shape (rows, 2)."""
        target = torch.as_tensor(self.positive[rows], dtype=torch.long, device=logits.device)
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        weights = self.weights[rows] * self._of_class[rows] / self._of_class[rows].sum()
        return losses @ torch.as_tensor(weights, dtype=losses.dtype, device=logits.device)
