"""The answers of a scikit-learn model: computed fast if it fits, by scikit-learn otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from biasgate.tasks.common.prefect_task import say

# Part of the digest of scikit-learn models. Raise the number if a score changes by more than
# rounding: kept scores of another number are computed again.
SCORED_BY: Final = "ngrams 1"


def answers_of(model: Any, method: str, of: str) -> Callable[[Any], np.ndarray]:
    """Return a function from texts to what a method of a model returns for them.

    A line in the log says so if scikit-learn computes it.

    Parameters
    ----------
    model : object
        A fitted scikit-learn model.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}
        The method.
    of : str
        The model, for the log, as in "model models:/m/1".
    """
    # These import scikit-learn and scipy, which takes seconds.
    from biasgate.tasks.scoring.ngrams.model import NgramModel  # noqa: PLC0415
    from biasgate.tasks.scoring.ngrams.recognised import NotFastError  # noqa: PLC0415

    by_sklearn: Callable[[Any], np.ndarray] = getattr(model, method)
    try:
        fast = NgramModel(model)
    except NotFastError as reason:
        say(f"{of} is scored by scikit-learn itself, which is slower: {reason}", aside=True)
        return by_sklearn

    def answers(texts: Any) -> np.ndarray:
        # scikit-learn knows what else may be given, and refuses it in its own words.
        return fast.answer(method, texts) if _are_texts(texts) else by_sklearn(texts)

    return answers


def _are_texts(given: Any) -> bool:
    is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    return is_list and len(given) > 0 and all(isinstance(one, str) for one in given)
