"""What the rules know beside a page: its tree, the package, the paper, the listed exceptions."""

import pkgutil
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pages.page import Page, read

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"numeral": "value", "measured-figure": "cell"}  # what an exception is about


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
    def pages(self) -> list[Path]:
        return sorted(p for p in self.folder.glob("*") if p.suffix in (".ipynb", ".md"))

    @cached_property
    def _toc(self) -> list[dict]:
        text = (self.root / "_toc.yml").read_text(encoding="utf-8")
        return list(_entries(yaml.safe_load(text)))

    @property
    def toc(self) -> set[str]:
        """The documents of _toc.yml, as paths from the root without suffix."""
        return {entry[key] for entry in self._toc for key in ("root", "file") if key in entry}

    @property
    def children(self) -> dict[str, set[str]]:
        """The stem of a page -> the stems of the pages right under it in _toc.yml."""
        return {
            Path(entry["file"]).name: {Path(child["file"]).name for child in entry["sections"]}
            for entry in self._toc
            if "file" in entry and "sections" in entry
        }

    def page(self, document: str) -> Page | None:
        """The page of a document such as book/index; None if there is no such file."""
        paths = (self.root / f"{document}.{suffix}" for suffix in ("ipynb", "md"))
        return next((read(path) for path in paths if path.is_file()), None)

    @cached_property
    def _learn(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "learn.toml").read_text(encoding="utf-8"))

    @property
    def learn(self) -> list[str]:
        """The stems of the Learn path's pages in order, also of those not yet written."""
        return self._learn["path"]

    @cached_property
    def learn_pages(self) -> list[Page]:
        """The pages of the Learn path that are in the book."""
        names = [f"book/{stem}" for stem in self.learn]
        return [page for n in names if n in self.toc and (page := self.page(n))]

    @property
    def terms(self) -> dict[str, str]:
        """Term -> the stem of the page that explains it."""
        return {term: page for page, terms in self._learn["terms"].items() for term in terms}

    @property
    def definitions(self) -> dict[str, str]:
        """Term -> what it means, as the glossary says it."""
        return {t: text for terms in self._learn["terms"].values() for t, text in terms.items()}

    @property
    def elsewhere(self) -> dict[str, tuple[str, ...]]:
        """Term -> beginnings of the stems of pages where the word means something else."""
        return {term: tuple(starts) for term, starts in self._learn.get("elsewhere", {}).items()}

    @cached_property
    def sections(self) -> Mapping[str, Any]:
        """The paper's sections by number or name, each with its `title`, `slug` and `stem`."""
        from annotated.paper import SECTIONS

        return SECTIONS

    @staticmethod
    def unknown_symbols(formula: str) -> list[str]:
        """The symbols of a formula in TeX that the page of symbols doesn't explain."""
        from annotated.notation import unknown

        return unknown(formula)

    @cached_property
    def names(self) -> dict[str, str]:
        """Every public top-level function and class of the package -> the file that has it."""
        return {
            name: path.relative_to(ROOT).as_posix()
            for path in sorted((ROOT / "src").rglob("*.py"))
            for name in re.findall(
                r"^(?:def|class) ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.M
            )
        }

    @staticmethod
    def has_object(text: str) -> bool:
        """Does `annotated.model.attention`, with or without an object at its end, exist?"""
        try:
            pkgutil.resolve_name(text)
        except (ImportError, AttributeError):
            return False
        return True

    def has_test(self, text: str) -> bool:
        """Does `tests/model/test_attention.py` or `…py::test_name` exist?"""
        name, *parts = text.split("::")
        path = self.root / name
        return path.is_file() and all(
            re.search(rf"^\s*(?:def|class) {part}\b", path.read_text(encoding="utf-8"), re.M)
            for part in parts
        )

    @cached_property
    def allowed(self) -> list[Allowed]:
        entries = []
        for rule, rows in tomllib.loads(self.exceptions.read_text(encoding="utf-8")).items():
            for row in rows:
                if row.keys() != {"page", KEYS.get(rule), "reason"} or not all(row.values()):
                    raise ValueError(
                        f"{self.exceptions.name}: [[{rule}]] {row}: each entry is one of"
                        f" {', '.join(KEYS)} with a page, a value or cell, and a reason"
                    )
                entries.append(Allowed(rule, row["page"], row[KEYS[rule]], row["reason"]))
        return entries

    def allows(self, rule: str, page: str, key: str) -> bool:
        """Is this listed as an exception? Remembers that it was needed."""
        fitting = {
            a for a in self.allowed if a.rule == rule and a.page in (page, "*") and a.key == key
        }
        self.used |= fitting
        return bool(fitting)


def _entries(entry):
    """Every entry of a table of contents, at any depth."""
    yield entry
    for value in entry.values():
        for child in value if isinstance(value, list) else ():
            yield from _entries(child)
