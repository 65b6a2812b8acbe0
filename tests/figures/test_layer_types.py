"""What is drawn of layer types are the lines, dots and counts that were given."""

import pytest

from annotated.figures.layer_types import WIDTHS, path_lengths, plane

PANELS = {"one": {"a": 1.0, "b": 1.5, "c": 4.0}, "other": {"d": 2.0}}
DOTS = {"here": (7, 32), "there": (500, 512)}


def test_lines_are_length_over_width():
    fig = plane(PANELS, DOTS, "found")
    for ax, (heading, lines) in zip(fig.axes, PANELS.items(), strict=True):
        drawn = [line for line in ax.lines if len(line.get_xdata()) == 2]
        ratios = [line.get_xdata() / line.get_ydata() for line in drawn]
        assert [r.tolist() for r in ratios] == [[ratio, ratio] for ratio in lines.values()]
        assert len({line.get_linestyle() for line in drawn}) == len(lines)
        assert ax.get_xscale() == ax.get_yscale() == "log"
        assert ax.get_title(loc="left") == heading
    assert fig.get_suptitle() == "found"


def test_every_panel_has_all_dots_with_their_names():
    for ax in plane(PANELS, DOTS, "found").axes:
        dots = [tuple(*line.get_xydata()) for line in ax.lines if len(line.get_xdata()) == 1]
        assert dots == [*DOTS.values()]
        named = {text.get_text(): text.xy for text in ax.texts if hasattr(text, "xy")}
        assert {name: named[name] for name in DOTS} == DOTS


def test_a_name_of_a_line_leads_to_its_line():
    ax = plane(PANELS, DOTS, "found").axes[0]
    named = {text.get_text(): text.xy for text in ax.texts if hasattr(text, "xy")}
    assert {name: named[name][0] / named[name][1] for name in PANELS["one"]} == PANELS["one"]


def test_the_ground_is_violet_up_to_the_first_line():
    for ax, lines in zip(plane(PANELS, DOTS, "found").axes, PANELS.values()):
        (ground,) = ax.collections
        corners = {(round(x), round(y)) for x, y in ground.get_paths()[0].vertices}
        first = next(iter(lines.values()))
        assert {(round(first * d), d) for d in WIDTHS} <= corners
        assert max(x for x, _ in corners) == round(first * WIDTHS[1])


@pytest.mark.parametrize("lines", [{}, {"a": 2.0, "b": 1.0}, dict.fromkeys("abcd", 1.0)])
def test_lines_without_room_or_order_are_refused(lines):
    with pytest.raises(ValueError, match="^ratios are .*; expected 1 to 3 that rise"):
        plane({"one": lines}, DOTS, "found")


def test_steps_are_the_formula_and_dots_what_was_measured():
    formula = {"one": [1, 1, 1], "two": [1, 2, 4]}
    measured = {"one": {2: 1}, "two": {3: 2, 5: 4}}
    (ax,) = path_lengths(formula, measured, [2, 3, 5], "found").axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert lines == [
        ([2, 3, 5], [1, 1, 1]), ([2], [1]), ([2, 3, 5], [1, 2, 4]), ([3, 5], [2, 4]),
    ]
    assert ax.lines[0].get_drawstyle() == "steps-post"
    assert sorted(t.get_text() for t in ax.texts) == ["one", "two"]
    assert ax.get_title(loc="left") == "found"
