"""§3, Table 3: every size and choice of the model, and what is refused."""

from dataclasses import dataclass

from annotated.model.attention import ATTENTIONS
from annotated.model.checks import check_choice, check_heads
from annotated.model.embedding import POSITIONS
from annotated.model.feed_forward import ACTIVATIONS

NORMS = ("post", "pre")


@dataclass(frozen=True)
class TransformerConfig:
    """§3, Table 3: every size and choice; the defaults are the base model.

    Raises ValueError for sizes that do not fit together.

    Not in the paper: norm="pre"; positions="sinusoidal-halves";
    another attention; attention_bias; attention_dropout; activation;
    tie=False.
    """

    vocab_size: int = 37_000  # tokens of the vocabulary, shared by both sides
    d_model: int = 512  # width of the vectors between sub-layers
    d_ff: int = 2048  # width inside the feed-forward networks
    heads: int = 8  # h: attentions side by side
    d_k: int | None = None  # width of a head's queries; None: d_model / heads
    d_v: int | None = None  # width of a head's values; None: d_model / heads
    layers: int = 6  # N: layers of the encoder, and of the decoder
    dropout: float = 0.1  # share of components dropped (§5.4)
    pad_id: int = 0  # the id that fills up a batch
    bos_id: int = 1  # the id that every target begins with
    eos_id: int = 2  # the id that every sentence ends with
    # what tells places apart: sinusoidal, sinusoidal-halves or learned
    positions: str = "sinusoidal"
    max_length: int | None = None  # longest input, of learned positions only
    norm: str = "post"  # normalise after the sum, or before a sub-layer: pre
    attention: str = "scaled-dot-product"  # or one added to ATTENTIONS
    attention_bias: bool = False  # biases in the projections of attention
    attention_dropout: float = 0.0  # share of attention weights dropped
    activation: str = "relu"  # of the feed-forward networks; or gelu, silu
    tie: bool = True  # one matrix for source, target and logits (§3.4)

    def __post_init__(self):
        check_config(self)

    @classmethod
    def base(cls, **overrides) -> "TransformerConfig":
        """Table 3, row "base"."""
        return cls(**overrides)

    @classmethod
    def big(cls, **overrides) -> "TransformerConfig":
        """Table 3, row "big" (dropout 0.3 as for English-German)."""
        big = dict(d_model=1024, d_ff=4096, heads=16, dropout=0.3)
        return cls(**(big | overrides))

    @classmethod
    def tiny(cls, **overrides) -> "TransformerConfig":
        """Not in the paper: trains on a laptop; the book's live model."""
        tiny = dict(d_model=128, d_ff=512, heads=4, layers=2)
        return cls(**(tiny | overrides))


def check_config(config: TransformerConfig) -> None:
    """Raise ValueError for the first field that can't be what it is."""

    def expect(ok: bool, name: str, expected: str) -> None:
        if not ok:
            value = getattr(config, name)
            raise ValueError(f"{name} is {value!r}; expected {expected}")

    for name in ("vocab_size", "d_model", "d_ff", "heads", "layers"):
        size = getattr(config, name)
        whole = isinstance(size, int) and size >= 1
        expect(whole, name, "a whole number of at least 1")
    for name in ("d_k", "d_v", "max_length", "pad_id", "bos_id", "eos_id"):
        whole = isinstance(getattr(config, name), int | None)
        expect(whole, name, "a whole number")
    for name in ("dropout", "attention_dropout"):
        expect(0 <= getattr(config, name) < 1, name, "0 <= p < 1")
    check_choice("positions", config.positions, POSITIONS)
    check_choice("norm", config.norm, NORMS)
    check_choice("attention", config.attention, ATTENTIONS)
    check_choice("activation", config.activation, ACTIVATIONS)
    check_heads(config.d_model, config.heads, config.d_k, config.d_v)
    learned, length = config.positions == "learned", config.max_length
    even = "an even number, not an odd one: sinusoids pair up"
    expect(learned or config.d_model % 2 == 0, "d_model", even)
    fits = length is not None and length >= 1 if learned else length is None
    expect(fits, "max_length", "at least 1 with learned positions, else None")
    check_special_ids(config)


def check_special_ids(config: TransformerConfig) -> None:
    """Refuse special ids that are no token, or that are equal."""
    special = config.pad_id, config.bos_id, config.eos_id
    for name, id in zip(("pad_id", "bos_id", "eos_id"), special):
        if not 0 <= id < config.vocab_size:
            raise ValueError(
                f"{name} is {id}; "
                f"expected an id below vocab_size={config.vocab_size}"
            )
    if len(set(special)) < 3:
        raise ValueError(
            f"pad_id, bos_id, eos_id are {special}; expected three different"
        )
