"""What the files below a folder hold."""

import zipfile

import pyarrow.parquet as pq


def contents(folder):
    """Yield every file below a folder as text, also what lies inside archives and Parquet."""
    for path in (one for one in folder.rglob("*") if one.is_file()):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{path}/{name}", name + archive.read(name).decode("latin-1")
        elif path.suffix == ".parquet":
            yield str(path), str(pq.read_table(path).to_pylist())
        yield str(path), path.read_bytes().decode("latin-1")
