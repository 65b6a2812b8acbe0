"""In how many sentences a change had an effect, and how sure that is."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any


@dataclass(frozen=True)
class Effect:
    """In how many of so many sentences an intervention changed something.

    `low` and `high` end the 95 % interval of Wilson (1927) for the share
    among all sentences drawn alike; it stays within 0 and 1, and has a width
    where none or all changed. Printed: "≈ 193 of 200 (≈ 92 to ≈ 99 %)", the
    ends rounded outwards, ≈ before each number that is measured.
    Raises ValueError unless 0 <= changed <= total and total >= 1.
    """

    changed: int
    total: int

    def __post_init__(self):
        if self.total < 1 or not 0 <= self.changed <= self.total:
            raise ValueError(
                f"changed is {self.changed} of {self.total}; "
                "expected 0 to total, and a total of at least 1"
            )

    @classmethod
    def of(cls, changed: Iterable[Any]) -> "Effect":
        """In how many sentences `changed` is true: bools in any iterable, or a tensor of them."""
        each = [bool(one) for one in changed]
        return cls(sum(each), len(each))

    @property
    def share(self) -> float:
        return self.changed / self.total

    @property
    def low(self) -> float:
        return wilson_low(self.changed, self.total)

    @property
    def high(self) -> float:
        """By symmetry: 1 - the least share that stays unchanged."""
        return 1 - wilson_low(self.total - self.changed, self.total)

    def __str__(self) -> str:
        low, high = math.floor(100 * self.low), math.ceil(100 * self.high)
        counts = f"≈ {self.changed} of {self.total}"
        return f"{counts} (≈ {low} to ≈ {high} %)"


def wilson_low(count: int, total: int) -> float:
    """The smaller p whose total p is z standard deviations below count."""
    z = NormalDist().inv_cdf(0.975)
    middle = count + z**2 / 2
    reach = z * math.sqrt(count * (total - count) / total + z**2 / 4)
    return (middle - reach) / (total + z**2)
