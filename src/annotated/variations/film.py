"""§5.2: a film of a training: what the model says and can do at each look."""

from annotated.data.numbers import DIGIT_WEIGHTS, different, held_out
from annotated.recipes import Numbers, Recipe, score
from annotated.translation import Translator

SHOWN = 342  # the book's sentence, never trained on
EACH = 50  # numbers of each number of digits, held out; of two digits there are ten
SEED = 3  # of their draw


def film(translator: Translator, recipe: Recipe[Numbers]) -> dict[str, float | str]:
    """What `translator` says of 342, and the share right by number of digits, from two on.

    Names → values: "says", "exact_2", … of numbers in the languages of `recipe`.
    """
    task = recipe.task
    (shown,) = task.examples([SHOWN])
    (said,) = translator.translate([shown.source])
    numbers: list[int] = []
    for digits in range(2, len(DIGIT_WEIGHTS) + 1):
        low, high = 10 ** (digits - 1), 10**digits
        numbers += different(EACH, SEED, lambda n: low <= n < high and held_out(n))  # noqa: B023
    result = score(translator, task.examples(numbers))
    exact = {f"exact_{g}": round(right / n, 4) for g, (right, n) in result.by_group.items()}
    return {"says": said, **exact}
