"""The picture of the two attentions' costs shows what the record holds."""

import matplotlib.pyplot as plt
import pytest

from annotated.benchmark import attention
from annotated.figures.additive import NAMES, additive_costs
from annotated.jobs import Job

LENGTHS = (3, 7, 13)


@pytest.fixture(scope="module")
def record():
    patch = pytest.MonkeyPatch()
    patch.setattr(attention, "LENGTHS", LENGTHS)
    patch.setattr(attention, "ROUNDS", 3)
    made = attention.record(Job("attention-additive"))
    patch.undo()
    return made


@pytest.fixture
def axes(record):
    fig = additive_costs(record, "It costs more")
    fig.canvas.draw()
    yield fig.axes
    plt.close(fig)


def value(record, table, column, function, length):
    (found,) = (
        row[column] for row in record.table(table)
        if (row["function"], row["length"]) == (function, length) and row.get("backward", 1)
    )
    return found


def test_lines_are_medians_and_bytes_of_the_record(axes, record):
    drawn = (axes[0], "times", "ms", 1), (axes[1], "memory", "kept_bytes", 1e6)
    for ax, table, column, unit in drawn:
        assert [line.get_label() for line in ax.lines] == [*NAMES.values()]
        for name, line in zip(NAMES, ax.lines):
            assert list(line.get_xdata()) == list(LENGTHS)
            expected = [value(record, table, column, name, n) / unit for n in LENGTHS]
            assert list(line.get_ydata()) == pytest.approx(expected)


def test_bands_reach_from_quartile_to_quartile(axes, record):
    for name, band in zip(NAMES, axes[0].collections):
        edges = band.get_paths()[0].vertices
        for n in LENGTHS:
            ys = edges[edges[:, 0] == n][:, 1]
            ends = [value(record, "times", f"ms_quartile_{i}", name, n) for i in (1, 3)]
            assert [ys.min(), ys.max()] == pytest.approx(ends)


def test_axes_are_logarithmic_and_named(axes):
    for ax in axes:
        assert ax.get_xscale() == ax.get_yscale() == "log" and ax.get_title("left")
    assert axes[1].get_xlabel() == "length n = m"
    assert [t.get_text() for t in axes[1].get_xticklabels()] == [str(n) for n in LENGTHS]
    for ax in axes:
        assert {text.get_text() for text in ax.texts} == {*NAMES.values()}
    assert axes[0].figure.get_suptitle() == "It costs more"
