import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def real_data():
    """Folder of the real data that is not part of the repository."""
    folder = Path(os.environ.get("BIASGATE_REAL_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is missing; set BIASGATE_REAL_DATA to its folder")
    return folder
