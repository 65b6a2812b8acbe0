"""The picture of the two attentions' costs shows what the record holds."""

import matplotlib.pyplot as plt
import pytest

from annotated.benchmark import attention
from annotated.benchmark.attention import attention_record
from annotated.figures.additive import LINES, additive_costs

LENGTHS = (3, 7, 13)


@pytest.fixture(scope="module")
def record():
    patch = pytest.MonkeyPatch()
    patch.setattr(attention, "LENGTHS", LENGTHS)
    patch.setattr(attention, "ROUNDS", 3)
    made = attention_record(0, "a command")
    patch.undo()
    return made


@pytest.fixture
def axes(record):
    fig = additive_costs(record)
    fig.canvas.draw()
    yield fig.axes
    plt.close(fig)


def value(record, name):
    return record.metrics[name]["value"]


def test_lines_are_medians_and_bytes_of_the_record(axes, record):
    for ax, name, unit in ((axes[0], "ms_{}_both_{}", 1), (axes[1], "kept_bytes_{}_{}", 1e6)):
        assert [line.get_label() for line in ax.lines] == [look[0] for look in LINES.values()]
        for way, line in zip(LINES, ax.lines):
            assert list(line.get_xdata()) == list(LENGTHS)
            expected = [value(record, name.format(way, n)) / unit for n in LENGTHS]
            assert list(line.get_ydata()) == pytest.approx(expected)


def test_bands_reach_from_quartile_to_quartile(axes, record):
    for way, band in zip(LINES, axes[0].collections):
        edges = band.get_paths()[0].vertices
        for n in LENGTHS:
            ys = edges[edges[:, 0] == n][:, 1]
            ends = [value(record, f"ms_{way}_both_{n}_quartile_{i}") for i in (1, 3)]
            assert [ys.min(), ys.max()] == pytest.approx(ends)


def test_axes_are_logarithmic_and_named(axes):
    for ax in axes:
        assert ax.get_xscale() == ax.get_yscale() == "log" and ax.get_title("left")
    assert axes[1].get_xlabel() == "length n = m"
    assert [t.get_text() for t in axes[1].get_xticklabels()] == [str(n) for n in LENGTHS]
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert labels == [look[0] for look in LINES.values()]
