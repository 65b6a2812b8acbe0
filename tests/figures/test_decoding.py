"""The picture of the decoding loop: its bars are the distributions, its words what they say."""

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import same_color
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from annotated.figures.decoding import BAR, READ, REST, decoding_loop, percent
from annotated.figures.style import GREY, ORANGE, VIOLET

NAMES = ["PAD", "BOS", "EOS", "␣ein", "und", "zwan", "zig"]
SHARES = torch.tensor([
    [0.0, 0.01, 0.02, 0.60, 0.07, 0.2, 0.1],
    [0.0, 0.0002, 0.0008, 0.009, 0.93, 0.05, 0.01],
    [0.05, 0.15, 0.4, 0.1, 0.1, 0.16, 0.04],
])
SAID = ["␣ein", "und", "EOS"]


@pytest.fixture
def draw():
    yield lambda *given: decoding_loop(*given).axes[0]
    plt.close("all")


def bars(ax):
    """(length, colour) of the bars from the top down."""
    found = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    found.sort(key=lambda patch: -patch.get_y())
    return [(patch.get_width() / BAR, patch.get_facecolor()) for patch in found]


def lines(ax):
    """The words of each line, left to right, from the top down."""
    found = {}
    for text in ax.texts:
        x, y = text.get_position()
        found.setdefault(round(y, 1), []).append((x, text.get_text()))
    return [[word for _, word in sorted(found[y])] for y in sorted(found, reverse=True)]


@pytest.mark.parametrize("top", [1, 2, 3, 7])
def test_the_bars_of_a_call_are_its_distribution(draw, top):
    drawn = bars(draw(SHARES, NAMES, top))
    each = top + (top < 7)
    assert len(drawn) == each * 3
    for call, shares in enumerate(SHARES):
        lengths, colors = zip(*drawn[call * each : (call + 1) * each], strict=True)
        assert list(lengths[:top]) == pytest.approx(shares.sort(descending=True)[0][:top].tolist())
        assert sum(lengths) == pytest.approx(1)
        expected = [VIOLET, *[GREY] * (top - 1), REST][:each]
        assert all(map(same_color, colors, expected))


def test_each_call_reads_what_the_calls_before_it_found_likeliest(draw):
    ax = draw(SHARES, NAMES, 2)
    assert lines(ax) == [
        ["step 0", "reads", "start (BOS)"],
        ["␣ein", "60.0 %"], ["zwan", "20.0 %"], ["5 others", "20.0 %"],
        ["step 1", "reads", "start (BOS)", "␣ein"],
        ["und", "93.0 %"], ["zwan", "5.0 %"], ["5 others", "2.0 %"],
        ["step 2", "reads", "start (BOS)", "␣ein", "und"],
        ["end (EOS)", "40.0 %"], ["zwan", "16.0 %"], ["5 others", "44.0 %"],
    ]


def test_an_arrow_leads_from_each_likeliest_piece_to_the_call_that_reads_it_first(draw):
    ax = draw(SHARES, NAMES)
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    new = [box for box in boxes if same_color(box.get_edgecolor(), ORANGE)]
    assert len(boxes) == 1 + 2 + 3 and all(same_color(b.get_facecolor(), READ) for b in boxes)
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(new) == len(arrows) == len(ax.lines) == 2
    likeliest = [p for p in ax.patches if same_color(p.get_facecolor(), VIOLET)]
    for box, arrow, path, bar in zip(new, arrows, ax.lines, likeliest, strict=False):
        (x, y), (end, _) = arrow._posA_posB
        assert end == pytest.approx(box.get_x() + box.get_width(), abs=0.05) and end < x
        assert y == pytest.approx(box.get_y() + box.get_height() / 2)
        assert path.get_ydata()[-1] == y
        assert path.get_ydata()[0] == pytest.approx(bar.get_y() + bar.get_height() / 2)


@pytest.mark.parametrize("sizes", [(3, 3, 4, 3), (1, 10, 3, 3), (1, 1, 1, 1)])
def test_nothing_overlaps_and_nothing_is_cut_off(draw, sizes):
    names = ["w" * size for size in sizes]
    shares = torch.tensor([[0.97, 0.01, 0.01, 0.01], [0.1, 0.7, 0.1, 0.1], [0.2, 0.2, 0.5, 0.1]])
    ax = draw(shares, names, 2)
    ax.figure.canvas.draw()
    whole = ax.figure.bbox
    boxes = [text.get_window_extent() for text in ax.texts]
    for box in boxes:
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1
        assert whole.y0 <= box.y0 and box.y1 <= whole.y1
    for one in range(len(boxes)):
        for other in range(one):
            assert not boxes[one].overlaps(boxes[other])


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100.0 %"), (0.95399, "95.4 %"), (0.001, "0.1 %"), (0.00083, "0.08 %"), (0.0, "0.00 %")],
)
def test_small_shares_keep_their_digits(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("shares", "names", "top", "message"),
    [
        (SHARES, NAMES[1:], 3, "6 names for 7 pieces; expected one each"),
        (SHARES, NAMES, 0, "top is 0; expected 1 to 7, the number of pieces"),
        (SHARES, NAMES, 8, "top is 8; expected 1 to 7, the number of pieces"),
        (SHARES[:0], NAMES, 3, "distributions hold no call; expected at least one"),
        (2 * SHARES, NAMES, 3, "distributions hold no probabilities; expected rows that sum to 1"),
        (SHARES.log(), NAMES, 3, "distributions hold no probabilities; .* sum to 1"),
        (SHARES * torch.nan, NAMES, 3, "distributions hold no probabilities; .* sum to 1"),
    ],
)
def test_what_does_not_fit_is_refused(shares, names, top, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        decoding_loop(shares, names, top)


def test_pieces_wider_than_a_page_are_refused():
    with pytest.raises(ValueError, match=r"the pieces take \d+\.\d inches, more than"):
        decoding_loop(SHARES, [name + "w" * 50 for name in NAMES])
