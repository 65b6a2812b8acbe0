"""States in a folder: whole or not at all, refused if damaged, only as many as needed."""

import errno
import hashlib
import json
import os
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from annotated.training import states
from annotated.training.states import MODEL, MOMENTS, VERSION, InFolder

RUN = {"recipe": "copy", "seed": 3, "training.betas": (0.9, 0.98), "training.steps": 11}
PARTS = [MODEL, MOMENTS]


def state(seed=0):
    """The parts of a small one, all different."""
    generator = torch.Generator().manual_seed(seed)
    return {
        MODEL: {"a.weight": torch.randn(7, 5, generator=generator), "b": torch.zeros(3)},
        MOMENTS: {
            f"{kind}.{name}": torch.rand(shape, generator=generator)
            for kind in ("exp_avg", "exp_avg_sq")
            for name, shape in (("a.weight", (7, 5)), ("b", (3,)))
        },
    }


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def names(step, *endings):
    return [f"step-{step:08d}.{ending}" for ending in endings]


ALL = ("adam.safetensors", "json", "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


def error_of(folder, step=5, part=MODEL, run=RUN):
    """The one line that reading a part of a state ends in."""
    with pytest.raises(ValueError) as caught:
        InFolder(folder, run).read(step, part)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    (line,) = str(caught.value).splitlines()
    return line


def error_of_check(folder):
    with pytest.raises(ValueError) as caught:
        InFolder(folder, RUN).check_same_run()
    return str(caught.value)


@pytest.fixture
def kept(tmp_path):
    """A folder with the states of the updates 3 and 5."""
    made = InFolder(tmp_path / "states", RUN)
    for step in (3, 5):
        made.write(step, state(step), needed=[])
    return tmp_path / "states"


class TestWriteAndRead:
    def test_what_is_read_is_what_was_written(self, kept):
        read = InFolder(kept, RUN)
        assert read.steps() == [3, 5]
        for step in (3, 5):
            assert all(same(read.read(step, part), state(step)[part]) for part in PARTS)
        assert files(kept) == names(3, *ALL) + names(5, *ALL)

    @settings(max_examples=23)
    @given(
        st.dictionaries(
            st.text(min_size=1, max_size=7),
            st.tuples(
                st.lists(st.integers(0, 3), max_size=3),
                st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64]),
            ),
            max_size=5,
        )
    )
    def test_names_shapes_and_types_come_back_bit_for_bit(self, tmp_path_factory, kinds):
        tensors = {
            name: (100 * torch.randn(shape)).to(dtype).transpose(0, -1)
            if shape
            else torch.tensor(-0.0).to(dtype)
            for name, (shape, dtype) in kinds.items()
            if name != "__metadata__"
        }
        folder = InFolder(tmp_path_factory.mktemp("any"), RUN)
        folder.write(7, {MODEL: tensors}, [])
        read = folder.read(7, MODEL)
        assert read.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert save({"x": read[name]}) == save({"x": tensor.contiguous()})

    def test_parameters_that_need_gradients_are_written_too(self, tmp_path):
        weight = torch.nn.Parameter(torch.randn(3, 5))
        folder = InFolder(tmp_path, RUN)
        folder.write(1, {MODEL: {"weight": weight}}, [])
        read = folder.read(1, MODEL)["weight"]
        assert torch.equal(read, weight) and not read.requires_grad and weight.requires_grad

    def test_the_same_state_is_the_same_bytes(self, kept, tmp_path):
        again = InFolder(tmp_path / "again", RUN)
        again.write(5, state(5), [])
        for name in names(5, *ALL):
            assert (kept / name).read_bytes() == (tmp_path / "again" / name).read_bytes()

    def test_the_document_vouches_for_the_tensors_and_names_the_run(self, kept):
        said = json.loads((kept / "step-00000005.json").read_text())
        sums = {
            part: hashlib.sha256((kept / names(5, f"{part}.safetensors")[0]).read_bytes())
            for part in PARTS
        }
        assert said == {
            "version": VERSION, "step": 5, "run": {**RUN, "training.betas": [0.9, 0.98]},
            "sha256": {part: found.hexdigest() for part, found in sums.items()},
        }

    def test_the_document_is_written_last(self, tmp_path, monkeypatch):
        order, real = [], os.replace
        monkeypatch.setattr(os, "replace", lambda a, b: (order.append(Path(b).name), real(a, b)))
        InFolder(tmp_path, RUN).write(5, state(), [])
        assert order == names(5, "model.safetensors", "adam.safetensors", "json")

    def test_everyone_may_read_them(self, kept):
        assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o644}

    def test_tensors_alone_are_no_state(self, kept):
        (kept / "step-00000005.json").unlink()
        assert InFolder(kept, RUN, writes=False).steps() == [3]

    def test_one_that_does_not_write_reads_all_and_changes_nothing(self, kept):
        (kept / ".step-00000007.model.safetensors.part").write_bytes(b"the writer is busy")
        before = {path: path.read_bytes() for path in kept.iterdir()}
        reader = InFolder(kept, RUN, writes=False)
        reader.write(7, state(7), [])
        assert reader.steps() == [3, 5] and same(reader.read(5, MODEL), state(5)[MODEL])
        assert {path: path.read_bytes() for path in kept.iterdir()} == before

    def test_a_folder_that_can_not_be_made_is_named(self, tmp_path):
        (tmp_path / "taken").write_text("mine")
        with pytest.raises(OSError, match="taken"):
            InFolder(tmp_path / "taken" / "states", RUN)
        assert (tmp_path / "taken").read_text() == "mine"


class TestHowManyAreKept:
    def test_the_newest_two_whole_and_of_the_others_the_models_to_average(self, tmp_path):
        folder = InFolder(tmp_path, RUN)
        for step in range(1, 10):
            folder.write(step, state(step), needed=[4, 6, 9])
        model_only = ("json", "model.safetensors")
        expected = names(4, *model_only) + names(6, *model_only) + names(8, *ALL) + names(9, *ALL)
        assert files(tmp_path) == sorted(expected)
        assert folder.steps() == [4, 6, 8, 9]
        for step in (4, 6):
            assert same(folder.read(step, MODEL), state(step)[MODEL])
        path = tmp_path / "step-00000006.adam.safetensors"
        assert error_of(tmp_path, 6, MOMENTS).startswith(f"{path} is missing")

    @settings(max_examples=29)
    @given(st.lists(st.integers(1, 31), unique=True, min_size=1, max_size=9), st.data())
    def test_whatever_is_written_and_needed(self, tmp_path_factory, steps, data):
        needed = data.draw(st.sets(st.sampled_from(steps)))
        base = tmp_path_factory.mktemp("kept")
        for step in sorted(steps):
            InFolder(base, RUN).write(step, state(step), needed)  # a new process each time
        *older, second, newest = [None, *sorted(steps)]
        expected = {name for step in (second, newest) if step for name in names(step, *ALL)}
        expected |= {name for s in older if s in needed for name in names(s, *ALL[1:])}
        assert set(files(base)) == expected

    def test_what_a_killed_process_left_is_swept_and_nothing_else(self, kept):
        left = [
            ".step-00000007.model.safetensors.part", ".step-00000007.json.x3_a.part",
            ".step-00000005.json.yy.part", *names(7, "model.safetensors", "adam.safetensors"),
            ".tmpdogOKY",  # safetensors' own
        ]
        others = ["notes on step-00000007.txt", "my-step-7.json", ".hidden", "tmp"]
        for name in left + others:
            (kept / name).write_bytes(b"x")
        InFolder(kept, RUN)
        assert files(kept) == sorted(others + names(3, *ALL) + names(5, *ALL))

    def test_a_kill_between_two_deletions_is_made_up_for(self, kept, monkeypatch):
        """Of a state that is dropped, the document goes first: then it is none."""

        class Killed(BaseException):
            pass

        real = Path.unlink
        for count in (1, 2, 3):
            calls = []

            def unlink(path, missing_ok=False, count=count, calls=calls):
                if path.name.startswith("step-"):
                    calls.append(path)
                    if len(calls) == count:
                        raise Killed
                real(path, missing_ok=missing_ok)

            step = 5 + 2 * count
            with monkeypatch.context() as patch:
                patch.setattr(Path, "unlink", unlink)
                with pytest.raises(Killed):
                    InFolder(kept, RUN).write(step, state(step), [])
            again = InFolder(kept, RUN)
            for left in again.steps():
                assert same(again.read(left, MODEL), state(left)[MODEL])
            assert again.steps()[-1] == step
        InFolder(kept, RUN).write(13, state(13), [])
        assert files(kept) == sorted(names(11, *ALL) + names(13, *ALL))


class TestDamage:
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("keep", [0, 1, -1])
    def test_a_truncated_file_is_named_with_its_size(self, kept, part, keep):
        path = kept / f"step-00000005.{part}.safetensors"
        data = path.read_bytes()[:keep]
        path.write_bytes(data)
        assert error_of(kept, part=part) == (
            f"{path} ({len(data)} bytes) is truncated or damaged: its SHA-256 is not the one in "
            "step-00000005.json; delete that update's files to go on from the state before"
        )
        assert same(InFolder(kept, RUN).read(3, part), state(3)[part])

    @settings(max_examples=41)
    @given(st.sampled_from(PARTS), st.integers(0, 10_000), st.integers(0, 7))
    def test_so_is_one_in_which_a_single_bit_changed(self, tmp_path_factory, part, place, bit):
        folder = tmp_path_factory.getbasetemp() / "flipped"
        InFolder(folder, RUN).write(5, state(5), [])
        path = folder / f"step-00000005.{part}.safetensors"
        data = bytearray(path.read_bytes())
        data[place % len(data)] ^= 1 << bit
        path.write_bytes(data)
        line = error_of(folder, part=part)
        assert line.startswith(f"{path} ({len(data)} bytes) is truncated or damaged: ")

    @pytest.mark.parametrize("part", PARTS)
    def test_a_missing_file_is_named(self, kept, part):
        path = kept / f"step-00000005.{part}.safetensors"
        path.unlink()
        assert error_of(kept, part=part) == (
            f"{path} is missing, but step-00000005.json lists it; "
            "delete that update's files to go on from the state before"
        )
        path.mkdir()
        assert error_of(kept, part=part).startswith(f"{path} is missing")

    def test_a_state_that_was_never_written_is_named(self, kept):
        assert error_of(kept, step=4) == (
            f"{kept / 'step-00000004.json'} is missing: no state of that update was kept"
        )

    def test_one_update_can_not_pass_for_another(self, kept):
        (kept / "step-00000003.model.safetensors").replace(kept / "step-00000005.model.safetensors")
        assert "is truncated or damaged" in error_of(kept)

    def test_one_part_can_not_pass_for_another(self, kept):
        """Both under a right sum, each in the other's place."""
        model, moments = (kept / f"step-00000005.{part}.safetensors" for part in PARTS)
        data = model.read_bytes(), moments.read_bytes()
        model.write_bytes(data[1]), moments.write_bytes(data[0])
        assert "is truncated or damaged" in error_of(kept)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("", "Input data was truncated"), ("{", "Input data was truncated"),
            ("null", "the document is None, expected `object`"), ("[]", "the document is []"),
            ("{}", "version is missing"), ("\udcff", ""), ("[" * 9999, ""),
            ({"version": "1.0"}, "version is '1.0', expected `int`"),
            ({"version": None}, "version is None, expected `int`"),
            ({"step": 5.5}, "step is 5.5, expected `int`"),
            ({"run": 3}, "run is 3, expected `object`"),
            ({"run": None}, "run is None, expected `object`"),
            ({"sha256": [["a", "b"]]}, "sha256 is [['a', 'b']], expected `object`"),
            ({"sha256": {"model": 7}}, "sha256.model is 7, expected `str`"),
        ],
    )
    def test_a_manifest_of_another_shape_is_named_with_its_field(self, kept, change, said):
        path = kept / "step-00000005.json"
        if isinstance(change, dict):
            change = json.dumps(json.loads(path.read_text()) | change)
        path.write_text(change, errors="surrogateescape")
        back = "delete that update's files to go on from the state before"
        for line in (error_of(kept), error_of_check(kept)):
            assert line.startswith(f"{path} is damaged: {said}") and line.endswith(f"; {back}")

    @pytest.mark.parametrize("sums", [{}, {"adam": "0"}])
    def test_sums_that_are_missing_are_not_right(self, kept, sums):
        path = kept / "step-00000005.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": sums}))
        assert "its SHA-256 is not the one in step-00000005.json" in error_of(kept)

    @pytest.mark.parametrize("version", [0, VERSION + 1])
    def test_another_version_is_named(self, kept, version):
        path = kept / "step-00000005.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))
        assert error_of(kept) == (
            f"{path} has version {version}; this package reads version {VERSION}"
        )

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"seed": 5}, "seed is 3 there, 5 here"),
            ({"recipe": "x", "seed": 5}, "recipe is 'copy' there, 'x' here; seed is 3 there, 5"),
            ({"training.betas": (0.9, 0.99)}, "training.betas is [0.9, 0.98] there, [0.9, 0.99]"),
            ({"new": 1}, "new is unknown there, 1 here"),
            ({"new": None}, "new is unknown there, None here"),
        ],
    )
    def test_another_run_is_named_with_what_differs(self, kept, change, said):
        line = error_of(kept, run={**RUN, **change})
        assert line.startswith(f"{kept / 'step-00000005.json'} is of another run: {said}")

    def test_a_setting_that_is_gone_makes_another_run(self, kept):
        run = {name: value for name, value in RUN.items() if name != "seed"}
        assert error_of(kept, run=run).endswith("is of another run: seed is 3 there, unknown here")

    @pytest.mark.parametrize("data", [b"", b"no tensors", struct.pack("<Q", 2**40) + b"{}"])
    def test_what_is_no_safetensors_is_refused_though_its_sum_is_right(self, kept, data):
        path, note = kept / "step-00000005.model.safetensors", kept / "step-00000005.json"
        path.write_bytes(data)
        said = json.loads(note.read_text())
        said["sha256"][MODEL] = hashlib.sha256(data).hexdigest()
        note.write_text(json.dumps(said))
        assert error_of(kept).startswith(f"{path} can't be read: ")

    @settings(max_examples=101)
    @given(st.data())
    def test_whatever_happens_to_a_document_no_wrong_tensors_come_out(self, tmp_path_factory, data):
        """A blank more changes nothing; all that matters is refused by name."""
        folder = tmp_path_factory.getbasetemp() / "fuzzed"
        InFolder(folder, RUN).write(5, state(5), [])
        path = folder / "step-00000005.json"
        good = path.read_bytes()
        place = data.draw(st.integers(0, len(good) - 1))
        new = data.draw(st.sampled_from([b"", *(bytes([b]) for b in b'\0 -.019e"[]{},nax\xff')]))
        path.write_bytes(good[:place] + new + good[place + 1 :])
        try:
            read = InFolder(folder, RUN).read(5, MODEL)
        except ValueError as error:
            assert str(folder) in str(error) and len(str(error).splitlines()) == 1
        else:
            assert same(read, state(5)[MODEL])


class Stopped(BaseException):
    """As KeyboardInterrupt, which would end pytest if it came out."""


FULL = OSError(errno.ENOSPC, "No space left on device")
# What a state calls, how often (two files of tensors and a document), and how that says it.
POINTS = [
    (os, "fsync", 3, FULL), (os, "replace", 3, FULL), (os, "chmod", 3, FULL),
    (states, "save_file", 2, SafetensorError("I/O error: No space left on device")),
    (states, "save_file", 2, FULL),
]


class TestFullDisk:
    @pytest.mark.parametrize("stopped", [False, True])
    @pytest.mark.parametrize(
        ("owner", "name", "call", "error"),
        [(owner, n, call, e) for owner, n, calls, e in POINTS for call in range(1, calls + 1)],
    )
    def test_the_state_before_stays_and_no_half_file(
        self, kept, monkeypatch, owner, name, call, error, stopped
    ):
        calls, real = [], getattr(owner, name)

        def fail(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                if name == "save_file":  # half of it is on the disk
                    Path(arguments[1]).write_bytes(b"half")
                raise Stopped if stopped else error
            return real(*arguments)

        before = {path: path.read_bytes() for path in kept.iterdir()}
        folder = InFolder(kept, RUN)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises((OSError, Stopped)) as caught:
                folder.write(7, state(7), [])
        assert len(calls) == call
        if not stopped:
            assert str(kept / "step-00000007.") in str(caught.value)
        assert {path: path.read_bytes() for path in before} == before
        assert not [found for found in files(kept) if found.startswith(".")]
        assert folder.steps() == [3, 5]
        folder.write(7, state(7), [])  # there is room again
        assert files(kept) == names(5, *ALL) + names(7, *ALL)
        assert all(same(folder.read(7, part), state(7)[part]) for part in PARTS)

    def test_a_limit_that_the_system_sets(self, kept):
        """No file of more than 500 bytes: the model fits, Adam's moments don't."""
        script = f"""
import resource, torch
from annotated.training.states import InFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
small, large = torch.zeros(41), torch.zeros(211)
InFolder({str(kept)!r}, {RUN}).write(7, {{"model": {{"a": small}}, "adam": {{"b": large}}}}, [])
"""
        before = {path: path.read_bytes() for path in kept.iterdir()}
        assert len(before) == 6 and resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 500
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 1
        path = kept / "step-00000007.adam.safetensors"
        last = done.stderr.splitlines()[-1]
        assert re.fullmatch(
            rf"OSError: {re.escape(str(path))} can't be written: .*too large.*", last
        )
        assert {path: path.read_bytes() for path in before} == before
        (model,) = set(kept.iterdir()) - before.keys()
        assert model.name == "step-00000007.model.safetensors" and load_file(model)
        assert InFolder(kept, RUN).steps() == [3, 5]
        assert set(kept.iterdir()) == before.keys(), "what is no state is swept"
