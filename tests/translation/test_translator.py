"""Sentences in, sentences out: in order, whatever the batch; errors say which sentence."""

import shutil
from importlib.resources import files

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.data import numbers
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.translation import Translator, greedy_search, shipped

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

    @pytest.mark.parametrize("empty", ["", " ", "\n\t ", "\u2003"])
    @pytest.mark.parametrize("place", [0, 1, 4])
    def test_an_empty_sentence_is_counted_from_1(self, translator, empty, place):
        sentences = english([342, 7, 42, 11])
        sentences.insert(place, empty)
        with pytest.raises(ValueError) as caught:
            translator.translate(sentences)
        assert str(caught.value) == f"sentence {place + 1} is empty; expected at least one word"


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
