"""The types of `tasks/records`, compared with files that an evaluation wrote."""

from functools import cache
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from biasgate.tasks import records

KINDS = {
    "report.json": records.Report,
    "verdict.json": records.Verdict,
    "details.json": records.Details,
    "summary.json": records.Summary,
}


@cache
def adapter_of(name: str) -> TypeAdapter:
    """Return the validator for a file of this name, which refuses keys that its type lacks."""
    for one in vars(records).values():
        if is_typeddict(one):
            one.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return TypeAdapter(KINDS[name])


def check_records(output: Path) -> list[str]:
    """Validate every report, verdict and summary below a folder; return their names."""
    files = sorted(path for name in KINDS for path in output.rglob(name))
    for path in files:
        adapter_of(path.name).validate_json(path.read_bytes())
    return [path.name for path in files]
