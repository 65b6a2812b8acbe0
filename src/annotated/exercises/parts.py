"""The seven exercises: for each the right function, its cases, and the usual mistakes."""

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from annotated.exercises.checking import Case, Exercise, Mistake, Report, judge
from annotated.model import (
    PositionwiseFeedForward,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)
from annotated.model.attention import masked_softmax

# Sizes of the cases: no two the same, so that no axis passes for another.
BATCH, HEADS, N, M, D_K, D_V = 2, 3, 5, 7, 11, 13
WIDTH = 12  # d_model, where vectors are whole
PAD = 3  # not 0: what compares with 0 is found out


def _random(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def _visible(m: int) -> Tensor:
    """A padding mask: the first sentence whole, the second without its last two."""
    mask = torch.ones(BATCH, 1, 1, m, dtype=torch.bool)
    mask[1, ..., -2:] = False
    return mask


# Attention


def _attention(
    divisor: Callable[[Tensor, Tensor, Tensor], float] = lambda q, k, v: math.sqrt(q.shape[-1]),
    weigh: Callable[[Tensor, Tensor | None], Tensor] = masked_softmax,
) -> Callable:
    def attention(query, key, value, mask=None):
        weights = weigh(query @ key.mT / divisor(query, key, value), mask)
        return weights @ value, weights

    return attention


def _softmax_over(axis: int) -> Callable:
    return lambda scores, mask: scores.softmax(axis)


def _where_masked(weigh: Callable[[Tensor, Tensor], Tensor]) -> Callable:
    """A weighing that differs from the right one only where there is a mask."""
    return lambda scores, mask: scores.softmax(-1) if mask is None else weigh(scores, mask)


def _naive_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        return masked_softmax(scores, mask)
    shares = scores.exp()
    return shares / shares.sum(-1, keepdim=True)


def _attention_cases() -> list[Case]:
    query, key, value = _random(
        (BATCH, HEADS, N, D_K), (BATCH, HEADS, M, D_K), (BATCH, HEADS, M, D_V)
    )
    blind = _visible(M) & torch.ones(N, M, dtype=torch.bool)
    blind[0, :, 2] = False
    return [
        Case("without a mask", (query, key, value, None)),
        Case("with large scores", (100 * query, key, value, None)),
        Case("with a mask", (query, key, value, _visible(M))),
        Case("with a query that may attend to nothing", (query, key, value, blind)),
    ]


ATTENTION = Exercise(
    "attention",
    {"output": "(batch, heads, n, d_v)", "weights": "(batch, heads, n, m)"},
    scaled_dot_product_attention,
    _attention_cases,
    (
        Mistake("no scale", "Your scores are not divided by √d_k.",
                _attention(lambda q, k, v: 1)),
        Mistake("scale by √d_model", "You divide by √(heads · d_k), the width of the whole vector. "
                "A score is a sum of d_k products, the width of one head: divide by √d_k.",
                _attention(lambda q, k, v: math.sqrt(q.shape[1] * q.shape[-1]))),
        Mistake("scale by d_k without the root", "You divide by d_k; divide by √d_k.",
                _attention(lambda q, k, v: q.shape[-1])),
        Mistake("scale upside down", "You multiply by √d_k; divide by it.",
                _attention(lambda q, k, v: 1 / math.sqrt(q.shape[-1]))),
        Mistake("scale by the number of keys", "You divide by √m. What is summed in a score are "
                "d_k products: divide by √d_k, the last size of the query.",
                _attention(lambda q, k, v: math.sqrt(k.shape[-2]))),
        Mistake("scale by the number of queries", "You divide by √n. What is summed in a score are "
                "d_k products: divide by √d_k, the last size of the query.",
                _attention(lambda q, k, v: math.sqrt(q.shape[-2]))),
        Mistake("softmax over the queries", "In your weights each column sums to 1. Each query "
                "shares out one unit over its keys: rows sum to 1, the last axis.",
                _attention(weigh=_softmax_over(-2))),
        Mistake("softmax over the heads", "Your weights sum to 1 over the axis of heads. Each "
                "query shares out one unit over its keys, the last axis.",
                _attention(weigh=_softmax_over(1))),
        Mistake("softmax over the batch", "Your weights sum to 1 over the sentences of a batch, "
                "which must not know each other. The keys are the last axis.",
                _attention(weigh=_softmax_over(0))),
        Mistake("no softmax", "Your weights are the scores themselves: they do not sum to 1.",
                _attention(weigh=lambda scores, mask: scores)),
        Mistake("weights and output swapped", "The weights come first in your answer; return the "
                "output, then the weights.",
                lambda *inputs: scaled_dot_product_attention(*inputs)[::-1]),
        Mistake("weights not returned", "Return two things: the output, and the weights that "
                "made it.", lambda *inputs: scaled_dot_product_attention(*inputs)[0]),
        Mistake("exponentials that overflow", "exp(100) is too large for float32, and infinity "
                "divided by itself is NaN. torch.softmax takes the largest score off first.",
                _attention(weigh=_naive_softmax)),
        Mistake("mask ignored", "Your weights are the same with a mask and without.",
                _attention(weigh=_where_masked(lambda s, mask: s.softmax(-1)))),
        Mistake("mask after the softmax", "What is forbidden has weight 0, but it took its share "
                "of the softmax first: what is left no longer sums to 1. Fill the scores before "
                "it.",
                _attention(weigh=_where_masked(lambda s, mask: s.softmax(-1) * mask))),
        Mistake("mask upside down", "You forbid what the mask allows. True means: may attend.",
                _attention(weigh=_where_masked(lambda s, mask: masked_softmax(s, ~mask)))),
        Mistake("scores multiplied by the mask", "A forbidden score became 0, and exp(0) = 1 is a "
                "weight like others. It must become so small that its exponential is 0.",
                _attention(weigh=_where_masked(lambda s, mask: (s * mask).softmax(-1)))),
        Mistake("mask added as ones", "True was added as the number 1. Use it to choose: "
                "masked_fill, or torch.where.",
                _attention(weigh=_where_masked(lambda s, mask: (s + mask.float()).softmax(-1)))),
        Mistake("NaN from a row of −∞", "A query that may attend to nothing has only scores of −∞, "
                "and its softmax is 0/0. Set the weights that are forbidden to 0 after the softmax "
                "too.",
                _attention(weigh=_where_masked(
                    lambda s, mask: s.masked_fill(~mask, -math.inf).softmax(-1)))),
        Mistake("a blind query sees everything", "A query that may attend to nothing has equal "
                "scores, all of them your fill, and their softmax shares out 1/m to each forbidden "
                "key. Set the weights that are forbidden to 0 after the softmax too.",
                _attention(weigh=_where_masked(
                    lambda s, mask: s.masked_fill(~mask, -1e9).softmax(-1)))),
    ),
    "Output and weights are the book's, also for large scores and for a query that may attend to "
    "nothing.",
)


# Masks

CAUSAL = Exercise(
    "causal",
    {"mask": "(n, n)"},
    causal_mask,
    lambda: [Case(f"n = {N}", (N,))],
    (
        Mistake("mask upside down", "True stands above the diagonal: you allow the future and "
                "forbid the rest. True means: may attend.", lambda n: ~causal_mask(n)),
        Mistake("off by one: no token sees itself", "Your diagonal is False, and position 0 may "
                "attend to nothing. A position sees itself.",
                lambda n: causal_mask(n).tril(-1)),
        Mistake("off by one: one step into the future", "Position i sees position i + 1, the very "
                "token that it has to foresee.", lambda n: torch.ones(n, n).bool().tril(1)),
        Mistake("queries and keys swapped", "Position i sees i and what comes after. Rows are "
                "queries, columns are keys: transpose it.", lambda n: causal_mask(n).mT),
        Mistake("nothing is hidden", "Every position sees every other.",
                lambda n: torch.ones(n, n).bool()),
        Mistake("numbers to be added", "Your mask is to be added to the scores, 0 or −∞. "
                "Here a mask is boolean: True means may attend.",
                lambda n: torch.full((n, n), -math.inf).triu(1)),
        Mistake("numbers in place of True and False", "The places are right, but the mask holds "
                "numbers. Make it boolean: .bool(), or dtype=torch.bool.",
                lambda n: causal_mask(n).float()),
        Mistake("a shape with more axes", "The places are right. (n, n) is enough: it fits any "
                "batch and any heads.", lambda n: causal_mask(n)[None, None]),
        Mistake("a shape with more axes", "The places are right. (n, n) is enough: it fits any "
                "batch and any heads.", lambda n: causal_mask(n)[None]),
    ),
    "Each position sees itself and what came before.",
)


def _padding_cases() -> list[Case]:
    ids = torch.tensor([[5, 9, 0, 8, 6, 2, PAD], [4, 6, 11, 7, PAD, PAD, PAD]])
    return [Case(f"pad_id = {PAD}", (ids, PAD))]


UNPADDED = Exercise(
    "unpadded",
    {"mask": "(batch, 1, 1, m)"},
    padding_mask,
    _padding_cases,
    (
        Mistake("mask upside down", "True marks the padding. True means: may attend.",
                lambda ids, pad_id: ~padding_mask(ids, pad_id)),
        Mistake("0 in place of pad_id", "You compare with 0; here the padding is another id.",
                lambda ids, pad_id: padding_mask(ids, 0)),
        Mistake("larger than pad_id", "Ids below pad_id are tokens like others: ask whether they "
                "differ.", lambda ids, pad_id: (ids > pad_id)[:, None, None]),
        Mistake("axes missing", "The places are right. A mask meets scores of the shape "
                "(batch, heads, n, m): give it two axes of length 1 between batch and m.",
                lambda ids, pad_id: ids != pad_id),
        Mistake("axes missing", "The places are right. A mask meets scores of the shape "
                "(batch, heads, n, m): one more axis of length 1 between batch and m.",
                lambda ids, pad_id: (ids != pad_id)[:, None]),
        Mistake("queries hidden in place of keys", "Your True and False run along the axis of "
                "queries. Padding must not be listened to: it is a matter of keys, the last axis.",
                lambda ids, pad_id: (ids != pad_id)[:, None, :, None]),
        Mistake("sentences and keys swapped", "The batch must stay the first axis.",
                lambda ids, pad_id: (ids != pad_id).mT[None, None]),
        Mistake("numbers in place of True and False", "The places are right, but the mask holds "
                "numbers. Keep it boolean.",
                lambda ids, pad_id: padding_mask(ids, pad_id).float()),
        Mistake("numbers to be added", "Your mask is to be added to the scores, 0 or −∞. Here a "
                "mask is boolean: True means may attend.",
                lambda ids, pad_id: torch.zeros(len(ids), 1, 1, ids.shape[1]).masked_fill(
                    ~padding_mask(ids, pad_id), -math.inf)),
    ),
    "Padding is hidden from every head and every query.",
)


# Multi-head attention


def _split(x: Tensor, heads: int) -> Tensor:
    return rearrange(x, "b n (h d) -> b h n d", h=heads)


def _join(x: Tensor) -> Tensor:
    return rearrange(x, "b h n d -> b n (h d)")


def _view_split(x: Tensor, heads: int) -> Tensor:
    batch, n, width = x.shape
    return x.reshape(batch, heads, n, width // heads)


def _view_join(x: Tensor) -> Tensor:
    batch, heads, n, width = x.shape
    return x.reshape(batch, n, heads * width)


def _comb_split(x: Tensor, heads: int) -> Tensor:
    return rearrange(x, "b n (d h) -> b h n d", h=heads)


def _comb_join(x: Tensor) -> Tensor:
    return rearrange(x, "b h n d -> b n (d h)")


def _multi_head(
    attend: Callable = scaled_dot_product_attention,
    split: Callable = _split,
    join: Callable = _join,
    wiring: Callable = lambda x, memory, q, k, v, o: (q(x), k(memory), v(memory), o),
    masked: bool = True,
) -> Callable:
    def multi_head(x, memory, mask, w_q, w_k, w_v, w_o, heads):
        *vectors, out = wiring(x, memory, w_q, w_k, w_v, w_o)
        query, key, value = (split(vector, heads) for vector in vectors)
        return out(join(attend(query, key, value, mask if masked else None)[0]))

    return multi_head


def _maps(count: int) -> list[nn.Linear]:
    maps = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)]
    for linear, values in zip(maps, _random(*[(WIDTH, WIDTH)] * count, seed=1)):
        linear.weight.data = values / math.sqrt(WIDTH) * 1.5
    return maps


def _multi_head_cases() -> list[Case]:
    x, memory = _random((BATCH, N, WIDTH), (BATCH, M, WIDTH), seed=2)
    given = (*_maps(4), HEADS)
    return [
        Case("x attends to itself", (x, x, None, *given)),
        Case("x attends to a memory", (x, memory, None, *given)),
        Case("with a mask", (x, memory, _visible(M), *given)),
    ]


VIEW = ("Your heads were cut out with view or reshape alone, which only counts numbers off: a head "
        "then holds parts of several positions. Make (batch, n, heads, d_k) first, then transpose "
        "the axes 1 and 2.")
# Mistakes of the attention that show in a layer that uses it, and are no other mistake there.
SEEN_THROUGH_HEADS = (
    "no scale", "scale by √d_model", "scale by d_k without the root", "scale upside down",
    "scale by the number of keys", "softmax over the queries", "softmax over the heads",
    "softmax over the batch", "no softmax",
    "mask after the softmax", "mask upside down", "scores multiplied by the mask",
    "mask added as ones",
)
COMB = ("Head 0 takes every h-th number of a vector. It should take the first d_k, head 1 the "
        "next: view as (…, heads, d_k), not (…, d_k, heads).")

MULTI_HEAD = Exercise(
    "multi_head",
    {"output": "(batch, n, d_model)"},
    _multi_head(),
    _multi_head_cases,
    (
        Mistake("view in place of transpose", VIEW, _multi_head(split=_view_split)),
        Mistake("view in place of transpose", VIEW,
                _multi_head(split=_view_split, join=_view_join)),
        Mistake("heads joined without transposing back", "The heads come out as (batch, heads, n, "
                "d_k). Transpose the axes 1 and 2 before you join them, or positions get mixed.",
                _multi_head(join=_view_join)),
        Mistake("heads cut like a comb", COMB, _multi_head(split=_comb_split)),
        Mistake("heads cut like a comb", COMB, _multi_head(split=_comb_split, join=_comb_join)),
        Mistake("heads joined like a comb", "Put the heads one after the other: head 0 fills the "
                "first d_k numbers, head 1 the next.", _multi_head(join=_comb_join)),
        Mistake("no heads", "This is one attention over the whole width: nothing was split.",
                _multi_head(split=lambda x, heads: x[:, None])),
        Mistake("output projection missing", "The joined heads go through w_o.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (
                    q(x), k(memory), v(memory), lambda joined: joined))),
        Mistake("queries not projected", "x goes through w_q before it asks.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (x, k(memory), v(memory), o))),
        Mistake("keys not projected", "The memory goes through w_k before it is compared.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (q(x), memory, v(memory), o))),
        Mistake("values not projected", "The memory goes through w_v before it is mixed.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (q(x), k(memory), memory, o))),
        Mistake("keys and values swapped", "w_v made your keys and w_k your values.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (
                    q(x), v(memory), k(memory), o))),
        Mistake("queries and keys swapped", "w_k made your queries and w_q your keys.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (
                    k(x), q(memory), v(memory), o))),
        Mistake("memory ignored", "Your keys and values are made from x. x asks, the memory "
                "answers: w_k and w_v take the memory.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (q(x), k(x), v(x), o))),
        Mistake("the memory asks", "Your queries are made from the memory, and x answers. It is "
                "the other way round.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (
                    q(memory), k(x), v(x), o))),
        Mistake("the memory asks itself", "Your queries are made from the memory; w_q takes x.",
                _multi_head(wiring=lambda x, memory, q, k, v, o: (
                    q(memory), k(memory), v(memory), o))),
        Mistake("mask not passed on", "Your output is the same with a mask and without: hand it to "
                "attention.", _multi_head(masked=False)),
        *(Mistake(f"in the attention: {mistake.name}", mistake.hint, _multi_head(mistake.wrong))
          for mistake in ATTENTION.mistakes if mistake.name in SEEN_THROUGH_HEADS),
    ),
    "Heads, projections, memory and mask all act as in the book.",
)


# Positions


def _positions(
    exponent: Callable[[Tensor, int], Tensor] = lambda channel, d: channel // 2 * 2 / d,
    start: int = 0,
    flip: bool = False,
    halves: bool = False,
) -> Callable:
    """Sines and cosines, `exponent` giving for each channel the power of 10000 to divide by."""

    def positions(n, d_model):
        position = torch.arange(start, start + n, dtype=torch.float64)[:, None]
        channel = torch.arange(d_model, dtype=torch.float64)
        angle = position / 10000 ** exponent(channel, d_model)
        even = channel % 2 == (1 if flip else 0)
        table = torch.where(even, angle.sin(), angle.cos())
        if halves:
            table = torch.cat([table[:, ::2], table[:, 1::2]], dim=1)
        return table.float()

    return positions


def _spread(channel: Tensor, d: int) -> Tensor:
    return channel.div(2, rounding_mode="floor") / (d / 2 - 1)


POSITIONS = Exercise(
    "positions",
    {"table": "(n, d_model)"},
    sinusoidal_encoding,
    lambda: [Case(f"n = {M}, d_model = {WIDTH}", (M, WIDTH))],
    (
        Mistake("halves in place of pairs", "All sines come first, then all cosines. In the paper "
                "they take turns: sines in columns 0, 2, 4 …, cosines in 1, 3, 5 …",
                _positions(halves=True)),
        Mistake("exponent of the column in place of the pair", "Sine and cosine of one pair share "
                "one wavelength: both divide by 10000^(2i/d_model), i counting pairs. Yours "
                "divides by 10000^(column/d_model) in every column.",
                _positions(lambda channel, d: channel / d)),
        Mistake("exponent twice too large", "Your exponent is 4i/d_model. 2i already is the number "
                "of the column: i counts pairs.",
                _positions(lambda channel, d: channel.div(2, rounding_mode="floor") * 4 / d)),
        Mistake("exponent half as large", "Your exponent is i/d_model; it should be 2i/d_model, so "
                "that the wavelengths reach from 2π almost to 10000 · 2π.",
                _positions(lambda channel, d: channel.div(2, rounding_mode="floor") / d)),
        Mistake("exponent not divided by d_model", "Your exponent is 2i; it should be 2i/d_model.",
                _positions(lambda channel, d: channel.div(2, rounding_mode="floor") * 2)),
        Mistake("one wavelength for all", "No exponent: every pair turns at the same speed.",
                _positions(lambda channel, d: channel * 0)),
        Mistake("positions from 1", "Your first row is position 1. Positions count from 0: the "
                "first row is 0, 1, 0, 1 …", _positions(start=1)),
        Mistake("sine and cosine swapped", "Even columns are sines, odd ones cosines: the first "
                "row is 0, 1, 0, 1 …", _positions(flip=True)),
        Mistake("multiplied in place of divided", "You multiply the position by "
                "10000^(2i/d_model); divide it.",
                _positions(lambda channel, d: channel.div(2, rounding_mode="floor") * -2 / d)),
        Mistake("rows and columns swapped", "A row is a position, a column a channel: transpose "
        "it.",
                lambda n, d_model: sinusoidal_encoding(n, d_model).mT),
        Mistake("the spacing of another code", "You divide i by d_model/2 − 1, as tensor2tensor "
                "does; in the paper 2i is divided by d_model.", _positions(_spread)),
        Mistake("the spacing of another code", "Sines before cosines, and i divided by "
                "d_model/2 − 1: that is tensor2tensor's table, not the paper's formula.",
                _positions(_spread, halves=True)),
    ),
    "The first row is 0, 1, 0, 1 …, and the wavelengths grow towards 10000 · 2π.",
)


# Sub-layer


def _sublayer(x, f, norm):
    return norm(x + f(x))


def _sublayer_cases() -> list[Case]:
    x, weight = _random((BATCH, N, WIDTH), (WIDTH, WIDTH), seed=3)
    return [Case("around a small network", (x, lambda x: (x @ weight).tanh() + 0.5, _norms(1)[0]))]


def _norms(count: int) -> list[nn.LayerNorm]:
    norms = [nn.LayerNorm(WIDTH) for _ in range(count)]
    for norm, values in zip(norms, _random(*[(2, WIDTH)] * count, seed=4)):
        norm.weight.data, norm.bias.data = 1 + values[0] / 2, values[1] / 2
    return norms


SUBLAYER = Exercise(
    "sublayer",
    {"output": "(batch, n, d_model)"},
    _sublayer,
    _sublayer_cases,
    (
        Mistake("residual missing", "You normalise f(x) alone. What f leaves out is lost: add x.",
                lambda x, f, norm: norm(f(x))),
        Mistake("norm before in place of after", "You normalise what f reads (pre-norm, a later "
                "habit). In the paper the norm comes last, after the sum.",
                lambda x, f, norm: x + f(norm(x))),
        Mistake("norm missing", "x + f(x) is right; the norm comes after it.",
                lambda x, f, norm: x + f(x)),
        Mistake("residual outside the norm", "You normalise f(x) and then add x. Add first.",
                lambda x, f, norm: x + norm(f(x))),
        Mistake("residual of the normalised vector", "You normalise x and then add f of it to it. "
                "The sum is x + f(x), and the norm comes last.",
                lambda x, f, norm: norm(x) + f(norm(x))),
        Mistake("only x normalised", "The norm takes the sum x + f(x), not x alone.",
                lambda x, f, norm: norm(x) + f(x)),
        Mistake("norm before, and residual missing", "You return f(norm(x)).",
                lambda x, f, norm: f(norm(x))),
        Mistake("f left out", "You normalise x; f is not in it.", lambda x, f, norm: norm(x)),
        Mistake("f alone", "You return f(x): add x, then normalise.", lambda x, f, norm: f(x)),
        Mistake("normalised twice", "You normalise before f and after the sum. Once is enough: "
                "after.", lambda x, f, norm: norm(x + f(norm(x)))),
    ),
    "Sum first, then the norm.",
)


# Decoder layer

SEEN_THROUGH_A_LAYER = (
    "mask upside down", "off by one: no token sees itself",
    "off by one: one step into the future", "queries and keys swapped", "numbers to be added",
)
STEPS = ("self-attention", "cross-attention", "feed-forward")


def _look_back(attend, x, memory, mask, past):
    return attend(x, x, past)


def _look_across(attend, x, memory, mask, past):
    return attend(x, memory, mask)


def _decoder_layer(
    sublayer: Callable = _sublayer,
    causal: Callable = causal_mask,
    back: Callable[..., Any] = _look_back,
    across: Callable[..., Any] = _look_across,
    order: Sequence[int] = (0, 1, 2),
    norm_of: Sequence[int] = (0, 1, 2),
) -> Callable:
    """`order`: which of `STEPS` come, one after the other; `norm_of`: with which norm each.

    `back` and `across` are what the two attentions look at, `sublayer` and
    `causal` the functions of these exercises.
    """

    def decoder_layer(x, memory, mask, self_attention, cross_attention, feed_forward, norms):
        past = causal(x.shape[1])
        steps = (
            lambda x: back(self_attention, x, memory, mask, past),
            lambda x: across(cross_attention, x, memory, mask, past),
            feed_forward,
        )
        for step, norm in zip(order, norm_of):
            x = sublayer(x, steps[step], norms[norm])
        return x

    return decoder_layer


def _attend(*maps: nn.Linear) -> Callable:
    return lambda x, memory, mask: _multi_head()(x, memory, mask, *maps, HEADS)


def _decoder_cases() -> list[Case]:
    x, near, memory = _random((BATCH, N, WIDTH), (BATCH, N, WIDTH), (BATCH, M, WIDTH), seed=5)
    maps = _maps(8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        feed_forward = PositionwiseFeedForward(WIDTH, 2 * WIDTH)
    given = (_attend(*maps[:4]), _attend(*maps[4:]), feed_forward, _norms(3))
    nobody_hidden = torch.ones(BATCH, 1, 1, N, dtype=torch.bool)
    return [
        Case("source as long as the target", (x, near, nobody_hidden, *given)),
        Case("with padding in a longer source", (x, memory, _visible(M), *given)),
    ]


def _other_orders() -> list[Mistake]:
    mistakes = []
    for order in list(permutations(range(3)))[1:]:
        names = ", ".join(STEPS[step] for step in order)
        hint = f"Yours: {names}. First the target's own past, then the memory, then feed-forward."
        mistakes += [
            Mistake("sub-layers in another order", hint, _decoder_layer(order=order, norm_of=norms))
            for norms in ((0, 1, 2), order)
        ]
    for left in range(3):
        kept = tuple(step for step in range(3) if step != left)
        mistakes += [
            Mistake(f"{STEPS[left]} left out", "A decoder layer has three sub-layers: "
                    f"{', '.join(STEPS)}.", _decoder_layer(order=kept, norm_of=norms))
            for norms in (kept, (0, 1))
        ]
    return mistakes


DECODER_LAYER = Exercise(
    "decoder_layer",
    {"output": "(batch, n, d_model)"},
    _decoder_layer(),
    _decoder_cases,
    (
        *_other_orders(),
        Mistake("keys from the target in the cross-attention", "Your second attention looks at x "
                "again. It asks with x and looks at the memory: the source is read nowhere else.",
                _decoder_layer(across=lambda attend, x, memory, mask, past: attend(x, x, mask))),
        Mistake("keys from the target in the cross-attention", "Your second attention looks at x "
                "again. It asks with x and looks at the memory: the source is read nowhere else.",
                _decoder_layer(across=lambda attend, x, memory, mask, past: attend(x, x, past))),
        Mistake("the memory asks in the cross-attention", "x asks and the memory answers: x first.",
                _decoder_layer(across=lambda attend, x, memory, mask, past: (
                    attend(memory, x, mask)))),
        Mistake("causal mask missing", "Your self-attention sees the future: in training it would "
                "copy the next token. Its mask is causal(n). (If causal is not written yet, write "
                "it first.)",
                _decoder_layer(back=lambda attend, x, memory, mask, past: attend(x, x, None))),
        Mistake("self-attention over the memory", "Your first attention looks at the memory. "
                "It looks back at the target itself, x.",
                _decoder_layer(back=lambda attend, x, memory, mask, past: (
                    attend(x, memory, past)))),
        Mistake("self-attention over the memory", "Your first attention looks at the memory. "
                "It looks back at the target itself, x.",
                _decoder_layer(back=_look_across)),
        Mistake("causal mask in the cross-attention", "The whole source may be seen from the "
                "start: the mask of the cross-attention is that of padding.",
                _decoder_layer(across=lambda attend, x, memory, mask, past: (
                    attend(x, memory, past)))),
        Mistake("padding mask not used", "Your cross-attention sees padding: hand it the mask.",
                _decoder_layer(across=lambda attend, x, memory, mask, past: (
                    attend(x, memory, None)))),
        Mistake("one norm for all", "You use the first norm three times; each sub-layer has its "
                "own.", _decoder_layer(norm_of=(0, 0, 0))),
        Mistake("norms in another order", "norms[0] belongs to the self-attention, norms[1] to the "
                "cross-attention, norms[2] to the feed-forward network.",
                _decoder_layer(norm_of=(2, 1, 0))),
        *(Mistake(f"in the causal mask: {mistake.name}", mistake.hint,
                  _decoder_layer(causal=mistake.wrong))
          for mistake in CAUSAL.mistakes if mistake.name in SEEN_THROUGH_A_LAYER),
        *(Mistake(f"in the sub-layer: {mistake.name}", mistake.hint,
                  _decoder_layer(mistake.wrong)) for mistake in SUBLAYER.mistakes),
    ),
    "Past, memory and feed-forward, in this order; neither future nor padding is seen.",
)


EXERCISES = {
    exercise.name: exercise
    for exercise in (ATTENTION, CAUSAL, UNPADDED, MULTI_HEAD, POSITIONS, SUBLAYER, DECODER_LAYER)
}


def check(name: str, answer: Any) -> Report:
    """What is right or wrong about an answer to the exercise of this name; true if it is right.

    Raises ValueError for a name that is no exercise.
    """
    if name not in EXERCISES:
        raise ValueError(f"no exercise {name!r}; expected one of {', '.join(EXERCISES)}")
    return judge(EXERCISES[name], answer)


def completed(parts: dict[str, Callable]) -> dict[str, Callable]:
    """These functions and, for those that are missing, the right ones, built on the given."""
    simple = {name: exercise.right for name, exercise in EXERCISES.items()} | parts
    built = {
        "multi_head": _multi_head(simple["attention"]),
        "decoder_layer": _decoder_layer(simple["sublayer"], simple["causal"]),
    }
    return simple | built | parts
