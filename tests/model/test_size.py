"""What a page shows fits on it: 35 lines of 78 columns an object, 400 lines of code for §3."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

import annotated.model

FILES = sorted(Path(annotated.model.__file__).parent.glob("*.py"))
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


def docstring_lines(tree):
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)) and ast.get_docstring(node) is not None:
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def code_lines(source):
    """Line numbers of code proper: neither blank, nor comment, nor docstring."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(ast.parse(source))


def objects():
    """Every function and method, as inspect.getsource would show it.

    Of a larger class pages show the methods, one by one (tools/pages holds them to it).
    """
    for file in FILES:
        source = file.read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, FUNCTIONS):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                lines = source.splitlines()[first - 1 : node.end_lineno]
                yield pytest.param(lines, id=f"{file.stem}.{node.name}:{node.lineno}")


def test_code_lines_are_counted_right():
    source = '"""Doc\n\nstring."""\n\nx = 1  # why\n# only a comment\ny = """a\n\nb"""\n'
    source += 'def f():\n    """One."""\n    return (\n        1\n    )\n'
    assert code_lines(source) == {5, 7, 8, 9, 10, 12, 13, 14}


# What is computed counts. Names for export, the table of settings, what is refused, what others
# may ask for and the mode of evaluation stand beside it.
BESIDE = {"__init__.py", "checks.py", "config.py", "contract.py", "evaluating.py"}


def test_all_of_section_3_is_at_most_400_lines_of_code():
    files = [file for file in FILES if file.name not in BESIDE]
    count = {file.name: len(code_lines(file.read_text())) for file in files}
    assert len(count) == 5
    assert sum(count.values()) <= 400, count


@pytest.mark.parametrize("lines", [*objects()])
def test_objects_are_at_most_35_lines_of_78_columns(lines):
    too_wide = [line for line in lines if len(line) > 78]
    assert not too_wide
    assert len(lines) <= 35, f"{len(lines)} lines"
