"""Executes the book's notebooks, compares them with what they store, checks their form.

`tools/notebooks.py` is the command; nothing here is imported by the package or by a page.
"""

# The first cell of every notebook, byte for byte. It is the one exception to the rules about
# shell cells and the network, which is why those rules know it by its exact text. `..` is the clone
# that the page lies in; tools/publish.py puts the repository's address there.
INSTALL_CELL = """\
# For a kernel without the package. Published pages name the repository here.
try:
    import annotated  # noqa: F401
except ModuleNotFoundError:
    %pip install --quiet .."""

# Tags of cells.
HIDDEN = "remove-cell"  # readers of the book don't see the cell; it holds the assertions
SOLUTION = "solution"  # with hide-cell: the folded, executed answer to an exercise
FOLDS = {"hide-cell", "hide-input", "remove-input"}  # the book folds the source, or leaves it out
PREDICTED = "hide-output"  # the answer to a prediction: the book folds it until the reader opens it
MEASURED_FIGURE = "measured-figure"  # its data differ from processor to processor

FIGURE_WIDTHS = (680, 500)  # px, the two of annotated.figures.style

# Kinds of page: `book = {"kind": …, "section": …}`, metadata of a notebook, front matter of a text.
LESSON = "lesson"  # a section of the paper explained: picture, build, predict, exercises
STUDY = "study"  # evidence about a section: claim, prediction, measurement, verdict
HEAD = "chapter-head"  # one picture and the way on
OVERVIEW = "overview"  # the whole model at once, before the paper's sections
LOOKUP = "look-up"  # read in parts, by heading
EXERCISE = "exercise"  # the reader writes code in empty cells, against given checks
OTHER = "other"
KINDS = (LESSON, STUDY, HEAD, OVERVIEW, LOOKUP, EXERCISE, OTHER)
