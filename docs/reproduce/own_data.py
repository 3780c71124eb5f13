"""Table 7 and Figure 2 of Borkan et al. (2019), drawn on other scores than the paper's."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bias_metrics import equality_curve
from bias_metrics.plot import distribution_panels, equality_curves
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
    for of in ("negative", "positive"):
        curves = {
            name: equality_curve(*arrays, mask, of=of).to_dict() for name, mask in masks.items()
        }
        title = f"{OURS}, {of}s, after Borkan et al. 2019, Figure 2"
        drawn[f"own-borkan-figure2-{of}"] = equality_curves(curves, of=of, title=title)
    return drawn
