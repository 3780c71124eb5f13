"""`biasgate shadow`: two models on comments without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from biasgate.options import DATA, DEFAULT_STORE, AsJson, Store, Yes, example
from biasgate.printing import print_json, print_sentence
from biasgate.telling import errors_told, say, waiting

app = typer.Typer()


@app.command(rich_help_panel=DATA, epilog=example("shadow shadow.yaml --output shadowed"))
def shadow(
    config: Annotated[Path, typer.Argument(help="Shadow file (YAML).", metavar="CONFIG")],
    output: Annotated[Path, typer.Option(help="Folder for shadow.json and sample.csv.")],
    store: Store = DEFAULT_STORE,
    yes: Yes = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Compare a model with its successor on comments without labels, and say what to label."""
    with errors_told(verbose=False, quiet=as_json, places={"store": store, "output": output}):
        say(f"reading {config}")
        from biasgate.tasks.common.files import require_writable  # noqa: PLC0415
        from biasgate.tasks.shadowing import REPORT, read_shadow  # noqa: PLC0415
        from biasgate.tasks.shadowing import shadow as compare  # noqa: PLC0415
        from biasgate.tasks.store import Workplace  # noqa: PLC0415

        for what, folder in (("output", output), ("store", store)):
            require_writable(folder.absolute(), what)
        settings = read_shadow(config)
        output.mkdir(parents=True, exist_ok=True)
        with waiting("scoring and comparing"):
            found = compare(settings, Workplace(store.resolve()), output, yes=yes)
        if as_json:
            print_json(json.loads((output / REPORT).read_text("utf-8")))
            return
        for sentence in found.sentences():
            print_sentence(sentence)
