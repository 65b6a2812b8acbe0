"""What `make` installs, and where: ranges, lock, the search for a Python, pip's failures."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
RANGES = {
    canonicalize_name(r.name): r.specifier
    for r in map(Requirement, sum(EXTRAS.values(), PROJECT["dependencies"]))
    if r.name != PROJECT["name"]
}
LOCK = [Requirement(line) for line in read("requirements.lock").splitlines() if line[0] != "#"]

# Versions


@pytest.mark.parametrize("name", sorted(RANGES))
def test_lock_has_every_package_inside_its_range(name):
    versions = [str(r.specifier)[2:] for r in LOCK if canonicalize_name(r.name) == name]
    assert versions, f"{name} is in pyproject.toml but not in requirements.lock: run `make lock`"
    assert all(version in RANGES[name] for version in versions)


def test_lock_pins_exactly_and_for_every_machine():
    for requirement in LOCK:
        assert re.fullmatch(r"==[0-9][^*+,]*", str(requirement.specifier)), requirement
        assert not re.match(r"nvidia|cuda|triton", requirement.name), requirement
        assert requirement.url is None and not requirement.extras
    pins = {str(r) for r in LOCK}
    assert {"torch==2.13.0", "jupyter-book==1.0.4.post1"} <= pins


def test_ranges_have_a_lower_bound_and_one_exact_version():
    exact = [name for name, versions in RANGES.items() if "==" in str(versions)]
    assert exact == ["num2words"]
    assert all(re.search("[>=]=", str(versions)) for versions in RANGES.values())
    assert RANGES["jupyter-book"] == SpecifierSet(">=1.0.4.post1,<2")
    # Below it, with click 8.5, a missing option is None; before 0.16 even `--help` fails.
    assert "0.17.4" not in RANGES["typer"] and "0.18.0" in RANGES["typer"]
    # Below it, damaged documents fail with other words.
    assert "0.20.0" not in RANGES["msgspec"]
    # Before it, pytest's hook comes too late for a single folder of tests.
    assert "0.3.5" not in RANGES["jaxtyping"]


def test_all_places_agree_on_the_pythons():
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={PYTHONS[0]}")
    named = r"Programming Language :: Python :: (3\.\d+)"
    assert re.findall(named, "\n".join(PROJECT["classifiers"])) == PYTHONS
    tested = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]
    assert tested["strategy"]["matrix"]["python"] == PYTHONS
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in read("README.md")


def test_newest_and_lowest_versions_are_tried_every_week():
    job = yaml.safe_load(read(".github/workflows/weekly.yml"))["jobs"]["versions"]
    tried = {(run["python"], run["resolution"]) for run in job["strategy"]["matrix"]["include"]}
    assert tried == {("3.11", "lowest-direct"), ("3.11", "highest"), ("3.14", "highest")}
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert "--resolution ${{ matrix.resolution }}" in commands


def test_conda_gets_the_same_installation_with_the_cpu_build():
    environment = yaml.safe_load(read("environment.yml"))
    assert environment["name"] == PROJECT["name"]
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.11", "pip"]
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert pip["pip"] == [index, "-c requirements.lock", "-e .[book]"]
    assert index.split()[1] in read("README.md") and "book" in EXTRAS
    # Of both indexes pip takes the higher version that the lock admits, and that is the CPU build.
    cpu, default = Version("2.13.0+cpu"), Version("2.13.0")
    assert cpu > default and cpu in SpecifierSet("==2.13.0")


# install.py


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(what)` runs the tool with a pip that does nothing, and returns pip's arguments."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls = []
    answer = SimpleNamespace(returncode=0, stdout="")
    monkeypatch.setattr(module.subprocess, "run", lambda pip, **_: calls.append(pip) or answer)
    monkeypatch.setattr(module.sys, "prefix", str(tmp_path))

    def run(what):
        calls.clear()
        module.main(what)
        return [str(argument) for call in calls for argument in call]

    run.module, run.answer = module, answer
    return run


def test_the_documentation_stack_is_installed_without_torch_and_the_package(install):
    pip = install("site")
    assert pip[pip.index("-c") + 1] == str(ROOT / "requirements.lock")
    assert pip[-len(EXTRAS["site"]) :] == EXTRAS["site"]
    assert not {"torch", "numpy", PROJECT["name"]} & {Requirement(r).name for r in EXTRAS["site"]}


def test_an_install_is_made_once_until_a_file_changes(install, tmp_path, monkeypatch):
    assert install("all")[-2:] == ["-e", f"{ROOT}[book,peers,test]"]
    assert install("all") == install("site") == []
    changed = tmp_path / "changed.lock"
    changed.write_text("torch==2.14.1\n")
    monkeypatch.setattr(install.module, "LOCK", changed)
    assert install("site") != [] and install("all") != []


def test_a_failed_install_is_tried_again(install):
    install.answer.returncode = 1
    with pytest.raises(SystemExit, match="could not install 'site'"):
        install("site")
    install.answer.returncode = 0
    assert install("site") != []


def wheel(folder, name="tiny", version="1.0"):
    """A wheel of one module, without a network."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "WHOLE = True\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


def test_what_an_interrupted_install_left_is_mended(tmp_path):
    """A real pip in a .venv of its own: the package lies there without a version, or a record."""
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "install.py", tree / "tools")
    wheel(tree)
    (tree / "pyproject.toml").write_text(
        "[project.optional-dependencies]\nsite = ['tiny', 'other']\n")
    (tree / "requirements.lock").write_text("tiny==1.0\n")
    wheel(tree, "other", "2.0")
    venv = tree / ".venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = next(venv.glob("[bS]*/python*"))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    here = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tree)}

    def install():
        return subprocess.run([python, tree / "tools" / "install.py", "site"], env=clean | here,
                              capture_output=True, text=True)

    assert (done := install()).returncode == 0, done.stderr
    tiny, other = (next(venv.rglob(f"{name}*.dist-info")) for name in ("tiny", "other"))
    (tiny / "METADATA").write_text("")
    (other / "RECORD").unlink()
    module = tiny.parent / "tiny.py"
    module.write_text("WHO")
    (venv / "installed-site").unlink()
    done = install()
    assert done.returncode == 0, done.stderr
    assert [line for line in sorted(done.stdout.splitlines()) if "part" in line] == [
        f"Mending {name}, which was installed in part" for name in ("other", "tiny")]
    assert module.read_text() == "WHOLE = True\n"
    assert b"Version: 1.0" in (tiny / "METADATA").read_bytes() and (other / "RECORD").is_file()


@pytest.mark.parametrize(
    ("system", "machine", "macos", "builds"),
    [
        ("Darwin", "x86_64", "15.1", False),
        ("Darwin", "arm64", "13.6", False),
        ("Darwin", "arm64", "14.0", True),
        ("Windows", "ARM64", "", False),
        ("Windows", "AMD64", "", True),
        ("Linux", "aarch64", "", True),
        ("Linux", "i686", "", False),
    ],
)
def test_a_system_without_builds_of_torch_is_told_so_in_one_line(
    install, monkeypatch, system, machine, macos, builds
):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "mac_ver", lambda: (macos, ("", "", ""), machine))
    monkeypatch.setattr(platform, "platform", lambda: f"{system}-{machine}")
    monkeypatch.setattr(install.module, "find_spec", lambda name: None)
    assert install("site") != []  # the book can be built everywhere
    if not builds:
        with pytest.raises(SystemExit) as stopped:
            install("all")
        words = str(stopped.value)
        assert f"PyTorch has no build for {system}-{machine}" in words and "\n" not in words
        # Whoever has brought a build of their own is not stopped.
        monkeypatch.setattr(install.module, "find_spec", lambda name: "torch")
    assert install("all") != []


def test_without_a_network_the_first_line_says_so(tmp_path):
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    for name in ("pyproject.toml", "tools/install.py"):
        shutil.copy(ROOT / name, tree / name)
    (tree / "requirements.lock").write_text(read("requirements.lock") + "# not yet installed\n")
    dead = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    once = {"PIP_RETRIES": "1", "PIP_TARGET": str(tmp_path / "target")}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, tree / "tools" / "install.py", "site"],
        env=clean | dead | once, capture_output=True, text=True,
    )
    assert done.returncode == 1
    first, *pip = done.stderr.splitlines()
    assert first == "pip could not install 'site': no network, or no package index on it"
    assert "conflicting dependencies" in "\n".join(pip)


# venv.sh and make


@pytest.fixture
def bare(tmp_path):
    """A tree with nothing but venv.sh, and a PATH of made-up Pythons by name and version.

    A version that is None makes a stand-in that fails, as version managers leave them; "3.11-" is
    a Python without venv.
    """
    tools, path = tmp_path / "tree" / "tools", tmp_path / "bin"
    tools.mkdir(parents=True)
    path.mkdir()
    shutil.copy(ROOT / "tools" / "venv.sh", tools)

    def run(pythons: dict[str, str | None], folder: str = "bin"):
        for name, version in pythons.items():
            script = ["#!/bin/sh", "exit 127"]
            if version:
                made = f"$3/{folder}/python" + ".exe" * (folder == "Scripts")
                script[1:] = [
                    'case "$*" in',
                    f"  *version_info*) printf {version.rstrip('-')}; exit {version.count('-')} ;;",
                    f'  "-m venv --clear .venv") echo {name} >> "{tmp_path}/made"',
                    f'     /bin/mkdir -p .venv/{folder}; echo "#!/bin/sh" > "{made}"',
                    f'     /bin/chmod +x "{made}" ;;',
                    "esac",
                ]
                script = [line.replace("$3", ".venv") for line in script]
            (path / name).write_text("\n".join([*script, ""]))
            (path / name).chmod(0o755)
        done = subprocess.run(
            ["/bin/sh", tools / "venv.sh"], env={"PATH": str(path)}, capture_output=True, text=True
        )
        made = tmp_path / "made"
        return done.returncode, made.read_text().split() if made.exists() else [], done.stderr

    return run


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        ({"python3": "3.14"}, "python3"),
        ({"python3": "3.12", "python3.14": "3.14"}, "python3"),
        ({"python3": "3.9", "python3.11": "3.11", "python3.13": "3.13"}, "python3.13"),
        ({"python3": "3.15", "python3.11": "3.11", "python3.14": None}, "python3.11"),
        ({"python3": "3.12-", "python3.11": "3.11"}, "python3.11"),
        ({"python": "3.12"}, "python"),
    ],
)
@pytest.mark.parametrize("folder", ["bin", "Scripts"])
def test_a_python_that_works_is_chosen_and_used_once(bare, pythons, chosen, folder):
    assert bare(pythons, folder) == (0, [chosen], "")
    assert bare({}, folder) == (0, [chosen], ""), "a second call makes .venv anew"


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        ({}, "found none."),
        ({"python3.13": None}, "found python3.13 (does not run)."),
        ({"python3": "3.10", "python": "2.7"}, "found python3 (3.10), python (2.7)."),
        ({"python3.12": "3.12-"}, "(3.12 without venv: Debian has it in python3.12-venv)."),
    ],
)
def test_without_a_python_one_line_says_what_was_found(bare, pythons, said):
    status, made, errors = bare(pythons)
    assert status == 1 and made == []
    assert errors.count("\n") == 1 and "3.11, 3.12, 3.13 or 3.14" in errors and said in errors


def test_make_lists_every_target_that_a_reader_is_told_to_call():
    makefile = read("Makefile")
    described = re.findall(r"^([a-z-]+):.*## (.*)$", makefile, re.MULTILINE)
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True)
    assert [line.split(maxsplit=2)[1:] for line in listed.stdout.splitlines()] == [
        list(target) for target in described
    ]
    assert "sed" not in makefile, "a tab in its replacement is GNU's alone"
    told = set(re.findall(r"\bmake ([a-z-]+)", read("README.md") + read("CONTRIBUTING.md")))
    assert {"book", "test"} <= told <= {target for target, _ in described} | {"one"}


def test_ci_stops_at_the_first_failure_and_runs_the_readmes_command():
    script = read(".ci/run")
    assert "\nset -euo pipefail\n" in script and script.endswith("\nmake test\n")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
