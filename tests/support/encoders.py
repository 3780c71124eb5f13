"""Tiny transformers for tests; needs torch."""

import tokenizers
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


def save_language_model(folder, words, template):
    """Save a tiny Llama with random weights that knows a few words, and its tokenizer."""
    torch.manual_seed(3)
    begin, end = "<s>", "</s>"
    known = [begin, end, *words, "is", "bad", *"abcdef"]
    own = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(known)}, unk_token=begin)
    )
    own.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, bos_token=begin, eos_token=end, pad_token=end
    )
    tokenizer.chat_template = template
    config = transformers.LlamaConfig(
        vocab_size=len(known),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.2,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
