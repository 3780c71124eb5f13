"""The pictures of a run under fixed keys, so that MLflow shows those of many runs side by side."""

from __future__ import annotations

import shutil
from pathlib import Path

from PIL import Image

from biasgate.tasks.tracking.view import PICTURES

FOLDER = "images"
SHOWN = {"mlflow.loggedImages": "true"}
"""The tag of a run whose pictures MLflow looks for."""
# MLflow reads key and step from the name. With a fixed end, logging again overwrites.
_NAME = "{key}+step+0+timestamp+0+biasgate"
# A grid shows small pictures, and the whole one at a click. MLflow's own have 256 pixels.
_SMALL = (1000, 1400)


def write_grid_pictures(results: Path, folder: Path) -> bool:
    """Copy the pictures of a results folder under the names that MLflow's grid reads.

    Parameters
    ----------
    results : Path
        Folder with `heatmap.png` and others.
    folder : Path
        Where to write; an empty folder.

    Returns
    -------
    bool
        Whether there is any picture.
    """
    for key in PICTURES.values():
        source = results / f"{key}.png"
        if not source.exists():
            continue
        name = _NAME.format(key=key)
        shutil.copyfile(source, folder / f"{name}.png")
        with Image.open(source) as picture:
            small = picture.convert("RGB")
        small.thumbnail(_SMALL)
        small.save(folder / f"{name}+compressed.webp", quality=80)
    return any(folder.iterdir())
