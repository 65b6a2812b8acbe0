"""The rules of the house: what files must say about each other, whatever the book is about."""

import ast
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

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "annotated"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
OWN = Path(__file__).relative_to(ROOT).as_posix()


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


# What is written


@pytest.mark.parametrize(
    ("fault", "bad", "good"),
    [
        # The distribution `annotated` is somebody else's.
        (r"install\b[^\n`]*?[\s'\"]annotated(?=[\s'\"`]|$)(?!-attention)",
         "pip install -U annotated\n", "pip install annotated-attention\n"),
        # The line 2.x has another configuration, other addresses and no Sphinx extensions.
        (r"jupyter-book(?=\s*[<>=!~])(?!>=1\.0\.4\.post1,<2\b|==1\.0\.4\.post1\b)",
         "jupyter-book>=1.0.4", "jupyter-book>=1.0.4.post1,<2"),
        (r"install\b[^\n`]*\bjupyter-book\b(?![<>=\w.-])",
         "pip install -U jupyter-book\n", 'pip install "jupyter-book<2"'),
        # cmd.exe hands single quotes on to pip.
        (r"'\.\[\w+", "pip install -e '.[book]'", 'pip install -e ".[book]"'),
    ],
)
def test_nobody_is_told_to_install_what_fails(fault, bad, good):
    assert re.search(fault, bad) and not re.search(fault, good)
    found = [n for n, t in tracked().items() if n != OWN and re.search(fault, t, re.MULTILINE)]
    assert found == []


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
    {"files", "jobs", "machine", "notation", "paper", "records", "signals"},
    {"data", "model", "contenders"},
    {"translation"},
    {"analysis", "exercises", "training"},
    {"recipes"},
    {"benchmark", "variations", "parsing", "complexity", "figures"},
    {"experiments"},
    {"reproduce", "exchange"},
    {"cli", "commands", "notebook", "claims"},
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


# Docstrings


def many_parameters() -> list[tuple[str, ast.FunctionDef, str]]:
    """Public functions of four or more parameters: place, definition, docstring."""
    found = []

    def visit(module: str, node: ast.AST, owner: ast.ClassDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                visit(module, child, child)
            elif isinstance(child, ast.FunctionDef):
                public = not child.name.startswith("_") or child.name == "__init__"
                if public and len(parameters(child)) >= 4:
                    above = owner if child.name == "__init__" else None
                    text = " ".join(ast.get_docstring(n) or "" for n in (child, above) if n)
                    found.append((f"{module}:{child.lineno} {child.name}", child, text))

    for module, tree in modules().items():
        visit(module, tree, None)
    return found


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def test_a_docstring_names_every_parameter_where_there_are_four_or_more():
    unnamed = [
        f"{place}: {name}"
        for place, function, text in many_parameters()
        for name in parameters(function)
        # The options of a command are explained by its --help.
        if not re.search(rf"\b{name}\b", text) and not place.startswith("annotated.cli:")
    ]
    assert unnamed == []


def test_docstrings_and_comments_have_one_tick_style():
    found = [
        name for name, text in tracked().items()
        if name.startswith(("src/", "tools/")) and re.search(r"(?<!`)``(?!`)", text)
    ]
    assert found == []
