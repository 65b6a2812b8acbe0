"""§4: exponents fitted to measured times, and where two curves cross."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from annotated.files import Number


class Exponent(NamedTuple):
    """A fitted exponent with its confidence interval."""

    value: float
    low: float
    high: float


def exponents(
    sizes: Mapping[str, Sequence[Number]], measured: Sequence[Number], confidence: float = 0.95
) -> dict[str, Exponent]:
    """For each size, the a of measured ≈ c · size^a · …: least squares on the logarithms.

    `sizes` are columns such as n and d, `measured` the times or bytes beside them. The interval
    is Student's, at the given `confidence`; it takes the deviations from the power law for
    independent. Raises ValueError for too few points, or sizes that do not vary apart.
    """
    design, logs, found = solved(sizes, measured)
    points, unknown = design.shape
    residual = logs - design @ found
    variance = residual @ residual / (points - unknown)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    times = student(points - unknown, confidence)
    return {
        name: Exponent(float(a), float(a - times * e), float(a + times * e))
        for name, a, e in zip(sizes, found[1:], errors[1:])
    }


def solved(
    sizes: Mapping[str, Sequence[Number]], measured: Sequence[Number]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least squares on the logarithms: the columns, the logarithms, and the coefficients found."""
    columns = [np.log(np.asarray(column, float)) for column in sizes.values()]
    design = np.stack([np.ones(len(measured)), *columns], axis=1)
    points, unknown = design.shape
    if points <= unknown or np.linalg.matrix_rank(design) < unknown:
        raise ValueError(
            f"{points} points for {unknown} unknowns; expected more of them, and "
            f"{', '.join(sizes)} to vary apart"
        )
    logs = np.log(np.asarray(measured, float))
    found, *_ = np.linalg.lstsq(design, logs, rcond=None)
    return design, logs, found


def deviations(
    sizes: Mapping[str, Sequence[Number]], measured: Sequence[Number]
) -> list[float]:
    """For each point, how many times as much was `measured` as the power law of `exponents` says.

    `sizes` as there. Their product is 1.
    """
    design, logs, found = solved(sizes, measured)
    return [float(x) for x in np.exp(logs - design @ found)]


def local_slopes(sizes: Sequence[Number], measured: Sequence[Number]) -> list[float]:
    """The exponent between each of the rising `sizes` and the next: one less than there are."""
    return [
        math.log(b / a) / math.log(n / m)
        for m, n, a, b in zip(sizes, sizes[1:], measured, measured[1:])
    ]


def student(freedom: int, confidence: float) -> float:
    """The t within ± which Student's distribution has that share of its probability.

    With t = √freedom · tan θ its density is cos(θ) to the power freedom - 1.
    """
    angle = np.linspace(0.0, math.pi / 2, 200_001)
    density = np.cos(angle) ** (freedom - 1)
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    at = float(np.interp(confidence, share / share[-1], angle))
    return math.sqrt(freedom) * math.tan(at)


def crossing(
    sizes: Sequence[Number], first: Sequence[Number], second: Sequence[Number]
) -> float | None:
    """The size from which on `first` is more than `second`; None if it isn't at the last.

    `sizes` rise. Between two of them both are straight lines on logarithmic scales.
    """
    gaps = [math.log(a / b) for a, b in zip(first, second)]
    if gaps[-1] <= 0:
        return None
    below = [i for i, gap in enumerate(gaps) if gap <= 0]
    if not below:
        return float(sizes[0])
    i = below[-1]
    share = -gaps[i] / (gaps[i + 1] - gaps[i])
    return float(sizes[i] ** (1 - share) * sizes[i + 1] ** share)
