"""The helpers of pages: source as it stands in the file, one station lit, the book's own model."""

import ast
import contextlib
from pathlib import Path

import pytest
import torch
from bs4 import BeautifulSoup
from IPython.display import HTML, Markdown

import annotated
from annotated import notebook, paper
from annotated.data import numbers
from annotated.data.batches import Batch, token_batches
from annotated.data.tokenizer import Tokenizer
from annotated.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    record_attention,
    scaled_dot_product_attention,
)
from annotated.notebook import book_model, show, stations, where
from annotated.recipes import Score, recipe_named
from annotated.training import Trainer, label_smoothed_loss, learning_rate
from annotated.translation import greedy_search

PACKAGE = Path(annotated.__file__).parent

SHOWN = {
    "training/loss.py": [(label_smoothed_loss, "label_smoothed_loss")],
    "training/schedule.py": [(learning_rate, "learning_rate")],
    "training/trainer.py": [(Trainer, "Trainer"), (Trainer.update, "Trainer.update")],
    "translation/search.py": [(greedy_search, "greedy_search")],
    "data/batches.py": [(Batch, "Batch"), (token_batches, "token_batches")],
    "data/tokenizer.py": [(Tokenizer.train, "Tokenizer.train")],
    "model/attention.py": [
        (scaled_dot_product_attention, "scaled_dot_product_attention"),
        (record_attention, "record_attention"),
        (MultiHeadAttention, "MultiHeadAttention"),
        (MultiHeadAttention.attend, "MultiHeadAttention.attend"),
    ],
    "model/transformer.py": [
        (TransformerConfig, "TransformerConfig"),
        (TransformerConfig.tiny, "TransformerConfig.tiny"),
        (Transformer, "Transformer"),
        (Transformer.decode, "Transformer.decode"),
    ],
    "recipes/recipe.py": [(recipe_named, "recipe_named")],
    "recipes/exact.py": [(Score, "Score")],
}


@pytest.fixture
def displayed(monkeypatch):
    """What a page would get, in order."""
    found = []
    monkeypatch.setattr(notebook, "display", found.append)
    return found


def in_file(file, name):
    """The lines of one definition, decorators included, as they stand in the file."""
    source = (PACKAGE / file).read_text(encoding="utf-8")
    node = ast.parse(source)
    for part in name.split("."):
        (node,) = [n for n in node.body if getattr(n, "name", None) == part]
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in lines)


@pytest.fixture(scope="module")
def book():
    return book_model()


class TestShow:
    @pytest.mark.parametrize(
        ("file", "thing", "name"),
        [pytest.param(file, *pair, id=pair[1]) for file, pairs in SHOWN.items() for pair in pairs],
    )
    def test_it_is_the_source_as_it_stands_in_the_file(self, displayed, file, thing, name):
        show(thing)
        (made,) = displayed
        assert isinstance(made, Markdown)
        module = "annotated." + file.removesuffix(".py").replace("/", ".")
        assert made.data == f"`{module}.{name}`\n\n```python\n{in_file(file, name)}\n```"

    def test_what_is_shown_here_is_wrapped_by_the_check_of_shapes(self):
        """Else the tests above would say nothing of the wrappers."""
        assert hasattr(scaled_dot_product_attention, "__wrapped__")
        assert hasattr(Transformer.decode, "__wrapped__")

    def test_several_come_in_order(self, displayed):
        show(learning_rate, label_smoothed_loss)
        assert ["learning_rate" in made.data for made in displayed] == [True, False]

    def test_a_method_of_an_object_is_its_class_s(self, displayed, book):
        show(book.model.decode, Transformer.decode)
        assert displayed[0].data == displayed[1].data

    def test_what_has_no_source_is_not_shown(self, displayed):
        with pytest.raises(TypeError):
            show(42)
        assert displayed == []


class TestBookModel:
    def test_the_sentence_is_seven_pieces_in_and_four_out(self, book):
        assert (book.source, book.target) == (
            "three hundred and forty-two", "dreihundertzweiundvierzig"
        )
        english = ["three", "hundred", "and", "forty", "-", "two", "EOS"]
        assert book.pieces(book.source) == english
        assert book.pieces(book.target) == ["dreihundert", "zwei", "undvierzig", "EOS"]
        assert numbers.held_out(notebook.SENTENCE)

    def test_its_batch_is_what_the_model_is_trained_on(self, book):
        batch, tokenizer = book.batch(), book.tokenizer
        assert batch.source.shape == (1, 7)
        assert batch.target.shape == batch.labels.shape == (1, 4)
        source, target = tokenizer.encode(book.source), tokenizer.encode(book.target)
        assert batch.source[0].tolist() == [*source, tokenizer.eos_id]
        assert batch.target[0].tolist() == [tokenizer.bos_id, *target]
        assert batch.labels[0].tolist() == [*target, tokenizer.eos_id]

    @pytest.mark.parametrize("number", [342, 204, 402, 7])
    def test_ids_are_what_the_encoder_reads(self, book, number):
        text = numbers.spell(number, "en")
        ids = book.ids(text)
        assert ids.dtype == torch.int64
        assert ids[0].tolist() == [*book.tokenizer.encode(text), book.tokenizer.eos_id]
        assert ids.shape == (1, len(book.pieces(text)))

    def test_the_model_is_trained_ready_and_says_the_target(self, book):
        assert not book.model.training
        (found,) = greedy_search(book.model, book.ids(book.source))
        assert book.tokenizer.decode(found.tokens) == book.target

    def test_each_page_gets_its_own(self, book):
        other = book_model()
        assert other.model is not book.model
        assert torch.equal(other.model.embedding.weight, book.model.embedding.weight)


STATIONS = [
    "text", "pieces", "ids", "vectors", "+ positions", "encoder", "memory", "decoder",
    "distribution", "word",
]


def chips(displayed):
    (made,) = displayed
    assert isinstance(made, HTML)
    page = BeautifulSoup(made.data, "html.parser")
    assert str(page).count("<") == made.data.count("<"), "every tag is closed once"
    return page.find_all("span", class_="station")


class TestWhere:
    @pytest.mark.parametrize("station", STATIONS)
    def test_one_station_is_lit_and_has_its_shapes(self, displayed, book, station):
        where(station)
        found = chips(displayed)
        names = [next(chip.stripped_strings) for chip in found]
        assert names == STATIONS
        (lit,) = [chip for chip in found if chip.get("aria-current")]
        assert lit is found[STATIONS.index(station)]
        assert lit["aria-current"] == "step" and lit["class"] == ["station", "here"]
        assert [chip for chip in found if "here" in chip["class"]] == [lit]
        ours, base = stations(book)[station]
        assert lit.small.text == f"here {ours} · base model {base}"
        assert not any(chip.small for chip in found if chip is not lit)

    def test_the_shapes_are_those_of_the_model(self, book):
        """Measured by hooks while the sentence runs through it."""
        model, batch, seen = book.model, book.batch(), {}
        parts = {model.encoder: "encoder", model.decoder: "decoder"}

        def listen(module, inputs, output):
            seen[parts[module]] = output[0].shape
            if module is model.encoder:
                seen["+ positions"] = inputs[0][0].shape

        with contextlib.ExitStack() as hooks, torch.no_grad():
            for part in parts:
                hooks.callback(part.register_forward_hook(listen).remove)
            logits = model(batch.source, batch.target)
            seen |= {
                "vectors": model.embedding(batch.source)[0].shape,
                "memory": model.encode(batch.source)[0].shape,
                "pieces": batch.source[0].shape,
                "ids": batch.source[0].shape,
                "distribution": logits[0].shape,
                "word": logits[0].argmax(-1).shape,
            }
        ours = {name: " × ".join(map(str, shape)) for name, shape in seen.items()}
        assert ours == {name: own for name, (own, _) in stations(book).items() if name != "text"}

    def test_the_base_models_shapes_are_the_papers(self, book):
        base = {name: shape for name, (_, shape) in stations(book).items()}
        assert paper.BASE.d_model == 512
        assert base["memory"] == base["vectors"] == base["encoder"] == "m × 512"
        assert base["decoder"] == "n × 512" and base["distribution"] == "n × 37 000"

    @pytest.mark.parametrize("station", ["attention", "", "Memory", "positions"])
    def test_an_unknown_station_is_answered_with_those_there_are(self, displayed, station):
        with pytest.raises(ValueError) as caught:
            where(station)
        assert str(caught.value) == f"no station {station!r}; expected one of {', '.join(STATIONS)}"
        assert displayed == []
