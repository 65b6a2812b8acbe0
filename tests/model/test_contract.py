"""What trainer and search ask of a model is what the protocols say, and nothing else."""

import pytest
import torch
from torch import nn

from annotated.data.batches import collate
from annotated.model import Cache, Seq2Seq, Transformer, TransformerConfig
from annotated.model.contract import Seq2SeqConfig
from annotated.training import Trainer, TrainingConfig
from annotated.translation.search import greedy_search
from annotated.variations.controls import MODELS as CONTROLS

CONFIG = TransformerConfig.tiny(vocab_size=13, d_model=22, d_ff=29, heads=2, layers=1)
SOURCE = torch.tensor([[5, 6, 7, 2], [9, 2, 0, 0]])
ASKED = {name for name in vars(Seq2Seq) if not name.startswith("_")}


class Only:
    """An object that has some attributes of another and no more; notes which were asked for."""

    def __init__(self, of, names):
        self.__dict__ |= {"_of": of, "_names": names, "_asked": set()}

    def __getattr__(self, name):
        if name not in self._names:
            raise AttributeError(f"{name} is not in the contract")
        self._asked.add(name)
        return getattr(self._of, name)


class Foreign(Only):
    """The least that is a model: it answers a source with its mean, whatever was said before."""

    class Module(nn.Module):
        config = Only(CONFIG, {"d_model", "max_length", "pad_id", "bos_id", "eos_id"})

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(13, 22)
            self.out = nn.Linear(22, 13)

        def forward(self, source, target):
            memory = self.encode(source).mean(1, keepdim=True)
            return self.out(memory.expand(-1, target.shape[1], -1))

        def encode(self, source):
            return self.table(source)

        def start(self, source, capacity, memory=None):
            return Mean((self.encode(source) if memory is None else memory).mean(1))

        def step(self, token, cache):
            assert len(token) == len(cache.mean)
            return self.out(cache.mean)

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(self.Module(), ASKED)

    def __call__(self, source, target):
        return self._of(source, target)


class Mean:
    def __init__(self, mean):
        self.mean = mean

    def select(self, rows):
        self.mean = self.mean[rows]


MODELS = {"Transformer": lambda: Transformer(CONFIG), "foreign": Foreign} | {
    name: lambda kind=kind: kind(CONFIG) for name, kind in CONTROLS.items()
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_it_is_a_model_as_the_contract_has_it(make):
    model = make()
    assert isinstance(model, Seq2Seq)
    assert isinstance(model.config, Seq2SeqConfig)
    cache = model.start(SOURCE, 3)
    assert isinstance(cache, Cache)
    token = torch.tensor([1, 1])
    assert model.step(token, cache).shape == (2, 13)
    assert model(SOURCE, token[:, None]).shape == (2, 1, 13)
    assert model.encode(SOURCE).shape == (2, 4, 22)


@pytest.mark.parametrize("lacking", ["config", "encode", "start", "step", "parameters"])
def test_what_lacks_a_part_is_none(lacking):
    assert not isinstance(Only(Foreign(), ASKED - {lacking}), Seq2Seq)


def test_search_asks_for_no_more():
    model = Foreign()
    found = greedy_search(model, SOURCE, extra_length=3)
    assert len(found) == 2 and all(len(h.tokens) <= 7 for h in found)
    assert {"start", "step"} <= model._asked <= ASKED
    memory = model.encode(SOURCE)
    again = greedy_search(model, SOURCE, memory=memory, extra_length=3)
    assert [h.tokens for h in again] == [h.tokens for h in found]


def test_the_trainer_asks_for_no_more():
    model = Foreign()
    batch = collate([([5, 6], [4, 7]), ([9], [8])], 0, 1, 2)
    trainer = Trainer(model, TrainingConfig(steps=20, warmup_steps=5))
    losses = [trainer.update(batch).loss for _ in range(20)]
    assert losses[-1] < losses[0]
    assert model._asked <= ASKED
