"""What several rules ask of a cell's code and of a text."""

import ast
import re
from collections.abc import Iterator

from pages.page import Cell, without_fences


def calls(cell: Cell) -> Iterator[tuple[ast.Call, str]]:
    """Every call in a cell with its name as written, without the arguments."""
    for node in ast.walk(cell.tree) if cell.tree else ():
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def calls_only(cell: Cell, *names: str) -> bool:
    """Is every statement of the cell, imports and assignments aside, a call of one of these?"""
    if cell.tree is None:
        return False
    body = [
        s for s in cell.tree.body if not isinstance(s, ast.Import | ast.ImportFrom | ast.Assign)
    ]
    return bool(body) and all(
        isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and ast.unparse(s.value.func).split(".")[-1] in names
        for s in body
    )


def assertions(cell: Cell | None) -> list[ast.AST]:
    """The assertions of a cell that can fail: about a name, or by a library's assert function."""
    if cell is None or not cell.is_code or cell.tree is None:
        return []
    found: list[ast.AST] = [
        node
        for node in ast.walk(cell.tree)
        if isinstance(node, ast.Assert)
        and any(isinstance(n, ast.Name) for n in ast.walk(node.test))
    ]
    return found + [
        node for node, name in calls(cell) if re.match(r"assert_[a-z_]+$", name.split(".")[-1])
    ]


def bounds(cell: Cell | None) -> bool:
    """Does a cell assert a comparison?"""
    return any(
        isinstance(n, ast.Call) or any(isinstance(part, ast.Compare) for part in ast.walk(n))
        for n in assertions(cell)
    )


def imports(cell: Cell) -> Iterator[str]:
    for node in ast.walk(cell.tree) if cell.tree else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def words(markdown: str) -> int:
    """Words of prose: no fenced code, formulas, addresses or markup."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", " ", without_fences(markdown), flags=re.S)
    text = re.sub(
        r"^ *(?:`{3,}|~{3,}|:{3,})[^\n]*$|^ *:[\w-]+:[^\n]*$|^\([\w.-]+\)=$", " ", text, flags=re.M
    )
    text = re.sub(r"(?<=\])\([^)]*\)|<[^<>]*>|\{[\w:+-]+\}(?=`)", " ", text)
    return len(re.findall(r"[^\W_]+(?:['’.-][^\W_]+)*", text))
