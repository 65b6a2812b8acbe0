"""The rules of the house: what files must say about each other, whatever the book is about."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
import zipfile
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml
from jaxtyping import TypeCheckError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "annotated"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


@cache
def tracked() -> dict[str, str]:
    """Every text file that belongs to the project, by its path: what git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        try:
            texts[name] = read(name)
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # a picture, weights, a file deleted but not yet committed
    assert "pyproject.toml" in texts
    return texts


# What is installed


def requirements(lines) -> dict[str, Requirement]:
    parsed = [Requirement(line) for line in lines]
    own = canonicalize_name(PROJECT["name"])
    return {canonicalize_name(r.name): r for r in parsed if canonicalize_name(r.name) != own}


def ranges() -> dict[str, Requirement]:
    return requirements(
        PROJECT["dependencies"] + [line for extra in EXTRAS.values() for line in extra]
    )


def lock() -> list[Requirement]:
    return [Requirement(line) for line in read("requirements.lock").splitlines() if line[0] != "#"]


def locked(name: str) -> list[Version]:
    """The versions that the lock gives a package: more than one where they differ by Python."""
    found = [r for r in lock() if canonicalize_name(r.name) == name]
    return [Version(str(r.specifier).removeprefix("==")) for r in found]


@pytest.mark.parametrize("name", sorted(ranges()))
def test_lock_has_every_package_inside_its_range(name):
    versions = locked(name)
    assert versions, (
        f"{name} stands in pyproject.toml but not in requirements.lock: run `make lock`"
    )
    assert all(version in ranges()[name].specifier for version in versions)


def test_lock_pins_exactly_and_for_every_machine():
    for requirement in lock():
        assert re.fullmatch(r"==[0-9][^*+,]*", str(requirement.specifier)), requirement
        assert not re.match(r"nvidia|cuda|triton", requirement.name), requirement
        assert requirement.url is None and not requirement.extras
    assert "://" not in read("requirements.lock")
    assert locked("torch") == [Version("2.13.0")]
    assert locked("jupyter-book") == [Version("1.0.4.post1")]


def test_pyproject_has_ranges_and_one_exact_version():
    exact = [name for name, requirement in ranges().items() if "==" in str(requirement.specifier)]
    assert exact == ["num2words"]
    assert all(str(requirement.specifier) for requirement in ranges().values())
    assert Version("2.11") in ranges()["torch"].specifier
    assert Version("2.10.9") not in ranges()["torch"].specifier


def test_environment_is_the_same_installation():
    environment = yaml.safe_load(read("environment.yml"))
    assert environment["name"] == PROJECT["name"]
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.11", "pip"]
    assert Version("3.11") in SpecifierSet(PROJECT["requires-python"])
    *names, constraint, package = pip["pip"]
    assert (constraint, package) == ("-c requirements.lock", "-e .[book]")
    assert set(requirements(names)) <= set(ranges())
    assert "book" in EXTRAS


def test_documentation_stack_needs_no_torch_and_no_package():
    site = requirements(EXTRAS["site"])
    assert len(site) == len(EXTRAS["site"]), "the package itself must not be part of `site`"
    assert not {"torch", "numpy", "matplotlib", "jupyterlab"} & set(site)
    # As `make book` reads it.
    done = subprocess.run(
        [sys.executable, "-c", "import install; print(*install.wanted('site'), sep='\\n')"],
        cwd=ROOT / "tools", capture_output=True, text=True, check=True,
    )
    assert done.stdout.splitlines() == EXTRAS["site"]


def jupyter_book_without_a_bound(text: str) -> list[str]:
    """Requirements of jupyter-book that would let version 2 in."""
    name = r"jupyter[-_]book(?![\w./-])"
    versions = r"\s*((?:[<>=!~]=?=?\s*[\w.*+]+\s*,?\s*)+)"
    found = [
        m[0] for m in re.finditer(name + versions, text) if not re.search(r"<\s*2(?!\.?\d)", m[1])
    ]
    # Without any version: what an installer is given, or an item of a list of packages.
    installs = rf"(?:pip|conda|mamba|uv)[^\n]*\binstall\b[^\n]*?{name}"
    items = r"""^\s*(?:-\s+|["'])jupyter-book["']?,?\s*$"""
    for match in re.finditer(f"{installs}|{items}", text, re.MULTILINE):
        if not re.match(r"\s*[<>=!~]", text[match.end() :]):
            found.append(match[0])
    return [f for f in found if not re.fullmatch(r"jupyter-book\s*==\s*1\.0\.4\.post1\s*", f)]


@pytest.mark.parametrize(
    ("text", "open_ended"),
    [
        ("jupyter-book>=1.0.4.post1,<2", False),
        ("jupyter-book >= 1, < 2", False),
        ("jupyter-book==1.0.4.post1\n", False),
        ("Jupyter Book 1.x; see jupyter-book.org, jupyter_book.config", False),
        ("jupyter-book>=1.0.4", True),
        ("jupyter-book<20", True),
        ("jupyter-book==2.1.6", True),
        ("pip install -U jupyter-book", True),
        ("  - jupyter-book\n", True),
        ("pip install 'jupyter-book<2'", False),
    ],
)
def test_the_search_for_open_ended_jupyter_book_works(text, open_ended):
    assert bool(jupyter_book_without_a_bound(text)) is open_ended


def test_every_mention_of_jupyter_book_stays_below_2():
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = {n: jupyter_book_without_a_bound(t) for n, t in tracked().items() if n != own}
    assert {name: mentions for name, mentions in found.items() if mentions} == {}
    assert sum("jupyter-book>=1.0.4.post1,<2" in text for text in tracked().values()) >= 2


def test_nobody_is_told_to_install_the_other_annotated():
    other = re.compile(
        r"install\b[^\n`]*?[\s'\"]annotated(?=[\s'\"`]|$)(?!-attention)", re.MULTILINE
    )
    assert other.search("pip install -U annotated\n")
    assert not other.search("pip install annotated-attention\n")
    own = Path(__file__).relative_to(ROOT).as_posix()
    assert [name for name, text in tracked().items() if name != own and other.search(text)] == []


# What is written


def test_no_file_knows_a_machine():
    # Put together here, so that this file does not know one either.
    folders = ["root", "home", "Users", "work", "opt/pypi", "opt/wheels", "tmp/team"]
    places = [f"/{folder}" for folder in folders]
    # "ada" is the made-up reader of the tests that look for such paths.
    pattern = re.compile("|".join(rf"(?<![\w.]){place}\b(?!/ada\b)" for place in places))
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in tracked().items()
        if any(place in text for place in places)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_one_version_everywhere():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"] == "MIT"
    assert read("LICENSE").startswith("MIT License\n")
    assert f"## {PROJECT['version']}" in read("CHANGELOG.md")


def test_the_public_address_is_empty():
    config = yaml.safe_load(read("_config.yml"))
    assert config["repository"]["url"] == ""
    assert config["execute"]["execute_notebooks"] == "off"


def test_workflows_ask_for_little_and_pin_their_actions():
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in workflows] == ["publish", "test", "weekly"]
    for path in workflows:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] in ({}, {"contents": "read"})
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 90
            # One job pushes the branch that the launch buttons open (tests/test_publish.py).
            pushes = path.stem == "publish" and job is workflow["jobs"]["launch"]
            contents = job.get("permissions", {}).get("contents", "read")
            assert contents == ("write" if pushes else "read")
            for step in job["steps"]:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))


# How the package is built


# From the bottom up: a module imports from its own level or from those below, never from above.
LEVELS = [
    {"commands", "files", "machine", "paper", "records", "signals"},
    {"data", "model", "contenders"},
    {"translation"},
    {"analysis", "training"},
    {"recipes"},
    {"benchmark", "variations", "parsing", "complexity", "figures"},
    {"experiments"},
    {"reproduce", "exchange"},
    {"cli", "notebook", "claims"},
]
LEVEL = {unit: number for number, units in enumerate(LEVELS) for unit in units}
ONLY_INSIDE_FUNCTIONS = {"num2words", "pooch", "sacremoses"}
JUPYTER = re.compile(r"IPython|ipykernel|ipywidgets|jupyter\w*|nbformat|nbclient|nbconvert")


def modules() -> dict[str, ast.Module]:
    """The package's modules by dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def imports(name: str, tree: ast.Module) -> list[tuple[str, bool]]:
    """What a module imports, as (dotted name, whether outside every function)."""
    found = []

    def visit(node, outside):
        outside = outside and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        if isinstance(node, ast.Import):
            found.extend((alias.name, outside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = (
                    name
                    if (SOURCE.parent / Path(*name.split("."))).is_dir()
                    else name.rpartition(".")[0]
                )
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            # `from annotated import paper` imports the unit `paper`, not only the package's root.
            found.extend(
                (f"{base}.{alias.name}" if base == "annotated" else base, outside)
                for alias in node.names
            )
        for child in ast.iter_child_nodes(node):
            visit(child, outside)

    visit(tree, True)
    return found


def test_every_unit_has_a_level():
    units = {name.split(".")[1] for name in modules() if "." in name}
    assert units - {"__main__"} <= set(LEVEL), "add the new unit to LEVELS, where design puts it"


def test_imports_run_one_way():
    wrong, same_level = [], set()
    for name, tree in modules().items():
        if name in ("annotated", "annotated.__main__"):
            continue  # the front door: it hands out names of every level
        unit = name.split(".")[1]
        for imported, _ in imports(name, tree):
            if imported.split(".")[0] != "annotated":
                continue
            other = imported.split(".")[1] if "." in imported else None
            if other not in LEVEL:
                wrong.append(f"{name} imports {imported} from the package's front door")
            elif LEVEL[other] > LEVEL[unit]:
                wrong.append(f"{name} imports {imported}, which stands above it")
            elif other != unit and LEVEL[other] == LEVEL[unit]:
                same_level.add((unit, other))
    # Neighbours on one level may use each other one way only.
    wrong += [f"{a} and {b} import each other" for a, b in same_level if (b, a) in same_level]
    assert wrong == []


def test_only_page_helpers_import_jupyter():
    found = {
        name
        for name, tree in modules().items()
        for imported, _ in imports(name, tree)
        if JUPYTER.fullmatch(imported.split(".")[0])
    }
    assert found <= {"annotated.notebook"}


def test_packages_that_a_machine_may_lack_are_imported_where_used():
    found = [
        f"{name} imports {imported} when it is imported"
        for name, tree in modules().items()
        for imported, outside in imports(name, tree)
        if outside and imported.split(".")[0] in ONLY_INSIDE_FUNCTIONS
    ]
    assert found == []


def test_importing_the_package_loads_nothing_that_a_machine_may_lack():
    probe = "import sys, annotated; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "annotated" in loaded
    assert not loaded & {*ONLY_INSIDE_FUNCTIONS, "IPython", "matplotlib", "beartype"}


def test_package_data_is_inside_the_wheel(tmp_path):
    copy = tmp_path / "source"
    shutil.copytree(
        SOURCE, copy / "src" / "annotated", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, copy], check=True)
    (wheel,) = tmp_path.glob("annotated_attention-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "annotated/__init__.py" in wanted
    assert wanted <= inside


# Tests of tests


def test_shapes_are_checked_while_tests_run():
    from annotated import scaled_dot_product_attention

    query, key = torch.zeros(2, 3, 5), torch.zeros(2, 7, 11)  # d_k can't be 5 and 11
    with pytest.raises(TypeCheckError):
        scaled_dot_product_attention(query, key, key)


def test_a_warning_from_our_own_modules_is_an_error():
    with pytest.raises(UserWarning):
        warnings.warn_explicit("ours", UserWarning, "file", 1, module="annotated.model.attention")
    with pytest.warns(UserWarning, match="theirs"):
        warnings.warn_explicit("theirs", UserWarning, "file", 1, module="annotated_doc.main")


ASSERTING = re.compile(r"assert\w*|raises|warns|fail|run_state_machine_as_test")


def called(node: ast.AST) -> str | None:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", None))


def claims(node: ast.AST) -> bool:
    """Whether a node can fail a test: an assertion about more than a constant, or its like."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    return bool((name := called(node)) and ASSERTING.fullmatch(name))


def without_assertion(trees: dict[str, ast.Module]) -> list[str]:
    """Tests in which nothing can fail; a helper that asserts, however deep, counts."""
    functions = [
        (file, node)
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    asserting: set[str] = set()
    grown = True
    while grown:
        new = {
            function.name
            for _, function in functions
            if any(claims(node) or called(node) in asserting for node in ast.walk(function))
        }
        grown, asserting = new != asserting, new
    return [
        f"{file}::{f.name}"
        for file, f in functions
        if f.name.startswith("test") and f.name not in asserting
    ]


def test_the_search_for_empty_tests_works():
    code = """
def test_nothing(): compute()
def test_constant(): assert True
def test_direct(): assert compute() == 1
def test_raises():
    with pytest.raises(ValueError): compute()
def helper(): assert_close(1, 1)
def deeper(): helper()
def test_through_helpers(): deeper()
"""
    assert without_assertion({"x": ast.parse(code)}) == ["x::test_nothing", "x::test_constant"]


def test_every_test_asserts():
    files = sorted((ROOT / "tests").rglob("*.py"))
    trees = {
        p.relative_to(ROOT).as_posix(): ast.parse(p.read_text(encoding="utf-8")) for p in files
    }
    assert "tests/test_house.py" in trees
    assert without_assertion(trees) == []


# `make book` on a machine of which nothing is known


@pytest.fixture
def bare(tmp_path):
    """A tree with nothing but the script, and a PATH of made-up Pythons by name and version.

    A version that is None makes a stand-in that fails, as version managers leave them; "3.11-" is a
    Python without venv.
    """
    tools, path = tmp_path / "tree" / "tools", tmp_path / "bin"
    tools.mkdir(parents=True)
    path.mkdir()
    shutil.copy(ROOT / "tools" / "venv.sh", tools)

    def run(pythons: dict[str, str | None]):
        for name, version in pythons.items():
            answers = ["#!/bin/sh", 'case "$*" in']
            if version is None:
                answers += ["*) exit 127 ;;"]
            else:
                answers += [f"*version_info*) echo {version.removesuffix('-')} ;;"]
                answers += [f"*ensurepip*) exit {int(version.endswith('-'))} ;;"]
                answers += [f'-m*) echo "$*" > "{tmp_path}/made-with-{name}" ;;']
            fake = path / name
            fake.write_text("\n".join([*answers, "esac", ""]))
            fake.chmod(0o755)
        done = subprocess.run(
            ["/bin/sh", tools / "venv.sh"], env={"PATH": str(path)}, capture_output=True, text=True
        )
        made = [file.name.removeprefix("made-with-") for file in tmp_path.glob("made-with-*")]
        return done.returncode, made, done.stderr

    return run


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3.11": "3.11", "python3.12": "3.12", "python3.13": "3.13"}, "python3.13"),
        ({"python3.11": "3.11", "python3.12": None, "python3.13": None}, "python3.11"),
        ({"python3.11": "3.11", "python3.12": "3.12-"}, "python3.11"),
        ({"python3.11": "3.11", "python3": "3.13"}, "python3"),
        ({"python3": "3.14", "python": "3.12"}, "python"),
    ],
)
def test_newest_python_that_works_is_chosen(bare, pythons, chosen):
    status, made, errors = bare(pythons)
    assert (status, made, errors) == (0, [chosen], "")


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        ({}, ["no Python at all"]),
        ({"python3.13": None}, ["python3.13 (does not run)"]),
        ({"python3": "3.10", "python": "2.7"}, ["python3 (3.10)", "python (2.7)"]),
        ({"python3.12": "3.12-"}, ["python3.12 (3.12, but without venv", "python3.12-venv"]),
    ],
)
def test_without_a_python_one_line_says_what_was_found(bare, pythons, said):
    status, made, errors = bare(pythons)
    assert status != 0 and made == []
    assert errors.count("\n") == 1 and "3.11, 3.12 or 3.13" in errors
    assert all(words in errors for words in said)


def test_make_lists_what_it_can_do():
    """Every target of the Makefile that README or CONTRIBUTING tells a reader to call exists."""
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert targets >= {"book", "install", "test", "lab", "serve", "refresh", "clean"}
    told = re.findall(r"\bmake ([a-z]+)", read("README.md") + read("CONTRIBUTING.md"))
    assert set(told) <= targets | {"one"}
    script = read(".ci/run")
    assert re.search(r"^set -euo pipefail$", script, re.MULTILINE) and script.endswith(
        "\nmake test\n"
    )
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
