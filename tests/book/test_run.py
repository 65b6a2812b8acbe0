"""`tools/notebooks.py run`: the same bytes every time, and nothing written where a cell fails."""

import json
import os

import pytest
from building import code, install, reload, store, text

PAGE = (
    text("# Notes"),
    code("import random, warnings\nimport matplotlib.pyplot as plt"),
    code("print('one')\nprint('two')"),
    code("{'b': [1, 2], 'a': (3,)}"),
    code("_ = plt.plot([1, 3, 2])"),
    code("import os\nprint(sorted(os.listdir()), hash('a word'), os.environ['OMP_NUM_THREADS'])"),
)


def test_a_second_run_leaves_every_byte(tmp_path, notebooks):
    path = store(tmp_path / "notes.ipynb", *PAGE)
    first = notebooks("run", path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"{path}: written\n"
    once, stamp = path.read_bytes(), path.stat().st_mtime_ns
    second = notebooks("run", path)
    assert second.stdout == f"{path}: unchanged\n", second.stderr
    assert path.read_bytes() == once
    assert path.stat().st_mtime_ns == stamp
    assert once.endswith(b"\n}\n")

    cells = [cell for cell in reload(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5]
    assert [(out.name, out.text) for out in cells[1].outputs] == [("stdout", "one\ntwo\n")]
    assert "image/png" in cells[3].outputs[0].data
    # The page's own folder is the working directory, and words hash alike in every run.
    listing, hashed, threads = cells[4].outputs[0].text.rsplit(" ", 2)
    assert (listing, threads) == ("['notes.ipynb']", "1\n")
    assert hashed.lstrip("-").isdigit()

    stored = json.loads(once)
    assert stored["metadata"].keys() == {"book", "kernelspec", "language_info"}
    assert stored["metadata"]["kernelspec"]["name"] == "python3"
    assert "version" not in stored["metadata"]["language_info"]
    assert all(cell["metadata"] == {} for cell in stored["cells"])


FAILURES = {
    "error": ("1 / 0", "ZeroDivisionError: division by zero"),
    "stderr": ("import sys\nprint('careful', file=sys.stderr)", "wrote to stderr"),
    "warning": ("import warnings\nwarnings.warn('old')", "wrote to stderr"),
    "death": ("import os\nos._exit(3)", "the kernel died"),
    "address": ("import urllib.request as r\nr.urlopen('http://192.0.2.1/')", "no network"),
    "name": ("import urllib.request as r\nr.urlopen('http://example.org/')", "no network"),
    "time": ("import time\ntime.sleep(60)", "ran longer than 3 s"),
    # What our own modules warn of is an error: here a module that calls itself annotated.x.
    "ours": (
        "exec('import warnings; warnings.warn(1)', {'__name__': 'annotated.x'})",
        "Warning: 1",
    ),
}


def test_failing_cells_are_named_and_their_files_untouched(tmp_path, notebooks):
    """Pages that each fail in their second code cell, and a good one; all run at once."""
    pages = {name: tmp_path / f"{name}.ipynb" for name in [*FAILURES, "zz-good"]}
    for name, path in pages.items():
        source = FAILURES[name][0] if name in FAILURES else "print(7)"
        store(path, text("# Notes"), code("x = 1"), code(source))
    before = {name: path.read_bytes() for name, path in pages.items()}
    result = notebooks("run", "--cell-timeout", 3, *pages.values())
    assert result.returncode == 1

    for name, (_, said) in FAILURES.items():
        start = result.stderr.index(f"{pages[name]}: cell 1 (id c2): ")
        end = result.stderr.index(f"{pages[name]}: left as it was")
        assert said in result.stderr[start:end], name
        assert pages[name].read_bytes() == before[name], name
    assert result.stdout == f"{pages['zz-good']}: written\n"
    assert pages["zz-good"].read_bytes() != before["zz-good"]
    # No half-written file is left beside them.
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in pages.values())


def test_missing_ids_are_made_the_same_way_each_time(tmp_path):
    from pages.storage import load

    raw = json.loads(store(tmp_path / "notes.ipynb", text("a"), code("1"), text("a")).read_text())
    for cell in raw["cells"]:
        del cell["id"]
    raw["nbformat_minor"] = 4
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(raw))
    ids = [[cell.id for cell in load(path).cells] for _ in range(2)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3


def test_folding_follows_from_the_tags(tmp_path):
    from pages.storage import dumps, load, normalise

    cells = [install(), code("1", tags=["hide-cell", "solution"]), code("2", tags=["hide-input"])]
    cells[2].metadata["collapsed"] = True
    cells[2].metadata["jupyter"] = {"outputs_hidden": True}
    path = store(tmp_path / "notes.ipynb", *cells)
    made = load(path).cells
    assert made[0].metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}
    assert made[1].metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}
    assert made[1].metadata["mystnb"]["code_prompt_show"] == "Show the solution"
    assert made[2].metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert dumps(normalise(load(path))) == path.read_text()


def test_no_notebook_at_all(tmp_path, notebooks):
    contents = ["", "{", "[]", '{"cells": []}', '{"nbformat": 3}']
    paths = [tmp_path / f"page{n}.ipynb" for n in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    for command, expected in [("run", paths), ("check", paths), ("nbval", paths[:1])]:
        result = notebooks(command, *paths)
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        lines = (result.stdout + result.stderr).splitlines()
        for path in expected:
            assert any(str(path) in line and "not a" in line for line in lines), (command, path)


def test_bad_arguments(tmp_path, notebooks):
    result = notebooks("run", tmp_path / "none.ipynb")
    assert result.returncode == 2
    assert "expected an existing .ipynb or .md file" in result.stderr


def test_the_environment_is_printed(notebooks):
    lines = notebooks("environment").stdout.split()
    assert "PYTHONHASHSEED=0" in lines
    assert "OMP_NUM_THREADS=1" in lines


@pytest.mark.weekly
def test_under_another_hash_seed_a_page_that_hangs_on_it_is_found(tmp_path, notebooks):
    page = store(tmp_path / "page.ipynb", code("print(sorted('abc'), hash('a') % 1009)"))
    assert notebooks("run", page).returncode == 0
    assert notebooks("nbval", page).returncode == 0
    result = notebooks("nbval", "--hash-seed", 1, page)
    assert result.returncode == 1 and "page.ipynb::Cell 0" in result.stdout
