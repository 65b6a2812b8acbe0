"""§3, Figure 1: a whole Transformer, drawn from one of its own forward passes.

Which boxes there are, in which order, where sums stand, what reads the memory, which masks are used
and every shape: all of it is measured on the model that is drawn.
"""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from torch import Tensor, nn

from annotated.data.batches import Batch
from annotated.figures.boxes import Ink, spread
from annotated.figures.style import (
    DEEP,
    GREY,
    NARROW,
    PALE,
    RED,
    VIOLET,
    figure,
    spoken,
    style,
)
from annotated.model import (
    MultiHeadAttention,
    Transformer,
    padding_mask,
    record_attention,
)
from annotated.model.evaluating import evaluating

WIDTH, ROW, GAP = NARROW, 0.17, 0.265  # inches: the sheet, a line of text, room for an arrow
BOX, LANE = 1.81, 0.22  # width of a sub-layer's boxes, and of the way around them
BUS = WIDTH / 2 - 0.1  # where the memory goes up and down, between the stacks
EMBEDS, ATTENDS, FEEDS, NORMS = "#dfe3ea", PALE[VIOLET], "#cbbde6", "#f3ecd8"
TIE, STACK, LAYER, SUBLAYER = "#7b8696", "#e9ebef", "#ffffff", "#f5f6f8"


@dataclass
class Call:
    """One call of a module: what went in, what came out, and the calls it made."""

    name: str
    module: nn.Module
    inputs: tuple
    output: Tensor = field(init=False)  # set when the call returns
    calls: list["Call"] = field(default_factory=list)

    @property
    def short(self) -> str:
        return self.name.rsplit(".", 1)[-1]


def trace(model: nn.Module, *inputs: Tensor) -> Call:
    """Run the model, without dropout, and return its call with all that it called."""
    top = Call("", model, ())
    running = [top]

    def enter(name: str) -> Callable:
        def hook(module: nn.Module, given: tuple) -> None:
            running[-1].calls.append(Call(name, module, given))
            running.append(running[-1].calls[-1])

        return hook

    def leave(module: nn.Module, given: tuple, output: Tensor) -> None:
        running.pop().output = output

    handles = []
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(enter(name)))
            handles.append(module.register_forward_hook(leave))
        with evaluating(model), torch.no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return top.calls[0]


def parts(
    model: Transformer, source: Tensor, target: Tensor
) -> list[dict[str, str | int]]:
    """§3, Figure 1: the parts of this model in the order in which they run, with their shapes.

    Each has its name, side, what it reads and gives (shapes, without the one sentence) and the
    number of its parameters; an attention also the shape of its weights, (heads, n, m), its mask,
    and the memory that it reads. Of layers only the first is open; the others are one part, with
    their number. The last are the logits.
    `source` and `target` are ids of one sentence, and may be on the meta device with the model.
    """
    call = trace(model, source, target)
    end = [inner.name for inner in call.calls].index("encoder") + 1
    found: list[dict[str, str | int]] = []

    def add(call: Call, side: str, reads: Tensor, gives: Tensor, **more: str | int) -> None:
        learned = sum(weight.numel() for weight in call.module.parameters())
        found.append({"name": call.name, "side": side, "reads": shape(reads),
                      "gives": shape(gives), "parameters": learned, **more})

    for side, calls in (("encoder", call.calls[:end]), ("decoder", call.calls[end:])):
        embed, positions, _, stack = calls
        add(embed, side, embed.inputs[0], embed.output)
        add(positions, side, embed.inputs[0], positions.output[None])
        first, *others = [layer for layer in stack.calls if layer.calls]
        for inner in (inner for sub in first.calls for inner in sub.calls):
            if isinstance(inner.module, nn.Dropout):
                continue
            more: dict[str, str | int] = {}
            if isinstance(inner.module, MultiHeadAttention):
                x, memory, mask = (*inner.inputs, None, None)[:3]
                answers = x if memory is None else memory
                more = {"weights": f"{inner.module.heads} × {x.shape[1]} × {answers.shape[1]}",
                        "mask": "causal" if inner.module.causal else "padding"}
                if memory is not None:
                    more["memory"] = shape(memory)
            add(inner, side, inner.inputs[0], inner.output, **more)
        if others:
            every = sum(w.numel() for layer in others for w in layer.module.parameters())
            add(others[0], side, others[0].inputs[0], others[-1].output, layers=len(others),
                parameters=every)
    logits = call.output
    found.append({"name": "logits", "side": "decoder", "reads": shape(call.calls[-1].output),
                  "gives": shape(logits), "parameters": 0 if model.config.tie else
                  sum(weight.numel() for weight in model.matrix("output").parameters())})
    return found


def architecture(
    model: Transformer, batch: Batch, piece: Callable[[int], str], whole: bool = True
) -> Figure:
    """Figure 1 of this model, with the shapes and the pieces of one sentence.

    Encoder left, decoder right, data flows upward. Each module that computes something is one box
    or frame, and its artist's gid is its name; a module that both sides use is one box for both.
    `batch` holds the sentence; `piece` turns an id into text. Not `whole`, it fits a screen:
    attention and feed-forward are closed boxes, dropout is left out, and of layers that are alike
    only the first is open. Raises ValueError for more than one sentence, for a target that is not
    its labels shifted right, and for a model that is wired in a way this can't draw.
    """
    source, target, labels = batch.source, batch.target, batch.labels
    if len(source) != 1:
        raise ValueError(f"the batch has {len(source)} sentences; expected one")
    bos = torch.full_like(target[:, :1], model.config.bos_id)
    if not torch.equal(target, torch.cat([bos, labels[:, :-1]], dim=1)):
        raise ValueError("target is not BOS and the labels but the last, as shifted right must be")
    with record_attention(model) as weights:
        call = trace(model, source, target)
    mask = padding_mask(source, model.config.pad_id)
    names = {model.config.bos_id: "BOS", model.config.eos_id: "EOS"}
    with style():
        fig, ax = figure(1.0, width=WIDTH)
        words = (
            wrapped(spoken([names.get(id) or piece(id) for id in ids[0].tolist()], ends=True))
            for ids in (source, target, call.output.argmax(-1))
        )
        try:
            height = _Sheet(ax, model, call, weights, mask, whole).draw(*words)
        except ValueError:
            plt.close(fig)
            raise
        spread(fig, ax, WIDTH, height)
    return fig


def wrapped(pieces: Iterable[str]) -> list[str]:
    """Pieces as lines no wider than a stack."""
    return textwrap.wrap(" ".join(pieces), 24, break_on_hyphens=False)


def shape(x: Tensor) -> str:
    """Of one sentence, so without the axis of sentences."""
    return " × ".join(map(str, x.shape[1:]))


def summed(total: Tensor, x: Tensor, y: Tensor, where: str) -> bool:
    """Is `total` `x` + `y`, or y alone? ValueError that names the place `where` it is neither."""
    if torch.equal(total, y):
        return False
    if torch.equal(total, x + y):
        return True
    raise ValueError(f"{where}: neither the output before it nor its sum with what it passed by")


def outline(call: Call) -> tuple:
    """What a call did, without its numbers: the kinds of module called, in order, and in them."""
    return type(call.module), call.output.shape, tuple(map(outline, call.calls))


def follows(call: Call, before: Tensor) -> None:
    """Refuse to draw an arrow between two modules where no data goes that way."""
    if not torch.equal(call.inputs[0], before):
        raise ValueError(f"{call.name} does not read the output of the module before it")


class _Column:
    """Where one side stands: the middle and edges of its boxes, and the lane outside them."""

    def __init__(self, left: float, outward: int):
        self.outward = outward
        self.frame = left, left + 2.24
        self.layer = left + 0.05, left + 2.19
        self.band = left + 0.08, left + 2.16
        self.left = left + (0.08 + LANE if outward < 0 else 0.13)
        self.right = self.left + BOX
        self.middle = self.left + BOX / 2
        self.edge = self.left if outward < 0 else self.right
        self.lane = self.edge + outward * LANE * 0.6


class _Sheet(Ink):
    def __init__(
        self, ax, model: Transformer, call: Call, weights: dict, mask: Tensor, whole: bool
    ):
        super().__init__(ax)
        self.whole = whole
        self.model, self.call, self.weights, self.mask = model, call, weights, mask
        self.columns = _Column(0.04, -1), _Column(2.52, 1)
        self.memory: Tensor  # set by `draw`, before the decoder reads it
        self.splits: list[float] = []  # heights at which the memory is read

    # -- ink

    def box(self, name, x, y, width, text, color="white", height=ROW, **look) -> float:
        """A module with its name on it; gives the height of its upper edge."""
        self.rectangle(x, y, x + width, y + height, color, gid=name)
        self.say(x + width / 2, y + height / 2, text, **look)
        return y + height

    def frame(self, name, edges, bottom, top, color, zorder, edge="#b0b0b0") -> None:
        self.rectangle(edges[0], bottom, edges[1], top, color, zorder, edge, gid=name)

    def label(self, x, y, tensor: Tensor, arrow: str, ha="left", color="black", **look) -> None:
        """The shape of what an arrow carries."""
        x += {"left": 0.05, "right": -0.05, "center": 0}[ha]
        self.say(x, y, shape(tensor), size=9.5, ha=ha, gid=arrow, color=color, **look)

    # -- from the bottom to the top

    def draw(self, source: Sequence[str], target: Sequence[str], said: Sequence[str]) -> float:
        """Draw all of it; gives the height of the sheet."""
        names = [call.name for call in self.call.calls]
        end = names.index("encoder") + 1
        encode, decode = self.call.calls[:end], self.call.calls[end:]
        self.memory = encode[-1].output
        y = self.inputs(encode, decode, source, target)
        top, top_right = (
            self.stack(calls[-1], column, y)
            for column, calls in zip(self.columns, (encode, decode))
        )
        self.bus(top)
        return self.output(decode[-1], top_right, said)

    def inputs(self, encode, decode, source, target) -> float:
        """Ids, the embedding and the positions; a module of both sides is one wide box."""
        lines = max(len(source), len(target))
        y = 0.06 + ROW * (lines + 1)
        sides = list(zip(self.columns, (encode, decode)))
        for (column, _), title, words in zip(
            sides, ("source", "target, shifted right"), (source, target)
        ):
            self.say(column.middle, y - ROW / 2, title, weight="bold")
            for i, words_line in enumerate(words):
                self.say(column.middle, y - ROW * (1.5 + i), words_line)
        tied = encode[0].name == decode[0].name
        for column, (embed, positions, dropout, stack) in sides:
            ids, x = embed.inputs[0], column.middle
            ha = "left" if column.outward > 0 else "right"
            self.arrow((x, y), (x, y + GAP))
            self.label(x, y + GAP / 2, ids, f"ids → {embed.name}", ha)
            if not tied:
                top = self.wide(embed, [column], y + GAP, self.matrix(embed), 2, EMBEDS)
            elif embed is encode[0]:
                text = self.matrix(embed).replace("\n", ", ")
                top = self.wide(embed, self.columns, y + GAP, text, 1, EMBEDS)
            circle = top + GAP + 0.09
            self.arrow((x, top), (x, circle - 0.09))
            self.label(x, top + GAP / 2, embed.output, f"{embed.name} → +", ha)
            if not summed(dropout.inputs[0], positions.output, embed.output, dropout.name):
                raise ValueError(f"{dropout.name} reads an embedding to which nothing was added")
            follows(stack, dropout.output)
            self.plus(x, circle)
            edge = BUS + column.outward * 0.46
            self.arrow((edge, circle), (x - column.outward * 0.09, circle))
            self.label((edge + x) / 2, circle + 0.1, positions.output[None], "positions → +",
                       "center")
            if self.whole:
                self.arrow((x, circle + 0.09), (x, circle + 0.09 + GAP))
                self.label(x, circle + 0.09 + GAP / 2, dropout.inputs[0], "+ → dropout", ha)
        learned = any(True for _ in positions.module.parameters())
        kind = type(positions.module).__name__.removesuffix("Positions").lower()
        self.box(positions.name, BUS - 0.46, circle - 0.19, 0.92,
                 f"{positions.short}\n{kind}", EMBEDS if learned else "white", height=0.38)
        if not self.whole:
            return circle + 0.2
        return self.wide(dropout, self.columns, circle + 0.09 + GAP, self.text(dropout))

    def wide(self, call: Call, columns, y, text, lines=1, color="white") -> float:
        """One box across all the columns that use the module."""
        left, right = columns[0].left, columns[-1].right
        return self.box(call.name, left, y, right - left, text, color, height=lines * ROW)

    def matrix(self, embed: Call) -> str:
        """The matrix, and the factor that its rows are seen to be multiplied by."""
        weight = embed.module.get_parameter("weight")
        rows = weight.detach()[embed.inputs[0]]
        square = (embed.output.square().sum() / rows.square().sum()).item()
        factor = "" if abs(square - 1) < 1e-3 else f"\nrows × √{square:.0f}"
        return f"{embed.short}: {shape(weight[None])}{factor}"

    def plus(self, x: float, y: float) -> None:
        self.ax.add_patch(Circle((x, y), 0.09, facecolor="white", edgecolor=GREY, zorder=5))
        self.say(x, y - 0.005, "+", size=11, weight="bold")

    def stack(self, call: Call, column: _Column, below: float) -> float:
        """Encoder or decoder: its layers, and a final norm where there is one."""
        bottom = below + 0.06
        y, start, current = bottom + 0.05, below, call.inputs[0]
        first, *others = [layer for layer in call.calls if layer.calls]
        alike = not self.whole and others and all(outline(o) == outline(first) for o in others)
        for layer in call.calls:
            follows(layer, current)
            current = layer.output
            if alike and layer is not first and layer.calls:
                if layer is others[-1]:
                    y, start = self.closed(others, column, y, start)
            elif layer.calls:
                y, start = self.layer(layer, column, y, start)
            elif not isinstance(layer.module, nn.Identity):
                self.arrow((column.middle, start), (column.middle, y + GAP))
                self.label(column.middle, y + GAP / 2, layer.inputs[0], f"→ {layer.name}")
                start = self.box(layer.name, column.left, y + GAP, BOX, layer.short, NORMS)
                y = start + 0.05
        top = y + ROW
        self.frame(call.name, column.frame, bottom, top, STACK, 0)
        self.say(column.frame[0] + 0.06, top - ROW / 2 - 0.02, call.name, ha="left", weight="bold",
                 size=10.5)
        self.line((column.middle, start), (column.middle, top))
        return top

    def layer(self, call: Call, column: _Column, bottom: float, start: float):
        y, current = bottom + 0.03, call.inputs[0]
        for sub in call.calls:
            follows(sub, current)
            y, start = self.sublayer(sub, column, y, start)
            current = sub.output
        top = y + ROW - 0.02
        self.frame(call.name, column.layer, bottom, top, LAYER, 1)
        name = ".".join(call.name.split(".")[-2:])
        self.say(column.layer[0] + 0.06, top - ROW / 2, name, size=9.2, ha="left")
        return top + 0.04, start

    def closed(self, layers: Sequence[Call], column: _Column, bottom: float, start: float):
        """Layers like the one below them, as one box; the memory that they read is led to it."""
        last = layers[-1]
        names = dict.fromkeys(".".join(c.name.split(".")[-2:]) for c in (layers[0], last))
        x, y = column.middle, bottom + 0.03
        self.arrow((x, start), (x, y + GAP))
        self.label(x, y + GAP / 2, layers[0].inputs[0], f"→ {layers[0].name}",
                   "left" if column.outward < 0 else "right")
        attentions = [c for layer in layers for sub in layer.calls for c in sub.calls
                      if isinstance(c.module, MultiHeadAttention)]
        reads = [m for c in attentions for _, _, m in self.readers(c, column)]
        if any(reads):
            split, end = y + GAP - 0.1, column.left + 0.3
            self.arrow((BUS, split), (end, split), (end, y + GAP), color=DEEP)
            self.splits.append(split)
            self.label(column.left - 0.05, y + 0.065, self.memory, f"memory → {last.name}",
                       color=DEEP)
        text = f"{' … '.join(names)}: the same"
        top = self.box(last.name, column.left, y + GAP, BOX, text, LAYER, height=1.4 * ROW)
        return top + 0.06, top

    def sublayer(self, call: Call, column: _Column, bottom: float, start: float):
        """Its boxes in the order of their calls, with the sum where it is found."""
        x = current = call.inputs[0]
        y, plus, branch = bottom, None, None
        for child in call.calls:
            if summed(child.inputs[0], x, current, child.name):
                y = start = plus = self.sum(call, column, y)
            if not self.whole and isinstance(child.module, nn.Dropout):
                current = child.output
                continue
            if branch is None or child.calls:
                enters = self.fork(child, column, start, y)
                branch = branch or (enters, y + 0.04)
                y += GAP
            y = start = self.part(child, column, y)
            current = child.output
        if summed(call.output, x, current, f"the output of {call.name}"):
            y = start = plus = self.sum(call, column, y)
        if plus and branch:
            height, lane = plus - ROW / 2, column.lane
            self.arrow(branch, (lane, branch[1]), (lane, height), (column.edge, height))
            self.label(lane, (branch[1] + height) / 2, x, f"residual of {call.name}", "center",
                       rotation=90, bbox=dict(facecolor=SUBLAYER, edgecolor="none", pad=1))
        self.frame(call.name, column.band, bottom, y + 0.03, SUBLAYER, 2, "none")
        return y + 0.06, start

    def sum(self, call: Call, column: _Column, y: float) -> float:
        """The row where a sub-layer adds what passed it by."""
        top = self.box(f"sum of {call.name}", column.left, y, BOX, "+", size=11, weight="bold")
        inner = column.right if column.outward < 0 else column.left
        self.say(inner + column.outward * 0.05, y + ROW / 2, call.short, size=9.2, color=GREY,
                 ha="left" if column.outward > 0 else "right")
        return top

    def readers(self, attention: Call, column: _Column) -> list[tuple[Call, float, bool]]:
        """The matrices that read x or the memory: (call, its middle, whether it is the memory)."""
        x, memory = (*attention.inputs, None)[:2]
        if memory is not None and memory is not self.memory:
            raise ValueError(f"{attention.name} reads what is not the output of the encoder")
        calls = [c for c in attention.calls if c.inputs[0] is x or c.inputs[0] is memory]
        width = BOX / len(calls)
        return [
            (c, column.left + (i + 0.5) * width, c.inputs[0] is memory)
            for i, c in enumerate(calls)
        ]

    def fork(self, child: Call, column: _Column, start: float, y: float) -> float:
        """One arrow up to a module, split where several matrices read the same; gives its x."""
        ends, memory = [column.middle], []
        if isinstance(child.module, MultiHeadAttention) and not self.whole:
            if any(of for _, _, of in self.readers(child, column)):
                ends, memory = [column.right - 0.3], [column.left + 0.3]
        elif isinstance(child.module, MultiHeadAttention):
            reads = self.readers(child, column)
            ends, memory = ([x for _, x, of in reads if of is which] for which in (False, True))
        x, top = ends[len(ends) // 2], y + GAP
        split = top - 0.1
        self.line((x, start), (x, split))
        for end in ends:
            self.arrow((x, split), (end, split), (end, top))
        ha = "left" if column.outward < 0 else "right"
        self.label(x, y + 0.065, child.inputs[0], f"→ {child.name}", ha)
        for end in memory:
            self.arrow((BUS, split), (end, split), (end, top), color=DEEP)
        if memory:
            self.splits.append(split)
            self.label(column.left - 0.05, y + 0.065, self.memory, f"memory → {child.name}",
                       color=DEEP)
        return x

    def part(self, call: Call, column: _Column, y: float) -> float:
        """One module of a sub-layer; attention and feed-forward are frames with boxes inside."""
        if not call.calls:
            color = NORMS if isinstance(call.module, nn.LayerNorm) else "white"
            return self.box(call.name, column.left, y, BOX, self.text(call), color)
        bottom, color, rest = y, FEEDS, call.calls
        attends = isinstance(call.module, MultiHeadAttention)
        if not self.whole:
            self.say(column.middle, y + ROW * (1.5 if attends else 0.5), call.short, weight="bold")
            if attends:
                self.under(call, column, y + ROW / 2)
            top = y + (2 if attends else 1) * ROW
            self.frame(call.name, (column.left, column.right), y, top,
                       ATTENDS if attends else FEEDS, 3, "#7f7f7f")
            return top
        if attends:
            color, reads = ATTENDS, self.readers(call, column)
            width = BOX / len(reads)
            for child, x, _ in reads:
                self.box(child.name, x - width / 2, y, width, child.short, color)
            y += 2 * ROW
            self.under(call, column, y - ROW / 2)
            rest = call.calls[len(reads):]
        for child in rest:
            fill = color if any(True for _ in child.module.parameters()) else "white"
            y = self.box(child.name, column.left, y, BOX, self.text(child), fill)
        self.say(column.middle, y + ROW / 2, call.short, weight="bold")
        self.frame(call.name, (column.left, column.right), bottom, y + ROW, "white", 3, "#7f7f7f")
        return y + ROW

    def under(self, call: Call, column: _Column, y: float) -> None:
        """The shape of an attention's weights, and its mask."""
        self.label(column.left, y, self.weights[call.name], f"weights of {call.name}")
        self.say(column.right - 0.05, y, self.mask_of(call), size=9.5, ha="right", color=RED,
                 gid=f"mask of {call.name}")

    def mask_of(self, attention: Call) -> str:
        mask = attention.inputs[2] if len(attention.inputs) > 2 else None
        names = ["causal"] if attention.module.causal else []
        if mask is not None:
            names.append("padding" if torch.equal(mask, self.mask) else "other")
        return " + ".join(names) + " mask" if names else "no mask"

    def text(self, call: Call) -> str:
        module = call.module
        if isinstance(module, nn.Dropout):
            return f"{call.short} {module.p:g}"
        if isinstance(module, nn.Linear):
            return f"{call.short}: {shape(call.output)}"
        if isinstance(module, nn.LayerNorm):
            return call.short
        return f"{call.short}: {type(module).__name__}"

    def bus(self, top: float) -> None:
        """The memory: from the top of the encoder to every matrix that reads it."""
        x, y = self.columns[0].middle, top + 0.14
        self.line((x, top), (x, y), (BUS, y), color=DEEP)
        ends = [y, *self.splits]
        self.line((BUS, min(ends)), (BUS, max(ends)), color=DEEP)
        self.label(x, y + 0.1, self.memory, "encoder → memory", color=DEEP)
        self.say(x - 0.05, y + 0.1, "memory", ha="right", weight="bold", color=DEEP)

    def output(self, decoder: Call, top: float, said: Sequence[str]) -> float:
        """The logits, from the embedding's own matrix or from another."""
        column, matrix = self.columns[1], self.model.matrix("output")
        logits = self.call.output
        if not torch.equal(matrix.logits(decoder.output), logits):
            raise ValueError("logits are not the decoder's output times the output matrix")
        (name,) = [name for name, module in self.model.named_modules() if module is matrix]
        boxes = [patch for patch in self.ax.patches if isinstance(patch, Rectangle)]
        tied = [box for box in boxes if box.get_gid() == name]
        x, y = column.middle, top + GAP
        self.arrow((x, top), (x, y))
        self.label(x, top + GAP / 2, decoder.output, "decoder → logits")
        text = f"{name.split('.')[-1]}, transposed"
        y = self.box("logits" if tied else name, column.left, y, BOX, text, EMBEDS)
        for box in tied:
            start, end, side = box.get_y() + ROW / 2, y - ROW / 2, WIDTH - 0.06
            self.line((column.right, start), (side, start), (side, end), (column.right, end),
                      color=TIE, style=(0, (3, 2)))
        self.arrow((x, y), (x, y + GAP))
        self.label(x, y + GAP / 2, logits, "logits →")
        self.say(x - 0.05, y + GAP / 2, "logits", ha="right", size=9.5)
        y += GAP
        for line in reversed(said):
            self.say(x, y + ROW / 2, line)
            y += ROW
        self.say(x, y + ROW / 2, "likeliest next pieces", weight="bold")
        return y + ROW + 0.04
