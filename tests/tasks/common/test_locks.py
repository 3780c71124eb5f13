"""Locks leave other files alone."""

import pytest

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import hold_lock


def test_a_link_in_place_of_a_lock_is_refused_and_its_target_kept(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".set.lock").symlink_to("precious")
    with (
        pytest.raises(InputError, match=r".set.lock must be a plain file; it is a link. Remove"),
        hold_lock(tmp_path / "set"),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "kept"
