"""A reader's own files through the command: trained on, tested, resumed, evaluated elsewhere."""

import gzip
import json

import pytest

from annotated import records
from annotated.recipes import FilesTask, from_document
from annotated.translation.checkpoints import load_checkpoint

SMALL = [
    "task.merges=61", "model.d_model=16", "model.d_ff=23", "model.heads=2", "model.layers=1",
    "training.steps=3", "training.average=1", "training.batch_tokens=499", "task.watched=7",
]
SETS = [word for assignment in SMALL for word in ("--set", assignment)]


@pytest.fixture
def here(tmp_path, monkeypatch, made):
    """A folder with two training files, one of them packed, a TSV, and two test files."""
    pairs = made(97, 0)
    folder = tmp_path / "here"
    folder.mkdir()
    train, dev, test = pairs[:79], pairs[79:88], pairs[88:]
    (folder / "a.en").write_text("".join(f"{one}\n" for one, _ in [*train, ("", "")]))
    with gzip.open(folder / "a.de.gz", "wt") as file:
        file.writelines(f"{other}\n" for _, other in [*train, ("", "leer")])
    (folder / "b.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in dev))
    for side, lines in zip(("en", "de"), zip(*test, strict=True), strict=True):
        (folder / f"c.{side}").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.chdir(folder)
    return folder


FILES = ("--train", "a.en", "a.de.gz", "--dev", "b.tsv", "--test", "c.en", "c.de")


def test_they_are_cleaned_learned_reported_recorded_and_evaluated_elsewhere(
    command, here, tmp_path, monkeypatch
):
    out, kept = tmp_path / "out", tmp_path / "records"
    status, said, err = command(
        "train", *FILES, "--source", "en", "--target", "de", *SETS, "--quiet", "--out", out,
        "--record", kept,
    )
    assert (status, err) == (0, "")
    found = json.loads(said)
    assert found["recipe"] == "own-files" and found["metrics"]["tested"] == {"value": 9}
    assert found["cleaning"] == ["79 of 80 training pairs kept; left out: 1 empty"]
    assert {"bleu_13a", "bleu_literature", "perplexity"} < set(found["metrics"])
    assert len((out / "translations.txt").read_text().split("\n")) == 10
    (path,) = kept.rglob("*.json")
    record = records.read(path)
    assert "--train a.en --train a.de.gz --dev b.tsv" in record.command
    assert record.value("tested") == 9 and len(record.curve) == 3
    recipe = from_document(load_checkpoint(out)[2]["recipe"], out)
    assert isinstance(recipe.task, FilesTask) and recipe.task.train == ("a.en", "a.de.gz")
    # From another folder: only what it is tested on must be there, in a data folder.
    (here / "a.en").unlink()
    monkeypatch.chdir(tmp_path)
    status, said, _ = command("evaluate", "--model", out, "--data-dir", here, "--quiet")
    assert status == 0 and json.loads(said)["metrics"] == found["metrics"]
    status, said, err = command("evaluate", "--model", out)
    assert status == 2 and said == "" and "b.tsv is no file here, nor in a data folder" in err


def test_a_language_without_rules_has_one_bleu_and_it_is_said(command, here, tmp_path):
    status, said, _ = command("train", *FILES, "--target", "it", *SETS, "--out", tmp_path / "out")
    assert status == 0 and "bleu_13a" in said
    assert "no BLEU of the literature: the target language is it" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (FILES[:-3], ["--test is missing"]), (FILES[3:], ["--train is missing"]),
        ((*FILES, "more"), ["test is ('c.en', 'c.de', 'more')", "two files"]),
        ((*FILES[:-2], "c.en", "nowhere.de"), ["nowhere.de is no file here"]),
        ((*FILES[:4], "nowhere.tsv", *FILES[5:]), ["--dev", "nowhere.tsv"]),
        ((*FILES, "--recipe", "copy"), ["copy makes its own sentences"]),
        (("--recipe", "copy", "--source", "en"), ["--source and --target go with --train"]),
        ((), ["--recipe is missing", "--train"]),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_made(
    command, here, tmp_path, arguments, words
):
    status, said, err = command("train", *arguments, "--out", tmp_path / "out")
    assert status == 2 and said == "" and len(err.splitlines()) == 1
    assert words[-1] in err and not (tmp_path / "out").exists()
