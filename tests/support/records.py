"""The types of `tasks/records`, compared with files that an evaluation wrote."""

import json
from pathlib import Path

from biasgate.tasks import records
from biasgate.tasks.common.untrusted import check_document

KINDS = {
    "report.json": records.Report,
    "verdict.json": records.Verdict,
    "details.json": records.Details,
    "summary.json": records.Summary,
}


def check_record(content, name):
    """Read what a file of this name holds."""
    return check_document(content, KINDS[name], name)


def check_records(output: Path) -> list[str]:
    """Read every report, verdict and summary below a folder; each must be all of its record."""
    files = sorted(path for name in KINDS for path in output.rglob(name))
    for path in files:
        check_record(json.loads(path.read_text("utf-8")), path.name)
    return [path.name for path in files]
