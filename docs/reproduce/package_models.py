"""Score texts with the models of public packages, each in its own environment.

Evaluation files name the functions at the end. Each sends texts to a process in the environment of
its package, in the folder BIASGATE_PACKAGES: `packages.py` makes them. Weights are pickles, which
run code when they are loaded: only that process loads them.

A text with a score of 0.5 or more is flagged by the package; the process checks this for every
text. Run as a program, this file is that process, and needs only the standard library.
"""

from __future__ import annotations

import json
import locale
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

# Scores of texts, and whether the package flags each.
Scored = tuple[Iterable[Any], Iterable[Any]]
Model = Callable[[list[str]], Scored]


@dataclass(frozen=True)
class Package:
    """A release of a package with a model."""

    version: str
    sha256: str
    """Digest of the wheel, which contains the weights."""
    kind: str
    trained_on: str
    """Training data named by the package."""
    licence: str
    """As in its metadata."""
    requires: str
    """Installed with it, instead of the requirements in its metadata."""
    load: Callable[[], Model]
    """Import it, and return its model."""
    language: str = "english"
    """Of the sentences that it must score in the right order."""


def load_alt_profanity_check() -> Model:
    """Return the probabilities and decisions of its own functions."""
    import profanity_check  # noqa: PLC0415

    return lambda texts: (profanity_check.predict_prob(texts), profanity_check.predict(texts))


def load_arabic_toxic() -> Model:
    """Return the probability of the toxic label that is farthest above its threshold."""
    from arabic_toxic import classifier  # noqa: PLC0415

    bundle = classifier._load_bundle()  # noqa: SLF001 - only it has the thresholds
    limits = dict(zip(bundle["labels"], bundle["thresholds"], strict=True))

    def score(text: str) -> tuple[float, bool]:
        chances = bundle["pipeline"].predict_proba([classifier.normalize_arabic(text)])[0]
        labels = zip(bundle["labels"], chances, strict=True)
        highest = max(compute_share(p, limits[name]) for name, p in labels if name != "NOT")
        return highest, classifier.classify(text)["is_toxic"]

    return score_each(score)


def load_best_profanity() -> Model:
    """Return the larger probability of its English and its Filipino model."""
    import best_profanity  # noqa: PLC0415

    def score(texts: list[str]) -> Scored:
        english, filipino = best_profanity.predict_prob(texts)
        return map(max, english, filipino), best_profanity.predict(texts)

    return score


def load_cuss_inspect() -> Model:
    """Return the unrounded probability, and its decision."""
    from cuss_inspect import cuss_inspect  # noqa: PLC0415

    def score(texts: list[str]) -> Scored:
        chances = cuss_inspect.model.predict_proba(cuss_inspect.vectorizer.transform(texts))
        return chances[:, 1], cuss_inspect.predict(texts)

    return score


def load_glin_profanity() -> Model:
    """Return 1 for a text with a word of its English or Arabic list, else 0."""
    from glin_profanity import Filter  # noqa: PLC0415

    words = Filter({"languages": ["english", "arabic"]})
    return score_each(lambda text: (words.is_profane(text),) * 2)


def load_hatesonar() -> Model:
    """Return the larger probability of hate speech and offensive language against `neither`."""
    try:
        locale.setlocale(locale.LC_CTYPE, "en_US.UTF-8")
    except locale.Error:  # Its model needs this locale; C.utf8 has the same lower case.
        stand_in = Path(sys.prefix, "locale", "en_US.utf8")
        stand_in.parent.mkdir(exist_ok=True)
        if not stand_in.is_symlink():
            stand_in.symlink_to("/usr/lib/locale/C.utf8")
        os.environ["LOCPATH"] = str(stand_in.parent)
    from hatesonar import Sonar  # noqa: PLC0415

    sonar = Sonar()

    def score(text: str) -> tuple[float, bool]:
        result = sonar.ping(text)
        chances = {part["class_name"]: float(part["confidence"]) for part in result["classes"]}
        neither = chances.pop("neither")
        return compute_share(max(chances.values()), neither), result["top_class"] != "neither"

    return score_each(score)


def load_valx() -> Model:
    """Return 1 for a text that it calls hate or offensive speech, else 0.

    The probabilities of its tree cannot be used: those of a text add up to more than 1.
    """
    import valx  # noqa: PLC0415

    def score(text: str) -> tuple[float, bool]:
        flagged = valx.detect_hate_speech(text)[0] != "No Hate and Offensive Speech"
        return float(flagged), flagged

    return score_each(score)


def compute_share(value: float, rival: float) -> float:
    """Return the share of a value in its sum with a rival: 0.5 if they are equal."""
    return value / (value + rival)


def score_each(score: Callable[[str], tuple[float, bool]]) -> Model:
    """Return the model of a function for single texts."""
    return lambda texts: tuple(zip(*map(score, texts), strict=True))


OLD_NUMPY = "numpy==1.26.4 scipy==1.11.4 setuptools==65.5.0"
PACKAGES = {
    "alt-profanity-check": Package(
        version="1.9.1",
        sha256="cccb8ce072306bac21188670777a25cfb1de978aa8c7a93c8e4a43c03b3945c3",
        kind="linear SVM",
        trained_on="tweets (Davidson et al. 2017), Wikipedia comments (Jigsaw 2018)",
        licence="MIT (classifier)",
        requires="scikit-learn==1.9.1 joblib==1.6.0 numpy==2.4.6 scipy==1.17.1",
        load=load_alt_profanity_check,
    ),
    "arabic-toxic": Package(
        version="0.2.3",
        sha256="373987b3e41fc8d1e7b1eb3399687e1e97d7262a56e4a05f2371ce6ed7ee28c5",
        kind="linear, 7 labels",
        trained_on="not stated",
        licence="MIT",
        requires="scikit-learn==1.7.2 joblib==1.5.2 numpy==2.4.6 scipy==1.17.1",
        load=load_arabic_toxic,
        language="arabic",
    ),
    "best-profanity": Package(
        version="1.1.5",
        sha256="08f4a8aa60fadd363cfa9f7bd90222c7ba1462a3d7c3f829dde48a7a87dc9711",
        kind="linear SVM, English and Filipino",
        trained_on="not stated",
        licence="MIT (classifier)",
        requires=f"scikit-learn==1.3.2 joblib==1.4.2 {OLD_NUMPY}",
        load=load_best_profanity,
    ),
    "cuss-inspect": Package(
        version="1.0.2b0",
        sha256="5adef3094820df66882b35bc2be6a74e6cd00a6b8e226d9658ee79f67c51e1a3",
        kind="logistic regression",
        trained_on="more than 180,000 reviews, source not stated",
        licence="UNKNOWN; MIT (classifier)",
        requires=f"scikit-learn==1.3.2 joblib==1.4.2 {OLD_NUMPY}",
        load=load_cuss_inspect,
    ),
    "glin-profanity": Package(
        version="4.1.0",
        sha256="efdf834c0c29e9473033d497f4cbff5f414d8fe30aa04b1b9322639739889d0d",
        kind="lists of words",
        trained_on="none",
        licence="MIT",
        requires="typing-extensions==4.16.0",
        load=load_glin_profanity,
    ),
    "hatesonar": Package(
        version="0.1.0",
        sha256="969c56618bd628b3cb9b69d4e5170b461c8270737d2b0eb37ba0d55e207e9f37",
        kind="logistic regression, 3 classes",
        trained_on="tweets (Davidson et al. 2017)",
        licence="MIT",
        requires="onnxruntime==1.32.0 numpy==2.4.6",
        load=load_hatesonar,
    ),
    "valx": Package(
        version="0.2.6",
        sha256="5988aabbc5e77ab5ecdf090c565dff7d10be0630aaae068d21c516965794d646",
        kind="decision tree, 3 classes",
        trained_on="not stated",
        licence="MIT (classifier); its file: modified MIT",
        requires=f"scikit-learn==1.5.2 joblib==1.4.2 {OLD_NUMPY}",
        load=load_valx,
    ),
}


def score_texts(package: str, texts: Sequence[str]) -> list[float]:
    """Return the scores of texts, from the process of the package."""
    process = start_process(package)
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(json.dumps(list(texts)) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        msg = f"the process of {package} ended (exit code {process.wait()}); see its output above."
        raise RuntimeError(msg)
    return list(json.loads(answer))


@cache
def start_process(package: str) -> subprocess.Popen[str]:
    """Start the process of a package; it ends with this process, which closes its input."""
    folder = Path(os.environ["BIASGATE_PACKAGES"]) / package
    return subprocess.Popen(  # noqa: S603 - the environment that packages.py made
        [folder / "bin" / "python", "-W", "ignore", __file__, package],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def serve(package: str) -> None:
    """Answer each line of texts with a line of scores."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for output of the package
    model = PACKAGES[package].load()
    for line in sys.stdin:
        scores, flags = (list(map(float, column)) for column in model(json.loads(line)))
        for score, flagged in zip(scores, flags, strict=True):
            if (score >= 0.5) != bool(flagged):
                sys.exit(f"{package}: scored a text {score}, but its own decision is {flagged}")
        answers.write(json.dumps(scores) + "\n")
        answers.flush()


alt_profanity_check = partial(score_texts, "alt-profanity-check")
arabic_toxic = partial(score_texts, "arabic-toxic")
best_profanity = partial(score_texts, "best-profanity")
cuss_inspect = partial(score_texts, "cuss-inspect")
glin_profanity = partial(score_texts, "glin-profanity")
hatesonar = partial(score_texts, "hatesonar")
valx = partial(score_texts, "valx")

if __name__ == "__main__":
    serve(sys.argv[1])
