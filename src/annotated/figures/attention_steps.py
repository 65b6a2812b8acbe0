"""§3.2, Figure 2: attention, drawn from the operations that run, with their shapes.

Left one attention, right the heads side by side. Boxes, their order and all shapes come from a
tape of the calls that PyTorch gets while a layer works; nothing is drawn that did not run. As in
Figure 1, what has parameters is coloured.
"""

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.overrides import TorchFunctionMode

from annotated.figures.architecture import ATTENDS
from annotated.figures.boxes import Ink, spread
from annotated.figures.style import NARROW, RED, figure, style
from annotated.model import MultiHeadAttention, causal_mask, scaled_dot_product_attention

WIDTH, HEIGHT = 5.2, 5.1  # of the sheet, which is drawn as wide as a figure may be
BOX, PITCH = 0.25, 0.61  # height of a box; from one box to the next on the left

# What PyTorch calls an operation, and what Figure 2 calls it.
NAMES = {
    "matmul": "MatMul", "div": "Scale", "masked_fill": "Mask (opt.)", "softmax": "SoftMax",
    "linear": "Linear", "scaled_dot_product_attention": "Scaled Dot-Product Attention",
}
SPLIT, CONCAT, EMPTY = "Split", "Concat", "Empty rows"
ARRANGES = {"permute", "to"}  # the same numbers, elsewhere or not at all: no step
EXPECTED = [*["Linear", SPLIT] * 3, NAMES["scaled_dot_product_attention"], CONCAT, "Linear"]


@dataclass(frozen=True)
class Step:
    """One operation that ran: its name in Figure 2, what it read, what it gave."""

    name: str
    inputs: tuple
    output: Tensor

    @property
    def shape(self) -> str:
        return shape(self.output)

    def reads(self, tensor: Tensor) -> bool:
        return any(isinstance(x, Tensor) and _same(x, tensor) for x in self.inputs)


def shape(x: Tensor) -> str:
    """The last two axes: rows and width of one head of one sentence."""
    return " × ".join(map(str, x.shape[-2:]))


def steps(run: Callable, *inputs, **options) -> list[Step]:
    """The operations on vectors and weights that `run(*inputs)` makes, in their order.

    A reshape is a step where it splits vectors into heads or joins them. A
    mask that is applied after the softmax is not the one of the figure: it
    empties the rows that may attend to nothing. Raises ValueError for an
    operation that Figure 2 has no name for.
    """
    tape = _Tape()
    with torch.no_grad(), tape:
        run(*inputs, **options)
    return tape.steps


class _Tape(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.steps: list[Step] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        name = function.__name__
        # Attributes, shapes, masks and what merely arranges make no new vectors or weights.
        vectors = isinstance(output, Tensor) and output.is_floating_point()
        if vectors and name != "__get__" and name not in ARRANGES:
            self.steps.append(Step(self._named(name, args, output), (*args,), output))
        return output

    def _named(self, name: str, args: tuple, output: Tensor) -> str:
        if name == "reshape" and output.dim() != args[0].dim():
            return SPLIT if output.dim() > args[0].dim() else CONCAT
        if name == "masked_fill" and any(step.name == "SoftMax" for step in self.steps):
            return EMPTY
        if name not in NAMES:
            raise ValueError(f"{name} ran, and Figure 2 has no box for it")
        return NAMES[name]


def attention_figure(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor | None = None,
    mask: Tensor | None = None,
) -> Figure:
    """Figure 2 of this layer, for what it was called with.

    `x`, `memory`, `mask` and `causal` are the inputs of the `attention` layer's call.
    The right half is the layer's own run. There the attention itself is one fused kernel; its
    inputs are given to `scaled_dot_product_attention`, whose run is the left half, and which must
    give the same heads. Raises ValueError if it does not, or if the layer is wired otherwise.
    """
    ran = steps(attention, x, memory, mask)
    names = [step.name for step in ran]
    if names != EXPECTED:
        raise ValueError(f"the layer ran {', '.join(names)}; expected {', '.join(EXPECTED)}")
    fused = ran[names.index(NAMES["scaled_dot_product_attention"])]
    query, key, value, seen = fused.inputs[:4]
    if attention.causal and seen is None:
        seen = causal_mask(query.shape[-2], query.device)
    literal = steps(scaled_dot_product_attention, query, key, value, seen)
    if not torch.allclose(literal[-1].output, fused.output, atol=1e-4):
        raise ValueError("the formula and the layer's kernel give different heads")
    with style():
        fig, ax = figure(HEIGHT, width=NARROW)
        spread(fig, ax, WIDTH, HEIGHT)
        try:
            _one_head(_Ink(ax), literal, dict(Q=query, K=key, V=value), seen)
            _all_heads(_Ink(ax), ran, dict(V=value, K=key, Q=query), fused, attention)
        except ValueError:
            plt.close(fig)
            raise
    return fig


def _same(x: Tensor, y: Tensor) -> bool:
    """Are these the same numbers in memory, perhaps turned?"""
    return x.data_ptr() == y.data_ptr() and x.numel() == y.numel()


class _Ink(Ink):
    LINES = 6  # in front of boxes, so that they can leave a box over the sheets behind it

    def box(self, left, y, right, text, gid, *, sheets=1, color="white", height=BOX, **look):
        """A box with its name; of several heads there is a sheet behind for each."""
        for behind in reversed(range(sheets)):
            shift, name = 0.05 * behind, f"{gid}, sheet {behind}" if behind else gid
            edges = left + shift, y + shift, right + shift, y + shift + height
            self.rectangle(*edges, color, 5 - behind, gid=name, **look)
        self.say((left + right) / 2, y + height / 2, text)


def _one_head(ink: _Ink, ran: list[Step], inputs: dict[str, Tensor], mask: Tensor | None) -> None:
    """The left half: one box a step, from below, each on the output of the one before."""
    ends = dict(zip(inputs, (0.42, 1.12, 2.04)))
    left, right, bottom = 0.1, 1.45, 0.95
    ink.say(0.1, HEIGHT - 0.24, "Scaled Dot-Product\nAttention: one head", 10.5, "left",
            weight="bold")
    for name, x in ends.items():
        ink.say(x, 0.42, name, 11, weight="bold")
        ink.say(x, 0.22, shape(inputs[name]), 9.5, gid=f"shape of {name}")
    before = None
    for place, step in enumerate(ran):
        y, middle = bottom + PITCH * place, (left + right) / 2
        met = [name for name, tensor in inputs.items() if step.reads(tensor)]
        edge = max([right, *(ends[name] + 0.22 for name in met)])
        if before and not step.reads(before.output):
            raise ValueError(f"{step.name} does not read the output of {before.name}")
        if before:
            ink.arrow((middle, y - PITCH + BOX), (middle, y))
        for name in met:
            ink.arrow((ends[name], 0.53), (ends[name], y))
        if not (before or met):
            raise ValueError(f"{step.name} reads neither Q, K nor V")
        own = step.name == EMPTY  # the package's, not the paper's
        look = dict(linestyle=(0, (4, 2))) if own else {}
        ink.box(left, y, edge, _words(step), f"{place + 1} {step.name}", **look)
        last = place == len(ran) - 1
        if last:
            ink.arrow((middle, y + BOX), (middle, y + PITCH))
        ink.say(middle + 0.06, y + BOX + (PITCH - BOX) / 2, step.shape, 9.5, "left",
                gid=f"shape after {place + 1}")
        if step.name == NAMES["masked_fill"] and mask is not None:
            ink.say(right + 0.07, y + BOX / 2, f"mask\n{shape(mask)}", 9.5, "left", color=RED,
                    gid="shape of mask", linespacing=1.1)
        before = step


def _words(step: Step) -> str:
    if step.name == "Scale":
        return f"Scale ÷ √{step.inputs[1] ** 2:.0f}"
    return f"{step.name} → 0" if step.name == EMPTY else step.name


def _all_heads(ink, ran, inputs: dict[str, Tensor], fused: Step, attention) -> None:
    """The right half: what is made of V, K and Q in every head, and of all heads together."""
    heads = fused.output.shape[1]
    ends, left, right = (3.0, 3.75, 4.5), 2.68, 4.85
    middle, levels = ends[1], [0.95, 2.1, 3.35, 4.0]
    owner = {id(p): name.removesuffix(".weight") for name, p in attention.named_parameters()}
    ink.say(2.6, HEIGHT - 0.24, f"Multi-Head Attention:\nh = {heads}, side by side", 10.5, "left",
            weight="bold")
    for x, (name, tensor) in zip(ends, inputs.items()):
        split = next(step for step in ran if step.name == SPLIT and _same(step.output, tensor))
        linear = next(step for step in ran if step.output is split.inputs[0])
        vectors, weight = linear.inputs[:2]
        ink.say(x, 0.42, name, 11, weight="bold")
        ink.say(x, 0.22, shape(vectors), 9.5, gid=f"vectors for {name}")
        ink.arrow((x, 0.53), (x, levels[0]))
        gid = owner[id(weight)]
        ink.box(x - 0.31, levels[0], x + 0.31, "Linear", gid, sheets=heads, color=ATTENDS)
        ink.arrow((x, levels[0] + BOX), (x, levels[1]))
        ink.say(x + 0.06, levels[1] - 0.17, shape(tensor), 9.5, "left", gid=f"{name} of a head")
    ink.box(left, levels[1], right, "Scaled Dot-Product\nAttention", "attention", sheets=heads,
            height=0.5)
    concat, linear = ran[-2:]
    if not _same(linear.inputs[0], concat.output):
        raise ValueError("the last Linear does not read the joined heads")
    top = HEIGHT - 0.52
    tail = [
        (levels[1] + 0.5, levels[2], f"{heads} of {shape(fused.output)}", "heads"),
        (levels[2] + BOX, levels[3], concat.shape, "joined"),
        (levels[3] + BOX, top, linear.shape, "output"),
    ]
    for start, end, text, gid in tail:
        ink.arrow((middle, start), (middle, end))
        ink.say(middle + 0.06, end - 0.16, text, 9.5, "left", gid=gid)
    ink.box(left + 0.5, levels[2], right - 0.5, CONCAT, "concat")
    ink.box(left + 0.5, levels[3], right - 0.5, "Linear", owner[id(linear.inputs[1])],
            color=ATTENDS)
