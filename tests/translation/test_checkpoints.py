"""Checkpoints: exact, whole or not at all, and free of anything that runs when it is read."""

import ast
import errno
import hashlib
import json
import math
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save

import annotated
from annotated.data.tokenizer import Tokenizer
from annotated.files import write_atomically
from annotated.model import Transformer, TransformerConfig
from annotated.translation.checkpoints import load_checkpoint, read_config, save_checkpoint, sealed
from annotated.variations.controls import NoScale

FILES = ["config.json", "model.safetensors", "tokenizer.json"]
SIZES = {"d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}
TOKENIZER = Tokenizer.train(["two hundred and four", "zweihundertvier"] * 2, merges=11)


def build(seed=0, **overrides):
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig(**(SIZES | {"vocab_size": TOKENIZER.vocab_size} | overrides))
    )


@pytest.fixture
def saved(tmp_path):
    """A checkpoint's folder, and the model in it."""
    model = build()
    save_checkpoint(tmp_path / "made", model, TOKENIZER, recipe="copy", seed=3)
    return tmp_path / "made", model


def error_of(folder):
    """The one line that loading the folder ends in."""
    with pytest.raises(ValueError) as caught:
        load_checkpoint(folder)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    (line,) = str(caught.value).splitlines()
    assert len(line) < 400
    return line


def edit(folder, change):
    """Rewrite the configuration by hand, and seal it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(sealed(config)))
    return str(path)


class TestRoundTrip:
    @pytest.mark.parametrize(
        "overrides",
        [
            {}, {"tie": False}, {"norm": "pre", "attention_bias": True},
            {"positions": "learned", "max_length": 41}, {"positions": "sinusoidal-halves"},
            {"dropout": 0.3, "activation": "gelu"},
        ],
    )
    def test_in_float32_it_is_exact(self, tmp_path, overrides):
        model = build(**overrides)
        save_checkpoint(tmp_path, model, TOKENIZER)
        loaded, _, _ = load_checkpoint(tmp_path)
        assert loaded.config == model.config
        named = dict(loaded.named_parameters())
        assert named.keys() == dict(model.named_parameters()).keys()
        assert all(torch.equal(named[name], w) for name, w in model.named_parameters())
        ids = torch.randint(3, TOKENIZER.vocab_size, (3, 7), generator=torch.Generator())
        with torch.no_grad():
            assert torch.equal(loaded(ids, ids), model.eval()(ids, ids))

    def test_a_model_that_would_be_loaded_as_another_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="^the model is a NoScale; it would be loaded as a "):
            save_checkpoint(tmp_path / "new", NoScale(build().config), TOKENIZER)
        assert not (tmp_path / "new").exists()

    def test_in_float16_it_is_close_half_as_large_and_loads_as_float32(self, tmp_path):
        model, sizes = build(), []
        for dtype in (None, torch.float16):
            save_checkpoint(tmp_path, model, TOKENIZER, dtype)
            sizes.append((tmp_path / "model.safetensors").stat().st_size)
        loaded, _, _ = load_checkpoint(tmp_path)
        for one, other in zip(loaded.parameters(), model.parameters(), strict=True):
            assert one.dtype == torch.float32
            torch.testing.assert_close(one, other, rtol=2**-11, atol=2**-24)
            assert torch.equal(one, other.half().float())
        count = sum(w.numel() for w in model.parameters())
        assert sizes[0] - sizes[1] == pytest.approx(2 * count, abs=99)
        assert {w.dtype for w in model.parameters()} == {torch.float32}, "saving changes nothing"

    def test_what_is_loaded_is_ready_to_use(self, saved):
        folder, model = saved
        assert model.training
        loaded, tokenizer, notes = load_checkpoint(str(folder))
        assert not loaded.training and all(w.requires_grad for w in loaded.parameters())
        assert tokenizer.to_json() == TOKENIZER.to_json()
        assert notes == {"recipe": "copy", "seed": 3}

    def test_three_files_and_nothing_else(self, saved):
        assert sorted(path.name for path in saved[0].iterdir()) == FILES
        sums = json.loads((saved[0] / "config.json").read_text())["sha256"]
        for name in ("model.safetensors", "tokenizer.json"):
            assert sums[name] == hashlib.sha256((saved[0] / name).read_bytes()).hexdigest()

    def test_a_tied_matrix_is_stored_once_and_is_still_tied(self, saved):
        folder, model = saved
        stored = load_file(folder / "model.safetensors")
        size = TOKENIZER.vocab_size
        assert [name for name, w in stored.items() if size in w.shape] == ["embedding.weight"]
        assert stored.keys() == {name for name, _ in model.named_parameters()}
        loaded, _, _ = load_checkpoint(folder)
        assert loaded.matrix("source") is loaded.matrix("target") is loaded.matrix("output")
        ids = torch.tensor([[5, 7]])
        before = loaded(ids, ids)
        with torch.no_grad():
            loaded.embedding.weight.mul_(2)
        assert not torch.allclose(loaded.encode(ids), model.eval().encode(ids))
        assert not torch.allclose(loaded(ids, ids), before)

    def test_another_one_takes_its_place(self, saved):
        folder, _ = saved
        other = build(seed=1)
        save_checkpoint(folder, other, TOKENIZER, recipe="other")
        loaded, _, notes = load_checkpoint(folder)
        assert torch.equal(loaded.embedding.weight, other.embedding.weight)
        assert notes == {"recipe": "other"}

    def test_the_same_model_is_the_same_bytes(self, saved, tmp_path):
        folder, model = saved
        save_checkpoint(tmp_path / "again", model, TOKENIZER, recipe="copy", seed=3)
        for name in FILES:
            assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()

    def test_loading_leaves_the_random_generator_alone(self, saved):
        folder, _ = saved
        torch.manual_seed(7)
        before = torch.get_rng_state()
        load_checkpoint(folder)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(11)
        save_checkpoint(folder, build(seed=2), TOKENIZER)
        torch.manual_seed(7)
        load_checkpoint(folder)
        assert torch.equal(torch.get_rng_state(), before)


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file_is_named(self, saved, name):
        (saved[0] / name).unlink()
        assert error_of(saved[0]) == f"no checkpoint in {saved[0]}: {name} is missing"

    def test_so_is_a_folder_that_is_not_there(self, tmp_path):
        assert error_of(tmp_path / "nowhere") == (
            f"no checkpoint in {tmp_path / 'nowhere'}: config.json is missing"
        )

    def test_this_folder_has_a_name_too(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert error_of("") == "no checkpoint in .: config.json is missing"

    @pytest.mark.parametrize("name", FILES[1:])
    @pytest.mark.parametrize("keep", [0, 1, -1])
    def test_a_truncated_file_is_named_with_its_size(self, saved, name, keep):
        path = saved[0] / name
        data = path.read_bytes()[:keep]
        path.write_bytes(data)
        assert error_of(saved[0]) == (
            f"{path} ({len(data)} bytes) is truncated, damaged or of another "
            "checkpoint: its SHA-256 is not the one in config.json"
        )

    @pytest.mark.parametrize("name", FILES[1:])
    def test_so_is_one_in_which_a_single_bit_changed(self, saved, name):
        path = saved[0] / name
        good = path.read_bytes()
        for place in random.Random(0).sample(range(len(good)), 23):
            bad = bytearray(good)
            bad[place] ^= 1 << place % 8
            path.write_bytes(bad)
            assert error_of(saved[0]).startswith(f"{path} ({len(good)} bytes) is truncated, dam")
        path.write_bytes(good)
        assert load_checkpoint(saved[0])[2] == {"recipe": "copy", "seed": 3}

    def test_and_one_of_another_checkpoint(self, saved, tmp_path):
        save_checkpoint(tmp_path / "other", build(seed=1), TOKENIZER)
        (tmp_path / "other" / "model.safetensors").replace(saved[0] / "model.safetensors")
        assert "model.safetensors" in error_of(saved[0])

    @pytest.mark.parametrize(
        "text",
        [
            "", "{", "null", "[]", "42", '"text"', "{}", '{"model": {}}', "\udcff",
            '{"model": {}, "notes": {}}', '{"architectures": ["MarianMTModel"]}',
            '{"model": null, "notes": {}, "sha256": {}}', '{"model": {}, "notes": 3, "sha256": {}}',
            '{"model": {}, "notes": {}, "sha256": "x"}', '{"model": {}, "notes": {}, "sha256": 0}',
            "<!DOCTYPE html><title>404</title>",
        ],
    )
    def test_a_configuration_that_is_not_ours_is_named(self, saved, text):
        path = saved[0] / "config.json"
        path.write_text(text, errors="surrogateescape")
        said = error_of(saved[0])
        assert said.startswith((f"{path} is damaged: ", f"{path} has version None; "))
        with pytest.raises(ValueError, match="is damaged: |has version None; "):
            read_config(saved[0])

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"sha256": [["a", "b"]]}, "sha256"), ({"sha256": {"a": 3}}, "sha256"),
            ({"notes": None}, "notes"), ({"notes": []}, "notes"), ({"model": []}, "model"),
            ({"model": {"d_model": "22"}}, "model.d_model"), ({"more": 1}, "'more'"),
            ({"model": {"layers": True}}, "model.layers"),
        ],
    )
    def test_a_field_of_another_type_is_named_though_the_seal_is_right(
        self, saved, change, field
    ):
        path = saved[0] / "config.json"
        whole = json.loads(path.read_text()) | change
        if isinstance(whole["sha256"], dict):
            whole = sealed(whole)
        path.write_text(json.dumps(whole))
        line = error_of(saved[0])
        assert line.startswith(str(path)) and field in line.replace("$.", "")

    def test_sums_that_are_missing_are_not_right(self, saved):
        edit(saved[0], lambda config: config.update(sha256={}))
        assert "its SHA-256 is not the one in config.json" in error_of(saved[0])

    @settings(max_examples=60)
    @given(st.data())
    def test_whatever_happens_to_the_configuration_no_other_error_comes_out(
        self, tmp_path_factory, data
    ):
        """Only a change that leaves the same JSON document goes unnoticed."""
        folder = tmp_path_factory.getbasetemp() / "fuzzed-configuration"
        if not folder.exists():
            save_checkpoint(folder, build(), TOKENIZER, recipe="copy")
            (folder / "good").write_bytes((folder / "config.json").read_bytes())
        good = (folder / "good").read_bytes()
        place = data.draw(st.integers(0, len(good) - 1))
        new = data.draw(st.sampled_from([b"", *(bytes([b]) for b in b'\0 -.019e"[{,nax\xff')]))
        (folder / "config.json").write_bytes(good[:place] + new + good[place + 1 :])
        try:
            model, _, _ = load_checkpoint(folder)
        except ValueError as error:
            assert str(folder) in str(error) and len(str(error).splitlines()) == 1
        else:
            assert model.config.d_model == 22
            assert json.loads((folder / "config.json").read_bytes()) == json.loads(good)

    @pytest.mark.parametrize(
        "change",
        [
            lambda config: config["model"].update(heads=1),
            lambda config: config["model"].update(dropout=0.3),
            lambda config: config["model"].pop("norm"),
            lambda config: config["notes"].update(recipe="another"),
        ],
    )
    def test_a_configuration_that_still_fits_the_weights_is_refused_all_the_same(
        self, saved, change
    ):
        path = saved[0] / "config.json"
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))
        assert error_of(saved[0]) == f"{path} is damaged: its SHA-256 is not the one in it"


class TestAnotherVersion:
    @pytest.mark.parametrize("version", [0, 1, 3, None, "2", [2]])
    def test_another_layout_is_named(self, saved, version):
        path = edit(saved[0], lambda config: config.update(version=version))
        said = f"{path} has version {version!r}; this package reads version 2"
        assert error_of(saved[0]) == said

    def test_a_field_that_this_version_lacks_is_named(self, saved):
        """What a later version may write."""
        path = edit(saved[0], lambda config: config["model"].update(rotary=True))
        line = error_of(saved[0])
        assert line == f"{path} has a field 'model.rotary' that this version does not know"

    def test_so_is_a_value_that_this_version_lacks(self, saved):
        path = edit(saved[0], lambda config: config["model"].update(positions="rotary"))
        line = error_of(saved[0])
        assert line.startswith(f"{path} is damaged: ")
        assert "positions is 'rotary'; expected one of" in line and "'learned'" in line

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("d_ff", 31, "expected floats of 16 to 64 bits, of shape (31,)"),
            ("d_k", 11, "expected floats"),
            ("layers", 1, "has decoder.layers.1.cross_attention.w_"),
            ("layers", 3, "lacks decoder.layers.2.cross_attention.w_"),
            ("tie", False, "lacks untied.output.weight"),
            ("heads", 0, "heads is 0; expected a whole number of at least 1"),
            ("d_ff", "many", "d_ff"),
            ("d_model", None, "d_model"),
            ("layers", 10**9, "a model whose layers is 1000000000 has more"),
            ("d_model", 3 * 10**12, "a model whose d_model is 3000000000000 has more"),
            ("d_ff", 10**12, "a model whose d_ff is 1000000000000 has more"),
            ("vocab_size", 10**9, "a model whose vocab_size is 1000000000 has more"),
            ("d_v", 10**12, "a model whose d_v is 1000000000000 has more"),
            ("d_ff", 10**30, "d_ff"),
        ],
    )
    def test_sizes_that_are_not_those_of_the_weights_are_named(self, saved, field, value, said):
        """At once: a model of a billion layers is not built to see that it doesn't fit."""
        edit(saved[0], lambda config: config["model"].update({field: value}))
        line = error_of(saved[0])
        assert line.startswith(str(saved[0])) and said in line

    def test_so_are_learned_positions(self, tmp_path):
        model = build(positions="learned", max_length=41)
        save_checkpoint(tmp_path, model, TOKENIZER)
        edit(tmp_path, lambda config: config["model"].update(max_length=10**12))
        assert "a model whose max_length is 1000000000000 has more" in error_of(tmp_path)

    def rewritten(self, folder, change):
        """Other tensors, under a seal that is right."""
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        data = save(tensors)
        (folder / "model.safetensors").write_bytes(data)
        right = hashlib.sha256(data).hexdigest()
        edit(folder, lambda config: config["sha256"].update({"model.safetensors": right}))

    @pytest.mark.parametrize(
        "dtype",
        [torch.bool, torch.int8, torch.int64, torch.uint8, torch.complex64, torch.float8_e4m3fn],
    )
    def test_tensors_that_are_no_floats_are_refused(self, saved, dtype):
        try:
            self.rewritten(saved[0], lambda tensors: tensors.update(
                {"embedding.weight": tensors["embedding.weight"].to(dtype)}
            ))
        except KeyError:  # what safetensors has no name for can't be in a file
            pytest.skip(f"safetensors writes no {dtype}")
        line = error_of(saved[0])
        assert "embedding.weight" in line and str(dtype) in line or "can't be read" in line

    def test_so_are_numbers_that_float32_does_not_have(self, saved):
        def change(tensors):
            tensors["embedding.weight"] = tensors["embedding.weight"].double()
            tensors["embedding.weight"][3, 5] = 1e300

        self.rewritten(saved[0], change)
        assert error_of(saved[0]).endswith("embedding.weight is not finite everywhere")

    def test_so_are_other_shapes_of_as_many_numbers(self, saved):
        def change(tensors):
            tensors["embedding.weight"] = tensors["embedding.weight"].T.contiguous()

        self.rewritten(saved[0], change)
        assert "embedding.weight is torch.float32 of shape (22, " in error_of(saved[0])

    @pytest.mark.parametrize("shape", [(), (1, 22), (1,)])
    def test_a_tensor_that_would_be_broadcast_is_refused(self, saved, shape):
        self.rewritten(
            saved[0], lambda tensors: tensors.update({"embedding.weight": torch.ones(shape)})
        )
        assert f"embedding.weight is torch.float32 of shape {shape}" in error_of(saved[0])

    def test_a_tensor_that_is_missing_and_one_too_many_are_named(self, saved):
        self.rewritten(saved[0], lambda tensors: tensors.pop("embedding.weight"))
        assert error_of(saved[0]).endswith("lacks embedding.weight, which its configuration has")
        self.rewritten(saved[0], lambda tensors: tensors.update(
            {"embedding.weight": torch.ones(TOKENIZER.vocab_size, 22), "more": torch.ones(1)}
        ))
        assert error_of(saved[0]).endswith("has more, which its configuration lacks")

    def test_in_float64_weights_of_a_usual_size_are_read(self, saved):
        def change(tensors):
            tensors.update({name: tensor.double() for name, tensor in tensors.items()})

        self.rewritten(saved[0], change)
        loaded, _, _ = load_checkpoint(saved[0])
        assert torch.equal(loaded.embedding.weight, saved[1].embedding.weight)

    def test_weights_that_are_no_safetensors_are_refused_though_their_sum_is_right(self, saved):
        for data in (b"", b"not tensors", struct.pack("<Q", 2**40) + b"{}"):
            (saved[0] / "model.safetensors").write_bytes(data)
            right = hashlib.sha256(data).hexdigest()
            edit(saved[0], lambda config, right=right: config["sha256"].update(
                {"model.safetensors": right}
            ))
            assert "model.safetensors can't be read: " in error_of(saved[0])


class Stopped(BaseException):
    """As KeyboardInterrupt, which would end pytest if it came out."""


FULL = OSError(errno.ENOSPC, "No space left on device")
# What is called for each of the three files before any of the old ones is touched.
WRITES = [(Path, "write_bytes"), (os, "chmod"), (os, "fsync")]

# Saves what is in the folder "new" over a copy of "old", again and again, killed before the first
# rename to the last and then after it; prints how many renames there are.
KILLS = """
import os, shutil, signal, sys
from pathlib import Path
from annotated.translation.checkpoints import load_checkpoint, save_checkpoint

base, real = Path(sys.argv[1]), os.replace
model, tokenizer, notes = load_checkpoint(base / "new")

def killed(count):
    left = [count]

    def replace(*arguments):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*arguments)

    shutil.copytree(base / "old", base / str(count))
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.replace = replace
    save_checkpoint(base / str(count), model, tokenizer, **notes)
    os._exit(0)

count = 1
while killed(count):
    count += 1
print(count - 1)
"""


class TestInterruption:
    @pytest.mark.parametrize("call", [1, 2, 3])
    @pytest.mark.parametrize(("owner", "name"), WRITES)
    @pytest.mark.parametrize("error", [Stopped(), FULL])
    def test_until_all_is_on_the_disk_the_old_one_is_whole(
        self, saved, monkeypatch, owner, name, call, error
    ):
        folder, old = saved
        before = {path: path.read_bytes() for path in folder.iterdir()}
        calls, real = [], getattr(owner, name)

        def stop(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                if name == "write_bytes":  # half of it is on the disk
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise error
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stop)
            with pytest.raises((Stopped, OSError)) as caught:
                save_checkpoint(folder, build(seed=1), TOKENIZER, seed=4)
        assert len(calls) == call
        if error is FULL:  # in the order in which they are written
            wanted = ("model.safetensors", "tokenizer.json", "config.json")[call - 1]
            assert caught.value.errno == errno.ENOSPC and wanted in str(caught.value)
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        loaded, _, notes = load_checkpoint(folder)
        assert torch.equal(loaded.embedding.weight, old.embedding.weight) and notes["seed"] == 3

    def test_a_kill_at_a_rename_leaves_the_old_one_the_new_one_or_one_that_is_refused(
        self, saved, tmp_path
    ):
        folder, _ = saved
        folder.rename(tmp_path / "old")
        save_checkpoint(tmp_path / "new", build(seed=1), TOKENIZER, seed=4)
        command = [sys.executable, "-c", KILLS, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = []
        for count in range(1, int(done.stdout) + 2):  # the last was not killed
            made = tmp_path / str(count)
            try:
                found.append(load_checkpoint(made)[2]["seed"])
            except ValueError as error:
                size = (made / "model.safetensors").stat().st_size
                assert str(error) == (
                    f"{made / 'model.safetensors'} ({size} bytes) is truncated, damaged or of "
                    "another checkpoint: its SHA-256 is not the one in config.json"
                )
                found.append("refused")
            else:
                whole = tmp_path / ("old" if found[-1] == 3 else "new")
                for name in FILES:
                    assert (made / name).read_bytes() == (whole / name).read_bytes()
            assert sorted(path.name for path in made.glob("[!.]*")) == FILES
        assert found[-1] == 4 and found.count(4) == 1
        assert found.count("refused") == 2, "with the weights' rename, until the configuration's"
        assert set(found[:-3]) == {3}

    @pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6])
    def test_a_first_one_is_not_there_until_it_is_whole(self, tmp_path, monkeypatch, call):
        calls, real = [], os.replace

        def stop(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                raise Stopped
            real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stop)
            with pytest.raises(Stopped):
                save_checkpoint(tmp_path / "new", build(), TOKENIZER)
        assert error_of(tmp_path / "new") == (
            f"no checkpoint in {tmp_path / 'new'}: config.json is missing"
        )
        save_checkpoint(tmp_path / "new", build(), TOKENIZER)
        assert load_checkpoint(tmp_path / "new")[2] == {}

    def test_a_file_is_the_old_one_or_the_new_one(self, tmp_path, monkeypatch):
        path = tmp_path / "file"
        write_atomically(path, b"old")
        assert path.read_bytes() == b"old"
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda handle: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
        write_atomically(path, b"new")
        assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]

    def test_a_file_in_the_folders_place_is_named(self, tmp_path):
        (tmp_path / "taken").write_text("mine")
        with pytest.raises(OSError, match="taken"):
            save_checkpoint(tmp_path / "taken", build(), TOKENIZER)
        assert (tmp_path / "taken").read_text() == "mine"


# Reading a pickle runs whatever it says. Nothing in the package reads or writes one.
PICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
PICKLING = {"torch": {"load", "save"}, "numpy": {"load"}, "np": {"load"}, "pd": {"read_pickle"}}


def pickling(source):
    """Lines that import a pickler or call what uses one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names, modules = set(modules), [node.module or ""]
                if names & PICKLING.get(modules[0], set()):
                    found.append(node.lineno)
            if any(module.split(".")[0] in PICKLERS for module in modules):
                found.append(node.lineno)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in PICKLING.get(node.value.id, set()):
                found.append(node.lineno)
    return found


def test_the_search_for_pickles_works():
    bad = ["import pickle", "from pickle import load", "x = torch.load(f)", "import os, dill as d",
           "from torch import load", "torch.save(x, f)", "def f():\n import joblib"]
    assert [len(pickling(line)) for line in bad] == [1] * len(bad)
    good = "import json\nfrom safetensors.torch import load\njson.load(f)\nmodel.load_state_dict(x)"
    assert pickling(good) == []


def test_the_package_has_no_pickles():
    files = sorted(Path(annotated.__file__).parent.rglob("*.py"))
    assert len(files) > 20
    assert {file: lines for file in files if (lines := pickling(file.read_text()))} == {}


def put(folder, name, data):
    """Another file in a checkpoint, under a seal that vouches for it."""
    (folder / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    edit(folder, lambda config: config["sha256"].update({name: digest}))
    return str(folder / name)


class TestRightlySealed:
    """The sums are right, and yet it is no model that can be used."""

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_weights_that_are_not_finite_are_refused(self, saved, value):
        folder, _ = saved
        tensors = load_file(folder / "model.safetensors")
        tensors["embedding.weight"][3, 5] = value
        path = put(folder, "model.safetensors", save(tensors))
        assert error_of(folder) == f"{path}: embedding.weight is not finite everywhere"

    def test_a_tokenizer_of_another_vocabulary_is_refused(self, saved):
        folder, model = saved
        other = Tokenizer.train(["two hundred and four", "zweihundertvier"] * 2, merges=7)
        path = put(folder, "tokenizer.json", other.to_json().encode())
        line = error_of(folder)
        assert line.startswith(f"{path} has vocabulary") and "the model expects" in line
        assert str(other.vocab_size) in line and str(model.config.vocab_size) in line


class TestBelonging:
    """A tokenizer and a model with other ids, or weights that are no numbers, are no checkpoint."""

    def test_a_tokenizer_of_another_size_is_refused_before_anything_is_written(self, tmp_path):
        tokenizer = Tokenizer.train(["one two one two"], 2)
        model = Transformer(TransformerConfig.tiny(vocab_size=tokenizer.vocab_size + 1))
        with pytest.raises(ValueError, match=r"the tokenizer has vocabulary.*261.*expects.*262"):
            save_checkpoint(tmp_path, model, tokenizer)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("value, dtype", [(math.nan, None), (1e6, torch.float16)])
    def test_weights_that_are_not_finite_are_refused(self, tmp_path, value, dtype):
        tokenizer = Tokenizer.train(["one two one two"], 2)
        model = Transformer(TransformerConfig.tiny(vocab_size=tokenizer.vocab_size))
        with torch.no_grad():
            model.embedding.weight[3, 5] = value
        with pytest.raises(ValueError, match="embedding.weight is not finite everywhere"):
            save_checkpoint(tmp_path, model, tokenizer, dtype)
        assert list(tmp_path.iterdir()) == []
