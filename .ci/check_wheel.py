"""Try the built wheel in an environment without other parts of this repository.

    python .ci/check_wheel.py (numpy-only|app|lowest|roads|others) ENVIRONMENT

Runs from an empty folder, so that the checkout is not imported by accident.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIG = """\
name: wheel
evaluation_sets:
  - {name: table, source: table, path: rows.csv, identities: [group]}
candidates:
  - {name: scores, kind: scores, path: scores.csv}
"""

CIVIL_COMMENTS = """\
name: civil_comments
registered_model: toxicity
evaluation_sets:
  - {name: test, source: civil_comments, folder: ., identities: all}
candidates:
  - {name: scores, kind: scores, path: test_scores.csv, register: toxicity}
policy: own.yaml
"""
POLICY = """\
version: 1
name: own
allow_first: true
rules:
  - {metric: auc, scope: overall, floor: 0.5}
  - {metric: bpsn_auc, scope: worst, floor: 0.5, slice: short, mode: estimate}
"""


def main(mode: str, environment: Path) -> None:
    """Run the checks of a mode."""
    checks = {
        "numpy-only": check_library,
        "app": check_app,
        "lowest": check_lowest,
        "roads": check_roads,
        "others": check_others,
    }
    with tempfile.TemporaryDirectory() as folder:
        checks[mode](environment / ("Scripts" if os.name == "nt" else "bin"), Path(folder))
    print(f"wheel: {mode} works in an empty environment")


def check_library(programs: Path, folder: Path) -> None:
    """With numpy only: import the library, test its reports, and read the command's error."""
    run(
        folder,
        *(programs / "python", "-c"),
        "import importlib.util, pkgutil, bias_metrics; "
        "assert importlib.util.find_spec('pandas') is None; "
        "assert importlib.util.find_spec('prefect') is None; "
        "modules = pkgutil.walk_packages(bias_metrics.__path__, 'bias_metrics.'); "
        "assert len([importlib.import_module(found.name) for found in modules]) > 50",
    )
    options = ("-m", "not slow and not evaluates", "--noconftest", "--hypothesis-profile=ci")
    run_tests(programs, folder, ["bias_metrics/report"], *options, package="bias_metrics")
    output = run(folder, programs / "biasgate", "--version", expected=2)
    assert 'pip install ".[app]"' in output, output


def check_app(programs: Path, folder: Path) -> None:
    """With the extra: run evaluations from end to end, also next to modules of the same names."""
    evaluate_table(programs, folder)
    evaluate_civil_comments(programs, folder)
    run_tests(programs, folder, ["test_main_job.py"], "-m", "not slow", "-k", "verdicts or scikit")
    for name in ("tasks", "flows", "deployments"):  # names that a user's own folder may have
        (folder / f"{name}.py").write_text(f"raise SystemExit('the wrong {name}')\n")
    run(folder, programs / "biasgate", "evaluate", "wheel.yaml", "--output", "o", PYTHONPATH=".")
    (folder / "bias_metrics.py").write_text("raise SystemExit('the wrong library')\n")
    output = run(folder, programs / "biasgate", "--version", expected=2, PYTHONPATH=".")
    assert "'bias_metrics' must come from" in output, output


def check_lowest(programs: Path, folder: Path) -> None:
    """With the oldest versions: run two evaluations, and tests of Prefect and MLflow."""
    output = run(folder, programs / "biasgate", "doctor", "--store", "store")
    assert "ok       versions" in output, output
    evaluate_table(programs, folder)
    run(folder, programs / "biasgate", "demo")
    tests = ["flows/test_prefect_behaviour.py", "tasks/mlflow_server/test_memory.py"]
    run_tests(programs, folder, tests)


def evaluate_table(programs: Path, folder: Path) -> None:
    """Evaluate a table to a verdict."""
    rows = [(i, i % 2, i % 4 // 2, 0.4 * (i % 2) + 0.005 * (i % 97)) for i in range(400)]
    table = "id,label,group\n" + "".join(f"{i},{y},{g}\n" for i, y, g, _ in rows)
    (folder / "rows.csv").write_text(table)
    (folder / "scores.csv").write_text(
        "id,prediction\n" + "".join(f"{i},{score}\n" for i, _, _, score in rows)
    )
    (folder / "wheel.yaml").write_text(CONFIG)
    output = run(folder, programs / "biasgate", "evaluate", "wheel.yaml", "--output", "out")
    assert "PASSED" in output, output
    assert (folder / "out" / "table" / "scores" / "report.json").exists()


def evaluate_civil_comments(programs: Path, folder: Path) -> None:
    """Evaluate Civil Comments in Kaggle's single file, to a champion that can be verified."""
    names = "from biasgate.tasks.data.civil_comments import IDENTITIES; print(*IDENTITIES)"
    identities = run(folder, programs / "python", "-c", names).split()
    with (folder / "all_data.csv").open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "comment_text", "split", "article_id", "toxicity", *identities])
        for i in range(1200):
            mentions = ["" if i % 10 == 0 else (i * 7 + n) % 12 / 12 for n in range(24)]
            text = f"comment {i} " * (1 + i % 16)
            rows.writerow([i, text, "test", i // 4, i % 2, *mentions])
    scores = "".join(f"{i},{0.4 * (i % 2) + 0.005 * (i % 97)}\n" for i in range(1200))
    (folder / "test_scores.csv").write_text("id,prediction\n" + scores)
    (folder / "own.yaml").write_text(POLICY)
    (folder / "civil_comments.yaml").write_text(CIVIL_COMMENTS)
    run(folder, programs / "biasgate", "evaluate", "civil_comments.yaml", "--output", "official")
    run(folder, programs / "biasgate", "verify", "toxicity")


def check_roads(programs: Path, folder: Path) -> None:
    """Run the tests of all options, from every source to verified verdicts."""
    run_tests(programs, folder, ["roads"], "-m", "every_option")


def check_others(programs: Path, folder: Path) -> None:
    """Test the metric of `evaluate`, and frames of other packages, with their newest versions."""
    tests = ["docs/test_identity_bias.py", "bias_metrics/test_frames.py"]
    output = run_tests(programs, folder, tests)
    assert "skipped" not in output, output


def run_tests(
    programs: Path, folder: Path, tests: list[str], *options: str, package: str = "biasgate"
) -> str:
    """Run some tests on the wheel; return their output."""
    code = f"import {package} as wheel; assert 'site-packages' in wheel.__file__, wheel.__file__"
    run(folder, programs / "python", "-c", code)
    return run(
        folder,
        *(programs / "pytest", "-q", *options, "-p", "no:cacheprovider"),
        *("--config-file", REPOSITORY / "pyproject.toml"),
        *(REPOSITORY / "tests" / test for test in tests),
    )


def run(folder: Path, *command: str | Path, expected: int = 0, **variables: str) -> str:
    """Run a command in a folder, and return its output; stop if its exit code is unexpected."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # Other tests run at the same time: more threads of numpy's algebra would only wait.
    environment |= {"OMP_NUM_THREADS": "1", "PREFECT_HOME": str(folder / "prefect")}
    environment |= variables
    result = subprocess.run(  # noqa: S603 - our own programs
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    output = result.stdout + result.stderr
    if result.returncode != expected:
        sys.exit(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{output}")
    return output


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
