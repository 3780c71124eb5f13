"""Small packages that tests install, as a user would next to biasgate."""

from __future__ import annotations

from importlib import invalidate_caches


def install(folder, name, entry_points, *, version="1.0", **modules):
    """Write a package as an installer would: its modules, and metadata with entry points.

    `entry_points` is the text of `entry_points.txt`; each module is given by its source.
    """
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (metadata / "METADATA").write_text(text, "utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, "utf-8")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, "utf-8")
    invalidate_caches()
    return folder
