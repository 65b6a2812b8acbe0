"""The notebook tool is no part of the package: tests import it, and their helper, by folder."""

import os
import shutil
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
    """A small tree of the shape of ours: book, package with one module and one record, tests."""
    from pages.book import Book

    package = tmp_path / "src" / "annotated"
    for folder in (package / "model", package / "results" / "sorting", tmp_path / "book"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "annotated" / "paper.py", package)
    (package / "__init__.py").write_text("")
    (package / "model" / "__init__.py").write_text("")
    (package / "model" / "attention.py").write_text(
        "from torch import nn\n\n\n"
        "def scaled_dot_product_attention(query, key):\n    return query @ key.T\n\n\n"
        "class MultiHeadAttention(nn.Module):\n    def attend(self):\n        return 7\n"
    )
    (package / "results" / "sorting" / "cpu-seed1.json").write_text(
        '{"metrics": {"accuracy": {"value": 0.8765}}, "curve": [' + "31.7, " * 20 + "31.7]}"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_attention.py").write_text("def test_rows_sum_to_one():\n    ...\n")
    (tmp_path / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n  - file: book/notes\n"
        "  - file: book/03-2-1-scaled-dot-product-attention\n"
    )
    (tmp_path / "book" / "index.md").write_text("# The book\n")
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
