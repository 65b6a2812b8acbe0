"""The Learn path and the minutes that its pages take."""

from pages import EXERCISE, HEAD, LESSON, OVERVIEW, STUDY
from pages.page import Page
from pages.reading import listings, words

LONGEST = 130  # minutes that the whole path may take
TIMED = (OVERVIEW, LESSON, STUDY, HEAD, EXERCISE)  # kinds of page that are read from end to end

WORDS_PER_MINUTE = 200
# A line of the pages' code has some six words and signs, which are prose of two seconds; code is
# read more slowly.
SECONDS_PER_LINE = 3
SECONDS_PER_FIGURE = 30
RULE = (
    f"Minutes are counted, not guessed: {WORDS_PER_MINUTE} words per minute, {SECONDS_PER_LINE}"
    f" seconds per line of code in sight, {SECONDS_PER_FIGURE} per figure; what is folded, and the"
    " time that you take for exercises, comes on top."
)


def minutes(page: Page) -> int:
    """Minutes to read a page: its words at 200 per minute, 3 seconds per line of code, half a
    minute per figure.

    Code is what stands in sight, the author's and what `show` displays; folded code is not read.
    The answer to a prediction is opened, so its figure counts.
    """
    lines = sum(
        cell.lines + sum(bool(line.strip()) for text in listings(cell) for line in text)
        for cell in page.in_sight
    )
    figures = sum(c.has_figure for c in page.visible if "hide-cell" not in c.tags)
    figures += sum(cell.source.count("![") for cell in page.prose)
    seconds = lines * SECONDS_PER_LINE + figures * SECONDS_PER_FIGURE
    prose = sum(words(cell.source) for cell in page.prose)
    return max(1, round(prose / WORDS_PER_MINUTE + seconds / 60))
