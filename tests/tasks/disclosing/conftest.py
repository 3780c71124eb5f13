"""Results of two classifiers on comments in three languages."""

import pytest
import yaml
from support.evaluations import run
from support.filed import FILING, comments, judge_site


@pytest.fixture(scope="session")
def site():
    """Comments with labels, identities, languages and the scores of two classifiers."""
    return comments()


@pytest.fixture(scope="session")
def results(tmp_path_factory, site):
    """The results of both classifiers."""
    return judge_site(tmp_path_factory.mktemp("site") / "out", site)


@pytest.fixture
def filed(results, tmp_path):
    """Function that runs the command with a filing file; returns exit code, text and folder."""

    def call(folder=results, **changed):
        content = {key: value for key, value in (FILING | changed).items() if value is not None}
        (tmp_path / "filing.yaml").write_text(yaml.safe_dump(content), "utf-8")
        options = ("--filing", tmp_path / "filing.yaml", "--output", tmp_path / "filed")
        return *run("transparency", folder, *options), tmp_path / "filed"

    return call
