"""A folder to write to is there, or refused, before anything runs."""

import pytest

from annotated.commands import check_writable


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    check_writable(tmp_path / "one" / "two")
    assert not list((tmp_path / "one" / "two").iterdir())


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "taken").write_text("kept")
    with pytest.raises(OSError, match="taken"):
        check_writable(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "kept"
