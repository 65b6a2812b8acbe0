"""The drawing of a model shows that model: its modules, its order, its sums, its shapes."""

import re
from collections import Counter

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import nn

from annotated.data.batches import Batch, collate
from annotated.figures.architecture import EMBEDS, TIE, architecture, parts, trace
from annotated.figures.style import DEEP
from annotated.model import (
    Decoder,
    Sublayer,
    TiedEmbedding,
    Transformer,
    TransformerConfig,
)
from annotated.notebook import book_model

SIZES = dict(vocab_size=41, d_model=22, d_ff=29, heads=2, d_k=5, d_v=7, layers=2)
BATCH = collate([([11, 3, 7, 5], [13, 17])], 0, 1, 2)  # 5 source positions, 3 target positions
CHANGES = {
    "book": {},
    "pre": dict(norm="pre"),
    "learned": dict(positions="learned", max_length=7),
    "halves": dict(positions="sinusoidal-halves"),
    "untied": dict(tie=False),
    "one": dict(layers=1),
    "three": dict(layers=3),
    "gelu": dict(activation="gelu", attention_bias=True),
}


def made(**changes):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**(SIZES | changes)))


def draw(model, batch=BATCH):
    return architecture(model, batch, lambda id: f"<{id}>").axes[0]


@pytest.fixture(scope="module")
def drawing():
    """The model of one of CHANGES and its drawing, each drawn once."""
    done = {}

    def drawn(change="book"):
        if change not in done:
            model = made(**CHANGES[change])
            done[change] = model, draw(model)
        return done[change]

    yield drawn
    plt.close("all")


@pytest.fixture
def close():
    """Close what this test draws, and not what others share."""
    before = plt.get_fignums()
    yield
    for number in set(plt.get_fignums()) - set(before):
        plt.close(number)


def modules(model):
    """What computes: not the lists that hold modules, nor the norm that post-norm leaves out."""
    holders = nn.ModuleList, nn.ModuleDict, nn.Identity
    return {name: m for name, m in model.named_modules() if name and not isinstance(m, holders)}


def boxes(ax):
    return {patch.get_gid(): patch for patch in ax.patches if isinstance(patch, Rectangle)}


def texts(ax, gid):
    return [text.get_text() for text in ax.texts if text.get_gid() == gid]


def bounds(box):
    return box.get_x(), box.get_y(), box.get_x() + box.get_width(), box.get_y() + box.get_height()


def heads(ax, color=None):
    """Where arrows end."""
    return [
        arrow._posA_posB[1] for arrow in ax.patches if isinstance(arrow, FancyArrowPatch)
        and (color is None or to_rgb(arrow.get_edgecolor()) == to_rgb(color))
    ]


def inside(ax, name):
    """The words written on one box."""
    left, low, right, high = bounds(boxes(ax)[name])
    return [
        t.get_text() for t in ax.texts
        if left < t.get_position()[0] < right and low < t.get_position()[1] < high
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_every_module_of_the_model_is_drawn_once_and_no_other(drawing, change):
    model, ax = drawing(change)
    drawn = Counter(patch.get_gid() for patch in ax.patches if isinstance(patch, Rectangle))
    sums = {f"sum of {n}" for n, m in model.named_modules() if isinstance(m, Sublayer)}
    tied = {"logits"} if model.config.tie else set()
    assert drawn == Counter([*modules(model), *sums, *tied])


@pytest.mark.parametrize("change", CHANGES)
def test_every_box_says_the_last_part_of_its_name(drawing, change):
    model, ax = drawing(change)
    for name in modules(model):
        words = " ".join(inside(ax, name))
        assert name.rsplit(".", 1)[-1] in words, name


def test_a_changed_model_changes_the_drawing(drawing):
    pictures = {}
    for change in CHANGES:
        _, ax = drawing(change)
        pictures[change] = (
            sorted(boxes(ax)), sorted(t.get_text() for t in ax.texts),
            [round(y, 6) for _, y, *_ in map(bounds, boxes(ax).values())],
            [patch.get_facecolor() for patch in boxes(ax).values()],
        )
    for change, picture in pictures.items():
        assert change in ("book", "halves") or picture != pictures["book"], change
    assert "positions\nlearned" in inside(drawing("learned")[1], "positions")


def test_only_what_has_parameters_is_coloured(drawing):
    for change in ("book", "learned"):
        model, ax = drawing(change)
        drawn = boxes(ax)
        for name, module in modules(model).items():
            if not list(module.children()):
                white = to_rgb(drawn[name].get_facecolor()) == (1, 1, 1)
                assert white == (not list(module.parameters())), name


@pytest.mark.parametrize("change, order", [
    ("book", ["self_attention", "sublayer_1.dropout", "sum of ", "sublayer_1.norm"]),
    ("pre", ["sublayer_1.norm", "self_attention", "sublayer_1.dropout", "sum of "]),
])
def test_norm_and_sum_stand_where_the_forward_pass_has_them(drawing, change, order):
    _, ax = drawing(change)
    for stack in ("encoder", "decoder"):
        layer = f"{stack}.layers.1"
        names = [
            f"sum of {layer}.sublayer_1" if part == "sum of " else f"{layer}.{part}"
            for part in order
        ]
        places = [bounds(boxes(ax)[name]) for name in names]
        for (_, _, _, top), (_, bottom, _, _) in zip(places, places[1:], strict=False):
            assert top <= bottom + 1e-9
        *_, inner = bounds(boxes(ax)[f"{layer}.sublayer_1"])
        assert inner >= places[-1][3]


def test_the_order_inside_attention_and_feed_forward_is_upward(drawing):
    drawn = {name: bounds(box) for name, box in boxes(drawing()[1]).items()}
    for stack in ("encoder", "decoder"):
        layer = f"{stack}.layers.0"
        for kind in ("self", "cross") if stack == "decoder" else ("self",):
            name = f"{layer}.{kind}_attention"
            first = [drawn[f"{name}.{w}"] for w in ("w_k", "w_v", "w_q")]
            assert len({box[1] for box in first}) == 1
            assert drawn[f"{name}.w_o"][1] >= first[0][3]
        parts = [drawn[f"{layer}.feed_forward.{p}"][1] for p in ("w_1", "activation", "w_2")]
        assert parts == sorted(parts)


@pytest.mark.parametrize("change", ["book", "pre"])
def test_a_residual_leads_from_below_its_sublayer_to_its_sum(drawing, change):
    model, ax = drawing(change)
    for name, module in model.named_modules():
        if not isinstance(module, Sublayer):
            continue
        left, low, right, high = bounds(boxes(ax)[f"sum of {name}"])
        middle = (low + high) / 2
        paths = [
            line for line in ax.lines
            if line.get_ydata()[-1] == pytest.approx(middle)
            and line.get_xdata()[-1] in (left, right)
        ]
        assert len(paths) == 1, name
        below = [bounds(box)[1] for part, box in boxes(ax).items() if part.startswith(f"{name}.")]
        assert paths[0].get_ydata()[0] < min(below)
        assert texts(ax, f"residual of {name}") == ["5 × 22" if "enc" in name else "3 × 22"]


def test_a_model_without_residuals_is_drawn_without(close, monkeypatch):
    monkeypatch.setattr(
        Sublayer, "forward",
        lambda self, x, f, *inputs: self.norm(self.dropout(f(x, *inputs))),
    )
    ax = draw(made())
    assert not [name for name in boxes(ax) if name.startswith("sum")]
    assert not [t for t in ax.texts if (t.get_gid() or "").startswith("residual")]


def test_the_memory_goes_to_keys_and_values_of_every_decoder_layer(drawing):
    for change in ("one", "three"):
        model, ax = drawing(change)
        ends = sorted(heads(ax, DEEP), key=lambda end: (end[1], end[0]))
        wanted = [
            bounds(boxes(ax)[f"decoder.layers.{i}.cross_attention.{w}"])
            for i in range(model.config.layers) for w in ("w_k", "w_v")
        ]
        assert len(ends) == len(wanted)
        for (x, y), (left, low, right, _) in zip(ends, wanted, strict=True):
            assert left < x < right and y == pytest.approx(low)
        rises = [line for line in ax.lines if to_rgb(line.get_color()) == to_rgb(DEEP)]
        top = bounds(boxes(ax)["encoder"])[3]
        assert any(line.get_ydata()[0] == pytest.approx(top) for line in rises)
        assert texts(ax, "encoder → memory") == ["5 × 22"]


def test_another_memory_is_not_drawn_as_the_encoders(close, monkeypatch):
    before = plt.get_fignums()

    def forward(self, x, memory, mask):
        for i, layer in enumerate(self.layers):
            x = layer(x, memory * (1 + i), mask)
        return x

    monkeypatch.setattr(Decoder, "forward", forward)
    with pytest.raises(ValueError, match=r"^decoder.layers.0.cross_attention reads what is not"):
        draw(made())
    assert plt.get_fignums() == before


def test_masks_are_those_of_the_forward_pass(close, drawing):
    model, ax = drawing()
    for name in modules(model):
        if name.endswith("attention"):
            causal = name.startswith("decoder") and "self" in name
            expected = "causal mask" if causal else "padding mask"
            assert texts(ax, f"mask of {name}") == [expected]
            queries, keys = (5 if "enc" in name else 3), (3 if causal else 5)
            assert texts(ax, f"weights of {name}") == [f"2 × {queries} × {keys}"]

    model = made()
    for layer in model.decoder.layers:
        layer.self_attention.causal = False
    assert texts(draw(model), "mask of decoder.layers.1.self_attention") == ["no mask"]


def test_shapes_on_arrows_are_those_that_went_through(close):
    model = made()
    seen = {}
    for name, module in model.named_modules():
        module.register_forward_hook(
            lambda m, given, out, name=name: seen.update({name: (given[0], out)})
        )
    ax = draw(model)
    assert seen["encoder"][1].shape == (1, 5, 22) and seen[""][1].shape == (1, 3, 41)
    for name in modules(model):
        if re.search(r"attention$|feed_forward$", name):
            (label,) = texts(ax, f"→ {name}")
            assert label == " × ".join(str(n) for n in seen[name][0].shape[1:])
        if re.search(r"w_[o12]$", name):
            assert inside(ax, name) == [
                f"{name[-3:]}: " + " × ".join(str(n) for n in seen[name][1].shape[1:])
            ]
    assert texts(ax, "decoder → logits") == ["3 × 22"]
    assert texts(ax, "logits →") == ["3 × 41"]
    assert texts(ax, "ids → embedding") == ["5", "3"]
    assert texts(ax, "embedding → +") == texts(ax, "positions → +") == ["5 × 22", "3 × 22"]


def test_no_arrow_without_a_shape(drawing):
    """Heads may share a label where one arrow splits into a fork."""
    _, ax = drawing()
    labels = [t for t in ax.texts if " → " in f" {t.get_gid()} " or "residual" in str(t.get_gid())]
    assert all(re.fullmatch(r"\d+( × \d+)*", t.get_text()) for t in labels)
    forks = 2 * (2 + 2)  # self-attention of 2 + 2 layers: three heads, one label
    memory = 2 - 1  # two heads and a label each, and the label at the top of the encoder
    assert len(heads(ax)) == len(labels) + forks + memory


def test_the_tied_matrix_is_one_box_and_its_second_use_is_joined_to_it(drawing):
    _, ax = drawing()
    box, logits = boxes(ax)["embedding"], boxes(ax)["logits"]
    left, low, right, high = bounds(box)
    for stack in ("encoder", "decoder"):
        ends = bounds(boxes(ax)[stack])
        assert left < ends[2] and right > ends[0], stack
    assert to_rgb(box.get_facecolor()) == to_rgb(logits.get_facecolor()) == to_rgb(EMBEDS)
    (line,) = [line for line in ax.lines if to_rgb(line.get_color()) == to_rgb(TIE)]
    assert low < line.get_ydata()[0] < high
    assert bounds(logits)[1] < line.get_ydata()[-1] < bounds(logits)[3]
    _, untied = drawing("untied")
    assert {"embedding", "untied.target", "untied.output"} <= set(boxes(untied))
    assert not [line for line in untied.lines if to_rgb(line.get_color()) == to_rgb(TIE)]


def test_the_factor_of_the_embedding_is_measured(close, drawing, monkeypatch):
    assert inside(drawing()[1], "embedding") == ["embedding: 41 × 22, rows × √22"]
    monkeypatch.setattr(TiedEmbedding, "forward", lambda self, ids: self.weight[ids])
    assert inside(draw(made()), "embedding") == ["embedding: 41 × 22"]


def test_positions_that_are_not_added_are_not_drawn_as_added(monkeypatch):
    def embed(self, ids, use, start=0):
        x, _ = self.matrix(use)(ids), self.positions(ids.shape[1], start)
        return self.dropout(x)

    monkeypatch.setattr(Transformer, "embed", embed)
    with pytest.raises(ValueError, match="dropout reads an embedding to which nothing was added"):
        draw(made())


def test_the_sentence_and_what_the_model_says_are_written(drawing):
    model, ax = drawing()
    words = " ".join(text.get_text() for text in ax.texts)
    assert "source <11> <3> <7> <5> end" in words
    assert "target, shifted right start <13> <17>" in words
    names = {1: "start", 2: "end"}
    said = model.eval()(BATCH.source, BATCH.target)[0].argmax(-1).tolist()
    assert all(names.get(id, f"<{id}>") in words for id in said)


@pytest.mark.parametrize("change", CHANGES)
def test_words_fit_their_boxes_and_the_sheet_and_do_not_touch(close, change):
    """With the sizes of the book's model, whose words are the longest."""
    sizes = dict(vocab_size=420, d_model=128, d_ff=512, heads=4, d_k=None, d_v=None)
    batch = collate([(list(range(3, 9)), [3, 4, 5])], 0, 1, 2)
    ax = draw(made(**(sizes | CHANGES[change])), batch)
    places = [(t.get_text(), t.get_window_extent()) for t in ax.texts]
    for i, (text, place) in enumerate(places):
        assert 0 <= place.x0 and place.x1 <= ax.figure.bbox.x1 and place.y1 <= ax.figure.bbox.y1
        for other, there in places[:i]:
            width = min(place.x1, there.x1) - max(place.x0, there.x0)
            height = min(place.y1, there.y1) - max(place.y0, there.y0)
            assert width < 1 or height < 4, (text, other)  # 4: air above and below the letters
    for name, box in boxes(ax).items():
        frame = box.get_window_extent()
        for text, place in places:
            if frame.contains((place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2):
                assert frame.x0 <= place.x0 and place.x1 <= frame.x1, (name, text)


def test_drawing_leaves_the_model_as_it_was(close):
    model = made().train()
    before = dict(plt.rcParams)
    draw(model)
    assert dict(plt.rcParams) == before
    for module in model.modules():
        assert module.training
        assert not module._forward_hooks and not module._forward_pre_hooks
        assert getattr(module, "record", None) is None


def test_a_trace_ends_with_its_hooks_even_when_the_model_fails():
    model = made()
    with pytest.raises(ValueError, match="source holds the id 41"):
        trace(model, torch.tensor([[41]]), torch.tensor([[1]]))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_what_can_not_be_drawn_is_named():
    before = plt.get_fignums()
    two = collate([([3], [5]), ([7], [11])], 0, 1, 2)
    with pytest.raises(ValueError, match="the batch has 2 sentences; expected one"):
        draw(made(), two)
    leak = Batch(BATCH.source, BATCH.labels, BATCH.labels)
    with pytest.raises(ValueError, match="target is not BOS and the labels"):
        draw(made(), leak)
    assert plt.get_fignums() == before


@pytest.fixture(scope="module")
def small():
    models = {layers: made(layers=layers) for layers in (1, 3)}
    sheets = {
        layers: architecture(model, BATCH, lambda id: f"<{id}>", whole=False).axes[0]
        for layers, model in models.items()
    }
    yield sheets
    plt.close("all")


class TestOnAScreen:
    """Not whole: closed boxes, and of layers that are alike only the first is open."""

    def test_the_first_layer_is_open_and_the_others_are_one_box(self, small):
        drawn = set(boxes(small[3]))
        for stack, names in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
            layer = f"{stack}.layers.0"
            assert {f"{layer}.{name}_attention" for name in names} <= drawn
            assert f"{layer}.feed_forward" in drawn
            assert f"{stack}.layers.2" in drawn and f"{stack}.layers.1" not in drawn
            assert inside(small[3], f"{stack}.layers.2") == ["layers.1 … layers.2: the same"]
        assert not [name for name in drawn if name and re.search(r"w_[kvqo12]|dropout", name)]

    def test_sums_masks_and_the_memory_are_those_of_the_whole_drawing(self, small):
        whole = draw(made(layers=3))
        for gid in ("mask of decoder.layers.0.self_attention", "logits →", "encoder → memory"):
            assert texts(small[3], gid) == texts(whole, gid) != []
        assert "sum of decoder.layers.0.sublayer_3" in boxes(small[3])
        ends = heads(small[3], DEEP)
        assert len(ends) == 2  # the open layer's attention, and the box of the others

    def test_one_layer_has_no_box_for_others(self, small):
        assert not [name for name in boxes(small[1]) if name and "layers.1" in name]

    def test_it_is_not_high(self, small):
        assert small[3].figure.get_size_inches()[1] < 7


class TestParts:
    """What the page's own drawing in SVG is made from."""

    @pytest.fixture
    def ours(self):
        book = book_model()
        return book.model, parts(book.model, book.batch().source, book.batch().target)

    def test_names_are_the_modules_in_the_order_in_which_they_run(self, ours):
        model, found = ours
        names = [part["name"] for part in found]
        modules = dict(model.named_modules())
        assert all(name in modules for name in names[:-1]) and names[-1] == "logits"
        opened = [name for name in names if ".layers.0." in name]
        assert [name.split(".", 3)[3] for name in opened] == [
            "self_attention", "sublayer_1.norm", "feed_forward", "sublayer_2.norm",
            "self_attention", "sublayer_1.norm", "cross_attention", "sublayer_2.norm",
            "feed_forward", "sublayer_3.norm"]

    def test_shapes_and_masks_are_those_of_our_sentence(self, ours):
        found = {(part["side"], part["name"].split(".")[-1]): part for part in ours[1]}
        cross = found["decoder", "cross_attention"]
        assert (cross["reads"], cross["memory"], cross["gives"]) == ("4 × 32", "7 × 32", "4 × 32")
        assert (cross["weights"], cross["mask"]) == ("2 × 4 × 7", "padding")
        assert found["decoder", "self_attention"]["mask"] == "causal"
        assert found["encoder", "self_attention"]["weights"] == "2 × 7 × 7"
        assert found["decoder", "logits"]["gives"] == "4 × 420"

    @pytest.mark.parametrize("size", ["base", "big", "tiny"])
    def test_their_parameters_are_all_of_the_models(self, size):
        """On the meta device too; the embedding's matrix is counted once."""
        config = getattr(TransformerConfig, size)()
        with torch.device("meta"):
            model = Transformer(config)
            found = parts(model, torch.ones(1, 7).long(), torch.ones(1, 5).long())
        twice = next(part["parameters"] for part in found if part["name"] == "embedding")
        assert sum(part["parameters"] for part in found) - twice == sum(
            weight.numel() for weight in model.parameters())
        assert [part["layers"] for part in found if "layers" in part] == 2 * [config.layers - 1]
