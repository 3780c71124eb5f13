"""A registry of one model, without a database; and a small model for it."""

from contextlib import nullcontext
from types import SimpleNamespace

from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.kinds.tfidf import EXAMPLE, Tfidf


def workplace_of(folder, store=None):
    """Return a workplace whose registry has one version, with the files of a folder."""
    gateway = SimpleNamespace(
        resolve=lambda uri: SimpleNamespace(uri=uri, tags={}),
        open_download=lambda _: nullcontext(folder),
    )
    return SimpleNamespace(gateway=gateway, store=store or folder.parent / "store")


def save_words(folder):
    """Save a model that knows two phrases."""
    settings = Tfidf(name="words", kind="tfidf", model="models:/words/1")
    texts = [f"{word} {n}" for n in range(20) for word in ("kind words", "vile insult")]
    save_classifier(settings.pipeline().fit(texts, [0, 1] * 20), folder, EXAMPLE)
    return folder
