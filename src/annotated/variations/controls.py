"""§3-3.5: models with one of the paper's choices taken away, and what is measured of them.

What is taken away is no setting of the model: each is a model of its own, with
that one thing changed. The experiments "control-…" train them on numbers of up
to five digits.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annotated.analysis.scores import token_accuracy
from annotated.model import MultiHeadAttention, Transformer, TransformerConfig, padding_mask
from annotated.model.attention import ATTENTIONS, Keys, Mask, Memory, Queries, Vectors
from annotated.model.checks import check_ids, check_rows
from annotated.model.stacks import Sublayer
from annotated.model.transformer import Ids, SourceIds
from annotated.recipes import Numbers, Recipe, score
from annotated.recipes.task import Report, batches_of
from annotated.records import as_metrics
from annotated.translation import Translator
from annotated.translation.uncached import Uncached


class UnscaledAttention(MultiHeadAttention):
    """§3.2.1 without √d_k: scores are the dot products as they are."""

    def prepare(self, query: Queries, keys: Keys, mask: Mask, own: bool):
        """`keys`, `mask` and `own` as they come; `query` times √d_k undoes the division."""
        return query * math.sqrt(query.shape[-1]), keys, mask


ATTENTIONS["unscaled"] = UnscaledAttention


class NoScale(Transformer):
    """The model with `UnscaledAttention` everywhere."""

    def __init__(self, config: TransformerConfig):
        super().__init__(replace(config, attention="unscaled"))


class NoEmbeddingScale(Transformer):
    """§3.4 without √d_model: embeddings are the rows of E as they are."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        for matrix in (self.embedding, *self.untied.values()):
            matrix.scale = 1.0


class SmallInput(NoEmbeddingScale):
    """§3.4 without √d_model, and positions divided by it: the two are as large beside each other
    as in the paper, and both are smaller."""

    def embed(self, ids: Ids, use: str, start: int = 0) -> Vectors:
        check_ids(ids, use, self.config.vocab_size)
        positions = self.positions(ids.shape[1], start) / math.sqrt(self.config.d_model)
        return self.dropout(self.matrix(use)(ids) + positions)


class NoPositions(Transformer):
    """§3.5 without positions: nothing is added to the embeddings of either side.

    The encoder reads a bag of pieces; the decoder still knows by its mask how
    many pieces it has said, but not in which order.
    """

    without: tuple[str, ...] = ("source", "target")

    def embed(self, ids: Ids, use: str, start: int = 0) -> Vectors:
        if use in self.without:
            check_ids(ids, use, self.config.vocab_size)
            return self.dropout(self.matrix(use)(ids))
        return super().embed(ids, use, start)


class NoEncoderPositions(NoPositions):
    """§3.5 without positions in the encoder alone."""

    without = ("source",)


class BareSublayer(Sublayer):
    """§3.1 without the residual connection: what f does not pass on is lost."""

    def forward(self, x: Tensor, f: Callable[..., Tensor], *inputs) -> Tensor:
        """`x` goes through f alone; `inputs` go to f after it."""
        if self.pre:
            return self.dropout(f(self.norm(x), *inputs))
        return self.norm(self.dropout(f(x, *inputs)))


class NoResidual(Transformer):
    """The model with `BareSublayer` everywhere."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        for layer in (*self.encoder.layers, *self.decoder.layers):
            for name, part in layer.named_children():
                if isinstance(part, Sublayer):
                    setattr(layer, name, BareSublayer(config.d_model, config.dropout, config.norm))


class NoFeedForward(Transformer):
    """§3.3 without feed-forward networks: they are there, and what they say is multiplied by 0."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        for layer in (*self.encoder.layers, *self.decoder.layers):
            layer.feed_forward.register_forward_hook(silent)


def silent(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """Zeros in place of an output; gradients are zeros too."""
    return 0 * output


class NoCausalMask(Uncached, Transformer):
    """§3.2.3 without the causal mask: every piece of the target sees every other.

    Padding stays masked. Nothing can be cached, because a new piece changes
    what the earlier ones are; so each step reads the whole target again.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        for layer in self.decoder.layers:
            layer.self_attention.causal = False

    def decode(
        self, target: Ids, memory: Memory, source: SourceIds
    ) -> Float[Tensor, "batch n vocab"]:
        check_rows(source=source, memory=memory, target=target)
        pad = self.config.pad_id
        own, other = padding_mask(target, pad), padding_mask(source, pad)
        x = self.embed(target, "target")
        for layer in self.decoder.layers:
            x = layer.sublayer_1(x, layer.self_attention, None, own)
            x = layer.sublayer_2(x, layer.cross_attention, memory, other)
            x = layer.sublayer_3(x, layer.feed_forward)
        return self.logits(self.decoder.norm(x))


MODELS: dict[str, type[Transformer]] = {
    "no-scale": NoScale, "no-embedding-scale": NoEmbeddingScale,
    "no-encoder-positions": NoEncoderPositions, "no-positions": NoPositions,
    "no-causal-mask": NoCausalMask, "no-residual": NoResidual, "small-input": SmallInput,
    "no-feed-forward": NoFeedForward,
}


def with_control(name: str, model: Transformer) -> Transformer:
    """One of `MODELS` with another model's weights: what it trained with is missing now."""
    if name not in MODELS:
        raise ValueError(f"no model {name!r}; there are {', '.join(MODELS)}")
    with torch.random.fork_rng(devices=[]):  # its random weights don't last
        other = MODELS[name](model.config).to(model.embedding.weight)
    other.load_state_dict(model.state_dict())
    return other.train(model.training)


def same_bag() -> list[tuple[int, int]]:
    """Pairs like 204 and 402: the same English pieces in two orders."""
    digits = range(1, 10)
    return [(100 * a + b, 100 * b + a) for a in digits for b in digits if a < b]


def with_control_metrics(
    report: Report, translator: Translator, recipe: Recipe[Numbers], seed: int
) -> Report:
    """The report with what a control may change and an exact match does not show.

    Measured on `translator`, trained by `recipe`.
    `token_accuracy` is measured on what the report rests on, `exact_six_digits`
    on numbers longer than any in training; `same_bag` is the share of pairs
    like 204 and 402 that get one translation. The `seed` of the training has no say.
    """
    task, tokenizer = recipe.task, translator.tokenizer
    seen = batches_of(task.held_out_ids(tokenizer), tokenizer)
    six = score(translator, task.held_out_longer())
    bags = [[example.source for example in task.examples(pair)] for pair in same_bag()]
    first, second = (translator.translate(sentences) for sentences in zip(*bags, strict=True))
    alike = sum(a == b for a, b in zip(first, second, strict=True)) / len(bags)
    more = {
        "token_accuracy": token_accuracy(translator.model, seen),
        "exact_six_digits": six.accuracy, "same_bag": alike,
    }
    rounded = {name: round(value, 4) for name, value in more.items()}
    return replace(report, metrics=report.metrics | as_metrics(rounded))
