"""Tables as frozen evaluation sets, for tests of scoring."""

from biasgate.tasks.data.freezing import SOURCES, freeze_source


def freeze_table(table, folder, name="rows", **options):
    """Freeze a table with ids; without labels, these alternate, and without `group`, it is 1."""
    table = table.assign(
        label=table.get("label", [at % 2 for at in range(len(table))]),
        group=table.get("group", 1),
    )
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    source = {"name": name, "source": "table", "path": path, "identities": ["group"]}
    return freeze_source(SOURCES.validate_python(source | options), folder / name)
