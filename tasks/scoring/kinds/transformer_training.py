"""Fine-tuning a transformer, in plain torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError

from bias_metrics import roc_auc
from bias_metrics.parts import format_count
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.progress import show_progress
from biasgate.tasks.data.hashed_parts import hash_to_fraction
from biasgate.tasks.scoring.candidate import LogMetrics
from biasgate.tasks.scoring.kinds.transformer import FineTuning
from biasgate.tasks.scoring.kinds.transformer_inference import choose_precision, is_out_of_memory

# Batches of similar length are formed within shuffled blocks of this many batches.
_BATCHES_A_BLOCK = 50
_VALIDATION_BATCH_SIZE = 64


class FineTuner:
    """Training of a pretrained encoder as a classifier with two labels.

    `encoder`: folder of the pretrained model in safetensors, with tokenizer. `described`: the
    candidate, for messages. `labels`: names of the negative and the positive class. `max_tokens`:
    longer comments are truncated. `trust_remote_code`: whether the model's own code may run.
    """

    def __init__(
        self,
        encoder: Path,
        described: str,
        labels: tuple[str, str],
        options: FineTuning,
        *,
        max_tokens: int,
        trust_remote_code: bool = False,
    ) -> None:
        self._described, self._options = described, options
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        local = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        with self._seed_torch():
            self.model = self._load_model(encoder, labels, **local)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(encoder), **local)
        positions = getattr(self.model.config, "max_position_embeddings", None) or max_tokens
        # Saved with the tokenizer, so that scoring truncates at the same length.
        self.tokenizer.model_max_length = min(max_tokens, positions)

    def fit(
        self,
        texts: Iterable[list[str]],
        positive: np.ndarray,
        log: LogMetrics,
        weights: np.ndarray | None = None,
    ) -> None:
        """Train, stop early, keep the best epoch's weights.

        `positive`: True for positive comments. `log`: called with `loss/training`,
        `loss/validation` and `auc/validation` after each epoch. `weights`: relative weights of
        comments in training and validation.
        """
        held_out = self._tokenize(texts)
        weights = np.ones(len(positive)) if weights is None else weights
        has_weight = weights > 0
        for is_held_out, name in ((False, "training"), (True, "held-out")):
            part = (held_out == is_held_out) & has_weight
            if not 0 < positive[part].sum() < part.sum():
                msg = (
                    f"{name} rows of {self._described} must have both classes; "
                    f"{format_count(int(part.sum()), 'row has', 'rows have')} "
                    f"{format_count(int(positive[part].sum()), 'positive')}. Give more rows."
                )
                raise InputError(msg)
        training, validation = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        is_balanced = self._options.class_weight is not None
        loss_function = TrainingLoss(positive, weights, training, balanced=is_balanced)
        with self._seed_torch():
            try:
                self._train(training, validation, loss_function, log)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                msg = (
                    f"training of {self._described} must fit into memory; it does not. Lower "
                    "`batch_size` or `max_tokens`."
                )
                raise InputError(msg) from error
        self.model.to("cpu").eval()

    def _tokenize(self, texts: Iterable[list[str]]) -> np.ndarray:
        """Store the tokens of all texts, four bytes each; return True for held-out rows."""
        self._tokens: list[np.ndarray] = []
        held_out = []
        for part in texts:
            encoded = self.tokenizer(part, truncation=True, return_attention_mask=False)
            self._tokens += [np.asarray(ids, dtype=np.int32) for ids in encoded["input_ids"]]
            fractions = (hash_to_fraction(f"{self._options.seed}\n{text}") for text in part)
            held_out += [value < self._options.validation_fraction for value in fractions]
        self._lengths = np.array([len(ids) for ids in self._tokens])
        return np.array(held_out, dtype=bool)

    def _train(
        self,
        training: np.ndarray,
        validation: np.ndarray,
        loss_function: TrainingLoss,
        log: LogMetrics,
    ) -> None:
        options, rng = self._options, np.random.default_rng(self._options.seed)
        self.model.to(self._device)
        steps_an_epoch = -(-len(training) // options.batch_size)
        n_steps = options.max_epochs * steps_an_epoch
        n_steps = min(n_steps, options.max_steps or n_steps)
        optimizer, schedule = self._make_optimizer(n_steps)
        best, best_auc, n_not_better = None, -np.inf, 0
        with show_progress(f"train {self._described}", total=n_steps, unit="batches") as advance:
            for epoch in range(options.max_epochs):
                n_remaining = n_steps - epoch * steps_an_epoch
                losses = []
                self.model.train()
                for batch in islice(self._shuffle_batches(training, rng), n_remaining):
                    loss = self._compute_loss(loss_function, batch)
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(
                        self.model.parameters(), options.max_gradient_norm
                    )
                    optimizer.step()
                    schedule.step()
                    advance(1)
                    losses.append(float(loss.detach()))
                auc, validation_loss = self._validate(validation, loss_function)
                metrics = {"loss/training": float(np.mean(losses))}
                metrics |= {"loss/validation": validation_loss, "auc/validation": auc}
                log(metrics, epoch + 1)
                n_not_better += 1
                if auc > best_auc:
                    best_auc, n_not_better = auc, 0
                    weights = self.model.state_dict().items()
                    best = {name: weight.to("cpu", copy=True) for name, weight in weights}
                if n_not_better == options.patience or n_remaining <= steps_an_epoch:
                    break
        self.model.load_state_dict(best)

    def _make_optimizer(self, n_steps: int) -> tuple[Any, Any]:
        """Return the optimizer, and the schedule of its learning rate."""
        options = self._options
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        groups = [
            {"params": [weight for weight in weights if weight.ndim > 1]},
            {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(
            groups, lr=options.learning_rate, weight_decay=options.weight_decay
        )
        n_warmup = int(options.warmup_fraction * n_steps)
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, n_warmup, n_steps)
        return optimizer, schedule

    def _shuffle_batches(self, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield batches in random order, each with rows of similar length."""
        rows, size = rng.permutation(rows), self._options.batch_size
        batches = []
        for start in range(0, len(rows), size * _BATCHES_A_BLOCK):
            block = rows[start : start + size * _BATCHES_A_BLOCK]
            block = block[np.argsort(self._lengths[block], kind="stable")]
            batches += [block[at : at + size] for at in range(0, len(block), size)]
        for number in rng.permutation(len(batches)):
            yield batches[number]

    def _compute_loss(self, loss_function: TrainingLoss, batch: np.ndarray) -> Any:
        loss = loss_function(self._compute_logits(batch), batch)
        if not torch.isfinite(loss):
            msg = (
                f"the loss of {self._described} must stay finite; it does not. Lower "
                "`learning_rate`."
            )
            raise InputError(msg)
        return loss

    def _validate(self, validation: np.ndarray, loss_function: TrainingLoss) -> tuple[float, float]:
        """Return AUC and loss on the held-out rows."""
        self.model.eval()
        order = validation[np.argsort(self._lengths[validation], kind="stable")]
        with torch.inference_mode():
            starts = range(0, len(order), _VALIDATION_BATCH_SIZE)
            parts = (order[at : at + _VALIDATION_BATCH_SIZE] for at in starts)
            logits = torch.cat([self._compute_logits(part) for part in parts])
            loss = float(loss_function(logits, order))
        margin = (logits[:, 1] - logits[:, 0]).cpu().numpy()
        weights = loss_function.weights[order]
        auc = roc_auc(loss_function.positive[order], margin, sample_weight=weights)
        return float(auc.value or 0.0), loss

    def _compute_logits(self, batch: np.ndarray) -> Any:
        tokens = [self._tokens[row].tolist() for row in batch]
        inputs = self.tokenizer.pad({"input_ids": tokens}, return_tensors="pt")
        is_half = self._options.mixed_precision and choose_precision("auto") == "bfloat16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=is_half):
            return self.model(**inputs.to(self._device)).logits.float()

    def _load_model(self, encoder: Path, labels: tuple[str, str], **options: bool) -> Any:
        verbosity = transformers.utils.logging.get_verbosity()
        transformers.utils.logging.set_verbosity_error()  # it would warn that the last layer is new
        try:
            model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
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
            msg = f"{self._described} cannot be loaded: {str(error).splitlines()[0]}"
            raise InputError(msg) from error
        finally:
            transformers.utils.logging.set_verbosity(verbosity)
        prefix = model.base_model_prefix + "."
        missing = sorted(
            key for key in info["missing_keys"] if key.startswith(prefix) and "pooler" not in key
        )
        if missing:
            msg = (
                f"{self._described} must hold all weights of an encoder; it lacks "
                f"{', '.join(missing[:3])} ({len(missing)} in all)."
            )
            raise InputError(msg)
        return model

    @contextmanager
    def _seed_torch(self) -> Iterator[None]:
        """Seed torch's global generator, used by layers and dropout, and restore it afterwards."""
        with torch.random.fork_rng():
            torch.manual_seed(self._options.seed)
            yield


class TrainingLoss:
    """Mean cross entropy of a batch, weighted by row and by class.

    The mean divides only by the weights of the classes, so that a batch of heavy rows counts more
    than a batch of light rows.

    `positive`: True for positive rows. `weights`: relative weights of the rows, at least 0.
    `training`: the training rows; their mean weight becomes 1. `balanced`: True to weight each
    class by the inverse of its share of the training rows.
    """

    def __init__(
        self, positive: np.ndarray, weights: np.ndarray, training: np.ndarray, *, balanced: bool
    ) -> None:
        self.positive = positive
        self.weights = weights / weights[training].mean()
        self._class_weights = np.ones(len(positive))
        if balanced:
            share = np.average(positive[training], weights=weights[training])
            self._class_weights = np.where(positive, 1 / (2 * share), 1 / (2 * (1 - share)))

    def __call__(self, logits: Any, rows: np.ndarray) -> Any:
        """Return the loss of some rows, from their logits of shape (rows, 2)."""
        target = torch.as_tensor(self.positive[rows], dtype=torch.long, device=logits.device)
        losses = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        weights = self.weights[rows] * self._class_weights[rows] / self._class_weights[rows].sum()
        return losses @ torch.as_tensor(weights, dtype=losses.dtype, device=logits.device)
