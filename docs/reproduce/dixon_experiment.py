"""The experiment of Dixon et al. (2018) on a small scale: Tables 4 and 5, Figures 3 to 5.

The baseline learns 3,500 Wikipedia talk comments. The bias-mitigated model also learns the article
sentences that the authors added to balance identity terms. Both are word TF-IDF with a logistic
regression, trained ten times on other draws of the comments; the paper trained a convolutional
network on 127,820. The comments left out are the general test set; the phrases are those of the
paper, made from templates.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from printed import Printed, printed_table
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bias_metrics import fned, fped, pinned_auc_equality_difference, roc_auc
from bias_metrics.plot import per_term_scatter

TRAININGS, N_TRAIN = 10, 3500
MODELS = ("baseline", "bias-mitigated")
OURS = f"own data ({TRAININGS} TF-IDF models each)"
AFTER = "after Dixon et al. 2018,"
FIGURES = {
    "false positive rate": (3, "false positive"),
    "false negative rate": (4, "false negative"),
    "pinned AUC": (5, "pinned AUC"),
}


def draw_dixon(folder: Path) -> dict[str, Figure]:
    """Train, measure and draw."""
    comments = pd.read_csv(folder / "wikipedia_toxic_5000.csv.gz")
    added = pd.read_csv(folder / "wikipedia_debiasing_nontoxic.csv.gz")
    added = added.loc[added["split"] == "train", "comment"].to_list()
    phrases = pd.read_csv(folder / "bias_madlibs_77k.csv.gz")
    y_phrases = (phrases["Label"] == "BAD").to_numpy()
    masks = _find_terms(phrases)
    aucs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {name: defaultdict(list) for name in FIGURES}
    rng = np.random.default_rng(0)
    for _ in range(TRAININGS):
        order = rng.permutation(len(comments))
        train, test = comments.iloc[order[:N_TRAIN]], comments.iloc[order[N_TRAIN:]]
        for model in MODELS:
            sentences = added if model == MODELS[1] else []
            classifier = make_pipeline(
                TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(C=10)
            ).fit([*train["comment_text"], *sentences], [*train["toxic"], *(0 for _ in sentences)])
            general = test["toxic"] == 1, classifier.predict_proba(test["comment_text"])[:, 1]
            rows = y_phrases, classifier.predict_proba(phrases["Text"])[:, 1]
            aucs[model].append((roc_auc(*general).value, roc_auc(*rows).value))
            metrics = (
                partial(fped, threshold_set=general),
                partial(fned, threshold_set=general),
                pinned_auc_equality_difference,
            )
            for name, metric in zip(FIGURES, metrics, strict=True):
                runs[name][model].append(metric(*rows, masks).to_dict())
    return {
        "own-dixon-table4": _draw_means(aucs),
        "own-dixon-table5": _draw_sums(runs, len(masks)),
        **{
            f"own-dixon-figure{number}": _draw_scatter(runs[name], name, number)
            for name, (number, _) in FIGURES.items()
        },
    }


def _find_terms(phrases: pd.DataFrame) -> dict[str, np.ndarray]:
    """Mark the phrases by term; a template has only a verb and the term."""
    bare = phrases.loc[phrases["Template"] == "verb_adj", "Text"].str.lower()
    texts = phrases["Text"].str.lower()
    return {
        term: texts.str.contains(rf"\b{re.escape(term)}\b").to_numpy()
        for term in sorted(bare.str.partition(" ")[2].unique())
    }


def _draw_means(aucs: dict[str, list[tuple[float, float]]]) -> Figure:
    return printed_table(
        {
            model: [Printed(f"{mean:.3f}", "auc") for mean in np.mean(pairs, axis=0)]
            for model, pairs in aucs.items()
        },
        ["General\ntest set", "Phrase\ntemplates"],
        title=f"{OURS}: mean AUC\n{AFTER} Table 4",
        note="Colour: 0.5 to 1.",
    )


def _draw_sums(runs: dict[str, dict[str, list[dict[str, Any]]]], n_terms: int) -> Figure:
    sums = {
        name: [sum(run["value"] for run in by_model[model]) for model in MODELS]
        for name, by_model in runs.items()
    }
    return printed_table(
        {
            FIGURES[name][1]: [
                Printed(f"{value:.2f}", "equality_difference", value / n_terms / TRAININGS)
                for value in values
            ]
            for name, values in sums.items()
        },
        MODELS,
        title=f"{OURS}:\nequality differences, {AFTER} Table 5",
        note=f"Sums over {n_terms} terms and {TRAININGS} models. Colour: the mean of one, 0 to .2.",
    )


def _draw_scatter(models: dict[str, list[dict[str, Any]]], name: str, number: int) -> Figure:
    figure = per_term_scatter(models, metric=name, lowest=0.5 if name == "pinned AUC" else 0.0)
    figure.suptitle(f"{OURS}, {AFTER} Figure {number}", fontsize=11, x=0.01, ha="left")
    return figure
