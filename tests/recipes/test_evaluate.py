"""`annotated evaluate`: a model on its own test set, on another split, on another corpus."""

import json
from functools import partial

import pytest
import torch

from annotated import records
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer
from annotated.recipes import RECIPES, as_document, override
from annotated.translation import Translator
from annotated.translation.checkpoints import save_checkpoint

SMALL = [
    "task.merges=0", "task.watched=7", "model.d_model=16", "model.d_ff=23", "model.heads=2",
    "model.layers=1", "task.any_version=true", "search.beam=2",
]
SCORES = {"bleu_13a", "chrf", "bleu_literature"}


@pytest.fixture
def evaluate(command):
    """evaluate("--split", …) runs the command in this process: (status, stdout, stderr)."""
    return partial(command, "evaluate")


@pytest.fixture
def data(tmp_path, laid_out, made):
    """Multi30k and Tatoeba of a few made sentences; Multi30k has a second test set."""
    folder = tmp_path / "data"
    pairs = made(61, 0)
    laid_out(folder, "multi30k-en-de", pairs[:40], pairs[40:47], pairs[47:52])
    for side, lines in zip(("en", "de"), zip(*pairs[52:59], strict=True), strict=True):
        path = folder / f"multi30k/test_2017_flickr.{side}"
        path.write_text("".join(f"{line}\n" for line in lines))
    many = made(499, 1)
    laid_out(folder, "tatoeba-en-de", many, [], [])
    return folder


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A checkpoint of a captions recipe, untrained; it answers in capitals what it is asked."""
    recipe = override(RECIPES["multi30k-en-de"], SMALL)
    torch.manual_seed(0)
    folder = tmp_path / "model"
    save_checkpoint(
        folder, Transformer(recipe.model), Tokenizer([]), recipe=as_document(recipe), seed=5
    )
    monkeypatch.setattr(
        Translator, "translate", lambda self, sentences: [text.upper() for text in sentences]
    )
    return folder


def measured(result):
    status, out, err = result
    assert (status, err) == (0, "")
    return json.loads(out)


def test_its_own_test_set_by_default(evaluate, model, data):
    found = measured(evaluate("--model", model, "--data-dir", data, "--quiet"))
    assert found["metrics"]["tested"]["value"] == 5
    assert set(found["metrics"]) == {*SCORES, "perplexity", "tested"}
    assert all(found["metrics"][name]["signature"] for name in SCORES)
    assert (found["recipe"], found["beam"], found["alpha"]) == ("multi30k-en-de", 2, 0.6)


@pytest.mark.parametrize("split", ["test_2017_flickr", "test2017"])
@pytest.mark.parametrize("corpus", ["multi30k", "multi30k-en-de", None])
def test_another_split_by_its_name_or_that_of_its_files(evaluate, model, data, split, corpus):
    words = ["--corpus", corpus] if corpus else []
    found = measured(
        evaluate("--model", model, *words, "--split", split, "--data-dir", data, "--quiet")
    )
    assert found["metrics"]["tested"]["value"] == 7


def test_another_corpus(evaluate, model, data):
    found = measured(
        evaluate("--model", model, "--corpus", "tatoeba", "--data-dir", data, "--quiet")
    )
    assert found["metrics"]["tested"]["value"] > 1 and SCORES < set(found["metrics"])


def test_numbers_by_exact_match(evaluate, model):
    found = measured(evaluate("--model", model, "--corpus", "numbers", "--quiet"))
    assert found["metrics"]["exact"]["value"] == 0 and found["metrics"]["tested"]["value"] == 1000


def test_a_record_keeps_scores_signatures_and_the_search(evaluate, model, data, tmp_path):
    status, out, err = evaluate(
        "--model", model, "--corpus", "multi30k", "--split", "test_2017_flickr", "--beam", 3,
        "--alpha", 0.25, "--data-dir", data, "--out", tmp_path / "records",
    )
    assert (status, err) == (0, "")
    (path,) = (tmp_path / "records").rglob("*.json")
    assert out.splitlines()[-1] == f"record: {path}"
    record = records.read(path)
    assert record.experiment == "evaluate-multi30k-en-de-on-multi30k-test-2017-flickr"
    assert (record.recipe, record.seed, record.tokens_per_update) == ("multi30k-en-de", 5, None)
    assert record.command == (
        "annotated evaluate --model model --corpus multi30k --split test_2017_flickr "
        "--beam 3 --alpha 0.25"
    )
    assert (record.value("beam"), record.value("alpha"), record.value("tested")) == (3, 0.25, 7)
    assert all(record.metrics[name].signature for name in SCORES)
    named = evaluate("--model", model, "--data-dir", data, "--out", tmp_path, "--name", "mine")
    assert named[0] == 0 and len(list((tmp_path / "mine").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--corpus", "poems"], "no corpus 'poems-en-de'; there are multi30k-en-de"),
        (["--split", "test_2018"], "has no split 'test_2018'; it has train, val, test2016"),
        (["--corpus", "numbers", "--split", "test"], "--split is test; these sentences are made"),
        (["--name", "My Own", "--out", "x"], "--name"),
        (["--beam", "0"], "--beam"),
    ],
)
def test_what_there_is_not_is_refused(
    evaluate, model, data, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.chdir(tmp_path)
    status, out, err = evaluate("--model", model, "--data-dir", data, *arguments)
    assert (status, out) == (2, "") and len(err.splitlines()) == 1 and said in err


def test_numbers_models_are_tested_by_exact_match_with_any_beam(evaluate, monkeypatch):
    made = Translator.load("numbers-en-de")
    asked = []

    def translate(self, sentences):
        asked.append(self.search)
        return ["zwei" for _ in sentences]

    monkeypatch.setattr(Translator, "translate", translate)
    found = measured(evaluate("--beam", 4, "--corpus", "numbers", "--quiet"))
    assert {search.beam for search in asked} == {4} and made.search.beam == 1
    assert found["metrics"]["tested"]["value"] == 1000
