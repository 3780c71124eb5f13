"""Tiny transformers for tests; needs torch."""

import numpy as np
import torch
import transformers

WORDS = [f"w{n}" for n in range(80)] + ["you", "are", "kind", "vile", "##s", "a", "x", "##x"]


def save(folder, labels, **options):
    """Save a tiny BERT with random weights, and its tokenizer."""
    torch.manual_seed(len(labels))
    vocabulary = folder / "vocab.txt"
    folder.mkdir()
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    tokenizer = transformers.BertTokenizerFast(vocab=str(vocabulary), model_max_length=64)
    shape = {
        "vocab_size": len(WORDS) + 5,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.5,
    }
    named = {"id2label": labels, "label2id": {label: at for at, label in labels.items()}}
    config = transformers.BertConfig(**shape | named | options)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def compute_logits(folder, texts):
    """Return the logits of transformers itself, text by text, without batches or padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    options = {"truncation": True, "max_length": 64, "return_tensors": "pt"}
    with torch.inference_mode():
        parts = [model(**tokenizer(text, **options)).logits.numpy() for text in texts]
    return np.concatenate(parts)
