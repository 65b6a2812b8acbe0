"""Figures in a browser: as wide as they say, sharp, whole on a phone, turned about in the dark."""

import pytest

SIZES = """() => [...document.querySelectorAll('article .cell_output img')].map(img => ({
    width: img.getBoundingClientRect().width, height: img.getBoundingClientRect().height,
    natural: [img.naturalWidth, img.naturalHeight], shown: img.getClientRects().length > 0,
    filter: getComputedStyle(img).filter, ground: getComputedStyle(img).backgroundColor,
    column: img.closest('.cell_output').getBoundingClientRect().width,
    said: [Number(img.getAttribute('width')), Number(img.getAttribute('height'))],
}))"""


def test_figures_keep_their_size_and_follow_the_dark(html, view):
    tab = view(html / "book" / "03-1-study-norm-order.html").tab
    wide = [figure for figure in tab.evaluate(SIZES) if figure["shown"]]
    assert len(wide) == 2
    for figure in wide:
        assert figure["said"][0] in (680, 500)
        room = min(figure["said"][0], figure["column"])
        assert 0.95 * room <= figure["width"] <= figure["said"][0]
        assert figure["natural"] == [2 * side for side in figure["said"]]
        assert figure["filter"] == "none"
    tab.set_viewport_size({"width": 390, "height": 844})
    for figure in tab.evaluate(SIZES):
        if figure["shown"]:
            ratio = figure["said"][1] / figure["said"][0]
            assert 320 <= figure["width"] <= 358
            assert figure["height"] == pytest.approx(ratio * figure["width"], abs=1)
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    for figure in tab.evaluate(SIZES):
        assert "invert" in figure["filter"] and figure["ground"] == "rgba(0, 0, 0, 0)"
