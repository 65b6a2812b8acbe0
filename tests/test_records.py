"""`annotated.records`: what is written is read back; what is not valid is refused by name."""

import datetime
import json
import math
import os
import platform
import re
import subprocess
import sys
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from annotated import files, machine, records
from annotated.machine import this_commit, this_machine
from annotated.records import Metric, Record, find, read, write

FIELDS = {
    "experiment": "numbers-en-de",
    "command": "annotated train --recipe numbers-en-de --seed 3",
    "recipe": "numbers-en-de",
    "seed": 3,
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "device": "Example(R) Core(TM) i7-7700 CPU @ 3.60GHz",
    "kind": "cpu",
    "threads": 1,
    "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
    "precision": "float32",
    "seconds": 61.7,
    "tokens_per_update": 2048,
    "metrics": {
        "exact": {"value": 0.995},
        "BLEU": {"value": 31.25, "signature": "nrefs:1|case:mixed"},
        "step": {"value": 3.5, "unit": "s", "spread": [3, 4.5]},
    },
    "tables": {
        "curve": [
            {"step": 50, "loss": 2.5, "exact": None}, {"step": 100, "loss": 0.25, "exact": 0.5},
        ],
        "schemes": [{"scheme": "sorted", "padding": 0.25}],
    },
    "date": "2024-02-29",
}
NAME = "example-core-i7-7700-cpu-3-60ghz-seed3.json"


def record(**changes) -> Record:
    """A record as Python makes one; wrong values pass, until it is written."""
    fields = FIELDS | changes
    if fields["metrics"] is FIELDS["metrics"]:
        metrics = {
            "exact": Metric(0.995), "BLEU": Metric(31.25, signature="nrefs:1|case:mixed"),
            "step": Metric(3.5, unit="s", spread=(3, 4.5)),
        }
        fields |= {"metrics": metrics}
    if fields["date"] is FIELDS["date"]:
        fields |= {"date": datetime.date(2024, 2, 29)}
    return Record(**fields)


def document(**changes) -> dict:
    return FIELDS | {"schema": records.SCHEMA} | changes


def store(folder, data, name="record.json"):
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


# ---- write and read back


def test_a_record_comes_back_as_it_was_written(tmp_path):
    path = write(record(), tmp_path)
    assert path == tmp_path / "numbers-en-de" / NAME
    assert read(path) == record() and read(str(path)) == record()
    assert os.listdir(path.parent) == [NAME]
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_document_has_a_line_for_each_field_metric_and_row(tmp_path):
    text = write(record(command="annotated train → done"), tmp_path).read_bytes().decode("utf-8")
    assert json.loads(text) == document(command="annotated train → done")
    assert text.endswith("}\n") and "\r" not in text and "→" in text
    # two braces; a line for each metric and one for their brace; for tables too, and their brackets
    assert len(text.splitlines()) == 2 + len(document()) + (3 + 1) + (2 + 1 + 3 + 2)
    assert '\n      {"step": 100, "loss": 0.25, "exact": 0.5}\n' in text
    assert '"tables": {},' in write(record(tables={}), tmp_path).read_text()


finite = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
words = st.text(min_size=1, max_size=20).filter(lambda t: t.strip() and t.isprintable())


@given(
    columns=st.lists(words, min_size=1, max_size=3, unique=True),
    data=st.data(),
    metrics=st.dictionaries(words.filter(lambda t: "bleu" not in t.lower()), finite, max_size=3),
    seconds=st.floats(0, 1e9),
    command=words,
)
def test_any_valid_record_survives(tmp_path_factory, columns, data, metrics, seconds, command):
    point = st.fixed_dictionaries({column: st.none() | finite | words for column in columns})
    given_record = record(
        tables=data.draw(st.dictionaries(words, st.lists(point, min_size=1), max_size=3)),
        metrics=records.as_metrics(metrics),
        seconds=seconds,
        command=command,
    )
    assert read(write(given_record, tmp_path_factory.mktemp("any"))) == given_record


def test_a_run_that_trains_nothing_has_no_recipe_and_no_updates(tmp_path):
    speed = record(experiment="speed", recipe=None, tokens_per_update=None, tables={})
    assert read(write(speed, tmp_path)) == speed


def test_values_tables_and_columns_go_by_name():
    made = record()
    assert made.value("exact") == 0.995 and made.metrics["step"].spread == (3, 4.5)
    assert made.table("schemes") == [{"scheme": "sorted", "padding": 0.25}]
    assert made.column("loss") == [2.5, 0.25] and made.column("exact") == [None, 0.5]
    assert made.column("scheme", "schemes") == ["sorted"]
    assert made.curve is made.table("curve")


@pytest.mark.parametrize("ask, message", [
    (lambda r: r.value("loss"), "the record has no metric 'loss'; it has: exact, BLEU, step"),
    (lambda r: r.table("times"), "the record has no table 'times'; it has: curve, schemes"),
    (
        lambda r: r.column("bleu"),
        "the table 'curve' has no column 'bleu'; it has: step, loss, exact",
    ),
    (lambda r: record(tables={}).curve, "the record has no table 'curve'; it has: none"),
])
def test_what_is_not_there_is_named_with_what_is(ask, message):
    with pytest.raises(ValueError) as error:
        ask(record())
    assert str(error.value) == message


def test_records_are_frozen():
    with pytest.raises(AttributeError, match="immutable"):
        record().seed = 4


def test_writing_again_replaces_and_a_failure_leaves_the_old_record(tmp_path, monkeypatch):
    path = write(record(seconds=1.0), tmp_path)
    assert read(write(record(seconds=2.0), tmp_path)).seconds == 2.0

    def broken(source, destination):
        raise OSError("disk gone")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(OSError, match="disk gone"):
        write(record(seconds=3.0), tmp_path)
    assert read(path).seconds == 2.0
    assert os.listdir(path.parent) == [NAME]


def test_a_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    seen = []
    replace = os.replace

    def watch(source, destination):
        seen.append((os.path.dirname(source) == os.path.dirname(destination), read(source)))
        assert not os.path.exists(destination)
        replace(source, destination)

    monkeypatch.setattr(files.os, "replace", watch)
    write(record(), tmp_path)
    assert seen == [(True, record())]


# ---- what is refused

WRONG = [
    ("experiment", "../escape"),
    ("experiment", "Numbers"),
    ("experiment", "a/b"),
    ("experiment", ""),
    ("command", " "),
    ("recipe", ""),
    ("seed", -1),
    ("seed", True),
    ("seed", 1.0),
    ("commit", "main"),
    ("commit", "0123456\n"),
    ("device", "()"),
    ("kind", "gpu"),
    ("threads", 0),
    ("versions", {}),
    ("precision", "fp32"),
    ("seconds", -0.5),
    ("seconds", math.nan),
    ("seconds", math.inf),
    ("seconds", "60"),
    ("seconds", None),
    ("tokens_per_update", 0),
    ("tokens_per_update", math.inf),
    ("tables", []),
    ("metrics", []),
    ("date", "2023-02-29"),
    ("date", "20240229"),
    ("date", 20240229),
    ("date", "2024-02-29T00:00"),
    ("schema", records.SCHEMA + 1),
    ("schema", "1"),
    ("schema", None),
]


@pytest.mark.parametrize("field, value", WRONG, ids=[f"{f}={v!r}" for f, v in WRONG])
def test_reading_names_the_file_and_the_field_at_fault(tmp_path, field, value):
    path = store(tmp_path, document(**{field: value}))
    with pytest.raises(ValueError) as error:
        read(path)
    message = str(error.value)
    assert message.startswith(f"{path}: {field} is {value!r}, expected ")
    assert "\n" not in message


def tables(*rows):
    return {"tables": {"curve": [{"step": 1}], "times": list(rows)}}


INSIDE = [
    (tables({"s": 1, "loss": math.nan}), "tables.times[0].loss is nan, expected a finite number"),
    (tables({"s": 1}, {"s": -math.inf}), "tables.times[1].s is -inf, expected a finite number"),
    (tables({"s": 1}, {"n": 1}), "tables.times[1] has the columns n, expected those of every"),
    (tables({"s": 1}, {"s": 2, "n": 1}), "tables.times[1] has the columns s, n, expected"),
    (tables({"s": False}), "tables.times[0].s is False, expected `int | float | str | null`"),
    (tables({"s": [1]}), "tables.times[0].s is [1], expected `int | float | str | null`"),
    (tables({}), "tables.times[0] has the columns none, expected those of every row, at least one"),
    (tables([1, 2]), "tables.times[0] is [1, 2], expected `object`"),
    (tables(), "tables.times is [], expected `array` of length >= 1"),
    ({"tables": {"": [{"step": 1}]}}, "a name in tables is '', expected"),
    ({"metrics": {"l": {"value": math.inf}}}, "metrics.l.value is inf, expected a finite number"),
    ({"metrics": {"a": {"value": 1}, "loss": 1.5}}, "metrics.loss is 1.5, expected `object`"),
    ({"metrics": {"a": {"value": 1}, "loss": {}}}, "metrics.loss.value is missing"),
    ({"metrics": {"loss": {"value": "1"}}}, "metrics.loss.value is '1', expected a number"),
    (
        {"metrics": {"loss": {"value": 1, "error": 2}}},
        "metrics.loss.error is not one of the fields that are known",
    ),
    ({"metrics": {"BLEU": {"value": 3.0}}}, "metrics.BLEU has no signature of the tool that"),
    ({"metrics": {"l": {"value": 1, "signature": ""}}}, "metrics.l.signature is '', expected"),
    ({"metrics": {"loss": {"value": 1, "spread": [1]}}}, "metrics.loss.spread is [1], expected"),
    ({"metrics": {"": {"value": 1}}}, "a name in metrics is '', expected"),
    ({"versions": {"a": "1", "torch": ""}}, "versions.torch is '', expected"),
    ({"versions": {"a": "1", "torch": 2}}, "versions.torch is 2, expected"),
]


@pytest.mark.parametrize("changes, message", INSIDE, ids=[m.split(",")[0] for _, m in INSIDE])
def test_reading_and_writing_name_the_place_inside_a_field(tmp_path, changes, message):
    path = store(tmp_path, document(**changes))
    with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")):
        read(path)
    folder = tmp_path / "results"
    destination = folder / "numbers-en-de" / NAME
    with pytest.raises(ValueError, match=re.escape(f"{destination}: {message}")):
        write(record(**changes), folder)
    assert not folder.exists()


@pytest.mark.parametrize("field, value", WRONG, ids=[f"{f}={v!r}" for f, v in WRONG])
def test_writing_refuses_the_same_and_leaves_nothing_behind(tmp_path, field, value):
    folder = tmp_path / "results"
    with pytest.raises(ValueError, match=re.escape(f": {field} is {value!r}, expected ")):
        write(record(**{field: value}), folder)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_missing_field_is_named(tmp_path, field):
    path = store(tmp_path, {name: value for name, value in document().items() if name != field})
    with pytest.raises(ValueError, match=re.escape(f"{path}: {field} is missing")):
        read(path)


@pytest.mark.parametrize(
    "text, message",
    [
        (json.dumps(document())[:-20], "not a JSON document ("),
        ("", "not a JSON document ("),
        ("<!DOCTYPE html>", "not a JSON document ("),
        ("[1]", "the document is [1], expected `object`"),
        ("[" * 100_000, "not a JSON document ("),
        (json.dumps(document(colour="red")), "colour is not one of the fields that are known"),
        (json.dumps({**document(), "schema": 1, "colour": "red"}), "schema is 1, expected 2"),
        (json.dumps(document(command="x" * 10_000, date="")), "date is '', expected a date"),
        (json.dumps(document(kind="x" * 10_000)), "kind is 'xxxx"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path, text, message):
    path = store(tmp_path, text)
    with pytest.raises(ValueError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value) and len(str(error.value)) < len(str(path)) + 200


def test_undecodable_bytes_are_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(b'{"device": "\xff"}')
    with pytest.raises(ValueError, match=re.escape(f"{path}: not a JSON document (")):
        read(path)


# ---- find


@pytest.fixture
def results(tmp_path):
    for seed in (11, 2, 3):
        write(record(seed=seed), tmp_path)
    write(record(seed=2, device="NVIDIA H200", kind="cuda"), tmp_path)
    write(record(experiment="copy"), tmp_path)
    (tmp_path / "copy" / "notes.txt").write_text("no record")
    return tmp_path


def test_find_filters_and_sorts_by_file_name(results):
    found = find("numbers-en-de", root=results)
    assert [(r.kind, r.seed) for r in found] == [("cpu", 11), ("cpu", 2), ("cpu", 3), ("cuda", 2)]
    assert [r.seed for r in find("numbers-en-de", seed=2, kind="cpu", root=str(results))] == [2]
    assert [r.device for r in find("numbers-en-de", kind="cuda", root=results)] == ["NVIDIA H200"]
    assert find("numbers-en-de", seed=5, root=results) == []
    assert find("copy", root=results) == [record(experiment="copy")]


def test_an_experiment_without_records_is_named_with_those_that_have_some(results):
    with pytest.raises(ValueError, match="no experiment 'number'; it has: copy, numbers-en-de$"):
        find("number", root=results)
    with pytest.raises(ValueError, match="no experiment 'copy'; it has: none$"):
        find("copy", root=results / "nowhere")


@pytest.mark.parametrize("name", ["nvidia-h200-seed3.json", NAME.replace("seed3", "seed4")])
def test_a_record_cannot_pass_for_another_devices_or_seeds(results, name):
    (results / "copy" / NAME).rename(results / "copy" / name)
    with pytest.raises(ValueError, match=f"{name}: .* belong in copy/{NAME}"):
        find("copy", root=results)


def test_a_bad_record_is_not_passed_over(results):
    store(results / "copy", document(seconds=math.nan), "z-seed0.json")
    with pytest.raises(ValueError, match=r"z-seed0\.json: seconds is nan"):
        find("copy", root=results)


def test_records_are_read_from_a_zipped_package_too(results, tmp_path_factory):
    archive = tmp_path_factory.mktemp("zip") / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(results / "copy" / NAME, f"results/copy/{NAME}")
    inside = zipfile.Path(archive, "results/")
    assert find("copy", root=inside) == [record(experiment="copy")]


def test_the_packages_own_results_are_the_default(monkeypatch, results):
    asked = []

    def files(package):
        asked.append(package)
        return results.parent

    monkeypatch.setattr(records.resources, "files", files)
    results.rename(results.parent / "results")
    assert find("copy") == [record(experiment="copy")]
    assert asked == ["annotated"]


# ---- machine


def test_this_machine_fills_a_record(tmp_path):
    facts = this_machine()
    assert facts["kind"] == "cpu" and facts["threads"] == torch.get_num_threads()
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["python"] == platform.python_version()
    assert {type(version) for version in facts["versions"].values()} == {str}
    made = record(**facts, commit=this_commit())
    assert read(write(made, tmp_path)) == made
    assert made.filename.endswith("-seed3.json") and re.fullmatch(r"[a-z0-9.-]+", made.filename)


def test_the_cpus_name_comes_from_proc_cpuinfo_else_from_platform(monkeypatch):
    named = "processor\t: 0\nmodel name\t: Example 9000\nmodel name\t: Example 9000\n"
    texts = iter([named, "no name here", None])

    def read_text(path, **options):
        assert str(path) == "/proc/cpuinfo"
        if (text := next(texts)) is None:
            raise FileNotFoundError(path)
        return text

    monkeypatch.setattr(machine.Path, "read_text", read_text)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine._cpu_name() == "Example 9000"
    assert machine._cpu_name() == "aarch64"
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine._cpu_name() == "arm"


def test_a_machine_of_another_kind_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="kind is 'tpu'; expected one of cpu, cuda"):
        this_machine("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="kind is 'cuda', but torch sees no CUDA device"):
        this_machine("cuda")


def test_a_gpu_goes_by_its_own_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    facts = this_machine("cuda")
    assert (facts["device"], facts["kind"]) == ("NVIDIA H200", "cuda")
    assert record(**facts).filename == "nvidia-h200-seed3.json"


def test_this_commit_follows_git(tmp_path, monkeypatch, need):
    need("git", "a record names the commit that made it")

    def git(*arguments):
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run([*command, *arguments], check=True, capture_output=True)

    source = tmp_path / "records.py"
    source.write_text("1\n")
    monkeypatch.setattr(machine, "__file__", str(source))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert this_commit() == "unknown"
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "another project's")
    assert this_commit() == "unknown"
    git("add", "records.py")
    git("commit", "-q", "-m", "ours")
    clean = this_commit()
    assert re.fullmatch("[0-9a-f]{40}", clean)
    source.write_text("2\n")
    assert this_commit() == f"{clean}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert this_commit() == "unknown"


def test_reading_records_needs_no_torch(tmp_path):
    path = write(record(), tmp_path)
    script = (
        "import sys; from annotated import paper, records\n"
        f"print(records.read({str(path)!r}).seed, 'torch' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["3", "False"]


@pytest.mark.parametrize("field, value", [("experiment", "A b"), ("commit", "v1.0")])
def test_one_field_is_checked_before_there_is_a_record(field, value):
    assert records.check("--name", field, FIELDS[field]) is None
    with pytest.raises(ValueError, match=f"^--name: {field} is {value!r}, expected "):
        records.check("--name", field, value)
