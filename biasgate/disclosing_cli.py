"""The commands that write what is handed to others: transparency reports, cards, bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from biasgate.options import PROMOTE, READ, AsJson, example
from biasgate.printing import print_json, print_sentence
from biasgate.show_cli import Folder
from biasgate.telling import errors_told, waiting

app = typer.Typer()


@app.command(
    rich_help_panel=READ, epilog=example("transparency out --filing filing.yaml --output report")
)
def transparency(
    folder: Folder,
    filing: Annotated[
        Path,
        typer.Option(help="What you say of the sample (YAML).", metavar="FILE"),
    ],
    output: Annotated[Path, typer.Option(help="Folder for part8.csv and part11.md.")],
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Write accuracy and error of classifiers for transparency reports under the EU's DSA.

    Part 8 rows in the columns of the form, and the text of Part 11 with rates by identity. Refuses
    what would mislead. It is a help for whoever files, not legal advice.
    """
    with errors_told(quiet=as_json, places={"output": output}):
        from biasgate.tasks.common.files import require_writable  # noqa: PLC0415
        from biasgate.tasks.disclosing.filing import read_filing  # noqa: PLC0415
        from biasgate.tasks.disclosing.transparency import write_transparency  # noqa: PLC0415
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

        said = read_filing(filing)
        require_writable(output.absolute(), "output")
        with waiting("measuring"):
            found = write_transparency(read_results(folder), said, output)
        if as_json:
            print_json({"files": list(map(str, found.files)), "sentences": found.sentences})
            return
        for path in found.files:
            print_sentence(f"wrote {path}")
        for sentence in found.sentences:
            print_sentence(sentence)


@app.command(rich_help_panel=PROMOTE, epilog=example("bundle out --output audit.zip"))
def bundle(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="The file to write, such as audit.zip.")],
    without_rows: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--without-rows", help="Leave the evidence out: then verdicts cannot be recomputed."
        ),
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Write verdicts, policies, evidence without texts and ids, and pages to one signed zip.

    `biasgate verify audit.zip` recomputes the verdicts on any machine that trusts the key.
    """
    with errors_told(quiet=as_json, places={"output": output.parent}):
        from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
        from biasgate.tasks.disclosing.bundle import write_bundle  # noqa: PLC0415
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

        if output.suffix != ".zip":
            msg = f"`--output` must be a file with the ending .zip; got {output}."
            raise InputError(msg)
        with waiting("writing the bundle"):
            found = write_bundle(read_results(folder), output, with_rows=not without_rows)
        if as_json:
            print_json(found)
            return
        n = len(found.verdicts)
        print_sentence(f"wrote {output}: {n} signed verdict{'' if n == 1 else 's'}")


@app.command(rich_help_panel=READ, epilog=example("card out --format huggingface"))
def card(
    folder: Folder,
    kind: Annotated[
        Literal["huggingface", "eval-results", "coop"],
        typer.Option(
            "--format", help="`model-index` or .eval_results of the Hub, or ROOST's Coop."
        ),
    ],
    dataset: Annotated[
        str | None, typer.Option(help="Id of the data set on the Hub.", metavar="ORG/NAME")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="For eval-results: a task of the benchmark, and the number that it is, such as "
            "toxicity=auc or bpsn=bpsn_auc/muslim; once for each.",
            metavar="TASK=NUMBER",
        ),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Print a candidate's results as the cards of hubs and review consoles have them."""
    with errors_told(quiet=as_json):
        import yaml  # noqa: PLC0415

        from biasgate.tasks.common.errors import InputError  # noqa: PLC0415
        from biasgate.tasks.disclosing import cards  # noqa: PLC0415
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

        each = cards.published_of_one(read_results(folder))
        if kind == "coop":
            print_json(cards.coop_card(each))
            return
        if kind == "huggingface":
            text = cards.huggingface_card(each, dataset)
        else:
            named = [one.partition("=") for one in task or ()]
            if dataset is None or not named or not all(name and key for key, _, name in named):
                msg = "eval-results needs `--dataset ORG/NAME` and `--task TASK=NUMBER`."
                raise InputError(msg)
            text = cards.eval_results(each, dataset, {key: name for key, _, name in named})
        if as_json:
            print_json(yaml.safe_load(text))
        else:
            typer.echo(text, nl=False)
