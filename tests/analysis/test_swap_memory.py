"""A swap of memory vectors does what it says, and nothing else."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from annotated.analysis.interventions import swap_memory
from annotated.data import numbers
from annotated.data.tokenizer import Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.translation import Translator, greedy_search

words = st.text("abcdefg", min_size=5, max_size=5)


@pytest.fixture(scope="module")
def untrained():
    """With no merges, a sentence of n ASCII letters is n + 1 pieces: the blank before it is one."""
    torch.manual_seed(3)
    tokenizer = Tokenizer([])
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 22, "d_ff": 29, "heads": 2, "layers": 1}
    return Translator(Transformer(TransformerConfig(**sizes)).eval(), tokenizer)


@pytest.fixture(scope="module")
def trained():
    return Translator.load("numbers-en-de")


def ids(translator, sentence):
    return [*translator.tokenizer.encode(sentence), translator.tokenizer.eos_id]


@torch.no_grad()
def by_hand(translator, sentence, other):
    """(places, before, after) with one vector after the other put in place."""
    model, decode = translator.model, translator.tokenizer.decode
    one, two = ids(translator, sentence), ids(translator, other)
    memory, given = (model.encode(torch.tensor([row])) for row in (one, two))
    places = [i for i in range(len(one)) if one[i] != two[i]]
    source = torch.tensor([one])
    before = decode(greedy_search(model, source)[0].tokens)
    for place in places:
        memory[0, place] = given[0, place]
    return places, before, decode(greedy_search(model, source, memory=memory)[0].tokens)


class TestUntrained:
    @settings(max_examples=5)
    @given(words, words)
    def test_it_is_what_one_gets_by_hand(self, untrained, sentence, other):
        found = swap_memory(untrained, sentence, other)
        assert (found.places, found.before, found.after) == by_hand(untrained, sentence, other)
        assert found.places == [1 + i for i in range(5) if sentence[i] != other[i]]

    @settings(max_examples=5)
    @given(words)
    def test_a_sentence_swapped_with_itself_stays(self, untrained, sentence):
        found = swap_memory(untrained, sentence, sentence)
        assert found.places == [] and found.before == found.after
        assert [found.before] == untrained.translate([sentence])

    def test_the_model_is_left_as_it_was_and_used_without_dropout(self, untrained):
        before = swap_memory(untrained, "abcde", "abxde")
        try:
            untrained.model.train()
            assert swap_memory(untrained, "abcde", "abxde") == before
            assert all(module.training for module in untrained.model.modules())
        finally:
            untrained.model.eval()

    @pytest.mark.parametrize(("sentence", "other"), [("abc", "abcd"), ("abcd", "a"), ("", "a")])
    def test_sentences_of_unequal_length_are_refused(self, untrained, sentence, other):
        have = [len(ids(untrained, text)) for text in (sentence, other)]  # EOS included
        with pytest.raises(ValueError) as caught:
            swap_memory(untrained, sentence, other)
        assert str(caught.value) == (
            f"'{sentence}' has {have[0]} pieces and '{other}' {have[1]}; expected the same number"
        )


class TestTrained:
    def test_342_with_the_two_of_346_says_346(self, trained):
        found = swap_memory(trained, "three hundred and forty-two", "three hundred and forty-six")
        assert found.places == [5]
        assert found.before == "dreihundertzweiundvierzig"
        assert found.after == "dreihundertsechsundvierzig"

    @settings(max_examples=13)
    @given(st.integers(100, 999), st.integers(100, 999))
    def test_before_is_the_translation_and_places_are_where_pieces_differ(
        self, trained, number, other
    ):
        sentences = numbers.spell(number, "en"), numbers.spell(other, "en")
        pieces = [trained.tokenizer.pieces(sentence) for sentence in sentences]
        assume(len(pieces[0]) == len(pieces[1]))
        found = swap_memory(trained, *sentences)
        assert (found.places, found.before, found.after) == by_hand(trained, *sentences)
        assert [found.before] == trained.translate([sentences[0]])
        assert found.places == [
            i for i, (a, b) in enumerate(zip(*pieces, strict=True)) if a != b
        ]
