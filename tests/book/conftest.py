"""The notebook tool is no part of the package: tests import it, and their helper, by folder."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).parent)]


@pytest.fixture(autouse=True)
def inline_figures(monkeypatch):
    """Kernels draw inline unless told otherwise, and the other tests tell otherwise."""
    monkeypatch.delenv("MPLBACKEND", raising=False)


@pytest.fixture
def tree(tmp_path):
    """A small tree of the shape of ours: table of contents, book, tests."""
    from pages.book import Book

    (tmp_path / "book").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_attention.py").write_text("def test_rows_sum_to_one():\n    ...\n")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n  - file: book/notes\n"
        "  - file: book/end\n  - file: book/03-2-1-scaled-dot-product-attention\n"
    )
    (tmp_path / "book" / "index.md").write_text("---\nbook:\n  kind: other\n---\n# The book\n")
    (tmp_path / "book" / "learn.toml").write_text(
        'path = ["index", "03-2-1-scaled-dot-product-attention", "end"]\n'
        '[terms.end]\nmask = "What a query may see, no more."\n'
        '"layer norm/LayerNorm" = "Mean zero and variance one."\n'
        '[terms.05-4-regularization]\ndropout = "Numbers set to zero, at random."\n'
    )
    exceptions = tmp_path / "exceptions.toml"
    exceptions.write_text("")
    return Book(root=tmp_path, exceptions=exceptions)


@pytest.fixture(scope="session")
def notebooks():
    """Run the command as a user does; gives the completed process."""
    import subprocess

    def command(*arguments, cwd=ROOT, **environment):
        return subprocess.run(
            [sys.executable, str(ROOT / "tools" / "notebooks.py"), *map(str, arguments)],
            cwd=cwd,
            env={k: v for k, v in os.environ.items() if k != "MPLBACKEND"} | environment,
            capture_output=True,
            text=True,
        )

    return command
