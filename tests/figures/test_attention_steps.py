"""Figure 2 shows the operations that run, in their order, with their shapes, and no others."""

import math
from collections import Counter

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.figures import attention_steps
from annotated.figures.attention_steps import attention_figure, steps
from annotated.model import (
    MultiHeadAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from annotated.model.attention import masked_softmax

N, M, WIDE, HEADS, D_K, D_V = 5, 11, 13, 3, 7, 2
PAPER = ["MatMul", "Scale", "Mask (opt.)", "SoftMax", "MatMul"]


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return MultiHeadAttention(WIDE, HEADS, D_K, D_V).eval()


@pytest.fixture
def called():
    """x, memory and a mask that hides the last two keys."""
    torch.manual_seed(1)
    ids = torch.tensor([[3] * (M - 2) + [0] * 2])
    return torch.randn(1, N, WIDE), torch.randn(1, M, WIDE), padding_mask(ids, 0)


@pytest.fixture
def ax(layer, called):
    return attention_figure(layer, *called).axes[0]


def boxes(ax):
    """Name → box; the sheets behind are left out."""
    found = {p.get_gid(): p for p in ax.patches if isinstance(p, Rectangle)}
    return {name: box for name, box in found.items() if "sheet" not in name}


def left_half(ax):
    """Its boxes from below, without their numbers."""
    named = [(box.get_y(), name) for name, box in boxes(ax).items() if name[0].isdigit()]
    return [name.split(" ", 1)[1] for _, name in sorted(named)]


def text(ax, gid):
    (found,) = [t.get_text() for t in ax.texts if t.get_gid() == gid]
    return found


class Kernels(TorchDispatchMode):
    """What the library itself is asked to do, a level below the tape of the figure."""

    figure = {
        "bmm": "MatMul", "mm": "MatMul", "div": "Scale", "masked_fill": "mask",
        "_softmax": "SoftMax",
    }

    def __init__(self):
        super().__init__()
        self.ran = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.ran += [self.figure[name]] if name in self.figure else []
        return function(*args, **(kwargs or {}))


class TestLeft:
    def test_the_paper_s_five_steps_in_the_paper_s_order(self, ax):
        drawn = left_half(ax)
        assert drawn == [*PAPER[:4], "Empty rows", PAPER[4]]
        assert [name for name in drawn if name != "Empty rows"] == PAPER

    def test_they_are_the_operations_that_the_library_runs(self, layer, called, ax):
        x, memory, mask = called
        query, (key, value) = layer.split(layer.w_q(x)), layer.keys_values(memory)
        with Kernels() as below:
            scaled_dot_product_attention(query, key, value, mask)
        ran = below.ran
        after = ran.index("SoftMax")
        named = ["Mask (opt.)" if name == "mask" else name for name in ran[:after]]
        named += ["Empty rows" if name == "mask" else name for name in ran[after:]]
        assert named == left_half(ax)

    def test_without_a_mask_there_is_no_mask(self, layer, called):
        drawn = attention_figure(layer, *called[:2]).axes[0]
        assert left_half(drawn) == ["MatMul", "Scale", "SoftMax", "MatMul"]
        assert not any(t.get_gid() == "shape of mask" for t in drawn.texts)

    def test_shapes_are_those_of_one_head(self, ax):
        assert [text(ax, f"shape of {x}") for x in "QKV"] == ["5 × 7", "11 × 7", "11 × 2"]
        shapes = [text(ax, f"shape after {i}") for i in range(1, 7)]
        assert shapes == [*["5 × 11"] * 5, "5 × 2"]
        assert text(ax, "shape of mask") == "mask\n1 × 11"

    def test_the_divisor_is_the_one_that_was_used(self, ax):
        assert "Scale ÷ √7" in [t.get_text() for t in ax.texts]
        assert not any("√11" in t.get_text() for t in ax.texts)

    def test_causal_attention_shows_its_square_mask(self, layer, called):
        layer.causal = True
        drawn = attention_figure(layer, called[0]).axes[0]
        assert text(drawn, "shape of mask") == "mask\n5 × 5"
        assert left_half(drawn)[2] == "Mask (opt.)"

    def test_another_order_makes_another_drawing(self, layer, called, monkeypatch):
        def masks_first(query, key, value, mask):
            scores = (query @ key.mT).masked_fill(~mask, -1e30) / math.sqrt(query.shape[-1])
            weights = scores.softmax(-1)
            return weights @ value, weights

        monkeypatch.setattr(attention_steps, "scaled_dot_product_attention", masks_first)
        drawn = left_half(attention_figure(layer, *called).axes[0])
        assert drawn == ["MatMul", "Mask (opt.)", "Scale", "SoftMax", "MatMul"]

    @pytest.mark.parametrize("fault", ["no scale", "wrong scale", "softmax over queries"])
    def test_a_formula_that_is_not_what_the_layer_computes_is_refused(
        self, layer, called, monkeypatch, fault
    ):
        def wrong(query, key, value, mask):
            divisor = {"no scale": 1.0, "wrong scale": 13**0.5}.get(fault, 7**0.5)
            scores = query @ key.mT / divisor
            weights = scores.softmax(-2) if "over" in fault else masked_softmax(scores, mask)
            return weights @ value, weights

        monkeypatch.setattr(attention_steps, "scaled_dot_product_attention", wrong)
        with pytest.raises(ValueError, match="give different heads"):
            attention_figure(layer, *called)
        assert not plt.get_fignums()


class TestRight:
    def test_a_linear_each_for_v_k_and_q_then_attention_concat_and_linear(self, ax):
        drawn = boxes(ax)
        across = [drawn[name].get_x() for name in ("w_v", "w_k", "w_q")]
        assert across == sorted(across) and len(set(across)) == 3
        up = [drawn[name].get_y() for name in ("w_q", "attention", "concat", "w_o")]
        assert up == sorted(up) and len(set(up)) == 4
        assert len({drawn[name].get_y() for name in ("w_v", "w_k", "w_q")}) == 1

    def test_there_is_a_sheet_for_every_head_and_none_once_they_are_joined(self, ax):
        sheets = Counter(
            p.get_gid().split(",")[0] for p in ax.patches if isinstance(p, Rectangle)
        )
        several = {name for name, count in sheets.items() if count > 1}
        assert several == {"w_v", "w_k", "w_q", "attention"}
        assert {sheets[name] for name in several} == {HEADS}

    def test_every_matrix_of_the_layer_is_drawn_coloured_and_nothing_else(self, layer, ax):
        coloured = {n for n, box in boxes(ax).items() if to_rgb(box.get_facecolor()) != (1, 1, 1)}
        assert coloured == {name for name, _ in layer.named_children()}

    def test_shapes(self, ax):
        assert [text(ax, f"vectors for {x}") for x in "VKQ"] == ["11 × 13", "11 × 13", "5 × 13"]
        assert [text(ax, f"{x} of a head") for x in "VKQ"] == ["11 × 2", "11 × 7", "5 × 7"]
        assert text(ax, "heads") == "3 of 5 × 2"
        assert text(ax, "joined") == "5 × 6" and text(ax, "output") == "5 × 13"

    def test_one_matrix_and_a_split_are_a_linear_for_each_head(self, layer, called):
        """Why sheets may be drawn where the package runs one Linear."""
        x, memory, _ = called
        for matrix, given, width in ((layer.w_q, x, D_K), (layer.w_v, memory, D_V)):
            together = layer.split(matrix(given))[0]
            for head in range(HEADS):
                mine = matrix.weight[head * width : (head + 1) * width]
                torch.testing.assert_close(together[head], given[0] @ mine.T)

    def test_a_bias_changes_nothing_in_the_drawing(self, called):
        torch.manual_seed(0)
        layer = MultiHeadAttention(WIDE, HEADS, D_K, D_V, bias=True).eval()
        drawn = attention_figure(layer, *called).axes[0]
        assert {"w_q", "w_k", "w_v", "w_o", "concat"} <= set(boxes(drawn))

    def test_a_layer_that_does_more_is_refused(self, called):
        class Twice(MultiHeadAttention):
            def forward(self, x, *more):
                self.w_q(x)
                return super().forward(x, *more)

        torch.manual_seed(0)
        with pytest.raises(ValueError, match="the layer ran .*; expected Linear, Split"):
            attention_figure(Twice(WIDE, HEADS, D_K, D_V), *called)


class TestSteps:
    def test_inputs_and_outputs_are_the_tensors_that_went_through(self):
        torch.manual_seed(0)
        query, key, value = torch.randn(N, D_K), torch.randn(M, D_K), torch.randn(M, D_V)
        ran = steps(scaled_dot_product_attention, query, key, value, causal_mask(M)[:N])
        output, weights = scaled_dot_product_attention(query, key, value, causal_mask(M)[:N])
        assert torch.equal(ran[-1].output, output) and torch.equal(ran[-2].output, weights)
        assert torch.equal(ran[0].output, query @ key.T)
        assert ran[0].reads(query) and ran[0].reads(key) and not ran[0].reads(value)
        assert ran[1].inputs[1] == math.sqrt(D_K)
        assert [step.shape for step in ran] == [*["5 × 11"] * 5, "5 × 2"]

    def test_what_the_figure_has_no_name_for_is_refused(self):
        with pytest.raises(ValueError, match="exp ran, and Figure 2 has no box for it"):
            steps(torch.exp, torch.ones(3))

    def test_the_real_model_runs_these_in_every_attention(self):
        from annotated.figures.architecture import trace
        from annotated.notebook import book_model

        book = book_model()
        batch = book.batch()
        found, open_calls = [], [trace(book.model, batch.source, batch.target)]
        while open_calls:
            call = open_calls.pop()
            open_calls += call.calls
            if isinstance(call.module, MultiHeadAttention):
                found.append(call.name)
                drawn = left_half(attention_figure(call.module, *call.inputs).axes[0])
                assert [name for name in drawn if name != "Empty rows"] == PAPER
        assert len(found) == 6


def test_words_stay_inside_their_boxes_and_the_sheet(ax):
    renderer = ax.figure.canvas.get_renderer()
    edges = ax.get_window_extent(renderer)
    frames = [box.get_window_extent(renderer) for box in boxes(ax).values()]
    for words in ax.texts:
        extent = words.get_window_extent(renderer)
        assert edges.x0 <= extent.x0 and extent.x1 <= edges.x1, words.get_text()
        assert edges.y0 <= extent.y0 and extent.y1 <= edges.y1, words.get_text()
        x, y = (extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2
        for frame in frames:
            if frame.contains(x, y):
                assert frame.x0 <= extent.x0 and extent.x1 <= frame.x1, words.get_text()
