"""Throughput of a classifier of the size of BERT base, and its share of the machine's peak.

Its weights are random, which cost as much as learned ones. Tokens are counted without padding, in
comments cut at 512 tokens; each takes two operations per parameter outside the embeddings. The
peak is what a large matrix product reaches in the same run and precision; for known GPUs, also
the maker's figure. The rival is `transformers.pipeline` with default options, on fewer comments.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
import transformers

from benchmarks._comments import for_training
from benchmarks._measurement import Measurement, median_ratio, time_in_turns
from benchmarks.scoring_transformer import encoder_folder
from biasgate.tasks.scoring.kinds.transformer_inference import Classifier, chosen_precision

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, OF_PIPELINE = {"cuda": (100_000, 2_000), "cpu": (100, 20)}[DEVICE]
MATRIX = {"cuda": 8_192, "cpu": 1_024}[DEVICE]
ROUNDS, PRODUCTS = 3, 20
# Dense bfloat16, operations per second, as published by the makers.
PEAKS = {"H200": 989e12, "H100 80GB HBM3": 989e12, "A100": 312e12, "NVIDIA L4": 121e12}


def measure(rows: int | None = None) -> Measurement:
    """Time scoring against the pipeline in turns; multiply matrices."""
    known, n_rows = for_training()[0], rows or ROWS
    texts = [known[at % len(known)] for at in range(n_rows)]
    few = texts[: min(OF_PIPELINE, n_rows)]
    precision = chosen_precision("auto")
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        n_tokens, n_parameters = save_random_model(Path(name), texts)
        classifier = Classifier(Path(name), "the model", precision=precision)
        pipeline = transformers.pipeline("text-classification", name, device=DEVICE)
    contenders = {
        "ours": lambda: classifier.logits(texts),
        "pipeline": lambda: pipeline(few, truncation=True, max_length=512),
    }
    classifier.logits(texts[:1_024])
    pipeline(few[:2], truncation=True, max_length=512)
    seconds = time_in_turns(contenders, ROUNDS, {})
    per_comment = {
        "ours": [one / n_rows for one in seconds["ours"]],
        "pipeline": [one / len(few) for one in seconds["pipeline"]],
    }
    reached = 2 * n_parameters * n_tokens / min(seconds["ours"])
    product = operations_of_a_product(precision)
    gpu = torch.cuda.get_device_name() if DEVICE == "cuda" else None
    peak = next((PEAKS[name] for name in PEAKS if gpu and name in gpu), None)
    return Measurement(
        inputs={
            "rows": n_rows,
            "rows of the pipeline": len(few),
            "rounds": ROUNDS,
            "device": gpu or "cpu",
            "precision": precision,
            "parameters outside the embeddings": n_parameters,
            "tokens": n_tokens,
        },
        figures={
            "comments/s": 1 / min(per_comment["ours"]),
            "tokens/s": n_tokens / min(seconds["ours"]),
            "comments/s, pipeline": 1 / min(per_comment["pipeline"]),
            "times the pipeline's speed": median_ratio(
                per_comment["pipeline"], per_comment["ours"]
            ),
            "Tflop/s": reached / 1e12,
            "Tflop/s of a product of matrices": product / 1e12,
            "share of a product of matrices": reached / product,
            **({"share of the maker's peak": reached / peak} if peak else {}),
        },
        packages=("torch", "transformers", "tokenizers"),
    )


def save_random_model(folder: Path, texts: list[str]) -> tuple[int, int]:
    """Save model and tokenizer; return the number of tokens and of parameters that count."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder_folder())
    tokenizer.model_max_length = 512
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=1)
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    n_parameters = sum(
        values.numel() for name, values in model.named_parameters() if "embeddings" not in name
    )
    lengths = tokenizer(texts, truncation=True, return_length=True)["length"]
    return sum(lengths), n_parameters


def operations_of_a_product(precision: str) -> float:
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
