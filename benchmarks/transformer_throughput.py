"""Throughput of a classifier of the size of BERT base, and its share of the machine's peak.

Its weights are random, which cost as much as learned weights. Comments, cut at 512 tokens, are
scored in shards, as an evaluation does. An operation counts if it multiplies or adds with a weight
outside the embeddings; padding does not count, nor do operations that the last layer leaves out.
The peak is that of a large matrix product in the same run and precision. The rival is
`transformers.pipeline` in the same precision, at its best batch size, on fewer comments.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
import transformers

from benchmarks._comments import load_training_comments
from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from benchmarks.scoring_transformer import find_batch_size, locate_encoder, score_by_pipeline
from biasgate.tasks.scoring.kinds.transformer_inference import (
    Classifier,
    choose_precision,
    count_parallel_calls,
)
from biasgate.tasks.scoring.scored import open_mapper

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, OF_PIPELINE = {"cuda": (100_000, 4_000), "cpu": (100, 20)}[DEVICE]
SHARD = 10_000
BATCH_SIZES = {"cuda": (32, 128, 512), "cpu": (1, 8)}[DEVICE]
MATRIX = {"cuda": 8_192, "cpu": 1_024}[DEVICE]
ROUNDS, PRODUCTS = 3, 20
# Computed once per comment: the parts after the attention of the last layer.
ONCE = (
    *(f"bert.encoder.layer.11.{part}." for part in ("attention.output", "intermediate", "output")),
    "bert.pooler.",
    "classifier.",
)


def measure(rows: int | None = None) -> Measurement:
    """Time scoring against the pipeline in turns; multiply matrices."""
    comments, n_rows = load_training_comments()[0], rows or ROWS
    texts = [comments[row % len(comments)] for row in range(n_rows)]
    few = texts[: min(OF_PIPELINE, n_rows)]
    precision = choose_precision("auto")
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        n_tokens, n_operations = save_random_model(Path(name), texts)
        classifier = Classifier(Path(name), "the model", precision=precision)
        pipeline = transformers.pipeline(
            "text-classification", name, device=DEVICE, dtype=getattr(torch, precision)
        )
    classifier.logits(texts[:SHARD])
    memory = torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else None
    batch_size = find_batch_size(pipeline, few, BATCH_SIZES)
    shards = [texts[row : row + SHARD] for row in range(0, n_rows, SHARD)]

    def score_shards(at_once: int) -> None:
        with open_mapper(at_once) as map_calls:
            list(map_calls(classifier.logits, shards))

    contenders = {
        "shards": lambda: score_shards(count_parallel_calls()),
        "one after another": lambda: score_shards(1),
        "whole": lambda: classifier.logits(texts),
        "pipeline": lambda: score_by_pipeline(pipeline, few, batch_size),
    }
    seconds, _ = time_contenders(contenders, ROUNDS)
    n_scored = dict.fromkeys(contenders, n_rows) | {"pipeline": len(few)}
    per_comment = {name: [time / n_scored[name] for time in took] for name, took in seconds.items()}
    reached = n_operations / min(seconds["shards"])
    product = measure_product(precision)
    gpu = torch.cuda.get_device_name() if DEVICE == "cuda" else None
    return Measurement(
        inputs={
            "rows": n_rows,
            "rows a shard": min(SHARD, n_rows),
            "shards at a time": count_parallel_calls(),
            "rows of the pipeline": len(few),
            "best batch size of the pipeline": batch_size,
            "rounds": ROUNDS,
            "device": gpu or "cpu",
            "precision": precision,
            "tokens": n_tokens,
        },
        figures={
            "comments/s": 1 / min(per_comment["shards"]),
            "tokens/s": n_tokens / min(seconds["shards"]),
            "comments/s, one shard after another": 1 / min(per_comment["one after another"]),
            "comments/s, all in one shard": 1 / min(per_comment["whole"]),
            "comments/s, pipeline": 1 / min(per_comment["pipeline"]),
            "times the pipeline's speed": compute_median_ratio(
                per_comment["pipeline"], per_comment["shards"]
            ),
            "Tflop/s": reached / 1e12,
            "Tflop/s of a product of matrices": product / 1e12,
            "share of a product of matrices": reached / product,
            **({"GiB on the GPU, at most": memory} if memory else {}),
        },
        packages=("torch", "transformers", "tokenizers"),
    )


def save_random_model(folder: Path, texts: list[str]) -> tuple[int, int]:
    """Save model and tokenizer; return the number of tokens, and of operations that count."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(locate_encoder())
    tokenizer.model_max_length = 512
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=1)
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    sizes = {
        name: values.numel()
        for name, values in model.named_parameters()
        if "embeddings" not in name
    }
    once = sum(size for name, size in sizes.items() if name.startswith(ONCE))
    n_tokens = sum(tokenizer(texts, truncation=True, return_length=True)["length"])
    return n_tokens, 2 * ((sum(sizes.values()) - once) * n_tokens + once * len(texts))


def measure_product(precision: str) -> float:
    """Return the operations per second of multiplying two large matrices."""
    a, b = torch.randn(2, MATRIX, MATRIX, device=DEVICE, dtype=getattr(torch, precision))
    best = 0.0
    for _ in range(ROUNDS + 1):  # the first to warm up
        _wait()
        start = time.perf_counter()
        for _ in range(PRODUCTS):
            a @ b
        _wait()
        best = max(best, 2 * MATRIX**3 * PRODUCTS / (time.perf_counter() - start))
    return best


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
