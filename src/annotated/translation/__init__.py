"""§6.1: search and translation."""

from annotated.translation.search import Hypothesis, greedy_search
from annotated.translation.translator import Translator, shipped

__all__ = ["Hypothesis", "Translator", "greedy_search", "shipped"]
