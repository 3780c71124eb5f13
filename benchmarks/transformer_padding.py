"""Padding of real comments, what it costs, and the work of the host beside the model, on one core.

The share of padding follows from lengths alone: it is counted over 16,100 Civil Comments in shards
of 10,000. What padding costs is timed with MiniLM-L6: the same comments, padded to a multiple of 8,
4, 2 and 1 tokens, in turns. All times are processor time of one thread, which other work on the
machine moves little. The host cuts texts into tokens, sorts them into batches and fills arrays;
this is compared with what a GPU needs at half its peak for a model of the size of BERT base.
"""
# ruff: noqa: SLF001 - it looks at the batches, which stay inside

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks._comments import load_natural_comments, load_training_comments
from benchmarks._measurement import Measurement
from benchmarks.scoring_transformer import fit_classifier
from biasgate.tasks.scoring.kinds.transformer_inference import STEPS, TEXTS_AHEAD, Classifier
from biasgate.tasks.scoring.kinds.transformer_tokens import Packing, send_arrays

ROWS, ROUNDS, SHARD = 200, 7, 10_000
PADDED_TO = (8, 4, 2, 1)
# Dense bfloat16 of an H100, half of it; BERT base multiplies and adds with 85 million weights.
HALF_THE_PEAK, OPERATIONS_A_TOKEN = 989e12 / 2, 2 * 85e6
TOKENS_A_BATCH_ON_A_GPU = 131_072


def measure(rows: int | None = None) -> Measurement:
    """Count padding with each step, time the steps in turns, and the work of the host."""
    torch.set_num_threads(1)
    every, texts = load_training_comments()[0], load_natural_comments(rows or ROWS)[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit_classifier(folder)
        classifiers = {
            precision: Classifier(folder, "MiniLM", precision=precision)
            for precision in ("float32", "bfloat16")
        }
    single, now = classifiers["float32"], STEPS["cpu"]
    figures = {}
    for step in PADDED_TO:
        STEPS["cpu"] = step
        figures[f"share of padding, multiples of {step}"] = padding_share(single, every)
    for precision, classifier in classifiers.items():
        figures |= costs(precision, classifier, texts)
    STEPS["cpu"] = now
    return Measurement(
        inputs={
            "rows counted": len(every),
            "rows a shard": SHARD,
            "rows timed": len(texts),
            "rounds": ROUNDS,
            "threads": torch.get_num_threads(),
            "padded to multiples of, now": now,
        },
        figures=figures | host_work(single, every),
        packages=("torch", "transformers", "tokenizers"),
    )


def padding_share(classifier: Any, texts: list[str]) -> float:
    """Return the share of padding among the tokens of all batches."""
    real = padded = 0
    for start in range(0, len(texts), SHARD):
        for batch in classifier._make_batches(classifier._tokenize(texts[start : start + SHARD])):
            real += int(batch.lengths.sum())
            padded += len(batch.lengths) * classifier._round_length(int(batch.lengths.max()))
    return 1 - real / padded


def costs(precision: str, classifier: Classifier, texts: list[str]) -> dict[str, float]:
    """Return the time of each step, and relative to that of the largest."""
    seconds: dict[int, list[float]] = {step: [] for step in PADDED_TO}
    classifier.logits(texts)  # to warm up
    for turn in range(ROUNDS):
        first = turn % len(PADDED_TO)
        for step in PADDED_TO[first:] + PADDED_TO[:first]:
            STEPS["cpu"] = step
            seconds[step].append(processor_time(lambda: classifier.logits(texts)))
    found = {f"{precision}: comments/s and core": len(texts) / median(seconds[PADDED_TO[0]])}
    for step in PADDED_TO[1:]:
        pairs = zip(seconds[step], seconds[PADDED_TO[0]], strict=True)
        name = f"{precision}: time with multiples of {step}, of that with {PADDED_TO[0]}"
        found[name] = median(own / largest for own, largest in pairs)
    return found


def host_work(classifier: Any, texts: list[str]) -> dict[str, float]:
    """Return the rates of tokenizer and host on one core, and the cores that a GPU needs."""
    tokenizer, packing, budget = classifier._tokenizer, classifier._packing, classifier._budget
    numbers = range(len(texts))
    cuts = [numbers[at : at + TEXTS_AHEAD] for at in range(0, len(texts), TEXTS_AHEAD)]
    parts = [tokenizer.tokenize(texts, cut) for cut in cuts]
    n_tokens = sum(int(part.lengths.sum()) for part in parts)
    cutting = best_time(lambda: [tokenizer.tokenize(texts, cut) for cut in cuts])

    def fill() -> int:
        made = list(filled(classifier, packing, parts))
        return len(made)

    figures = {}
    for name, packs, tokens in (
        ("CPU", False, budget),
        ("GPU, packed", True, TOKENS_A_BATCH_ON_A_GPU),
    ):
        packing.is_active, classifier._budget = packs, tokens
        n_batches, took = fill(), best_time(fill)
        figures[f"host, ms a batch ({name})"] = 1000 * took / n_batches
        figures[f"host, microseconds a comment ({name})"] = 1e6 * took / len(texts)
    packing.is_active, classifier._budget = False, budget
    eaten = HALF_THE_PEAK / OPERATIONS_A_TOKEN
    a_token = (cutting + took) / n_tokens
    return figures | {
        "tokens a comment": n_tokens / len(texts),
        "tokenizer, comments/s and core": len(texts) / cutting,
        "tokenizer, tokens/s and core": n_tokens / cutting,
        "a GPU at half its peak, tokens/s": eaten,
        "cores that feed it, by tokenizer and host": eaten * a_token,
        "cores that feed it, tokens kept": eaten * took / n_tokens,
    }


def filled(classifier: Any, packing: Packing, parts: list[Any]) -> Iterator[Any]:
    """Yield what the model would read, batch after batch."""
    for batch in classifier._make_batches(parts):
        if packing.is_active:
            yield packing.pack_batch(batch)
        else:
            n_tokens = classifier._round_length(int(batch.lengths.max()))
            given = classifier._tokenizer.pad_batch(batch, n_tokens)
            yield send_arrays(list(given.values()), torch.device("cpu"))


def best_time(call: Callable[[], object]) -> float:
    """Return the least of three times."""
    return min(processor_time(call) for _ in range(3))


def processor_time(call: Callable[[], object]) -> float:
    """Return the processor's seconds, of all threads."""
    start = time.process_time()
    call()
    return time.process_time() - start
