"""Sentences in, sentences out: in order, whatever the batch; errors say which sentence."""

import shutil
from importlib.resources import files

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.data import numbers
from annotated.data.text import tidy
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import as_document, override, recipe_named
from annotated.translation import Search, Translator, beam_search, greedy_search, shipped
from annotated.translation import translator as module

drawn = st.lists(st.integers(0, 999_999), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def translator():
    return Translator.load("numbers-en-de")


def english(some):
    return [numbers.spell(n, "en") for n in some]


class TestTranslate:
    def test_some_sentences(self, translator):
        said = translator.translate(["two hundred and four", "four hundred and two"])
        assert said == ["zweihundertvier", "vierhundertzwei"]

    @settings(max_examples=7)
    @given(drawn, st.sampled_from([1, 2, 3]))
    def test_one_answer_a_sentence_in_order_whatever_the_batch_size(
        self, translator, some, batch_size
    ):
        sentences = english(some)
        together = translator.translate(sentences)
        assert together == translator.translate(sentences, batch_size)
        assert together == [translator.translate([sentence])[0] for sentence in sentences]

    def test_it_is_greedy_search_between_the_tokenizers_two_ends(self, translator):
        model, tokenizer = translator.model, translator.tokenizer
        for sentence in [*english([342, 7, 960_017]), "forty hundred Straße"]:
            source = torch.tensor([[*tokenizer.encode(sentence), tokenizer.eos_id]])
            (found,) = greedy_search(model, source)
            assert translator.translate([sentence]) == [tokenizer.decode(found.tokens)]

    def test_the_end_is_the_models_own_eos(self):
        """Also where the ids of the model are not the usual ones."""
        torch.manual_seed(0)
        tokenizer = Tokenizer([])
        config = TransformerConfig.tiny(
            vocab_size=tokenizer.vocab_size, d_model=22, heads=2, layers=1,
            pad_id=2, bos_id=0, eos_id=1,
        )
        model, sources = Transformer(config).eval(), []
        model.encoder.register_forward_pre_hook(lambda module, inputs: sources.append(inputs[1]))
        Translator(model, tokenizer).translate(["a", "abc"])
        (mask,) = sources
        # blank, letter, EOS: the shorter sentence has three, of which none is masked.
        assert mask[:, 0, 0].tolist() == [[True] * 3 + [False] * 2, [True] * 5]

    def test_it_leaves_the_mode_of_the_model_and_uses_no_dropout(self, translator):
        try:
            translator.model.train()
            assert translator.translate(english([342])) == ["dreihundertzweiundvierzig"]
            assert all(module.training for module in translator.model.modules())
        finally:
            translator.model.eval()

    def test_it_uses_no_random_number(self, translator):
        before = torch.get_rng_state()
        translator.translate(english([342, 7]))
        assert torch.equal(torch.get_rng_state(), before)

    def test_no_sentences_no_answers(self, translator):
        assert translator.translate([]) == []

    @pytest.mark.parametrize("empty", ["", " ", "\n\t ", "\u2003", "\ufeff"])
    @pytest.mark.parametrize("place", [0, 1, 4])
    def test_nothing_is_translated_to_nothing_in_its_place(self, translator, empty, place):
        sentences = english([342, 7, 42, 11])
        said = translator.translate(sentences)
        sentences.insert(place, empty)
        said.insert(place, "")
        assert translator.translate(sentences) == said
        assert translator.translate([empty] * 3) == ["", "", ""]

    @settings(max_examples=30, deadline=None)
    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    def test_any_unicode_has_some_answer(self, translator, text):
        (said,) = translator.translate([text])
        assert isinstance(said, str)
        assert tidy(text) or said == ""

    def test_a_lone_surrogate_is_no_character(self, translator):
        with pytest.raises(ValueError, match="lone surrogate"):
            translator.translate(["two", "forty\udcff"])


class TestSearch:
    def test_numbers_are_translated_greedily_unless_a_beam_is_asked_for(self, translator):
        assert translator.search == Search() and Search().beam == 1
        calls = []
        with pytest.MonkeyPatch.context() as patch:
            for name in ("greedy_search", "beam_search"):
                real = getattr(module, name)
                patch.setattr(module, name, lambda *a, name=name, real=real, **k: (
                    calls.append((name, k.get("beam"), k.get("alpha"))), real(*a, **k))[1])
            expected = translator.translate(["forty-two"])
            assert translator.translate(["forty-two"], beam=3) == expected
            assert translator.translate(["forty-two"], beam=5, alpha=1.0) == expected
        assert calls == [
            ("greedy_search", None, None), ("beam_search", 3, 0.6), ("beam_search", 5, 1.0)
        ]

    def test_a_recipe_may_say_how(self, translator):
        """What a checkpoint's notes hold, and what those of older ones lack."""
        recipe = override(recipe_named("numbers-en-de"), ["search.beam=3", "search.alpha=0.2"])
        made = Translator(translator.model, translator.tokenizer, {"recipe": as_document(recipe)})
        assert made.search == Search(beam=3, alpha=0.2)
        old = {name: part for name, part in as_document(recipe).items() if name != "search"}
        older = Translator(translator.model, translator.tokenizer, {"recipe": old})
        assert older.search == Search()
        with pytest.raises(ValueError, match="^the recipe's search is damaged: beam is 0"):
            Translator(
                translator.model, translator.tokenizer, {"recipe": {"search": {"beam": 0}}}
            )

    def test_it_is_beam_search_between_the_tokenizers_two_ends(self, translator):
        model, tokenizer = translator.model, translator.tokenizer
        for sentence in [*english([342, 960_017]), "forty hundred Straße"]:
            source = torch.tensor([[*tokenizer.encode(sentence), tokenizer.eos_id]])
            (found,) = beam_search(model, source, beam=4, alpha=0.3, n_best=3)
            said = translator.translate([sentence], beam=4, alpha=0.3)
            assert said == [tokenizer.decode(found[0].tokens)]
            (several,) = translator.n_best([sentence], 3, beam=4, alpha=0.3)
            assert [each.text for each in several] == [tokenizer.decode(h.tokens) for h in found]
            assert [each.score for each in several] == pytest.approx([h.score for h in found])

    @settings(max_examples=7, deadline=None)
    @given(drawn, st.sampled_from([1, 29, 500]))
    def test_a_beam_of_any_batch_gives_each_its_own_answer(self, translator, some, batch_tokens):
        sentences = english(some)
        together = translator.translate(sentences, batch_tokens, beam=3)
        assert together == [translator.translate([one], beam=3)[0] for one in sentences]

    def test_several_of_nothing_are_none(self, translator):
        found = translator.n_best(["two", "", "three"], 2, beam=2)
        assert [len(each) for each in found] == [2, 0, 2]
        assert (found[0][0].text, found[2][0].text) == ("zwei", "drei")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beam": 0}, "beam is 0; expected a number from 1"),
            ({"alpha": -1.0}, "alpha is -1.0; expected a number from 0"),
            ({"beam": 421}, "beam is 421; expected at most 420 words"),
        ],
    )
    def test_what_can_not_be_meant_is_refused(self, translator, options, message):
        with pytest.raises(ValueError) as caught:
            translator.translate(["two"], **options)
        assert str(caught.value) == message

    def test_more_than_the_beam_are_refused(self, translator):
        with pytest.raises(ValueError, match="^n_best is 3; expected 1 to beam, 2$"):
            translator.n_best(["two"], 3, beam=2)


class TestLongTexts:
    """Longer than any that the model was trained on: it is cut, and set together again."""

    @pytest.fixture
    def careful(self, translator):
        return Translator(translator.model, translator.tokenizer, search=Search(longest=12))

    def test_sentences_are_translated_one_by_one_and_stay_in_order(self, careful):
        numbers = [342, 7, 960_017, 42]
        text = " ".join(spell.capitalize() + "." for spell in english(numbers))
        said = careful.translate([text, "two"])
        each = [careful.translate([part])[0] for part in text.replace(". ", ".|").split("|")]
        assert said == [" ".join(each), "zwei"]

    def test_what_fits_is_translated_whole(self, translator):
        text = "Two. Three."
        source = torch.tensor([[*translator.tokenizer.encode(text), translator.tokenizer.eos_id]])
        (found,) = greedy_search(translator.model, source)
        assert translator.translate([text]) == [translator.tokenizer.decode(found.tokens)]

    def test_a_line_of_10_000_characters_has_a_translation(self, translator):
        for text in ("forty-two " * 1000, "x" * 10_000, "\u4f60" * 10_000):
            widths = []
            hook = translator.model.encoder.register_forward_pre_hook(
                lambda module, inputs, widths=widths: widths.append(inputs[0].shape[1])
            )
            (said,) = translator.translate([text])
            hook.remove()
            assert said and max(widths) <= translator.search.longest + 1

    def test_it_has_no_several_translations(self, careful):
        with pytest.raises(ValueError) as caught:
            careful.n_best(["two", "forty-two " * 9], 2, beam=2)
        assert str(caught.value).startswith("sentence 2 has ")
        assert "expected at most 12 where several translations are asked for" in str(caught.value)


class TestLoad:
    def test_shipped_models_have_names(self):
        assert "numbers-en-de" in shipped() and shipped() == sorted(shipped())
        for name in shipped():
            assert Translator.load(name).notes["recipe"]["name"] == name

    def test_a_folder_is_as_good_as_a_name(self, translator, tmp_path):
        shutil.copytree(files("annotated") / "weights" / "numbers-en-de", tmp_path / "mine")
        for folder in (tmp_path / "mine", str(tmp_path / "mine")):
            loaded = Translator.load(folder)
            assert loaded.notes == translator.notes
            assert loaded.translate(english([342])) == translator.translate(english([342]))

    def test_what_is_loaded_is_independent(self, translator):
        other = Translator.load("numbers-en-de")
        with torch.no_grad():
            other.model.embedding.weight.zero_()
        assert translator.translate(english([342])) == ["dreihundertzweiundvierzig"]

    @pytest.mark.parametrize("name", ["numbers-en-it", "no/such/folder"])
    def test_what_is_not_there_is_named_with_what_is(self, name):
        with pytest.raises(ValueError) as caught:
            Translator.load(name)
        assert str(caught.value) == (
            f"no model '{name}': neither a folder nor a shipped model ({', '.join(shipped())})"
        )

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "model").write_text("")
        with pytest.raises(ValueError, match="neither a folder nor a shipped model"):
            Translator.load(tmp_path / "model")

    def test_without_notes_it_has_none(self, translator):
        assert Translator(translator.model, translator.tokenizer).notes == {}


@pytest.mark.parametrize("text", ["two ", " two", "\u00a0two\t", "\ufefftwo"])
def test_white_space_around_a_sentence_changes_nothing(text):
    assert Translator.load("numbers-en-de").translate([text]) == ["zwei"]


def test_lengths_apart_keep_their_order_and_their_translation():
    texts = [numbers.spell(n, "en") for n in (342, 6, 918_273, 204, 42, 777_777)]
    translator = Translator.load("numbers-en-de")
    alone = [translator.translate([text])[0] for text in texts]
    assert translator.translate(texts, batch_tokens=17) == alone == translator.translate(texts)


def test_one_text_in_place_of_a_list_is_refused():
    with pytest.raises(ValueError, match="expected a list of texts"):
        Translator.load("numbers-en-de").translate("two")


def test_its_repr_is_one_line_with_kind_and_sizes(translator):
    size = sum(weight.numel() for weight in translator.model.parameters())
    assert repr(translator) == f"Translator(Transformer, {size:,} parameters, vocab_size=420)"
