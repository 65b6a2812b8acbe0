"""The picture of one query shows the numbers that it was given."""

import math

import matplotlib.pyplot as plt
import pytest
import torch

from annotated.figures.scaled_dot_product import all_queries, one_query, projection
from annotated.model import scaled_dot_product_attention

PIECES = ["three", "hundred", "and", "-", "two"]
SPOKEN = ["three", "hundred", "and", "hyphen", "two"]
M, D_K, D_V = len(PIECES), 7, 3


@pytest.fixture
def numbers():
    """q, K, V of prime sizes, and the four stages computed without the package."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*s, generator=generator) for s in [(D_K,), (M, D_K), (M, D_V)])
    scores = k @ q
    scaled = scores / math.sqrt(D_K)
    return q, k, v, scores, scaled, scaled.softmax(-1)


@pytest.fixture
def drawn(numbers):
    fig = one_query(*numbers[3:], numbers[2], PIECES, "“and” asks")
    fig.canvas.draw()
    yield fig
    plt.close(fig)


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_bars_are_scores_scaled_scores_and_weights(drawn, numbers):
    for ax, stage in zip(drawn.axes, numbers[3:], strict=False):
        torch.testing.assert_close(widths(ax), stage.tolist())
        assert [t.get_text() for t in ax.get_yticklabels()] == SPOKEN
        bottom, top = ax.get_ylim()
        assert bottom > top, "the first piece stands on top"


def test_the_first_two_panels_share_their_scale_so_that_the_division_shows(drawn):
    assert drawn.axes[0].get_xlim() == drawn.axes[1].get_xlim()


def test_rows_of_the_mix_add_up_to_the_output_of_attention(drawn, numbers):
    q, k, v, *_ = numbers
    image = torch.as_tensor(drawn.axes[3].images[0].get_array().data)
    output, weights = scaled_dot_product_attention(q[None], k, v)
    assert image.shape == (M + 1, D_V)
    torch.testing.assert_close(image[:-1], weights[0, :, None] * v)
    torch.testing.assert_close(image[-1], output[0])
    assert [t.get_text() for t in drawn.axes[3].get_yticklabels()] == [*SPOKEN, "sum"]


def test_the_colours_reach_both_ways_as_far_as_the_largest_number(drawn):
    image = drawn.axes[3].images[0]
    low, high = image.get_clim()
    assert low == -high
    assert high == pytest.approx(abs(image.get_array()).max())


def test_everything_is_named_and_written_with_a_true_minus(drawn):
    assert drawn.get_suptitle() == "“and” asks"
    assert all(ax.get_xlabel() for ax in drawn.axes)
    written = [t.get_text() for t in drawn.axes[0].texts]
    assert len(written) == M
    assert any(label.startswith("−") for label in written)
    assert not any("-" in label for label in written)


def test_numbers_stay_inside_their_panels(drawn):
    renderer = drawn.canvas.get_renderer()
    for ax in drawn.axes[:3]:
        frame = ax.get_window_extent(renderer)
        for label in ax.texts:
            box = label.get_window_extent(renderer)
            assert frame.x0 <= box.x0 and box.x1 <= frame.x1


def test_scores_of_one_sign_keep_zero_in_sight(numbers):
    *_, v, scores, scaled, weights = numbers
    fig = one_query(scores.abs(), scaled.abs(), weights, v, PIECES, "“and” asks")
    left, right = fig.axes[0].get_xlim()
    plt.close(fig)
    assert left < 0 < scores.abs().max() < right


def test_pieces_must_be_as_many_as_the_scores(numbers):
    *_, v, scores, scaled, weights = numbers
    with pytest.raises(ValueError, match="4 pieces for 5 scores"):
        one_query(scores, scaled, weights, v, PIECES[1:], "“and” asks")


def test_the_projection_shows_vectors_matrix_and_product(numbers):
    x, w = numbers[1], torch.randn(D_K, D_V, generator=torch.Generator().manual_seed(1))
    fig = projection(x, w, PIECES, "and")
    shown = [torch.as_tensor(ax.images[0].get_array().data) for ax in fig.axes]
    for image, expected in zip(shown, (x, w, x @ w), strict=True):
        torch.testing.assert_close(image, expected)
    assert [ax.get_title("left").split("\n")[1] for ax in fig.axes] == ["5 × 7", "7 × 3", "5 × 3"]
    for ax in (fig.axes[0], fig.axes[2]):
        (frame,) = ax.patches
        assert (frame.get_y(), frame.get_height()) == (1.5, 1) and frame.get_width() in (D_K, D_V)
    assert not fig.axes[1].patches
    assert all(ax.images[0].get_clim()[0] == -ax.images[0].get_clim()[1] for ax in fig.axes)


def test_minus_is_violet_and_plus_is_orange(drawn):
    low, high = (drawn.axes[3].images[0].cmap(end) for end in (0.0, 1.0))
    assert low[2] > low[0] and high[0] > high[2]


def test_the_projection_needs_a_name_for_each_row(numbers):
    with pytest.raises(ValueError, match="4 pieces for 5 vectors"):
        projection(numbers[1], torch.zeros(D_K, D_V), PIECES[1:], "and")


class TestAllQueries:
    def test_six_panels_are_the_formula_step_by_step(self):
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(M, width, generator=generator) for width in (D_K, D_K, D_V))
        output, weights = scaled_dot_product_attention(q, k, v)
        fig = all_queries(q, k, v, PIECES, "-", "Found")
        drawn = [torch.tensor(ax.images[0].get_array()) for ax in fig.axes]
        expected = [q, k, v, q @ k.mT / math.sqrt(D_K), weights, output]
        for ours, theirs in zip(drawn, expected, strict=True):
            torch.testing.assert_close(ours, theirs)
        titles = [ax.get_title(loc="left").splitlines()[1] for ax in fig.axes]
        assert titles == ["5 × 7", "5 × 7", "5 × 3", "5 × 5", "5 × 5", "5 × 3"]
        assert [len(ax.patches) for ax in fig.axes] == [1, 0, 0, 1, 1, 1]
        assert {ax.patches[0].get_y() for ax in fig.axes if ax.patches} == {2.5}
        for ax in fig.axes[3:5]:
            assert [text.get_text() for text in ax.get_xticklabels()] == SPOKEN

    def test_a_name_for_each_row(self):
        with pytest.raises(ValueError, match="4 pieces for 5 queries and 5 keys"):
            all_queries(*torch.randn(3, M, D_K), PIECES[:4], "and", "Found")
