"""Each stage of the WMT14 recipes on a sample, by the command that trains the paper's models.

The reader's download is imitated: a folder laid out as its unpacked archives, with a few hundred
sentences in them. The model is shrunken by --set; every stage runs as it would on 4.5 million
pairs.
"""

import io
import json
import mmap
import re
import sys

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file

from annotated import cli
from annotated.data.id_file import IdPairs
from annotated.data.text import Pairs, tidy
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.recipes import RECIPES
from annotated.training import learning_rate
from annotated.translation import Translator

# As the archives of statmt.org unpack, all in one folder.
FILES = {
    "de": [
        "training/europarl-v7.de-en", "commoncrawl.de-en", "training/news-commentary-v9.de-en",
    ],
    "fr": [
        "training/europarl-v7.fr-en", "commoncrawl.fr-en", "training/news-commentary-v9.fr-en",
        "un/undoc.2000.fr-en", "giga-fren.release2.fixed",
    ],
}
MERGES = 211
SMALLER = [
    f"task.merges={MERGES}", "task.any_version=true", "model.d_model=16", "model.d_ff=23",
    "model.heads=2", "model.layers=1", "training.steps=12", "training.batch_tokens=2400",
    "training.warmup_steps=5", "training.average_every=2",
]


@pytest.fixture
def annotated(monkeypatch, capsys):
    """annotated("train", …) runs the command in this process; gives what it wrote to stdout."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["annotated", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    return run


def trained(annotated, name, folder, out, *options):
    sets = [word for assignment in SMALLER for word in ("--set", assignment)]
    return annotated(
        "train", "--recipe", name, "--data-dir", folder, "--out", out, "--seed", 3, *sets, *options
    )


def check_stages(said, name, folder, out, train, dropped, dev, test):
    """All that a run leaves, stage by stage. `dropped`: pairs that cleaning must leave out."""
    recipe, target = RECIPES[name], name.split("-")[2]
    lines = said.splitlines()
    # Cleaning, counted.
    kept = len(train) - sum(dropped.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    counts = json.loads((out / "cleaning.json").read_bytes())
    tidied = f" ({counts['words']['tidied']} tidied)" * (counts["words"]["tidied"] > 0)
    assert lines[1] == f"{kept} of {len(train)} training pairs kept{tidied}; left out: {reasons}"
    assert (counts["words"]["read"], counts["pieces"]["kept"]) == (len(train), kept)
    # A shared vocabulary: 256 bytes, 3 special ids, and the merges asked for.
    pieces = Tokenizer.load(out / "tokenizer.json")
    assert pieces.vocab_size == SMALLEST + MERGES
    for pair in (*train, *dev, *test):
        assert [pieces.decode(pieces.encode(text)) for text in pair] == list(pair)
    # The ids: in one file, read where they lie.
    ids = IdPairs(out / "train.ids")
    clean = [tuple(map(tidy, pair)) for pair in train]
    clean = [pair for pair in clean if all(0 < len(pieces.encode(text)) <= 256 for text in pair)]
    assert [tuple(map(pieces.decode, pair)) for pair in ids] == clean and len(ids) == kept
    owner = ids.lengths
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, mmap.mmap)
    # A dozen updates, of the paper's eight micro-batches each, at the paper's rate.
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 13))
    rates = [learning_rate(step, 16, 5, 1.0) for step in range(1, 13)]
    assert [row["rate"] for row in rows] == pytest.approx(rates)
    assert recipe.training.micro_batches == 8
    for row in rows:  # eight budgets of 300, padding included and not counted here
        assert 8 * 150 < row["tokens"] <= 2400
    assert rows[-1]["loss"] < rows[0]["loss"]
    # The mean of the last checkpoints, as many as the paper has (here all there are).
    model = load_file(out / "model.safetensors")
    steps = range(12, max(0, 12 - 2 * recipe.training.average), -2)
    states = [load_file(out / "states" / f"step-{n:08d}.model.safetensors") for n in steps]
    assert len(states) == min(recipe.training.average, 6)
    for weight, value in model.items():
        mean = sum(state[weight].double() for state in states) / len(states)
        torch.testing.assert_close(value.double(), mean, rtol=1e-5, atol=1e-7)
    # Greedy decoding of the whole test set, and both BLEUs of it.
    answers = (out / "translations.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    translator = Translator.load(out)
    assert answers == translator.translate([source for source, _ in test])
    references = [[answer for _, answer in test]]
    score = BLEU().corpus_score(answers, references).score
    found = {line.split()[0]: line.split()[1:] for line in lines[-5:]}
    assert found["bleu_13a"][0] == f"{score:.6g}" and found["tested"] == [str(len(test))]
    assert f"language:{target}" in " ".join(found["bleu_literature"])
    assert 1 < float(found["perplexity"][0]) < 2 * pieces.vocab_size


@pytest.mark.parametrize("name", ["wmt14-en-de-base", "wmt14-en-fr-big"])
def test_on_generated_sentences(annotated, name, tmp_path, made, laid_out):
    target = name.split("-")[2]
    sentences = made(311, 0, target)
    train, dev, test = sentences[:293], sentences[293:304], sentences[304:]
    train[7], train[101] = ("", train[7][1]), ("three " * 301, "drei")
    train[13] = (f"  {train[13][0]}\u00a0", train[13][1])
    folder, out = tmp_path / "data", tmp_path / "out"
    written = {str(path.relative_to(folder)) for path in
               laid_out(folder, f"wmt14-en-{target}", train, dev, test)}
    assert written == {
        *(f"wmt14/{stem}.{side}" for stem in FILES[target] for side in ("en", target)),
        *(f"newstest/newstest2013.{side}" for side in ("en", target)),
        *(f"newstest/en-{target}/newstest2014.{side}" for side in ("en", target)),
    }
    said = trained(annotated, name, folder, out)
    # Read in the order of the archives.
    stems = [folder / "wmt14" / stem for stem in FILES[target]]
    parts = Pairs(*((stem.with_name(f"{stem.name}.en"), stem.with_name(f"{stem.name}.{target}"))
                    for stem in stems))
    train = list(parts)
    assert len(train) == 293
    check_stages(
        said, name, folder, out, [tuple(map(tidy, pair)) for pair in train],
        {"empty": 1, "too many pieces": 1}, dev, test,
    )
    # Tested again from what was kept: the same scores.
    found = annotated("evaluate", "--model", out, "--data-dir", folder)
    assert [line for line in found.splitlines() if "bleu" in line or "perplexity" in line] == [
        line for line in said.splitlines() if line.startswith(("bleu", "perplexity"))
    ]
    # A script is told of the cleaning as well, here of a run that was finished before.
    told = json.loads(trained(annotated, name, folder, out, "--resume", "--quiet"))
    assert told["cleaning"] == [said.splitlines()[1]]



def test_on_real_news(annotated, tmp_path, real_data, laid_out):
    """newstest 2008 to 2012 stand in for the training text; some of 2013 and 2014 are tested."""
    sentences = {
        year: list(Pairs(tuple(
            real_data / f"newstest/{'en-de/' * (year == 2014)}newstest{year}.{side}.gz"
            for side in ("en", "de")
        )))
        for year in range(2008, 2015)
    }
    train = [pair for year in range(2008, 2013) for pair in sentences[year][:97]]
    dev, test = sentences[2013][:11], sentences[2014][:7]
    # A sentence beyond an eighth of the small budget would need a larger one.
    train, dev, test = (
        [tuple(map(tidy, pair)) for pair in some if max(map(len, pair)) < 260]
        for some in (train, dev, test)
    )
    train.insert(31, ("", "leer"))
    folder, out = tmp_path / "data", tmp_path / "out"
    laid_out(folder, "wmt14-en-de", train, dev, test)
    said = trained(annotated, "wmt14-en-de-base", folder, out)
    check_stages(said, "wmt14-en-de-base", folder, out, train, {"empty": 1}, dev, test)


def test_a_sentence_beyond_the_budget_is_refused_with_both_numbers(
    monkeypatch, capsys, tmp_path, made, laid_out
):
    """Of 25 000 tokens each of eight micro-batches has 3125, of a limit of 256 pieces."""
    training = RECIPES["wmt14-en-de-base"].training
    assert training.batch_tokens // training.micro_batches > 1 + 256
    sentences = made(97, 0)
    laid_out(tmp_path / "data", "wmt14-en-de", sentences, sentences[:3], sentences[:3])
    arguments = ["train", "--recipe", "wmt14-en-de-base", "--data-dir", tmp_path / "data", "--out",
                 tmp_path / "out"]
    sets = [*SMALLER, "training.batch_tokens=160", "task.merges=31"]
    arguments += [word for assignment in sets for word in ("--set", assignment)]
    monkeypatch.setattr(sys, "argv", ["annotated", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert re.search(r"annotated: pair \d+ has \d+ tokens; the budget is 20\n",
                     capsys.readouterr().err)
