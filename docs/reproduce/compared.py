"""Compare candidates of every kind on real comments, as Markdown.

pip install ".[text]" alt-profanity-check
BIASGATE_REAL_DATA=FOLDER BIASGATE_ENCODER=FOLDER python docs/reproduce/compared.py STORE

prints a part of docs/evidence/numbers.md, and writes docs/evidence/compared.csv. STORE is a new
folder for MLflow and results (`biasgate ui --store STORE`).
"""

from __future__ import annotations

import csv
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from served import served

from benchmarks._measurement import describe_machine
from biasgate.flows.evaluate import evaluate
from biasgate.flows.score import train
from biasgate.tasks.data.freezing import freeze_source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.reading_evaluation import read_evaluation
from biasgate.tasks.records import Report, Summary
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.store import Workplace

CONFIG = Path(__file__).with_name("compared.yaml")
SAME_MODEL = ("baseline", "baseline registered", "baseline served")
PAGE = """\
## Candidates of every kind

{n_candidates} candidates on real comments, by one evaluation file,
[compared.yaml](../reproduce/compared.yaml): the TF-IDF baseline, the same version
through the model registry (`mlflow`) and through a running `mlflow models serve` (`http`), the
encoder all-MiniLM-L6-v2 fine-tuned here (`transformer`), and the package alt-profanity-check
(`python`). Baseline and encoder learn the same {n_training:,} comments. These are 70% of a file
in which 70% of the comments are toxic; `civil_comments_heldout` is the rest of that file.
`civil_comments_natural` has 2,000 comments at the natural rate. `phrases` are the 76,564 generated
phrases of Dixon et al. (2018). Identities are found by their words. Brackets are 95% intervals;
that of the worst BPSN AUC allows for choosing the worst of many. Intervals of phrases do not allow
for their few templates.

`python docs/reproduce/compared.py` trained, scored and wrote this part, on {machine}
({versions}).
[All results](compared.csv). Rows per second were measured once per cell, and include loading
the model; the load of the machine was {load:.0f}.

### The same model through every entry point

The largest difference between a score and the baseline's own score, over all comments of a set:

| set | comments | registered (`mlflow`) | served (`http`) |
|---|--:|--:|--:|
{differences}
"""
HEAD = ("set", "comments", "toxic", "candidate", "AUC", "final score", "worst BPSN AUC", "of")
TABLE = Path(__file__).parents[1] / "evidence" / "compared.csv"


def main() -> None:
    """Train, serve, score, evaluate, print a part of the page."""
    store = Path(sys.argv[1]).resolve()
    candidates = train(str(CONFIG), str(store))
    place = Workplace(store)
    log = store / "served.log"
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with served(candidates[0].uri, log, place.gateway.uri) as address:
        os.environ["BIASGATE_SERVED"] = address
        sources = read_evaluation(CONFIG).evaluation_sets
        scored = {
            (source.name, candidate.name): time_scoring(candidate, source, place)
            for source in sources
            for candidate in (
                known.model_copy(update={"url": address}) if known.kind == "http" else known
                for known in candidates
            )
        }
        summary: Any = evaluate(str(CONFIG), str(store / "results"), str(store))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*HEAD, "verdict", "rows a second"])
        for source in sources:
            writer.writerows(iter_rows(source.name, summary, scored, store))
    training = freeze_source(candidates[0].train_on, store)
    machine = describe_machine()
    print(
        PAGE.format(
            n_candidates=len(candidates),
            n_training=training.n_rows,
            machine=f"{machine['processor']}, {machine['cores']} cores, {_gpu()}",
            load=machine["load in the last minute"] or 0,
            versions=", ".join(
                [f"Python {platform.python_version()}"]
                + [f"{name} {version(name)}" for name in ("torch", "transformers", "scikit-learn")]
            ),
            differences="\n".join(format_differences(source.name, scored) for source in sources),
        ),
        end="",
    )


def time_scoring(
    candidate: CandidateSettings, source: SourceSettings, place: Workplace
) -> tuple[np.ndarray, float]:
    """Return scores and rows per second; the evaluation reuses the scores."""
    rows = freeze_source(source, place.store)
    start = time.perf_counter()
    with candidate.open(place) as scorer:
        scores = score_rows(scorer, rows, candidate, place.scores)
    seconds = time.perf_counter() - start
    return scores.table()["score"].to_numpy(), rows.n_rows / seconds


def iter_rows(
    set_name: str,
    summary: Summary,
    scored: Mapping[tuple[str, str], tuple[np.ndarray, float]],
    store: Path,
) -> Iterator[list[str]]:
    """Yield the rows of a set."""
    for verdict in summary.verdicts:
        if verdict.evaluation_set.name != set_name:
            continue
        name = verdict.candidate.name
        report = store / "results" / set_name / name / "report.json"
        bias = Report.read(report.read_text("utf-8")).bias
        worst, rows = bias.worst("bpsn_auc"), bias.counts[None]
        numbers = (bias.overall.auc, bias.overall.final_score, worst.value)
        columns = ("undefined" if number.value is None else str(number) for number in numbers)
        n, rate = (str(rows.n), str(rows.n_positive)), scored[set_name, name][1]
        yield [set_name, *n, name, *columns, str(worst.subgroup), verdict.outcome, f"{rate:.0f}"]


def format_differences(
    set_name: str, scored: Mapping[tuple[str, str], tuple[np.ndarray, float]]
) -> str:
    """Return the row of a set: the largest differences from the baseline's own scores."""
    own, *others = (scored[set_name, name][0] for name in SAME_MODEL)
    differences = [f"{np.abs(other - own).max():.1g}" for other in others]
    return "| " + " | ".join([set_name, f"{len(own):,}", *differences]) + " |"


def _gpu() -> str:
    import torch  # noqa: PLC0415 - slow

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "no GPU"


if __name__ == "__main__":
    main()
