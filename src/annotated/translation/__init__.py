"""§6.1: search and translation."""

from annotated.translation.search import Hypothesis, beam_search, greedy_search
from annotated.translation.translator import Search, Translation, Translator, shipped

__all__ = [
    "Hypothesis",
    "Search",
    "Translation",
    "Translator",
    "beam_search",
    "greedy_search",
    "shipped",
]
