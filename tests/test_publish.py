"""What the publish workflow does: a sample address, and pages that install from it."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.name for path in (ROOT / "book").glob("*.ipynb"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def clone(tmp_path):
    """What a page's first cell installs: the repository, without its history."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("book", "src", "tools"):
        shutil.copytree(
            ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE", "_config.yml"):
        shutil.copy(ROOT / name, clone)
    return clone


def publish(clone: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, clone / "tools" / "publish.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def code(page: Path) -> list[str]:
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_every_first_cell_gets_the_address_and_nothing_else_changes(clone):
    before = {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()}
    done = publish(clone, "https://github.com/reader/the-book", COMMIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    changed = {path for path in before if path.read_bytes() != before[path]}
    assert changed == {clone / "_config.yml"} | {clone / "book" / page for page in PAGES}
    archive = f"https://github.com/reader/the-book/archive/{COMMIT}.zip"
    for page in PAGES:
        first, *others = code(clone / "book" / page)
        assert first.endswith(f"\n    %pip install --quiet {archive}")
        assert others == code(ROOT / "book" / page)[1:]
    config = yaml.safe_load((clone / "_config.yml").read_text(encoding="utf-8"))
    assert config["html"]["baseurl"] == "https://reader.github.io/the-book"
    repository = config["repository"]
    assert repository["url"] == "https://github.com/reader/the-book"
    assert repository["branch"] == "published"


@pytest.mark.parametrize("address", ["", "github.com/reader/the-book", "https://github.com/reader"])
def test_what_is_no_address_is_refused_before_anything_is_written(clone, address):
    config = (clone / "_config.yml").read_bytes()
    done = publish(clone, address, COMMIT)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and repr(address) in done.stderr
    assert (clone / "_config.yml").read_bytes() == config


def test_a_second_address_is_refused(clone):
    assert publish(clone, "https://github.com/reader/the-book", COMMIT).returncode == 0
    done = publish(clone, "https://github.com/reader/another", COMMIT)
    assert done.returncode == 2 and "_config.yml" in done.stderr


@pytest.fixture
def served(tmp_path):
    """A folder, and the address under which this machine serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("published", [False, True], ids=["local clone", "published"])
def test_a_kernel_without_the_package_runs_the_first_two_cells(clone, served, tmp_path, published):
    page = clone / "book" / "03-2-1-scaled-dot-product-attention.ipynb"
    if published:
        folder, address = served
        archive = folder / "reader" / "the-book" / "archive" / COMMIT
        shutil.make_archive(str(archive), "zip", tmp_path, clone.name)
        assert publish(clone, f"{address}/reader/the-book", COMMIT).returncode == 0
    first, second, *_ = code(page)
    assert "import" in second and "annotated" in second
    # An environment that has all packages but this one.
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    packages = next(environment.glob("lib/*/site-packages"))
    there = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "all.pth").write_text(f"{there}\n")
    run = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell as Shell\n"
        "import importlib.util as util; assert util.find_spec('annotated') is None\n"
        "for cell in sys.argv[1:]: Shell.instance().run_cell(cell).raise_error()\n"
        "import annotated; print('from', annotated.__file__)\n"
    )
    # Without a network: pip takes what it builds with, and what the package needs, from there.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    done = subprocess.run(
        [python, "-c", run, first, second], cwd=page.parent, capture_output=True, text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | offline,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"from {packages}" in done.stdout


def test_the_workflow_pushes_what_the_buttons_open_before_the_site_is_deployed():
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert set(jobs) == {"build", "launch", "deploy"}
    assert set(jobs["deploy"]["needs"]) == {"build", "launch"}
    writers = {name for name, job in jobs.items() if job["permissions"].get("contents") == "write"}
    assert writers == {"launch"}
    for name in ("build", "launch"):
        runs = "\n".join(step.get("run", "") for step in jobs[name]["steps"])
        assert re.search(r"tools/publish\.py \"\$GITHUB_SERVER_URL/\$GITHUB_REPOSITORY\"", runs)
    assert "push --force origin HEAD:published" in runs
