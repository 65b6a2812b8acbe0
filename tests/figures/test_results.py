"""Every row of Table 2 is drawn where its numbers are, and nothing else is."""

import pytest

from annotated import paper
from annotated.figures.results import cost_and_bleu
from annotated.figures.style import VIOLET

PAIRS = ("en_de", "en_fr")


@pytest.fixture
def axes():
    return dict(zip(PAIRS, cost_and_bleu(paper.TABLE_2.rows, "Found").axes))


def marks(ax):
    """(cost, BLEU) -> mark."""
    return {
        (line.get_xdata()[0], line.get_ydata()[0]): line
        for line in ax.lines if len(line.get_xdata()) == 1
    }


def rows(pair):
    return [row for row in paper.TABLE_2.rows if getattr(row, pair) is not None]


@pytest.mark.parametrize("pair", PAIRS)
class TestCostAndBleu:
    def test_a_mark_for_each_row_with_a_score_and_none_for_a_blank_cell(self, axes, pair):
        known = {(getattr(row, f"flops_{pair}"), getattr(row, pair)) for row in rows(pair)}
        drawn = {(x, y) for x, y in marks(axes[pair]) if x > 1}
        assert drawn == {place for place in known if place[0] is not None}
        assert len(marks(axes[pair])) == len(rows(pair)) == {"en_de": 8, "en_fr": 9}[pair]

    def test_ensembles_are_rings_joined_to_their_models(self, axes, pair):
        for row in rows(pair):
            place = (getattr(row, f"flops_{pair}"), getattr(row, pair))
            if place[0] is None:
                continue
            ring = marks(axes[pair])[place].get_fillstyle() == "none"
            assert ring == ("Ensemble" in row.name)
            if ring:
                single = paper.TABLE_2[row.name.removesuffix(" Ensemble")]
                ends = ([getattr(single, f"flops_{pair}"), place[0]],
                        [getattr(single, pair), place[1]])
                lines = [(list(x.get_xdata()), list(x.get_ydata())) for x in axes[pair].lines]
                assert ends in lines

    def test_the_transformer_alone_is_violet(self, axes, pair):
        violet = {place[1] for place, line in marks(axes[pair]).items()
                  if line.get_color() == VIOLET}
        names = ("Transformer (base model)", "Transformer (big)")
        assert violet == {getattr(paper.TABLE_2[name], pair) for name in names}

    def test_every_row_has_its_name(self, axes, pair):
        texts = [text.get_text() for text in axes[pair].texts]
        assert len(texts) == len(rows(pair))
        assert texts.count("ensemble") == sum("Ensemble" in row.name for row in rows(pair))
        assert {"Transformer, base", "Transformer, big", "MoE"} <= {*texts}

    def test_the_axis_shows_differences(self, axes, pair):
        low, high = axes[pair].get_ylim()
        scores = [getattr(row, pair) for row in rows(pair)]
        assert high - low < 1.6 * (max(scores) - min(scores)) and axes[pair].get_xscale() == "log"


def test_a_system_without_a_cost_says_so_at_the_edge(axes):
    (mark,) = [line for line in axes["en_de"].lines if line.get_marker() == ">"]
    assert mark.get_ydata()[0] == paper.TABLE_2["ByteNet"].en_de
    assert "ByteNet: no cost given" in [text.get_text() for text in axes["en_de"].texts]
