"""The helpers of pages: source as it stands in the file, one station lit, the book's own model."""

import ast
import contextlib
import inspect
import json
import re
from pathlib import Path

import pytest
import torch
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.display import HTML, Markdown

import annotated
from annotated import notebook, paper
from annotated.analysis.effects import Effect
from annotated.analysis.interventions import hide
from annotated.analysis.scores import token_accuracy
from annotated.data import numbers
from annotated.data.batches import Batch, collate, pad, token_batches
from annotated.data.tokenizer import Tokenizer
from annotated.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    padding_mask,
    record_attention,
    scaled_dot_product_attention,
)
from annotated.notebook import (
    EXPLAINED,
    TRAINING_STATIONS,
    BookModel,
    as_json,
    book_model,
    explorer,
    show,
    stations,
    table,
    where,
)
from annotated.recipes import Score, recipe_named
from annotated.training import Trainer, label_smoothed_loss, learning_rate
from annotated.translation import Translator, greedy_search

PACKAGE = Path(annotated.__file__).parent
PAGES = Path(__file__).parents[1] / "book"

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
    "model/config.py": [
        (TransformerConfig, "TransformerConfig"),
        (TransformerConfig.tiny, "TransformerConfig.tiny"),
    ],
    "model/transformer.py": [
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
        other.model.double()
        torch.nn.init.zeros_(other.model.embedding.weight)
        for own in (book, book_model()):
            assert own.model.embedding.weight.dtype == torch.float32
            assert own.model.embedding.weight.abs().sum() > 1000

    def test_the_checkpoint_is_read_once(self, displayed, monkeypatch):
        calls, load = [], Translator.load
        monkeypatch.setattr(Translator, "load", lambda name: calls.append(name) or load(name))
        notebook.loaded.cache_clear()
        where("memory")
        book_model()
        where("encoder")
        assert calls == ["numbers-en-de"]

    def test_a_page_that_walks_the_way_lights_all_stations(self, book, monkeypatch):
        shown = []
        monkeypatch.setattr("annotated.notebook.display", shown.append)
        where()
        (html,) = shown
        assert html.data.count('class="here') == len(stations(book)) == html.data.count("<small>")
        assert "aria-current" not in html.data and " id=" not in html.data
        assert "aria-current" not in html.data

    def test_its_repr_is_short_and_has_the_sentence(self, book):
        assert repr(book) == (
            "BookModel(source='three hundred and forty-two', target='dreihundertzweiundvierzig')"
        )


@pytest.fixture(scope="module", params=["the book's", "other special ids"])
def toolkit(request, book):
    """The book's model, and a random one whose special ids are not the usual ones."""
    if request.param == "the book's":
        return book
    torch.manual_seed(0)
    config = TransformerConfig.tiny(
        vocab_size=420, d_model=22, heads=2, layers=1, pad_id=2, bos_id=0, eos_id=1
    )
    return BookModel(Transformer(config).eval(), book.tokenizer, book.source, book.target)


some = st.lists(st.integers(0, 999_999), min_size=1, max_size=5)


class TestToolkit:
    @settings(max_examples=11)
    @given(some)
    def test_a_batch_is_the_numbers_in_order_between_the_models_special_ids(self, toolkit, chosen):
        batch, config, encode = toolkit.batch_of(chosen), toolkit.model.config, (
            toolkit.tokenizer.encode
        )
        assert len(batch.source) == len(batch.target) == len(batch.labels) == len(chosen)
        for number, source, target, labels in zip(
            chosen, batch.source.tolist(), batch.target.tolist(), batch.labels.tolist(), strict=True
        ):
            english, german = (encode(numbers.spell(number, name)) for name in ("en", "de"))
            for ids, row in [
                ([*english, config.eos_id], source),
                ([config.bos_id, *german], target),
                ([*german, config.eos_id], labels),
            ]:
                assert row == ids + [config.pad_id] * (len(row) - len(ids))

    def test_the_running_sentence_is_a_batch_of_one_number(self, toolkit):
        one, same = toolkit.batch(), toolkit.batch_of([342])
        for name in ("source", "target", "labels"):
            assert torch.equal(getattr(one, name), getattr(same, name))

    def test_no_numbers_are_no_batch(self, toolkit):
        with pytest.raises(ValueError):
            toolkit.batch_of([])

    @settings(max_examples=11)
    @given(some)
    def test_the_mask_is_what_the_model_itself_sees(self, toolkit, chosen):
        source = toolkit.batch_of(chosen).source
        mask, model = toolkit.mask(source), toolkit.model
        assert mask.shape == (len(chosen), 1, 1, source.shape[1])
        assert mask[:, 0, 0].sum(1).tolist() == [
            len(toolkit.pieces(numbers.spell(n, "en"))) for n in chosen
        ]
        memory = model.encoder(model.embed(source, "source"), mask)
        assert torch.equal(memory, model.encode(source))

    def test_what_is_hidden_is_padding_and_no_key(self, toolkit):
        source = toolkit.batch_of([342, 777_777]).source
        hidden = toolkit.hide(source, [0, 3])
        assert not toolkit.mask(hidden)[:, 0, 0, [0, 3]].any()
        others = [place for place in range(source.shape[1]) if place not in (0, 3)]
        assert torch.equal(hidden[:, others], source[:, others])
        with pytest.raises(ValueError, match="no place 99"):
            toolkit.hide(source, [99])

    @pytest.mark.parametrize("name", ["encoder.layers.1.self_attention",
                                      "decoder.layers.1.cross_attention"])
    def test_one_head_of_the_running_sentence_looks_up_as_the_model_does(self, book, name):
        batch = book.batch()
        with record_attention(book.model) as seen:
            book.model(batch.source, batch.target)
        q, k, v = book.queries_keys_values(name, 1)
        _, weights = scaled_dot_product_attention(q, k, v)
        torch.testing.assert_close(weights, seen[name][0, 1].detach())
        layer = book.model.get_submodule(name)
        made = layer.split(layer.w_q(book.vectors(name)[None]))
        torch.testing.assert_close(q, made[0, 1].detach())

    @settings(max_examples=11)
    @given(some, st.integers(0, 2**31))
    def test_wrong_tokens_are_those_that_accuracy_misses(self, toolkit, chosen, seed):
        batch, model = toolkit.batch_of(chosen), toolkit.model
        logits = model(batch.source, batch.target)
        wrong = toolkit.wrong_tokens(batch, logits)
        real = toolkit.mask(batch.labels).sum()
        assert token_accuracy(model, [batch]) == pytest.approx(1 - wrong.sum() / real)
        logits = torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed))
        wrong = toolkit.wrong_tokens(batch, logits)
        assert not (wrong & ~toolkit.mask(batch.labels)[:, 0, 0]).any()
        effect = toolkit.wrong(batch, logits)
        assert effect == Effect(sum(map(any, wrong.tolist())), len(chosen))

    def test_the_shipped_model_is_right_and_wrong_where_labels_are_changed(self, book):
        batch = book.batch_of([342, 204, 402, 42])
        logits = book.model(batch.source, batch.target)
        assert book.wrong(batch, logits) == Effect(0, 4)
        batch.labels[2, 0] = batch.labels[3, 0]
        assert book.wrong_tokens(batch, logits).nonzero().tolist() == [[2, 0]]
        assert book.wrong(batch, logits) == Effect(1, 4)

    def test_translations_are_the_translators_and_follow_a_memory(self, toolkit):
        friends = [204, 402]
        source = toolkit.batch_of(friends).source
        english = [numbers.spell(n, "en") for n in friends]
        assert toolkit.translations(source) == toolkit.translator.translate(english)
        memory = toolkit.model.encode(source)
        assert toolkit.translations(source, memory) == toolkit.translations(source)

    def test_with_the_other_memory_it_says_the_other_number(self, book):
        source = book.batch_of([204, 402]).source
        swapped = book.model.encode(source).flip(0)
        assert book.translations(source, swapped) == ["vierhundertzwei", "zweihundertvier"]

    def test_the_decoder_reads_the_labels_one_place_later(self, book):
        assert book.shifted(book.target) == ["BOS", *book.pieces(book.target)[:-1]]
        assert len(book.shifted(book.target)) == book.batch().target.shape[1]


class TestUnseen:
    @settings(max_examples=7)
    @given(st.integers(1, 211), st.integers(0, 2**31))
    def test_all_are_different_held_out_and_the_first_of_more(self, count, seed):
        found = BookModel.unseen(count, seed)
        assert len(set(found)) == len(found) == count and all(map(numbers.held_out, found))
        assert BookModel.unseen(211, seed)[:count] == found

    def test_keep_takes_some_of_them_in_the_same_order(self):
        def odd(number):
            return number % 2 == 1

        found = BookModel.unseen(50, seed=3, keep=odd)
        assert found == list(filter(odd, BookModel.unseen(150, seed=3)))[:50]

    def test_those_that_end_like_ours_have_every_piece_at_its_place(self, book):
        """Thousands, hundreds, tens from 20 and a unit, none of them 0, each one piece."""
        found = BookModel.unseen(60, seed=1, keep=book.ends_like_ours)
        assert all(n >= 1000 and n // 100 % 10 and n // 10 % 10 >= 2 and n % 10 for n in found)
        cut = [book.pieces(numbers.spell(n, "en")) for n in found]
        units = [numbers.spell(n % 10, "en") for n in found]
        tens = [numbers.spell(n // 10 % 10 * 10, "en") for n in found]
        assert [row[5] for row in cut] == tens and [row[7] for row in cut] == units
        assert {(row[1], *row[3:5], row[6], row[8]) for row in cut} == {
            ("thousand,", "hundred", "and", "-", "EOS")
        }
        assert book.batch_of(found).source.shape == (60, 9)

    def test_a_batch_of_them_is_that_of_the_same_numbers(self, book):
        found, batch = book.unseen_batch(7, seed=5, keep=book.ends_like_ours)
        assert found == book.unseen(7, seed=5, keep=book.ends_like_ours)
        assert batch.source.equal(book.batch_of(found).source)
        assert len(book.unseen_batch()[0]) == 300

    @pytest.mark.parametrize("number, like", [(342, False), (1342, True), (1340, False)])
    def test_ours_itself_lacks_the_thousands(self, book, number, like):
        assert book.ends_like_ours(number) == like

    @pytest.mark.parametrize("count, most", [(12, 11), (0, 0), (-3, 0)])
    def test_what_there_is_not_is_refused_with_how_many_there_are(self, count, most):
        """Below 100 one number in ten is held out, and 42."""
        with pytest.raises(ValueError) as caught:
            BookModel.unseen(count, keep=lambda number: number < 100)
        assert str(caught.value) == f"count is {count}; expected 1 to {most}"


class TestTable:
    ROWS = [("of", "ours", "n"), ("a <b>", "x\ny", 7), ("&", "–", 2.5)]

    def cells(self, rows, title="Sizes"):
        page = BeautifulSoup(table(title, rows).data, "html.parser")
        return page, [row.find_all(["th", "td"]) for row in page.find_all("tr")]

    def test_every_cell_stands_where_it_was_given(self):
        page, rows = self.cells(self.ROWS)
        texts = [[cell.get_text("\n") for cell in row] for row in rows]
        assert texts == [[str(value) for value in row] for row in self.ROWS]
        assert page.div["aria-label"] == "Sizes" and page.div["role"] == "region"

    def test_headings_are_of_columns_and_first_cells_of_rows(self):
        _, (top, *body) = self.cells(self.ROWS)
        assert [cell.get("scope") for cell in top] == ["col"] * 3
        assert [[cell.get("scope") for cell in row] for row in body] == [["row", None, None]] * 2

    def test_numbers_stand_on_the_right_and_texts_on_the_left(self):
        _, (_, *body) = self.cells(self.ROWS)
        right = [["text-align:right" in cell["style"] for cell in row] for row in body]
        assert right == [[False, False, True]] * 2

    @pytest.mark.parametrize("text, number", [
        ("0.50", True), ("-1.9", True), ("≈ 95 %", True), ("≈ 3.1e-07", True),
        ("37\u202f000", True), ("12 of 300", False), ("3 s", False), ("", False), ("–", False),
        ("%", False),
    ])
    def test_a_text_that_is_a_number_stands_on_the_right(self, text, number):
        _, (_, (_, cell)) = self.cells([("of", "what"), ("ours", text)])
        assert ("text-align:right" in cell["style"]) == number

    def test_a_heading_stands_over_its_numbers(self):
        rows = [("n", "some", "all"), (1, "0.5", "0.5"), (2, "none", "≈ 3")]
        _, (top, *_) = self.cells(rows)
        assert ["text-align:right" in cell["style"] for cell in top] == [True, False, True]

    @pytest.mark.parametrize("value, shown", [
        (9999, "9999"), (10_000, "10\u202f000"), (-1_234_567, "-1\u202f234\u202f567"),
        (65e6, "65000000.0"),
    ])
    def test_thousands_stand_apart_from_ten_thousand_on(self, value, shown):
        _, (_, (_, cell)) = self.cells([("of", "what"), ("ours", value)])
        assert cell.get_text() == shown

    @pytest.mark.parametrize("rows, said", [([], "[]"), ([()], "[0]"), ([(1, 2), (3,)], "[1, 2]")])
    def test_rows_of_unlike_length_are_refused(self, rows, said):
        with pytest.raises(ValueError) as caught:
            table("Sizes", rows)
        assert str(caught.value) == (
            f"rows have {said} cells; expected as many in each, at least 1"
        )


class TestExplorer:
    def made(self, displayed, data, fallback="<p>What it shows.</p>", name="head-cutter"):
        explorer(name, data, fallback)
        (made,) = displayed
        page = BeautifulSoup(made.data, "html.parser")
        assert isinstance(made, HTML) and str(page).count("<") == made.data.count("<")
        return page.div

    def test_script_finds_it_by_its_name_and_the_fallback_stands_before_the_data(self, displayed):
        div = self.made(displayed, {"a": 1})
        assert div["class"] == ["explorer"] and div["data-explorer"] == "head-cutter"
        text, data = div.find_all(True, recursive=False)
        assert (text.name, text.text) == ("p", "What it shows.")
        assert (data.name, data["type"]) == ("script", "application/json")

    def test_the_figure_before_can_be_the_fallback(self, displayed):
        (data,) = self.made(displayed, {}, None).find_all(True)
        assert data.name == "script"

    def test_pages_have_a_script_and_a_fallback_for_each(self):
        made = 0
        for page in PAGES.glob("*.ipynb"):
            before = []  # what the last cell in sight shows
            for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
                if "remove-cell" in cell["metadata"].get("tags", []):
                    continue
                shown = [output.get("data", {}) for output in cell.get("outputs", [])]
                for html in ("".join(data.get("text/html", "")) for data in shown):
                    for place in BeautifulSoup(html, "html.parser").select(".explorer"):
                        script = PAGES / "_static" / "explorers" / f"{place['data-explorer']}.js"
                        assert script.is_file(), page
                        assert place.find(True).name != "script" or any(
                            "image/png" in data for data in before), page
                        made += 1
                before = shown
        assert made

    def test_a_table_is_a_fallback(self, displayed):
        div = self.made(displayed, [], table("Sizes", [("of", "n"), ("a", 1)]))
        assert [cell.text for cell in div.find_all(["th", "td"])] == ["of", "n", "a", "1"]

    def test_exact_data_arrive_as_they_are_even_what_looks_like_tags(self, displayed):
        data = {"text": "</script><!-- \"zwei\" \\ é ≤", "rows": [[1, -2], [], [True, None]]}
        assert json.loads(self.made(displayed, data).script.string) == data

    def test_floats_are_written_as_measured_and_tensors_as_lists(self, displayed):
        data = {"x": (0.5, -1 / 3), "t": torch.tensor([[1, 2]]), "f": torch.tensor([2.0, 1e-9])}
        found = json.loads(self.made(displayed, data).script.string)
        assert found == {"x": ["≈0.5", "≈-0.333333"], "t": [[1, 2]], "f": ["≈2", "≈1e-09"]}

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_nothing_of_a_float_is_compared_between_machines(self, value):
        """nbval blanks it to the last digit, and to six digits it is the number."""
        written = as_json(value)
        rule = re.search(r"^regex: (.*)$", (PAGES.parent / "tools" / "nbval.cfg").read_text(
            encoding="utf-8"), re.MULTILINE)[1]
        assert re.sub(rule, "MEASURED", written) == "MEASURED"
        assert float(written[1:]) == pytest.approx(value, rel=1e-5)

    @pytest.mark.parametrize("name", ["", "Heads", "a b", "a/b", "../x", "a-", 'a"b', "a1"])
    def test_a_name_that_is_no_file_is_refused(self, displayed, name):
        with pytest.raises(ValueError, match="name is .*expected small letters"):
            explorer(name, {}, "<p>.</p>")
        assert displayed == []

    @pytest.mark.parametrize("data, error, said", [
        ({"a": [float("nan")]}, ValueError, "data hold nan; expected finite"),
        (torch.tensor(float("inf")), ValueError, "data hold inf; expected finite"),
        ({1: 2}, TypeError, r"data have keys \[1\]; expected texts"),
        ([{3}], TypeError, "data hold a set; expected what JSON has"),
    ])
    def test_what_is_not_json_is_refused(self, displayed, data, error, said):
        with pytest.raises(error, match=said):
            explorer("heads", data, "<p>.</p>")
        assert displayed == []

    @pytest.mark.parametrize("fallback", ["", "  \n", HTML(" ")])
    def test_an_empty_fallback_is_refused(self, displayed, fallback):
        with pytest.raises(ValueError, match="explorer 'heads' has an empty fallback"):
            explorer("heads", {}, fallback)
        assert displayed == []


STATIONS = [
    "text", "pieces", "ids", "vectors", "+ positions", "encoder", "memory", "decoder",
    "distribution", "word",
]


UPDATE = ["batch", "loss", "gradient", "step"]


def stops(displayed):
    (made,) = displayed
    assert isinstance(made, HTML)
    page = BeautifulSoup(made.data, "html.parser")
    assert str(page).count("<") == made.data.count("<"), "every tag is closed once"
    return page.ol, page.find_all("li")


class TestWhere:
    @pytest.mark.parametrize("station", STATIONS + UPDATE)
    def test_one_station_is_lit_with_its_shape_and_the_way_there_is_behind(
        self, displayed, book, station
    ):
        where(station)
        line, found = stops(displayed)
        way = UPDATE if station in UPDATE else STATIONS
        assert [stop.a.text for stop in found] == way
        place = way.index(station)
        kinds = ["done"] * place + ["here"] + ["ahead"] * (len(way) - place - 1)
        assert [stop["class"][0] for stop in found] == kinds
        (lit,) = [stop for stop in found if stop.get("aria-current")]
        assert lit is found[place] and lit["aria-current"] == "step"
        shapes = {name: ours for name, (ours, _) in stations(book).items()}
        assert lit.small.text == (shapes | TRAINING_STATIONS)[station]
        assert not any(stop.small for stop in found if stop is not lit)
        title = "The way of one update" if station in UPDATE else "The way through the model"
        assert line["aria-label"] == title

    def test_several_are_lit_in_their_order_and_can_be_led_to(self, displayed):
        where("ids", "text", "pieces")
        _, found = stops(displayed)
        assert [stop["class"][0] for stop in found] == ["here"] * 3 + ["ahead"] * 7
        assert [stop.get("id") for stop in found[:4]] == ["at-text", "at-pieces", "at-ids", None]

    def test_every_station_leads_to_a_page_and_to_a_strip_that_is_there(self):
        strips = (PAGES / "one-sentence.ipynb").read_text(encoding="utf-8")
        assert list(EXPLAINED) == STATIONS + UPDATE
        for address in EXPLAINED.values():
            page, _, place = address.partition("#")
            assert (PAGES / page).is_file()
            assert not place or (page == "one-sentence.ipynb" and f'id=\\"{place}\\"' in strips)

    def test_two_ways_at_once_are_refused(self, displayed):
        with pytest.raises(ValueError, match="stations loss, memory are not all of one way"):
            where("loss", "memory")
        assert displayed == []

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
        names = ", ".join(STATIONS + UPDATE)
        assert str(caught.value) == f"no station {station!r}; expected one of {names}"
        assert displayed == []


SPECIAL_IDS = [collate, pad, padding_mask, hide, label_smoothed_loss]


def literal_ids(source):
    """Calls that give one of `SPECIAL_IDS` a special id as a number."""
    parameters = {f.__name__: list(inspect.signature(f).parameters) for f in SPECIAL_IDS}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            names = parameters.get(getattr(node.func, "id", getattr(node.func, "attr", "")), [])
            given = [*zip(names, node.args), *((k.arg, k.value) for k in node.keywords)]
            if any(isinstance(value, ast.Constant) for name, value in given
                   if name in ("pad_id", "bos_id", "eos_id")):
                yield ast.unparse(node)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.ipynb")), ids=lambda page: page.stem)
def test_no_page_writes_a_special_id_as_a_number(page):
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [found for source in code if "%pip" not in source for found in literal_ids(source)] == []


@pytest.mark.parametrize(
    "source, count",
    [
        ("collate(ids, 0, 1, 2)", 1),
        ("collate(ids, pad_id=0, bos_id=1, eos_id=2)", 1),
        ("padding_mask(source, 0) & mask", 1),
        ("label_smoothed_loss(logits, labels, 0.1, 0)", 1),
        ("label_smoothed_loss(logits, labels, 0.1, config.pad_id)", 0),
        ("model(padding_mask(x, 0), hide(x, [7], pad_id=0))", 2),
        ("book.mask(source), other(x, 0)", 0),
    ],
)
def test_what_counts_as_a_special_id_written_as_a_number(source, count):
    assert len(list(literal_ids(source))) == count
