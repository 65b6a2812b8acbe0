"""The first screen: README and front page say the same, and the picture is the model's."""

import importlib.util
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from annotated.analysis.swaps import swap_case, swap_cases
from annotated.data import numbers
from annotated.figures.style import png
from annotated.figures.swap import swap_picture
from annotated.translation import Translator

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT = (ROOT / "book" / "index.md").read_text(encoding="utf-8").split("---\n", 2)[2].lstrip()
PICTURE = ROOT / "book" / "_static" / "swap.png"
ALT = re.search(r"!\[(.+?)\]\(book/_static/swap\.png\)", README)[1]


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


def plain(text):
    """Without links and line breaks, which the two files place differently."""
    return " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).split())


def test_picture_is_what_the_shipped_weights_draw(translator, tmp_path):
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    assert pictures.TARGET == PICTURE
    (tmp_path / "now.png").write_bytes(png(swap_picture(translator, 342, 346), "white"))
    plt.close("all")
    stored, now = plt.imread(PICTURE), plt.imread(tmp_path / "now.png")
    assert stored.shape == now.shape
    assert (np.abs(stored - now).max(-1) > 0.1).mean() < 0.002, "run tools/pictures.py"


def test_alternative_text_is_true_and_the_same_in_both(translator):
    assert f":alt: {ALT}\n" in FRONT
    case = swap_case(translator, 342, 346)
    pieces = translator.tokenizer.pieces(numbers.spell(342, "en"))
    assert case.swap.before in ALT and case.swap.after in ALT and case.exact
    assert [pieces[place] for place in case.swap.places] == ["two"]
    assert len(pieces) + 1 == 7 and "seven coloured strips" in ALT


def test_the_count_of_random_cases_is_measured(translator):
    said = {
        re.search(r"in (\d+) of (\d+) random cases", plain(text)).groups()
        for text in (README, FRONT)
    }
    cases = swap_cases(translator, 200, seed=0)
    right = sum(case.exact for case in cases)
    (numerals,) = said
    assert int(numerals[1]) == len(cases)
    # another processor may turn one argmax in two hundred sentences
    assert abs(int(numerals[0]) - right) <= 1
    assert not any(numbers.training_side(case.number) for case in cases)


def test_at_most_sixty_words_and_no_badge_before_the_picture():
    for text, mark in ((README, "!["), (FRONT, "```{image}")):
        before = text[: text.index(mark)]
        assert len(before.split()) <= 60
        assert "badge" not in before and "shields" not in before


def test_both_open_alike():
    """Title, question and a line of promise; on the front page the question is the headline."""
    title, question, promise = README[: README.index("![")].strip().split("\n\n")
    kicker, headline, *others = FRONT[: FRONT.index("<div")].strip().split("\n\n")
    assert kicker == f'<p class="kicker">{title.removeprefix("# ")}</p>'
    assert headline == f"# {question.strip('*')}" and question.endswith("?*")
    assert others == [promise]
    for sentence in ("The German changes exactly there.", "had never seen, as seven vectors."):
        assert sentence in plain(README) and sentence in plain(FRONT)


def test_every_command_named_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^make ([a-z]+)", README + FRONT, re.MULTILINE)
    assert named and set(named) <= targets
    commands = re.findall(r"annotated (train|translate|evaluate|recipes)", README + FRONT)
    assert set(commands) == {"train", "translate", "evaluate", "recipes"}
