"""Table 7 and Figure 2 of Borkan et al. (2019), drawn with other scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bias_metrics import negative_aeg, positive_aeg
from bias_metrics.plot import distribution_panels
from biasgate.tasks.data.civil_comments import JIGSAW_NINE

OURS = "own data (toxic-bert on Civil Comments)"


def draw_borkan(folder: Path) -> dict[str, Figure]:
    """Draw both from the scores of a public model on comments with identity labels."""
    labels = pd.read_parquet(folder / "civil_comments_test_identities.parquet")
    scores = pd.read_csv(folder / "toxic_bert_submission.csv")
    rows = labels.merge(scores, on="id", validate="one_to_one")
    arrays = (rows["toxicity"] >= 0.5).to_numpy(), rows["prediction"].to_numpy()
    masks = {name: (rows[name] >= 0.5).to_numpy() for name in JIGSAW_NINE}
    drawn = {
        "own-borkan-table7": distribution_panels(
            {name: (*arrays, mask) for name, mask in masks.items()},
            title=f"{OURS}, after Borkan et al. 2019, Table 7",
        )
    }
    for kind, aeg in (("negative", negative_aeg), ("positive", positive_aeg)):
        title = f"{OURS}, {kind}s, after Borkan et al. 2019, Figure 2"
        figure = Figure(figsize=(8, 9), layout="constrained")
        figure.suptitle(title, fontsize=11)
        figure.supxlabel(f"share of the background's {kind}s at or above a threshold", fontsize=9)
        figure.supylabel(f"share of the identity's {kind}s", fontsize=9)
        panels = figure.subplots(3, 3, sharex=True, sharey=True).flat
        in_class = arrays[0] == (kind == "positive")
        for axes, (name, mask) in zip(panels, masks.items(), strict=True):
            own, others = (np.sort(arrays[1][in_class & rows]) for rows in (mask, ~mask))
            thresholds = np.unique(np.concatenate((own, others)))
            y, x = (1 - np.searchsorted(side, thresholds) / side.size for side in (own, others))
            axes.plot([0, 1], [0, 1], color="0.45", linestyle="--", linewidth=0.8)
            axes.plot([*x, 0], [*y, 0], color="black", linewidth=1.2)
            axes.set_title(f"{name}\nAEG {aeg(*arrays, mask).value:+.3f}", fontsize=9)
        drawn[f"own-borkan-figure2-{kind}"] = figure
    return drawn
