"""What several rules ask of a cell's code and of a text."""

import ast
import re
import symtable
from collections.abc import Iterator

from pages.page import FENCE, Cell, without_fences


def calls(cell: Cell) -> Iterator[str]:
    """Every call in a cell by its name as written, without the arguments."""
    yield from (ast.unparse(node.func) for node in cell.nodes if isinstance(node, ast.Call))


def calls_only(cell: Cell, *names: str) -> bool:
    """Is every statement of the cell, imports and assignments aside, a call of one of these?"""
    aside = ast.Import | ast.ImportFrom | ast.Assign
    body = [s for s in cell.tree.body if not isinstance(s, aside)] if cell.tree else []
    return bool(body) and all(
        isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and ast.unparse(s.value.func).split(".")[-1] in names
        for s in body
    )


def assertions(cell: Cell | None) -> list[ast.AST]:
    """The assertions of a cell that can fail: about a name, or by a library's assert function."""
    return [
        node
        for node in (cell.nodes if cell and cell.is_code else ())
        if isinstance(node, ast.Assert)
        and any(isinstance(part, ast.Name) for part in ast.walk(node.test))
        or isinstance(node, ast.Call)
        and re.search(r"(?:^|\.)assert_[a-z_]+$", ast.unparse(node.func))
    ]


def bounds(cell: Cell | None) -> bool:
    """Does a cell assert a comparison?"""
    return any(
        isinstance(node, ast.Call) or any(isinstance(part, ast.Compare) for part in ast.walk(node))
        for node in assertions(cell)
    )


def imports(cell: Cell) -> Iterator[str]:
    """Every module or object that a cell imports, by its whole name."""
    for node in cell.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from (start + alias.name for alias in node.names)


def names(source: str) -> tuple[set[str], set[str]]:
    """The names outside functions that a cell uses, and those that it gives to other cells."""
    cell = symtable.symtable(source, "cell", "exec")
    given = {s.get_name() for s in cell.get_symbols() if s.is_assigned() or s.is_imported()}
    used = {s.get_name() for s in cell.get_symbols() if s.is_referenced()}
    tables = cell.get_children()
    for table in tables:
        used |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        tables += table.get_children()
    return used, given


def listings(cell: Cell) -> list[list[str]]:
    """The lines of each piece of source that a cell displays by `show`."""
    texts = [str(content) for mime, content in cell.data if mime == "text/markdown"]
    return [listing["body"].splitlines() for t in texts for listing in FENCE.finditer(t)]


def said(markdown: str) -> str:
    """The text that is the author's own words: no code, formulas, links or images."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", " ", without_fences(markdown), flags=re.S)
    return re.sub(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|^ *:[\w-]+:[^\n]*$", " ", text, flags=re.M)


def spelled(term: str) -> re.Pattern[str]:
    """Finds a term of the glossary in a text, also its plural; "a/b" are two words for one term."""
    names = "|".join(re.escape(name).replace("\\ ", r"\s+") for name in term.split("/"))
    return re.compile(rf"\b(?:{names})(?:s|es)?\b", re.I)


def words(markdown: str) -> int:
    """Words of prose: no fenced code, formulas, addresses or markup."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", " ", without_fences(markdown), flags=re.S)
    text = re.sub(
        r"^ *(?:`{3,}|~{3,}|:{3,})[^\n]*$|^ *:[\w-]+:[^\n]*$|^\([\w.-]+\)=$", " ", text, flags=re.M
    )
    text = re.sub(r"(?<=\])\([^)]*\)|<[^<>]*>|\{[\w:+-]+\}(?=`)", " ", text)
    return len(re.findall(r"[^\W_]+(?:['’.-][^\W_]+)*", text))
