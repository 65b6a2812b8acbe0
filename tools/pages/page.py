"""A page as the rules see it: cells with numbers, tags, syntax trees and readable outputs."""

import ast
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path

import yaml

from pages import FOLDS, HIDDEN, INSTALL_CELL
from pages.storage import load

FENCE = re.compile(
    r"^ *(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^ *(?P=fence) *$", re.M | re.S
)


@dataclass
class Cell:
    """One cell; `number` counts code cells from 0, as nbval does."""

    kind: str
    source: str
    id: str = ""
    number: int | None = None
    metadata: dict = field(default_factory=dict)
    outputs: list = field(default_factory=list)
    count: int | None = None
    place: int = 0

    @property
    def is_code(self) -> bool:
        return self.kind == "code"

    @property
    def is_install(self) -> bool:
        return self.place == 0 and self.is_code and self.source == INSTALL_CELL

    @property
    def tags(self) -> list[str]:
        return list(self.metadata.get("tags", []))

    @property
    def hidden(self) -> bool:
        return HIDDEN in self.tags

    @property
    def in_sight(self) -> bool:
        """Is this code that a reader of the book sees without opening anything?"""
        return self.is_code and not self.hidden and FOLDS.isdisjoint(self.tags)

    @property
    def alt(self) -> str | None:
        return self.metadata.get("mystnb", {}).get("image", {}).get("alt")

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, or None where the source is not plain Python."""
        try:
            return ast.parse(self.source)
        except SyntaxError:
            return None

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """Every node of the syntax tree."""
        return ast.walk(self.tree) if self.tree else iter(())

    @property
    def lines(self) -> int:
        return sum(bool(line.strip()) for line in self.source.splitlines())

    @property
    def data(self) -> Iterator[tuple[str, object]]:
        """(MIME type, content) of every output; a stream counts as plain text."""
        for output in self.outputs:
            if output["output_type"] == "stream":
                yield "text/plain", output["text"]
            else:
                yield from output.get("data", {}).items()

    @property
    def has_figure(self) -> bool:
        return any(mime == "image/png" for mime, _ in self.data)

    @cached_property
    def texts(self) -> list[str]:
        """Every output that is text, as stored."""
        return [
            content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            for mime, content in self.data
            if not mime.startswith("image/png")
        ]

    @cached_property
    def readable(self) -> list[str]:
        """What a reader sees of each text output: markup stripped, a row of a table a line."""
        parts = []
        for mime, content in self.data:
            if mime == "text/html":
                content = re.sub(r"<(script|style)\b.*?</\1>", " ", str(content), flags=re.S)
                content = re.sub(r"</(?:tr|p|li|caption)>|<br/?>", "\n", content)
                content = html.unescape(re.sub(r"<[^>]*>", " ", content))
            if isinstance(content, str) and not mime.startswith("image/"):
                parts.append(content)
        return parts

    def __str__(self) -> str:
        if self.is_code:
            return f"cell {self.number} (id {self.id})"
        return f"{self.kind} cell (id {self.id})" if self.id else "text"


@dataclass
class Page:
    """A notebook, or a Markdown file, which is then a page of one Markdown cell."""

    path: Path
    cells: list[Cell]
    metadata: dict = field(default_factory=dict)
    raw: str = ""

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix == ".ipynb"

    @property
    def about(self) -> dict:
        """`book` of the page's metadata: its kind and the section of the paper it stands at."""
        about = self.metadata.get("book")
        return dict(about) if isinstance(about, dict) else {}

    @property
    def kind(self) -> str:
        return str(self.about.get("kind", ""))

    @property
    def section(self) -> str:
        return str(self.about.get("section", ""))

    @property
    def code(self) -> list[Cell]:
        """The author's code cells: all but the install cell."""
        return [cell for cell in self.cells if cell.is_code and not cell.is_install]

    @property
    def visible(self) -> list[Cell]:
        return [cell for cell in self.code if not cell.hidden]

    @property
    def in_sight(self) -> list[Cell]:
        return [cell for cell in self.code if cell.in_sight]

    @property
    def prose(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.kind == "markdown"]

    @property
    def text(self) -> str:
        """All prose, without fenced code."""
        return "\n\n".join(without_fences(cell.source) for cell in self.prose)

    def after(self, cell: Cell) -> Cell | None:
        following = cell.place + 1
        return self.cells[following] if following < len(self.cells) else None

    def code_from(self, cell: Cell | None) -> list[Cell]:
        """This cell and those after it, up to the next text."""
        rest = self.cells[cell.place :] if cell else []
        return list(takewhile(lambda c: c.is_code, rest))

    def headings(self) -> Iterator[tuple[Cell, int, str]]:
        """(cell, level, text) of every heading outside fenced blocks."""
        for cell in self.prose:
            for match in re.finditer(r"^(#{1,6}) +(.+?) *#* *$", without_fences(cell.source), re.M):
                yield cell, len(match[1]), match[2]

    def under(self, pattern: str) -> str | None:
        """The Markdown under the first heading that matches, up to the next of its rank."""
        text = self.text
        match = re.search(rf"^(#{{1,6}}) +[^\n]*(?:{pattern})[^\n]*$", text, re.M | re.I)
        if match is None:
            return None
        rest = text[match.end() :]
        end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.M)
        return rest[: end.start()] if end else rest


def without_fences(markdown: str) -> str:
    """Markdown without fenced code; the text inside fenced directives stays."""
    return FENCE.sub(lambda m: m["body"] if m["info"].strip().startswith("{") else "", markdown)


def read(path: Path) -> Page:
    """Read a page. Raises ValueError with one line if the file is not a valid notebook."""
    raw = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        front = re.match(r"---\n(.*?\n)---\n", raw, re.S)
        text = raw[front.end() :] if front else raw
        try:
            metadata = yaml.safe_load(front[1]) if front else {}
        except yaml.YAMLError as error:
            raise ValueError(f"front matter is not YAML: {str(error).splitlines()[0]}") from None
        return Page(path, [Cell("markdown", text)], dict(metadata or {}), raw)
    book = load(path)
    cells, number = [], 0
    for place, node in enumerate(book.cells):
        cell = Cell(node.cell_type, node.source, node.id, None, node.metadata, place=place)
        if cell.is_code:
            cell.number, cell.outputs, cell.count = number, node.outputs, node.execution_count
            number += 1
        cells.append(cell)
    return Page(path, cells, book.metadata, raw)
