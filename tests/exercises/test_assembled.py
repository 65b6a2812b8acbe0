"""The model made of a reader's functions is the book's model, when they are right."""

import pytest
import torch

from annotated.exercises import EXERCISES, Assembled, assemble, with_mistake
from annotated.model import TransformerConfig
from annotated.model.contract import Cache, Seq2Seq
from annotated.notebook import book_model
from annotated.translation import Translator, greedy_search

BOOK = book_model()
CONFIG = BOOK.model.config


def with_weights(model):
    model.load_state_dict(BOOK.model.state_dict())
    return model


def test_its_parameters_are_the_transformers():
    ours, theirs = assemble(CONFIG).state_dict(), BOOK.model.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


def test_it_computes_what_the_transformer_computes():
    model = with_weights(assemble(CONFIG))
    batch = BOOK.batch_of([342, 7, 123_456])
    with torch.no_grad():
        ours, theirs = model(batch.source, batch.target), BOOK.model(batch.source, batch.target)
    real = batch.target != CONFIG.pad_id
    torch.testing.assert_close(ours[real], theirs[real])


def test_it_keeps_the_contract_and_translates():
    model = with_weights(assemble(CONFIG))
    source = BOOK.batch_of(BOOK.unseen(20)).source
    assert isinstance(model, Seq2Seq) and isinstance(model.start(source, 3), Cache)
    ours, theirs = greedy_search(model, source), greedy_search(BOOK.model, source)
    assert [h.tokens for h in ours] == [h.tokens for h in theirs]
    assert Translator(model, BOOK.tokenizer).translate([BOOK.source]) == [BOOK.target]


def test_only_right_answers_are_taken():
    calls = []

    def sublayer(x, f, norm):
        calls.append(1)
        return norm(x + f(x))

    def positions(n, d_model):
        return torch.zeros(n, d_model)

    model = with_weights(assemble(CONFIG, sublayer=sublayer, positions=positions, causal=None))
    calls.clear()
    assert model.yours == ["sublayer"]
    assert Translator(model, BOOK.tokenizer).translate([BOOK.source]) == [BOOK.target]
    assert len(calls) > CONFIG.layers * 5


@pytest.mark.parametrize("name", EXERCISES)
def test_each_part_is_used(name):
    def never(*inputs):
        raise LookupError(name)

    model = with_weights(Assembled(CONFIG, {name: never}))
    with pytest.raises(LookupError, match=name):
        Translator(model, BOOK.tokenizer).translate([BOOK.source])


def test_a_mistake_can_be_put_in():
    model = with_weights(with_mistake(CONFIG, "attention", "softmax over the queries"))
    assert Translator(model, BOOK.tokenizer).translate([BOOK.source]) != [BOOK.target]
    with pytest.raises(ValueError, match="no mistake 'none' in causal; expected one of mask"):
        with_mistake(CONFIG, "causal", "none")


def test_only_the_papers_kind_of_model():
    with pytest.raises(ValueError, match="norm is 'pre'"):
        assemble(TransformerConfig.tiny(norm="pre"))
    with pytest.raises(ValueError, match="no exercise 'layer'"):
        assemble(CONFIG, layer=None)
