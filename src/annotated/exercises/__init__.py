"""The exercises of *Build it yourself*: checks that explain, and a model made of the answers."""

from annotated.exercises.assembled import Assembled, assemble, with_mistake
from annotated.exercises.checking import Case, Exercise, Mistake, Report
from annotated.exercises.parts import EXERCISES, check

__all__ = [
    "EXERCISES", "Assembled", "Case", "Exercise", "Mistake", "Report", "assemble", "check",
    "with_mistake",
]
