"""§6.1, Table 2: BLEU against the cost of training, every row of it."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from annotated.figures.style import GREY, INK, VIOLET, figure, style
from annotated.paper import System

LANGUAGES = {"en_de": "English-German", "en_fr": "English-French"}
ENSEMBLE = " Ensemble"
# Where a name stands beside its mark, if not at the right: in points, and how it is set.
LEFT = ((-9, 0), "right", "center")
BESIDE = {
    "en_de": {
        "ConvS2S": LEFT, "GNMT + RL": LEFT, "MoE": LEFT,
        f"ConvS2S{ENSEMBLE}": ((-4, 8), "center", "bottom"),
        f"GNMT + RL{ENSEMBLE}": ((9, -2), "left", "top"),
    },
    "en_fr": {
        "Deep-Att + PosUnk": LEFT, "GNMT + RL": LEFT, "MoE": LEFT,
        "ConvS2S": ((-2, 9), "center", "bottom"),
        f"ConvS2S{ENSEMBLE}": ((0, 8), "center", "bottom"),
        f"GNMT + RL{ENSEMBLE}": ((9, -5), "left", "top"),
    },
}


def cost_and_bleu(systems: Iterable[System], title: str) -> Figure:
    """Each system's BLEU against what its training cost, a panel for each language pair.

    Filled marks are single models, rings ensembles, joined to the model that they are made of;
    violet is the Transformer. A system without a cost stands at the left edge, one without a
    score is left out, as the table's `systems` have it. BLEU starts where it gets interesting,
    not at 0. `title` is above all.
    """
    systems = list(systems)
    with style():
        fig, axes = figure(7.6, 2, 1, sharex=True)
        for ax, (pair, words) in zip(axes, LANGUAGES.items()):
            places = {}
            for system in systems:
                bleu = getattr(system, pair)
                if bleu is not None:
                    places[system.name] = (getattr(system, f"flops_{pair}"), bleu)
            for name, (flops, bleu) in places.items():
                color = VIOLET if "Transformer" in name else INK
                ring = ENSEMBLE in name
                look: dict = dict(color=color, markersize=9, zorder=3)
                if flops is None:
                    ax.plot([0.015], [bleu], ">", transform=ax.get_yaxis_transform(), **look)
                    ax.annotate(f"{name}: no cost given", (0.015, bleu), (10, 0),
                                xycoords=("axes fraction", "data"), textcoords="offset points",
                                va="center", color=GREY)
                    continue
                ax.plot([flops], [bleu], "o", fillstyle="none" if ring else "full",
                        markeredgewidth=2, **look)
                if ring:
                    single = places[name.removesuffix(ENSEMBLE)]
                    ax.plot([single[0], flops], [single[1], bleu], ":", color=GREY, linewidth=1.5)
                offset, ha, va = BESIDE[pair].get(name, ((8, 0), "left", "center"))
                ax.annotate(
                    "ensemble" if ring else short(name), (flops, bleu), offset,
                    textcoords="offset points", ha=ha, va=va,
                    color=color, weight="bold" if color == VIOLET else "normal",
                )
            ax.set_xscale("log")
            ax.margins(x=0.2, y=0.16)
            ax.set_ylabel("BLEU")
            ax.set_title(words, weight="normal")
        axes[-1].set_xlabel("cost of training, in floating-point operations")
        fig.suptitle(title, x=0.01, ha="left")
    return fig


def short(name: str) -> str:
    """The paper's name without brackets: Transformer, base."""
    return name.replace(" (", ", ").removesuffix(")").removesuffix(" model")
