"""Padding of real comments, its cost, and the speed of the tokenizer, on a single core.

The share of padding follows from lengths only: it is counted over 16,100 Civil Comments in shards
of 10,000. The cost is timed with MiniLM-L6: the same comments, padded to a multiple of 8, 4, 2 and
1 tokens, in turns. All times are processor time of a single thread, which depends little on other
work on the machine.
"""
# ruff: noqa: SLF001 - it reads the batches, which are private

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks._comments import load_natural_comments, load_training_comments
from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from benchmarks.scoring_transformer import fit_classifier
from biasgate.tasks.scoring.kinds.transformer_inference import STEPS, TEXTS_AHEAD, Classifier

ROWS, ROUNDS, SHARD = 200, 7, 10_000
PADDED_TO = (8, 4, 2, 1)


def measure(rows: int | None = None) -> Measurement:
    """Count padding with each step, time the steps in turns, and the tokenizer."""
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
        figures[f"share of padding, multiples of {step}"] = compute_padding(single, every)
    for precision, classifier in classifiers.items():
        figures |= measure_costs(precision, classifier, texts)
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
        figures=figures | measure_tokenizer(single, every),
        packages=("torch", "transformers", "tokenizers"),
    )


def compute_padding(classifier: Any, texts: list[str]) -> float:
    """Return the share of padding among the tokens of all batches."""
    real = padded = 0
    for start in range(0, len(texts), SHARD):
        for batch in classifier._make_batches(classifier._tokenize(texts[start : start + SHARD])):
            real += int(batch.lengths.sum())
            padded += len(batch.lengths) * classifier._round_length(int(batch.lengths.max()))
    return 1 - real / padded


def measure_costs(precision: str, classifier: Classifier, texts: list[str]) -> dict[str, float]:
    """Return the times of all steps, relative to that of the largest."""

    def score(step: int) -> None:
        STEPS["cpu"] = step
        classifier.logits(texts)

    score(PADDED_TO[0])  # to warm up
    contenders = {step: partial(score, step) for step in PADDED_TO}
    seconds, _ = time_contenders(contenders, ROUNDS, clock=time.process_time)
    first, *others = PADDED_TO
    return {f"{precision}: comments/s and core": len(texts) / median(seconds[first])} | {
        f"{precision}: time with multiples of {step}, of that with {first}": compute_median_ratio(
            seconds[step], seconds[first]
        )
        for step in others
    }


def measure_tokenizer(classifier: Any, texts: list[str]) -> dict[str, float]:
    """Return the rates of the tokenizer: the best of three times."""
    numbers = range(len(texts))
    cuts = [numbers[row : row + TEXTS_AHEAD] for row in range(0, len(texts), TEXTS_AHEAD)]

    def cut_texts() -> list[Any]:
        return [classifier._tokenizer.tokenize(texts, cut) for cut in cuts]

    seconds, results = time_contenders({"tokens": cut_texts}, 3, clock=time.process_time)
    n_tokens = sum(int(part.lengths.sum()) for part in results["tokens"])
    return {
        "tokens a comment": n_tokens / len(texts),
        "tokenizer, comments/s and core": len(texts) / min(seconds["tokens"]),
        "tokenizer, tokens/s and core": n_tokens / min(seconds["tokens"]),
    }
