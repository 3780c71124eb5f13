"""The commands on published results: show, compare, trend, transparency reports."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgate.options import DEFAULT_STORE, READ, AsJson, Store, format_example
from biasgate.output import print_json, print_sentence, report_errors, show_activity
from biasgate.running import open_registry
from biasgate.tasks.common.errors import InputError

if TYPE_CHECKING:
    from biasgate.tasks.reporting.results import Published

app = typer.Typer()

Folder = Annotated[
    Path,
    typer.Argument(
        help="The `--output` of an evaluation, or a folder SET/CANDIDATE in it.", metavar="DIR"
    ),
]


@app.command(rich_help_panel=READ, epilog=format_example("show out --identity gay"))
def show(
    folder: Folder,
    everything: Annotated[  # noqa: FBT002
        bool, typer.Option("--all", help="Also print all numbers and all checks that did not pass.")
    ] = False,
    identity: Annotated[
        str | None, typer.Option(help="Print all results for an identity.", metavar="NAME")
    ] = None,
    markdown: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--markdown", help="Print Markdown, for a pull request or a job summary."),
    ] = False,
    link: Annotated[
        str | None,
        typer.Option(help="With --markdown: address of the complete results.", metavar="URL"),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Print the results in a folder.

    The exit code is 0 whatever the verdict.
    """
    with report_errors(quiet=as_json):
        if link is not None and not markdown:
            msg = "`--link` must be given with `--markdown`."
            raise InputError(msg)
        if markdown and (everything or identity is not None):
            msg = "`--markdown` must be given without `--all` and `--identity`."
            raise InputError(msg)
        with show_activity("reading"):
            from biasgate.tasks.reporting.ci import format_github_comment  # noqa: PLC0415
            from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415
            from biasgate.tasks.reporting.terminal import print_results  # noqa: PLC0415

            results = read_results(folder)
        if as_json:
            print_json(results.content())
        elif markdown:
            typer.echo(format_github_comment(results, link), nl=False)
        else:
            print_results(results, everything=everything, identity=identity, as_written=True)


_SIDE = (
    "A folder of results, a folder DIR/SET/CANDIDATE in it, or a version models:/NAME/VERSION; "
    "with --in, the name of a candidate."
)


@app.command(rich_help_panel=READ, epilog=format_example("compare out/news/old out/news/new"))
def compare(
    first: Annotated[str, typer.Argument(help=_SIDE, metavar="A")],
    second: Annotated[
        str, typer.Argument(help="What to compare A with: same forms as A.", metavar="B")
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--in", help="A and B are candidates in this folder.", metavar="DIR"),
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Compare two candidates, by identity.

    Differences are A minus B. They have intervals, paired by row, if both were scored on the
    same rows and have evidence.parquet. The exit code is 0 whatever differs.
    """
    with ExitStack() as stack:
        stack.enter_context(report_errors(quiet=as_json))
        with show_activity("comparing"):
            from biasgate.tasks.reporting.comparing import compare_published  # noqa: PLC0415
            from biasgate.tasks.reporting.terminal import print_comparisons  # noqa: PLC0415

            sides = [
                _load_side(side, other, folder, store, stack, quiet=as_json)
                for side, other in ((first, second), (second, first))
            ]
            compared = compare_published(sides[0], sides[1], (first, second))
        if as_json:
            print_json(compared)
        else:
            print_comparisons(compared)


def _load_side(
    side: str, other: str, folder: Path | None, store: Path, stack: ExitStack, *, quiet: bool
) -> list[Published]:
    """Return the results of an argument A or B; `stack` keeps files of the registry open."""
    from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

    if folder is not None:
        results = read_results(folder).published
        matches = [published for published in results if published.names[1] == side]
        if not matches:
            from biasgate.tasks.reporting.comparing import describe_missing_candidate  # noqa: PLC0415

            raise InputError(describe_missing_candidate(side, other, folder, results, str(store)))
        return matches
    if side.startswith("models:/"):
        from biasgate.tasks.verifying.own_verdicts import find_published  # noqa: PLC0415

        gateway = stack.enter_context(open_registry(store, quiet=quiet))
        return find_published(side, gateway, stack)
    return list(read_results(Path(side)).published)


@app.command(rich_help_panel=READ, epilog=format_example("trend production"))
def trend(
    evaluation: Annotated[
        str, typer.Argument(help="Name of the evaluation, as in its file.", metavar="NAME")
    ],
    nights: Annotated[
        int, typer.Option(min=1, max=365, help="Number of nights, up to the last.")
    ] = 8,
    metric: Annotated[
        str | None, typer.Option(help="Only this metric, for example bpsn_auc.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also print all numbers.")] = False,  # noqa: FBT002
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Print which identities changed over the nights, and why."""
    with open_registry(store, quiet=as_json) as gateway:
        with show_activity("reading"):
            from biasgate.tasks.remembering.memory import Memory, require_nights  # noqa: PLC0415
            from biasgate.tasks.remembering.rows import compare_nights  # noqa: PLC0415
            from biasgate.tasks.reporting.terminal import print_trend  # noqa: PLC0415

            remembered = require_nights(Memory(gateway, evaluation), nights)
        metrics = sorted({row.metric for lines in compare_nights(remembered) for row in lines.rows})
        if metric is not None and metric not in metrics:
            msg = f"`--metric` must be one of {', '.join(metrics)}; got {metric!r}."
            raise InputError(msg)
        if as_json:
            print_json(remembered)
        else:
            print_trend(remembered, metric, str(store), everything=everything)


@app.command(
    rich_help_panel=READ,
    epilog=format_example("transparency out --filing filing.yaml --output report"),
)
def transparency(
    folder: Folder,
    filing: Annotated[
        Path,
        typer.Option(help="Description of the sample (YAML).", metavar="FILE"),
    ],
    output: Annotated[Path, typer.Option(help="Folder for part8.csv and part11.md.")],
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Write the error rates of a transparency report (EU DSA).

    Part 8 rows in the columns of the form, and the text of Part 11 with rates by identity. Refuses
    input that would mislead. It supports the filing and is not legal advice.
    """
    with report_errors(quiet=as_json, places={"output": output}):
        from biasgate.tasks.common.files import require_writable  # noqa: PLC0415
        from biasgate.tasks.disclosing.filing import read_filing  # noqa: PLC0415
        from biasgate.tasks.disclosing.transparency import write_transparency  # noqa: PLC0415
        from biasgate.tasks.reporting.results import read_results  # noqa: PLC0415

        sample = read_filing(filing)
        require_writable(output.absolute(), "output")
        with show_activity("measuring"):
            written = write_transparency(read_results(folder), sample, output)
        if as_json:
            print_json({"files": list(map(str, written.files)), "sentences": written.sentences})
            return
        for sentence in (*(f"wrote {path}" for path in written.files), *written.sentences):
            print_sentence(sentence)
