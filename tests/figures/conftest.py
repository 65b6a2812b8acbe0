"""Every figure that a test draws can be read on a phone, has one of two widths and is whole."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from annotated.figures import style

drawn, letters = [], style.letters


@pytest.fixture(scope="session", autouse=True)
def noted():
    """`style()` measures the letters of each figure that it finishes: here it is also kept."""

    def measured(fig):
        size = letters(fig)
        if size >= style.READABLE:  # or `style()` refuses it
            drawn.append(fig)
        return size

    patch = pytest.MonkeyPatch()
    patch.setattr(style, "letters", measured)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def whole_and_legible():
    yield
    figures = drawn.copy()
    drawn.clear()
    plt.close("all")
    for fig in figures:
        assert round(fig.get_figwidth(), 2) in (style.WIDE, style.NARROW)
        assert letters(fig) >= 9
        assert fig.get_facecolor() == (0, 0, 0, 0) and fig.dpi == 100
        FigureCanvasAgg(fig).draw()
        assert not [text for text in words(fig) if text.get_visible() and rotated(text)]
        for text in words(fig):
            if text.get_visible() and text.get_text().strip():
                box = text.get_window_extent()
                cut = (min(box.x0, box.y0) < -1 or box.x1 > fig.bbox.x1 + 1
                       or box.y1 > fig.bbox.y1 + 1)
                assert not cut, f"{text.get_text()!r} is cut off"


def rotated(text):
    """Words that stand upright; the architecture's narrow lanes have no room for others."""
    upright = text.get_rotation() in (90, 270) and text.get_text().strip()
    return upright and not (text.get_gid() or "").startswith("residual")


def words(fig):
    """All but the labels of ticks, for which the layout makes room."""
    of_axes = ([*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title, ax.title]
               for ax in fig.axes)
    return [text for texts in (fig.texts, *of_axes) for text in texts]
