"""§4, Table 1: the layer types behind one interface, n vectors of width d in and n out."""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from annotated import paper
from annotated.model import MultiHeadAttention, scaled_dot_product_attention

Sequence = Float[Tensor, "batch n d"]
ATTENTION, RECURRENT, CONVOLUTION, RESTRICTED = paper.TABLE_1  # the names of its rows


class Cost(NamedTuple):
    """What one forward pass over one sequence computes.

    mixing: multiply-adds of what Table 1 counts, where positions meet.
    projections: multiply-adds of the matrix products that it leaves out.
    elementwise: numbers given out by all other arithmetic: sums, products,
        tanh and the like, a softmax one for each weight. Moving and
        choosing numbers is not counted.
    """

    mixing: int
    projections: int = 0
    elementwise: int = 0

    @property
    def products(self) -> int:
        """Multiply-adds of all matrix products; a FLOP counter says twice."""
        return self.mixing + self.projections


class Layer(nn.Module):
    """§4: after(mix(*before(x))); Table 1 counts what `mix` does.

    No layer has biases, so that every multiply-add is one of a product. `row`
    names the row of `paper.TABLE_1`. Zeros beyond the ends of a sequence are
    multiplied like any numbers, here and in the counts.
    """

    row: ClassVar[str]

    def __init__(self, d: int):
        super().__init__()
        self.d = d

    def before(self, x: Sequence) -> tuple[Tensor, ...]:
        """What `mix` takes; here x alone."""
        return (x,)

    def mix(self, *parts: Tensor) -> Tensor:
        """The part that Table 1 counts, as the formula says it."""
        raise NotImplementedError

    def fused(self, *parts: Tensor) -> Tensor:
        """The same numbers from PyTorch's own kernel, where it has one."""
        return self.mix(*parts)

    def after(self, mixed: Tensor) -> Sequence:
        """What becomes of it; here nothing more."""
        return mixed

    def forward(self, x: Sequence, fused: bool = False) -> Sequence:
        mix = self.fused if fused else self.mix
        return self.after(mix(*self.before(x)))

    def cost(self, n: int) -> Cost:
        """The exact cost of `forward` for one sequence of n vectors."""
        raise NotImplementedError

    def sequential(self, n: int) -> int:
        """Products of `forward` of which each needs the one before it."""
        return 1

    def path(self, n: int) -> int:
        """Layers or steps from any input to any output that it may reach."""
        return 1


# ------------------------------------------------------------- attention


class SelfAttention(Layer):
    """§3.2.2: every position looks at every position.

    Heads are as wide as the paper's where d allows it; neither counts nor
    paths depend on them, but there is a softmax weight for each head.
    """

    row = ATTENTION

    def __init__(self, d: int, heads: int | None = None):
        super().__init__(d)
        heads = heads or max(1, d // paper.BASE.d_k)
        self.attention = MultiHeadAttention(d, heads)
        self.heads = heads

    def before(self, x: Sequence) -> tuple[Tensor, ...]:
        keys, values = self.attention.keys_values(x)
        return self.attention.split(self.attention.w_q(x)), keys, values

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, keys, values)[0]

    def fused(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, keys, values)

    def after(self, mixed: Tensor) -> Sequence:
        return self.attention.w_o(rearrange(mixed, "b h n d -> b n (h d)"))

    def cost(self, n: int) -> Cost:
        """2n²d to mix, 4nd² to project; scores are scaled, then weights."""
        d, weights = self.d, self.heads * n**2
        return Cost(2 * n**2 * d, 4 * n * d**2, 2 * weights)

    def sequential(self, n: int) -> int:
        """Projection, scores, mixing of values, projection: whatever n is."""
        return 4


class RestrictedSelfAttention(SelfAttention):
    """§4: a position looks at the r positions around it, itself included.

    Blocks of r queries meet the 2r - 1 keys that any of them may see: twice
    the band, but in a few large products. `r` is odd; ValueError if not.
    """

    row = RESTRICTED

    def __init__(self, d: int, r: int, heads: int | None = None):
        super().__init__(d, heads)
        self.r = odd("r", r)

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        n, r, span = query.shape[2], self.r, 2 * self.r - 1
        more = -n % r  # to full blocks

        def spans(x: Tensor) -> Tensor:
            side = r // 2
            padded = F.pad(x, (0, 0, side, side + more))
            return padded.unfold(2, span, r).mT

        blocks = F.pad(query, (0, 0, 0, more)).unflatten(2, (-1, r))
        seen = band(n, r, query.device)
        heads, _ = scaled_dot_product_attention(
            blocks, spans(keys), spans(values), seen
        )
        return heads.flatten(2, 3)[:, :, :n]

    def fused(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.mix(query, keys, values)

    def cost(self, n: int) -> Cost:
        """2(2r - 1)d for each of the n positions that fill blocks of r."""
        full, span = n + -n % self.r, 2 * self.r - 1
        return Cost(
            2 * span * full * self.d, 4 * n * self.d**2,
            2 * self.heads * span * full,
        )

    def path(self, n: int) -> int:
        """⌈(n - 1) / ((r - 1)/2)⌉ layers: each reaches (r - 1)/2 further."""
        return layers_to_cross(n, self.r // 2)


def band(n: int, r: int, device=None) -> Bool[Tensor, "blocks {r} span"]:
    """Which of its block's keys a query may see: near ones, and real ones.

    Queries of block b are b·r … b·r + r - 1, its keys start (r - 1)/2 before.
    """
    side, blocks = r // 2, -(-n // r)
    query = torch.arange(blocks * r, device=device).view(blocks, r, 1)
    first = torch.arange(blocks, device=device).view(blocks, 1, 1) * r - side
    key = first + torch.arange(2 * r - 1, device=device)
    return ((key - query).abs() <= side) & (key >= 0) & (key < n)


# ------------------------------------------------------------- recurrence


class Recurrent(Layer):
    """h_t = tanh(W x_t + U h_{t-1}): step t waits for step t - 1."""

    row, gates, kernel = RECURRENT, 1, nn.RNN
    per_number = 2  # elementwise results for each component of a state

    def __init__(self, d: int):
        super().__init__(d)
        self.rnn = self.kernel(d, d, bias=False, batch_first=True)

    def mix(self, x: Tensor) -> Tensor:
        w, u = self.rnn.weight_ih_l0, self.rnn.weight_hh_l0
        states = [x.new_zeros(len(x), self.d)] * 2  # h, and c of an LSTM
        outputs = []
        for wx in F.linear(x, w).unbind(1):  # all W x_t in one product
            states = self.step(wx, F.linear(states[0], u), *states)
            outputs.append(states[0])
        return torch.stack(outputs, 1)

    def step(
        self, wx: Tensor, uh: Tensor, h: Tensor, c: Tensor
    ) -> list[Tensor]:
        """The next h and c: from `wx` = W x_t, `uh` = U h, and both."""
        return [torch.tanh(wx + uh), c]

    def sweep(self, x: Sequence, states: Sequence) -> Sequence:
        """Step t from `states` at t - 1, for every t at once: n make a `mix`.

        A cell c beside h is taken to be equal to it: for who depends on whom.
        """
        before = F.pad(states[:, :-1], (0, 0, 1, 0))
        wx = F.linear(x, self.rnn.weight_ih_l0)
        uh = F.linear(before, self.rnn.weight_hh_l0)
        return self.step(wx, uh, before, before)[0]

    def fused(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]

    def cost(self, n: int) -> Cost:
        """2nd² for each of its gates."""
        return Cost(
            2 * self.gates * n * self.d**2,
            elementwise=self.per_number * n * self.d,
        )

    def sequential(self, n: int) -> int:
        """n: one a step."""
        return n

    def path(self, n: int) -> int:
        """n steps from the first input to the last output."""
        return n


class GRU(Recurrent):
    """Cho et al. (2014): two gates say what is kept and what is new."""

    gates, kernel, per_number = 3, nn.GRU, 10

    def step(
        self, wx: Tensor, uh: Tensor, h: Tensor, c: Tensor
    ) -> list[Tensor]:
        """z·h + (1 - z)·new, gates r and z; `wx`, `uh` and c as above."""
        (r, z, new), (ur, uz, u_new) = wx.chunk(3, -1), uh.chunk(3, -1)
        r, z = torch.sigmoid(r + ur), torch.sigmoid(z + uz)
        new = torch.tanh(new + r * u_new)
        return [new + z * (h - new), c]


class LSTM(Recurrent):
    """Hochreiter and Schmidhuber (1997): a cell c beside h, three gates."""

    gates, kernel, per_number = 4, nn.LSTM, 13

    def step(
        self, wx: Tensor, uh: Tensor, h: Tensor, c: Tensor
    ) -> list[Tensor]:
        """c is f·c + i·g, gates i, f and o of `wx` + `uh`; h is o·tanh c."""
        i, f, g, o = (wx + uh).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return [torch.sigmoid(o) * torch.tanh(c), c]


# ------------------------------------------------------------- convolution


class Convolution(Layer):
    """y_t = Σ_j W_j x_{t + j·dilation}, over k places with t in the middle.

    Each W_j is d × d. `causal`: t is the last of them. `dilation` is how far
    apart they are: 1 is the contiguous convolution. ValueError for an even k
    that is to have a middle.
    """

    row = CONVOLUTION

    def __init__(
        self, d: int, k: int, dilation: int = 1, causal: bool = False
    ):
        super().__init__(d)
        self.k = k if causal else odd("k", k)
        self.dilation, self.causal = dilation, causal
        self.weight = nn.Parameter(torch.empty(d, d, k))
        nn.init.normal_(self.weight, std=(d * k) ** -0.5)

    @property
    def reach(self) -> int:
        """How many places a layer reaches to the left, without dilation."""
        return self.k - 1 if self.causal else self.k // 2

    def mix(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.weight, groups=1)

    def convolve(self, x: Tensor, weight: Tensor, groups: int) -> Tensor:
        left = self.reach * self.dilation
        right = 0 if self.causal else left
        x = F.pad(x.mT, (left, right))
        return F.conv1d(x, weight, dilation=self.dilation, groups=groups).mT

    def cost(self, n: int) -> Cost:
        """knd²."""
        return Cost(self.k * n * self.d**2)

    def path(self, n: int) -> int:
        """⌈(n - 1)/(k - 1)⌉ layers if causal, else ⌈(n - 1)/((k - 1)/2)⌉."""
        return layers_to_cross(n, self.reach)


class DilatedConvolution(Convolution):
    """Kalchbrenner et al. (2017): each layer has its k places further apart.

    `d` is the width. Layer `number` i has dilation (reach + 1)ⁱ: kⁱ if it is
    causal. Around a middle it is ((k + 1)/2)ⁱ; with kⁱ the way from one end
    to the other would lead over places beyond the ends, and there are none.
    """

    def __init__(self, d: int, k: int, number: int = 0, causal: bool = False):
        super().__init__(d, k, causal=causal)
        self.dilation = (self.reach + 1) ** number

    def path(self, n: int) -> int:
        """⌈log_k n⌉ layers if causal, ⌈log n / log((k + 1)/2)⌉ if not."""
        layers = 1
        while (self.reach + 1) ** layers < n:
            layers += 1
        return layers


class SeparableConvolution(Convolution):
    """Chollet (2017): k weights for each component, then one d × d matrix.

    `dilation` and `causal` as in `Convolution`.

    Both are what §4 counts, knd + nd². The matrix belongs to `mix`, since it
    makes the components meet.
    """

    def __init__(
        self, d: int, k: int, dilation: int = 1, causal: bool = False
    ):
        super().__init__(d, k, dilation, causal)
        self.weight = nn.Parameter(torch.empty(d, 1, k))
        nn.init.normal_(self.weight, std=k**-0.5)
        self.pointwise = nn.Linear(d, d, bias=False)

    def mix(self, x: Tensor) -> Tensor:
        return self.pointwise(self.convolve(x, self.weight, groups=self.d))

    def cost(self, n: int) -> Cost:
        """knd + nd²."""
        return Cost(self.k * n * self.d + n * self.d**2)

    def sequential(self, n: int) -> int:
        return 2


# ------------------------------------------------------------- both


def odd(name: str, size: int) -> int:
    """The size; ValueError for one without a middle and two sides."""
    if size < 3 or size % 2 == 0:
        raise ValueError(f"{name} is {size}; expected an odd number from 3")
    return size


def layers_to_cross(n: int, reach: int) -> int:
    """⌈(n - 1) / reach⌉, at least 1: layers until the ends have met."""
    return max(1, -(-(n - 1) // reach))
