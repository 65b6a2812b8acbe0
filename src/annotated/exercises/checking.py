"""How an answer to an exercise is judged.

The answer runs on fixed inputs, the simplest first. On the first on which it differs from the right
one, known wrong versions run too: the one that gives the same result is what went wrong.
"""

import linecache
import textwrap
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mistake:
    """One that is often made: its name, how to see and mend it, and code that makes it."""

    name: str
    hint: str
    wrong: Callable


@dataclass(frozen=True)
class Case:
    """Arguments for an answer, and in words what they try."""

    about: str
    arguments: tuple


@dataclass(frozen=True)
class Exercise:
    """What is asked: `gives` names what is returned, each with its shape in letters."""

    name: str
    gives: dict[str, str]
    right: Callable
    cases: Callable[[], list[Case]]
    mistakes: tuple[Mistake, ...]
    praise: str

    @cached_property
    def expected(self) -> list[tuple[Case, "Outcome"]]:
        """Each case with its right outcome."""
        return [(case, run(self.right, case)) for case in self.cases()]

    @cached_property
    def known(self) -> dict[str, list[tuple[Mistake, "Outcome"]]]:
        """What each mistake makes of each case: only where it shows, so that it explains."""
        return {
            case.about: [
                (mistake, wrong) for mistake in self.mistakes
                if not (wrong := run(mistake.wrong, case)).same(right)
            ]
            for case, right in self.expected
        }


@dataclass(frozen=True, repr=False)
class Report:
    """The judgement on one answer; true if it is right. `mistake`: its name, if it is known."""

    exercise: str
    right: bool
    text: str
    written: bool = True
    mistake: str | None = None

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return "\n".join(
            textwrap.fill(line, 76, break_long_words=False, break_on_hyphens=False)
            for line in f"{self.exercise}: {self.text}".splitlines()
        )


@dataclass(frozen=True)
class Outcome:
    """What a call gave: `value`, or the exception that ended it."""

    value: Any = None
    error: Exception | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...] | None:
        """What was returned, if these are tensors and nothing else."""
        several = isinstance(self.value, tuple | list)
        values = tuple(self.value) if several else (self.value,)
        return values if all(isinstance(value, Tensor) for value in values) else None

    def same(self, other: "Outcome") -> bool:
        """Equal numbers in equal shapes, NaN equal to NaN; or the same complaint."""
        if self.error or other.error:
            return repr(self.error) == repr(other.error)
        if self.tensors is None or other.tensors is None:
            return False
        return len(self.tensors) == len(other.tensors) and all(
            a.shape == b.shape and (a.dtype == torch.bool) == (b.dtype == torch.bool)
            and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
            for a, b in zip(self.tensors, other.tensors)
        )


@torch.no_grad()
def run(function: Callable, case: Case) -> Outcome:
    """Call it with a copy of the arguments; whatever happens is an outcome."""
    try:
        return Outcome(function(*deepcopy(case.arguments)))
    except Exception as error:
        return Outcome(error=error)


def judge(exercise: Exercise, answer: Any) -> Report:
    """Try an answer on the exercise's cases, and explain the first that fails."""
    if not callable(answer):
        text = f"this is a {type(answer).__name__}; expected a function."
        return Report(exercise.name, False, text)
    for case, expected in exercise.expected:
        given = run(answer, case)
        if not given.same(expected):
            return explain(exercise, answer, case, given, expected)
    return Report(exercise.name, True, f"right. {exercise.praise}")


def explain(
    exercise: Exercise, answer: Callable, case: Case, given: Outcome, expected: Outcome
) -> Report:
    """Why `given`, the outcome of `answer` to a `case` of an `exercise`, is not `expected`."""
    if given.error is None and given.value in (None, ...) or isinstance(
        given.error, NotImplementedError
    ):
        what = " and ".join(exercise.gives)
        text = f"not written yet. Replace the dots by your lines, and return {what}."
        return Report(exercise.name, False, text, written=False)
    for mistake, wrong in exercise.known[case.about]:
        if wrong.same(given):
            text = f"not right yet ({case.about}): {mistake.name}.\n{mistake.hint}"
            return Report(exercise.name, False, text, mistake=mistake.name)
    text = f"not right yet ({case.about}): {difference(exercise, answer, given, expected)}"
    return Report(exercise.name, False, text)


def difference(
    exercise: Exercise, answer: Callable, given: Outcome, expected: Outcome
) -> str:
    """What differs, where no known mistake explains it; arguments as in `explain`:
    `exercise`, `answer`, `given`, `expected`."""
    if given.error is not None:
        return complaint(given.error, answer)
    right, got = expected.tensors or (), given.tensors
    if got is None or len(got) != len(right):
        what = " and ".join(f"{name} {shape}" for name, shape in exercise.gives.items())
        return f"it returns {described(given.value)}; expected {what}."
    for (name, letters), a, b in zip(exercise.gives.items(), got, right):
        if a.shape != b.shape:
            return (f"{name} has the shape {tuple(a.shape)}; expected {tuple(b.shape)}, "
                    f"that is {letters}.")
        if (a.dtype == torch.bool) != (b.dtype == torch.bool):
            return f"{name} holds {a.dtype}; expected {b.dtype}."
        x, y = a.double(), b.double()
        off = ~torch.isclose(x, y, rtol=1e-4, atol=1e-5)
        if not off.any():
            continue
        place = tuple(off.nonzero()[0].tolist())
        where = f"{name}[{', '.join(map(str, place))}]"
        if not x.isfinite().all():
            place = tuple((~x.isfinite()).nonzero()[0].tolist())
            where = f"{name}[{', '.join(map(str, place))}]"
            return f"{where} is {x[place]:g}, not a finite number; expected {y[place]:.4g}."
        yours, ours = (bool(v[place]) if b.dtype == torch.bool else f"{v[place]:.4g}"
                       for v in (x, y))
        return (
            f"{name} has the right shape, and {int(off.sum())} of its {off.numel()} numbers are "
            f"wrong, by at most {(x - y).abs().max():.2g}. First {where}: yours is {yours}, "
            f"expected {ours}. It is none of the mistakes that are known here."
        )
    raise ValueError(f"{exercise.name}: nothing differs")


def described(value: Any) -> str:
    """A returned value in words: its type, and those of a tuple's members."""
    if isinstance(value, tuple | list):
        members = ", ".join(described(member) for member in value)
        return f"{len(value)} things ({members})"
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def complaint(error: Exception, answer: Callable) -> str:
    """An exception, with the line of the answer that raised it."""
    text = f"it stops with {type(error).__name__}: {error}"
    code = getattr(answer, "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if code and frame.filename == code.co_filename]
    if frames:
        last = frames[-1]
        line = linecache.getline(last.filename, last.lineno or 0).strip()
        text += f"\nIn this line: {line}" if line else ""
    if "NoneType" in str(error):
        text += "\nSomething there is None: a part that you have not written yet?"
    return text
