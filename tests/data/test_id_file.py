"""§5.1: a file of ids gives back every pair, whole or not at all, and holds none in memory."""

import json
import os
import re
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import id_file
from annotated.data.batches import batch_plan, micro_batches, pair_lengths, token_batches
from annotated.data.id_file import IdPairs, write_ids

ids = st.lists(st.integers(0, 2**16 - 1), max_size=11)
corpora = st.lists(st.tuples(ids, ids), max_size=37)
PAIRS = [([i] * (1 + i % 11), [2 * i] * (1 + i % 7)) for i in range(101)]


@pytest.fixture
def path(tmp_path):
    """A file with `PAIRS`, alone in its folder."""
    write_ids(tmp_path / "train.ids", PAIRS)
    return tmp_path / "train.ids"


class TestRoundTrip:
    @given(corpora, st.sampled_from([1 << 16, 1 << 17]), st.sampled_from([3, 1 << 16]))
    def test_pairs_and_lengths_come_back(self, tmp_path_factory, pairs, vocab_size, block):
        path = tmp_path_factory.mktemp("ids") / "train.ids"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(id_file, "_BLOCK", block)
            assert write_ids(path, iter(pairs), vocab_size) == len(pairs)
        found = IdPairs(path)
        assert isinstance(found, Sequence) and len(found) == len(pairs)
        assert list(found) == pairs
        assert found.lengths.tolist() == pair_lengths(pairs).tolist()
        assert all(type(i) is int for pair in found for side in pair for i in side)

    def test_any_place_can_be_asked_for(self, path):
        found = IdPairs(path)
        assert found[17] == PAIRS[17] and found[-1] == PAIRS[-1] and found[np.int32(3)] == PAIRS[3]
        assert found[13:29:3] == PAIRS[13:29:3]
        for place in (101, -102):
            with pytest.raises(IndexError):
                found[place]

    def test_an_id_has_two_bytes_and_four_only_where_it_must(self, tmp_path):
        largest = {1 << 16: 2**16 - 1, 1 << 17: 2**17 - 1}
        sizes = []
        for vocab_size, id in largest.items():
            write_ids(tmp_path / "train.ids", [([id] * 1000, [])], vocab_size)
            assert IdPairs(tmp_path / "train.ids")[0] == ([id] * 1000, [])
            sizes.append((tmp_path / "train.ids").stat().st_size)
        assert sizes[1] - sizes[0] == 2000

    def test_one_word_more_than_two_bytes_can_tell_apart_takes_four(self, tmp_path):
        path = tmp_path / "train.ids"
        write_ids(path, [([65_536], [0])], vocab_size=65_537)
        assert list(IdPairs(path)) == [([65_536], [0])]

    @given(corpora.filter(len), st.integers(0, 2**40))
    def test_batches_are_those_of_the_pairs_in_memory(self, tmp_path_factory, pairs, seed):
        path = tmp_path_factory.mktemp("ids") / "train.ids"
        write_ids(path, pairs)
        held, mapped = (micro_batches(p, 31, seed) for p in (pairs, IdPairs(path)))
        assert list(islice(held, 13)) == list(islice(mapped, 13))


class TestAllOrNothing:
    @pytest.mark.parametrize("id", [-1, 420, 10**12])
    def test_an_id_outside_the_vocabulary_is_named(self, path, id):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=f"^ids must be from 0 to 419, not {id}$"):
            write_ids(path, [([5], [7]), ([11], [13, id])], vocab_size=420)
        assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]

    def test_what_stops_the_pairs_leaves_the_old_file_and_nothing_else(self, path, monkeypatch):
        monkeypatch.setattr(id_file, "_BLOCK", 31)

        def stopping():
            yield from PAIRS
            raise KeyboardInterrupt

        before = path.read_bytes()
        with pytest.raises(KeyboardInterrupt):
            write_ids(path, stopping())
        assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]

    def test_a_missing_folder_is_made(self, tmp_path):
        write_ids(str(tmp_path / "new" / "folder" / "train.ids"), PAIRS[:3])
        assert list(IdPairs(str(tmp_path / "new" / "folder" / "train.ids"))) == PAIRS[:3]


class TestDamage:
    @given(st.data())
    def test_a_flipped_bit_anywhere_is_found(self, tmp_path_factory, data):
        path = tmp_path_factory.mktemp("ids") / "train.ids"
        write_ids(path, PAIRS)
        content = bytearray(path.read_bytes())
        used = [*range(13), *range(16, 72), *range(80, len(content))]  # the rest of it is filling
        place = data.draw(st.sampled_from(used))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        with pytest.raises(ValueError) as error:
            IdPairs(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)

    @given(st.integers(1, 10_000), st.booleans())
    def test_a_file_cut_short_or_with_more_at_its_end_is_found(
        self, tmp_path_factory, count, longer
    ):
        path = tmp_path_factory.mktemp("ids") / "train.ids"
        write_ids(path, PAIRS)
        whole = path.read_bytes()
        path.write_bytes(whole + bytes(count) if longer else whole[: -min(count, len(whole))])
        with pytest.raises(ValueError) as error:
            IdPairs(path)
        assert re.search(r"it has \d+ bytes|no file of ids", str(error.value))  # without the hash
        assert str(path) in str(error.value) and "\n" not in str(error.value)

    def test_another_version_and_another_kind_of_file_are_named(self, path):
        content = path.read_bytes()
        path.write_bytes(content[:16] + struct.pack("<I", 2) + content[20:])
        with pytest.raises(ValueError, match=r"train\.ids has version 2, expected 1$"):
            IdPairs(path)
        path.write_text("three hundred and forty-two\n")
        with pytest.raises(ValueError, match=r"is no file of ids: it begins with b'three "):
            IdPairs(path)
        for absent in (path.with_name("absent.ids"), path.parent):
            with pytest.raises(ValueError, match=r"^there is no file of ids at "):
                IdPairs(absent)


def test_a_file_is_written_without_holding_the_pairs(tmp_path):
    """Most of what it takes is 1 000 sentences at a time in the tokenizer. Eight megabytes of text
    are as many ids here, which a list would hold in eight bytes each, and more."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("needs Linux to tell the peak of memory")
    megabytes = int(os.environ.get("ANNOTATED_STREAM_MB", "8"))
    script = Path(__file__).with_name("streaming.py")
    command = [sys.executable, str(script), str(tmp_path), str(megabytes), "write"]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    report, pairs = json.loads(done.stdout), IdPairs(tmp_path / "big.ids")
    assert len(pairs) == report["pairs"] and report["text"] >= megabytes * 1_000_000
    assert int(pairs.lengths.sum()) * 8 > 2 * report["write"]
    assert report["write"] < 32_000_000


def test_an_epoch_holds_some_bytes_a_pair_and_no_ids(tmp_path):
    """A list of the same pairs takes thirty times as much."""
    count, side = 20_011, list(range(300, 323))
    write_ids(tmp_path / "train.ids", ((side, side) for _ in range(count)))
    tracemalloc.start()
    pairs = IdPairs(tmp_path / "train.ids")
    before = tracemalloc.get_traced_memory()[0]
    read = sum(len(batch) for batch in token_batches(pairs, 500, 0))
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.reset_peak()
    held = list(pairs)
    assert read == len(held) == count
    assert peak < 40 * count + 200_000
    assert tracemalloc.get_traced_memory()[0] - before > 30 * 28 * count
    tracemalloc.stop()


def test_a_plan_takes_the_memory_that_it_says():
    lengths = np.random.default_rng(0).integers(1, 41, (100_003, 2)).astype(np.int32)
    tracemalloc.start()
    plan = batch_plan(lengths, 25_000, 0, length_noise=1.0)
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, plan)) == 100_003
    assert peak < 29 * 100_003 and now < 5 * 100_003
