"""Tables that are written to a file and frozen as a set."""

from biasgate.tasks.data.freezing import SOURCES, freeze_source


def table_source(path, **options):
    """Return the settings of a table; unless options say otherwise, its identity is gay."""
    known = {"name": "t", "source": "table", "path": path, "identities": ["gay"]}
    return SOURCES.validate_python(known | options)


def freeze_table(folder, rows, name="t.csv", **options):
    """Freeze rows: a data frame, which is written as CSV, or the bytes of a file."""
    content = rows if isinstance(rows, bytes) else rows.to_csv(index=False).encode()
    (folder / name).write_bytes(content)
    return freeze_source(table_source(folder / name, **options), folder / "store")
