"""What is wrong with a seed or a folder is said in one line, before anything runs."""

from pathlib import Path

import pytest

from annotated.commands import MAX_SEED, RecordParser, check_writable


@pytest.fixture
def refused(capsys):
    """`refused(arguments)` is what the command says last, on leaving with status 2."""

    def run(*arguments) -> str:
        with pytest.raises(SystemExit) as stopped:
            RecordParser("python -m some.command", "Does something.").parse_args(arguments)
        assert stopped.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    return run


def test_seed_and_folder_have_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = RecordParser("python -m some.command", "Does something.").parse_args([])
    assert (given.seed, given.record) == (0, Path("results"))


@pytest.mark.parametrize("seed", [0, 7, MAX_SEED])
def test_seeds_that_all_generators_take(seed, tmp_path):
    arguments = ["--seed", str(seed), "--record", str(tmp_path)]
    assert RecordParser("p", "a").parse_args(arguments).seed == seed


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, 2**64])
def test_other_seeds_are_refused(seed, refused, tmp_path):
    said = refused("--seed", str(seed), "--record", str(tmp_path / "new"))
    assert said.endswith(f"--seed is {seed}; expected a number from 0 to {MAX_SEED}")
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_folders_place_is_refused(refused, tmp_path):
    (tmp_path / "taken").write_text("kept")
    said = refused("--record", str(tmp_path / "taken"))
    assert said.startswith("python -m some.command: error: --record: ") and "taken" in said
    assert (tmp_path / "taken").read_text() == "kept"


def test_a_folder_is_made_and_nothing_is_left_in_it(tmp_path):
    check_writable(tmp_path / "one" / "two")
    assert not list((tmp_path / "one" / "two").iterdir())
