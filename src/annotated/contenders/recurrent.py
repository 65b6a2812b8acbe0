"""§1, §2, Table 2: what the Transformer replaced, an LSTM encoder-decoder with attention."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from annotated.model.attention import masked_softmax
from annotated.model.checks import check_choice, check_ids, check_rows
from annotated.model.config import TransformerConfig
from annotated.model.embedding import TiedEmbedding
from annotated.model.transformer import Transformer

ATTENTIONS = ("before", "after", "none")

SourceIds = Int[Tensor, "batch m"]
Ids = Int[Tensor, "batch n"]
Memory = Float[Tensor, "batch m d_model"]


@dataclass(frozen=True)
class RecurrentConfig:
    """Every size and choice of a `RecurrentModel`; ValueError for bad."""

    vocab_size: int = 37_000  # tokens of the vocabulary, shared by both sides
    d_model: int = 512  # width of embeddings and of the memory's vectors
    d_state: int | None = None  # width of the decoder's state; None: d_model
    layers: int = 2  # LSTM layers of the encoder, and of the decoder
    # When the decoder attends. "before" a step, from the state it is in, as
    # Bahdanau et al. (2015): in training, too, one position after the other.
    # "after" it, from the new state, as Luong et al. (2015): then a whole
    # target is read in one call. "none": the whole sentence in one vector,
    # as Sutskever et al. (2014).
    attention: str = "before"
    dropout: float = 0.1  # share of components dropped between layers
    pad_id: int = 0  # the id that fills up a batch
    bos_id: int = 1  # the id that every target begins with
    eos_id: int = 2  # the id that every sentence ends with
    max_length: None = None  # a target may have any length

    def __post_init__(self):
        check_choice("attention", self.attention, ATTENTIONS)
        for name in ("vocab_size", "d_model", "layers", "d_state"):
            size = getattr(self, name)
            if not (size is None and name == "d_state") and size < 1:
                raise ValueError(f"{name} is {size}; expected at least 1")
        if self.d_model % 2:
            raise ValueError(
                f"d_model is {self.d_model}; expected an even number: "
                "two directions share it"
            )


@dataclass
class RecurrentCache:
    """What the decoder keeps: the memory, and a state of fixed size."""

    memory: Memory
    keys: Memory  # the memory as attention compares it, projected once
    mask: Bool[Tensor, "batch 1 m"]
    state: tuple[Tensor, Tensor]  # h and c, (layers, batch, d_state)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Repeat, reorder or drop rows of the batch, in place."""
        self.memory, self.mask = self.memory[rows], self.mask[rows]
        self.keys = self.keys[rows]
        h, c = self.state
        self.state = h[:, rows], c[:, rows]


class RecurrentModel(nn.Module):
    """An LSTM that reads, an LSTM that writes, additive attention between.

    The contract is the Transformer's: model(source, target) gives logits
    (batch, n, vocab), at position t for the word after target[:, t]. The
    encoder reads in both directions; the decoder starts from where they
    ended.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        d, layers, p = config.d_model, config.layers, config.dropout
        state = config.d_state or d
        self.embedding = TiedEmbedding(config.vocab_size, d)
        self.dropout = nn.Dropout(p)
        between = p if layers > 1 else 0.0  # LSTM warns of dropout after one
        self.encoder = nn.LSTM(
            d, d // 2, layers, dropout=between, bidirectional=True,
            batch_first=True,
        )
        self.bridge = nn.Linear(d, state)
        read = 2 * d if config.attention == "before" else d
        self.decoder = nn.LSTM(
            read, state, layers, dropout=between, batch_first=True
        )
        attends = config.attention != "none"
        self.out = nn.Linear(state + d if attends else state, d)
        if attends:
            self.w_q = nn.Parameter(torch.empty(state, d))
            self.w_k = nn.Parameter(torch.empty(d, d))
            self.w = nn.Parameter(torch.empty(d))
            for weight in (self.w_q, self.w_k):
                nn.init.xavier_uniform_(weight)
            nn.init.normal_(self.w, std=d**-0.5)
        for linear in (self.bridge, self.out):
            nn.init.zeros_(linear.bias)
        for lstm in (self.encoder, self.decoder):
            forget_nothing(lstm)

    def forward(
        self, source: SourceIds, target: Ids
    ) -> Float[Tensor, "batch n vocab"]:
        return self.decode(target, self.encode(source), source)

    def embed(self, ids: Ids, use: str) -> Float[Tensor, "batch n d_model"]:
        check_ids(ids, use, self.config.vocab_size)
        return self.dropout(self.embedding(ids))

    def lengths(self, source: SourceIds) -> Int[Tensor, " batch"]:
        """Tokens of each sentence; of padding alone, one is read."""
        return (source != self.config.pad_id).sum(1).clamp(min=1)

    def encode(self, source: SourceIds) -> Memory:
        """Source ids to memory: both directions' states at each piece."""
        lengths = self.lengths(source).cpu()
        packed = pack_padded_sequence(
            self.embed(source, "source"), lengths, batch_first=True,
            enforce_sorted=False,
        )
        memory, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True,
            total_length=source.shape[1],
        )
        return memory

    def cache(self, source: SourceIds, memory: Memory) -> RecurrentCache:
        """The decoder before its first step; source tells what is padding."""
        check_rows(source=source, memory=memory)
        half = self.config.d_model // 2
        rows = torch.arange(len(source), device=source.device)
        ends = memory[rows, self.lengths(source) - 1, :half]
        starts = memory[:, 0, half:]  # the other direction ends at the first
        h = torch.tanh(self.bridge(torch.cat([ends, starts], -1)))
        h = h.expand(self.config.layers, *h.shape).contiguous()
        attends = self.config.attention != "none"
        if not attends:  # nothing is kept but the state
            memory = memory[:, :0].clone()
        token = (source != self.config.pad_id)[:, None, : memory.shape[1]]
        return RecurrentCache(
            memory, memory @ self.w_k if attends else memory, token,
            (h, torch.zeros_like(h)),
        )

    def decode(
        self, target: Ids, memory: Memory, source: SourceIds
    ) -> Float[Tensor, "batch n vocab"]:
        """Logits of every position; at once, if attention comes after."""
        check_rows(source=source, target=target)
        cache, x = self.cache(source, memory), self.embed(target, "target")
        if self.config.attention != "before":
            return self.read(x, cache)
        steps = [self.read(word, cache) for word in x.split(1, dim=1)]
        return torch.cat(steps, dim=1)

    def read(
        self, x: Float[Tensor, "batch n d_model"], cache: RecurrentCache
    ) -> Float[Tensor, "batch n vocab"]:
        """Logits after each of n words; the cache moves on behind them."""
        if self.config.attention == "before":
            context = self.attend(cache.state[0][-1][:, None], cache)
            y, cache.state = self.decoder(
                torch.cat([x, context], -1), cache.state
            )
            y = torch.cat([y, context], -1)
        else:
            y, cache.state = self.decoder(x, cache.state)
            if self.config.attention == "after":
                y = torch.cat([y, self.attend(y, cache)], -1)
        return self.embedding.logits(torch.tanh(self.out(self.dropout(y))))

    def attend(
        self, query: Float[Tensor, "batch n d_state"], cache: RecurrentCache
    ) -> Float[Tensor, "batch n d_model"]:
        """§3.2.1: `additive_attention`; its k W_k is made once a sentence."""
        pairs = (query @ self.w_q)[:, :, None] + cache.keys[:, None]
        weights = masked_softmax(pairs.tanh() @ self.w, cache.mask)
        return weights @ cache.memory

    @torch.no_grad()
    def start(
        self, source: SourceIds, capacity: int, memory: Memory | None = None
    ) -> RecurrentCache:
        """Encode, and make the cache. It does not grow: `capacity` is unused.

        `memory` stands in for the encoder's output: for interventions.
        """
        memory = self.encode(source) if memory is None else memory
        return self.cache(source, memory)

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], cache: RecurrentCache
    ) -> Float[Tensor, "batch vocab"]:
        """Logits for the word after `token`, the next target position."""
        check_rows(token=token, cache=cache.memory)
        return self.read(self.embed(token[:, None], "target"), cache)[:, 0]


def forget_nothing(lstm: nn.LSTM) -> None:
    """Set the biases of its forget gates to 1 and all others to 0, so that it keeps much at first.

    As Jozefowicz et al. (2015) advise.
    """
    for name, bias in lstm.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(bias)
        if name.startswith("bias_ih"):
            with torch.no_grad():
                bias.chunk(4)[1].fill_(1.0)


def parameters_of(model: Callable[[Any], nn.Module], config: Any) -> int:
    """How many parameters `model(config)` has; they are not made."""
    with torch.device("meta"):
        return sum(p.numel() for p in model(config).parameters())


def equal_parameters(
    config: TransformerConfig, attention: str = "before", layers: int = 2
) -> RecurrentConfig:
    """An LSTM encoder-decoder with as many parameters as a Transformer.

    `config` is the Transformer's; vocabulary, special ids and dropout stay,
    `attention` and `layers` are the other's. The widest d_model that is not
    too much, and the d_state that then comes nearest: multiples of 8, which
    processors like, if that is within 1 %. If not, any widths: within 1 %
    unless the model is tiny.
    """
    wanted = parameters_of(Transformer, config)
    ours = RecurrentConfig(
        vocab_size=config.vocab_size, d_model=2, layers=layers,
        attention=attention, dropout=config.dropout, pad_id=config.pad_id,
        bos_id=config.bos_id, eos_id=config.eos_id,
    )

    def excess(d_model: int, d_state: int) -> int:
        widths = replace(ours, d_model=d_model, d_state=d_state)
        return parameters_of(RecurrentModel, widths) - wanted

    for unit in (8, 2):
        d, step = unit, 4096
        while step >= unit:  # by halves, to the last width that fits
            d += step if excess(d + step, d + step) <= 0 else 0
            step //= 2
        states = range(d, d + 5 * unit, 1 if unit == 2 else unit)
        state = min(states, key=lambda s: abs(excess(d, s)))
        if abs(excess(d, state)) <= 0.01 * wanted:
            break
    return replace(ours, d_model=d, d_state=state)
