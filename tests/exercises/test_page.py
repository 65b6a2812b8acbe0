"""The page *Build it yourself* runs whole, whatever stands in its empty functions."""

import ast
from pathlib import Path

import nbformat
import pytest

from annotated.exercises import EXERCISES

PAGE = Path(__file__).parents[2] / "book" / "build-it-yourself.ipynb"


def cells(change):
    """The page's code after the install cell, `change` made to each cell."""
    page = nbformat.read(PAGE, as_version=4)
    return [change(cell) for cell in page.cells[1:] if cell.cell_type == "code"]


def is_stub(cell):
    body = ast.parse(cell.source).body
    return len(body) == 1 and ast.unparse(body[0]).rstrip().endswith("...")


def run(change):
    names = {}
    for source in cells(change):
        exec(compile(source, str(PAGE), "exec"), names)
    return names


def written(cell):
    """A reader's code in place of the stub: here the solution's, under the reader's name."""
    if not is_stub(cell):
        return cell.source
    name = ast.parse(cell.source).body[0].name
    page = nbformat.read(PAGE, as_version=4)
    (solved,) = [c.source for c in page.cells if f"def solution_{name}(" in c.source]
    code = solved.split("\nanswer = ")[0]
    return code.replace("solution_", "")


def failing(cell):
    fault = "raise KeyError('a reader')"
    return cell.source.replace("...", fault) if is_stub(cell) else cell.source


def test_every_exercise_has_its_empty_function():
    names = [ast.parse(source).body[0].name for source in cells(
        lambda cell: cell.source if is_stub(cell) else "x = 1") if source != "x = 1"]
    assert names == list(EXERCISES)


@pytest.mark.parametrize(
    ("change", "yours"),
    [(lambda cell: cell.source, []), (failing, []), (written, list(EXERCISES))],
    ids=["empty", "failing", "written"],
)
def test_the_page_runs_whole(change, yours):
    names = run(change)
    assert names["mine"].yours == yours
    assert names["said"](names["mine"], [342]) == ["dreihundertzweiundvierzig"]
