"""What the rules know beside a page: its tree, its kind, the paper, the listed exceptions."""

import ast
import importlib.util
import re
import sys
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType

import yaml

ROOT = Path(__file__).resolve().parents[2]

CONCEPT, EVIDENCE, HEAD, OTHER = "concept", "evidence", "chapter head", "other"
OVERVIEW, LOOKUP = "overview", "look-up"
HEADS = {"3", "4", "5", "6"}  # sections whose page is one picture and the way on
# Evidence pages of the book's own; like every page they stand at a section of the paper.
OWN_EVIDENCE = {"04-table-1-measured": "4", "04-training-versus-generation": "4", "05-speed": "5"}
OVERVIEWS = {"one-sentence"}  # the whole model at once, before the paper's sections
LOOKUPS = {"model-on-one-page", "names-elsewhere"}  # after the paper: read in parts, by heading


@dataclass(frozen=True)
class Allowed:
    """One entry of exceptions.toml: what is let through, on which page ("*": all)."""

    rule: str
    page: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"[[{self.rule}]] {self.page}, {self.key}"


@dataclass
class Book:
    """The tree that holds the pages. `used` collects the exceptions that some page needed."""

    root: Path = ROOT
    exceptions: Path = ROOT / "tools" / "exceptions.toml"
    used: set[Allowed] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        return self.root / "book"

    @property
    def package(self) -> Path:
        return self.root / "src" / "annotated"

    @property
    def pages(self) -> list[Path]:
        return sorted(p for p in self.folder.glob("*") if p.suffix in (".ipynb", ".md"))

    @cached_property
    def toc(self) -> set[str]:
        """The documents of _toc.yml, as paths from the root without suffix."""
        found, stack = set(), [yaml.safe_load((self.root / "_toc.yml").read_text(encoding="utf-8"))]
        while stack:
            entry = stack.pop()
            found |= {entry[key] for key in ("root", "file") if key in entry}
            stack += [
                child for value in entry.values() if isinstance(value, list) for child in value
            ]
        return found

    @cached_property
    def paper(self) -> ModuleType:
        """`annotated.paper` by itself: the package around it would import torch."""
        spec = importlib.util.spec_from_file_location("_paper", self.package / "paper.py")
        module = sys.modules["_paper"] = importlib.util.module_from_spec(
            spec
        )  # data classes look it up
        spec.loader.exec_module(module)
        return module

    @cached_property
    def sections(self) -> dict[str, tuple[str, str | None]]:
        """Page -> (number of its section or "", its title or None where the title is ours)."""
        paper = {
            section.stem: (name if name[0].isdigit() else "", section.title)
            for name, section in self.paper.SECTIONS.items()
        }
        ours = {stem: (number, None) for stem, number in OWN_EVIDENCE.items()}
        return paper | ours | dict.fromkeys(OVERVIEWS | LOOKUPS, ("", None))

    def kind(self, stem: str) -> str:
        number = self.sections.get(stem, ("", None))[0]
        if stem in OVERVIEWS:
            return OVERVIEW
        if stem in LOOKUPS:
            return LOOKUP
        if stem in OWN_EVIDENCE:
            return EVIDENCE
        if number in HEADS:
            return HEAD
        if number[:1] in ("1", "2", "3"):
            return CONCEPT
        return EVIDENCE if number[:2] in ("5.", "6.") else OTHER

    @cached_property
    def names(self) -> dict[str, str]:
        """Every public top-level function and class of the package -> its module."""
        return {
            node.name: self._dotted(path)
            for path, tree in self._trees.items()
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        }

    @cached_property
    def modules(self) -> set[str]:
        """Classes of the package that draw random weights when made: subclasses of nn.Module."""
        bases = {
            node.name: {ast.unparse(base).split(".")[-1] for base in node.bases}
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }
        found = {"Module"}
        while more := {name for name, above in bases.items() if above & found} - found:
            found |= more
        return found - {"Module"}

    @cached_property
    def _trees(self) -> dict[Path, ast.Module]:
        paths = sorted(self.package.rglob("*.py"))
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}

    def _dotted(self, path: Path) -> str:
        parts = path.relative_to(self.root / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def has_module(self, text: str) -> bool:
        """Does `annotated.model.attention`, with or without an object at its end, exist?"""
        parts = text.split(".")
        modules = {self._dotted(path): tree for path, tree in self._trees.items()}
        if text in modules:
            return True
        tree = modules.get(".".join(parts[:-1]))
        return tree is not None and parts[-1] in _defined(tree)

    def has_test(self, text: str) -> bool:
        """Does `tests/model/test_attention.py` or `…py::test_name` exist?"""
        name, *parts = text.split("::")
        path = self.root / name
        return path.is_file() and set(parts) <= _defined(
            ast.parse(path.read_text(encoding="utf-8"))
        )

    def records(self, page_text: str) -> list[Path]:
        """The records of every experiment that the page names."""
        folders = (self.package / "results").glob("*/")
        return sorted(
            path
            for folder in folders
            if re.search(rf"(?<![\w-]){re.escape(folder.name)}(?![\w-])", page_text)
            for path in folder.glob("*.json")
        )

    @cached_property
    def allowed(self) -> list[Allowed]:
        keys = {"numeral": "value", "ignore-output": "cell", "measured-figure": "cell"}
        entries = []
        for rule, rows in tomllib.loads(self.exceptions.read_text(encoding="utf-8")).items():
            for row in rows:
                if (
                    rule not in keys
                    or row.keys() != {"page", keys[rule], "reason"}
                    or not all(row.values())
                ):
                    raise ValueError(
                        f"{self.exceptions.name}: [[{rule}]] {row}: each entry is one of"
                        f" {', '.join(keys)} with a page, a value or cell, and a reason"
                    )
                entries.append(Allowed(rule, row["page"], row[keys[rule]], row["reason"]))
        return entries

    def allows(self, rule: str, page: str, key: str) -> bool:
        """Is this listed as an exception? Remembers that it was needed."""
        fitting = [
            a for a in self.allowed if a.rule == rule and a.page in (page, "*") and a.key == key
        ]
        self.used.update(fitting)
        return bool(fitting)


def _defined(tree: ast.Module) -> set[str]:
    """The names of a module's functions, classes and their methods, and of its constants."""
    names = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    return names | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
