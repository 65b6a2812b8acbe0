"""Sentence pairs from files: read as they are or refused by name; losses are counted."""

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from annotated.data import text
from annotated.data.text import Cleaning, Counts, Pairs, count_words, lines, texts, tidy
from annotated.data.tokenizer import Tokenizer

# Characters at which str.splitlines() cuts, or that look like nothing.
ODD = "\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029\u00a0\u202f\u00ad\u200b\ufeff\t"
line_texts = st.text(st.sampled_from("aäß 😀" + ODD), max_size=11)
HTML = b"<!DOCTYPE html>\n<html><body>404</body></html>\n"


@pytest.fixture
def put(tmp_path):
    """`put("a.en.gz", b"text")` writes a file, compressed if its name says so."""

    def write(name: str, content: bytes | str) -> Path:
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        if name.endswith(".gz"):
            content = gzip.compress(content)
        path.write_bytes(content)
        return path

    return write


def zipped(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(re.sub("__(?=[a-z])", ".", name), content)
    return path


def one_line(error: pytest.ExceptionInfo, *parts: str) -> None:
    """The message is one line and says all these."""
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


class TestLines:
    @given(st.lists(line_texts, min_size=1, max_size=7), st.booleans(), st.booleans())
    @example(["a\u2028b", "c\x85", "", "\r"], False, True)
    def test_only_a_line_feed_ends_a_line(self, tmp_path_factory, rows, packed, end):
        content = "\n".join(rows) + "\n" * end
        if "\r" in content.strip("\r\n") and "\n" not in content.rstrip("\n"):
            content += "\n" * (not end) + "a"  # else it is refused, see below
        path = tmp_path_factory.mktemp("lines") / ("a.gz" if packed else "a")
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
        if not content:
            with pytest.raises(ValueError, match="is empty"):
                list(lines(path))
            return
        *expected, last = content.split("\n")
        expected += [last] * bool(last)  # "a\n" and "a" are one line, "a\n\n" is two
        expected[0] = expected[0].removeprefix("\ufeff")
        assert list(lines(path)) == expected

    def test_text_in_a_zip_is_the_one_beside_its_description(self, tmp_path):
        path = zipped(tmp_path / "a.zip", _about__txt="terms", deu__txt="Hi.\tHallo!\n")
        assert list(lines(path)) == ["Hi.\tHallo!"]

    @pytest.mark.parametrize("folder", ["deu-eng/", "my texts/deu-eng/", "deu-eng\\", "_new/"])
    def test_a_zip_packed_again_as_a_folder_is_the_same(self, tmp_path, folder):
        about = ["_about.txt", "__MACOSX/._deu.txt", "__MACOSX/deu-eng/._deu.txt"]
        members = dict.fromkeys(about, "terms") | {folder: "", f"{folder}_about.txt": "terms"}
        path = zipped(tmp_path / "a.zip", **members, **{f"{folder}deu.txt": "Hi.\tHallo!\n"})
        assert list(lines(path)) == ["Hi.\tHallo!"]

    @pytest.mark.parametrize("members", [{}, {"a__txt": "x", "b__txt": "y"}, {"a__csv": "x"}])
    def test_a_zip_with_no_or_several_texts_is_refused(self, tmp_path, members):
        path = zipped(tmp_path / "a.zip", **members)
        with pytest.raises(ValueError) as error:
            list(lines(path))
        one_line(error, str(path), "one .txt file")

    @pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
    def test_an_empty_file_is_refused(self, put, name):
        path = put(name, "")
        with pytest.raises(ValueError) as error:
            next(lines(path))
        one_line(error, f"{path} is empty")

    @pytest.mark.parametrize("name", ["a.en", "a.en.gz", "a.zip"])
    @pytest.mark.parametrize(
        "page",
        [
            HTML, b"\n\n  <HTML lang='en'>", b"\xef\xbb\xbf" + HTML,
            b"<!-- not found -->\n" + HTML, b"\xef\xbb\xbf\n<!--" + b"x" * 9999 + b"-->" + HTML,
            b'<?xml version="1.0" encoding="UTF-8"?>\n' + HTML,
        ],
        ids=range(6),
    )  # fmt: skip
    def test_an_html_page_is_refused(self, tmp_path, name, page):
        path = tmp_path / name
        path.write_bytes(page)
        with pytest.raises(ValueError) as error:
            next(lines(path))
        one_line(error, f"{path} is an HTML page")

    @pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"<!-- 404 -->"])
    def test_an_html_page_inside_a_gzip_is_refused(self, put, start):
        with pytest.raises(ValueError, match="is an HTML page"):
            next(lines(put("a.en.gz", start + HTML)))

    def test_a_sentence_about_html_is_none(self, put):
        rows = ["<b>HTML</b> is a language.", "<html> begins a page, <!-- a comment."]
        assert list(lines(put("a.en", "\n".join(rows)))) == rows

    @pytest.mark.parametrize("name", ["a.en", "a.en.gz", "a.zip"])
    @pytest.mark.parametrize("end", ["", "\r", "\r\n", "\n"])
    def test_lines_that_carriage_returns_end_are_refused_and_not_one_sentence(
        self, put, tmp_path, name, end
    ):
        content = "\ufeffone\rtwo\r\rthree" + end
        path = zipped(tmp_path / name, a__txt=content) if name == "a.zip" else put(name, content)
        with pytest.raises(ValueError) as error:
            list(lines(path))
        one_line(error, f"{path} ends its lines with carriage returns; expected line feeds")

    @pytest.mark.parametrize("name", ["a.en.gz", "a.zip"])
    def test_other_bytes_in_place_of_a_packed_file_are_refused(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(b"plain text\n")
        with pytest.raises(ValueError) as error:
            next(lines(path))
        one_line(error, f"{path} is no ", "begins with b'plain text")

    @pytest.mark.parametrize("left", [3, 12, 17, 500, -4, -1])
    def test_a_truncated_gzip_is_refused(self, tmp_path, left):
        rows = [f"line {i * i * i}" for i in range(997)]
        path = tmp_path / "a.en.gz"
        path.write_bytes(gzip.compress("\n".join(rows).encode())[:left])
        with pytest.raises(ValueError) as error:
            list(lines(path))
        one_line(error, f"{path} is damaged")

    def test_a_flipped_byte_in_a_gzip_is_refused(self, put):
        path = put("a.en.gz", "\n".join(f"line {i * i * i}" for i in range(997)))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged|is not UTF-8"):
            list(lines(path))

    @pytest.mark.parametrize(
        "method",
        ["gz", zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
    )
    def test_any_flipped_bit_is_refused_in_one_line_or_changes_nothing(self, tmp_path, method):
        path, rows = tmp_path / "a.gz", ["Hi.\tHallo!"] * 5
        if method == "gz":
            path.write_bytes(gzip.compress("\n".join(rows).encode()))
        else:
            path = zipped(tmp_path / "a.zip", method, deu__txt="\n".join(rows))
        good, refused = path.read_bytes(), 0
        for place in range(8 * len(good)):
            bad = bytearray(good)
            bad[place // 8] ^= 1 << place % 8
            path.write_bytes(bad)
            try:
                assert list(lines(path)) == rows
            except ValueError as error:
                assert str(path) in str(error) and len(str(error).splitlines()) == 1
                refused += 1
        assert refused > 3 * len(good)

    def test_a_damaged_zip_is_refused(self, tmp_path):
        path = zipped(tmp_path / "a.zip", deu__txt="Hi.\tHallo!\n" * 97)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(ValueError) as error:
            list(lines(path))
        one_line(error, f"{path} is damaged")

    @pytest.mark.parametrize("name", ["a.de", "a.de.gz"])
    def test_bytes_that_are_not_utf8_are_named_with_their_line(self, put, name):
        path = put(name, "grün\nblau\n".encode() + "schön\n".encode("latin-1"))
        reader = lines(path)
        assert [next(reader), next(reader)] == ["grün", "blau"]  # the error comes where it is
        with pytest.raises(ValueError) as error:
            next(reader)
        one_line(error, f"{path}, line 3", "byte 0xf6 at place 4")

    def test_utf16_is_refused(self, put):
        path = put("a.en", "hello\n".encode("utf-16"))
        with pytest.raises(ValueError, match="line 1 is not UTF-8: byte 0x[fF]"):
            list(lines(path))

    def test_an_endless_line_is_refused_before_it_is_held(self, put, monkeypatch):
        monkeypatch.setattr(text, "LONGEST_LINE", 11)
        assert list(lines(put("a", "x" * 9 + "\n"))) == ["x" * 9]
        with pytest.raises(ValueError, match=r"a, line 2 fills 11 bytes$"):
            list(lines(put("a", "x\n" + "x" * 97)))

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nothing.en"):
            next(lines(tmp_path / "nothing.en"))


class TestPairs:
    def test_two_files(self, put):
        en, de = put("a.en", "one\ntwo\n"), put("a.de.gz", "eins\nzwei")
        assert list(Pairs((en, de))) == [("one", "eins"), ("two", "zwei")]
        assert list(Pairs((str(en), str(de)))) == list(Pairs((en, de)))

    def test_a_file_of_columns(self, put):
        """Two columns count: newer packs of Tatoeba have a third that names the authors."""
        path = put("a.tsv.gz", "one\teins\ntwo\tzwei\tCC BY 2.0\n\tnull\n")
        assert list(Pairs(path)) == [("one", "eins"), ("two", "zwei"), ("", "null")]

    def test_a_line_without_columns_is_named(self, put):
        path = put("a.tsv", "one\teins\ntwo zwei\n")
        with pytest.raises(ValueError) as error:
            list(Pairs(path))
        one_line(error, f"{path}, line 2 has no tab")

    def test_parts_follow_one_another_and_can_be_chosen_from(self, put):
        parts = put("b.tsv", "three\tdrei\n"), (put("a.en", "one\ntwo"), put("a.de", "eins\nzwei"))
        assert [source for source, _ in Pairs(*parts)] == ["three", "one", "two"]
        assert list(Pairs(*parts, keep=lambda source: "t" not in source)) == [("one", "eins")]

    def test_each_iteration_reads_the_files_anew(self, put):
        path = put("a.tsv", "one\teins\n")
        pairs = Pairs(path)
        assert list(pairs) == list(pairs) == [("one", "eins")]
        put("a.tsv", "two\tzwei\n")
        assert list(pairs) == [("two", "zwei")]

    def test_iterations_do_not_disturb_each_other(self, put):
        pairs = Pairs(put("a.tsv", "".join(f"{i}\t{-i}\n" for i in range(13))))
        assert [a == b for a, b in zip(pairs, pairs, strict=True)] == [True] * 13

    @pytest.mark.parametrize("packed", ["", ".gz"])
    @pytest.mark.parametrize("shorter", ["en", "de"])
    def test_unequal_files_give_the_pairs_they_share_and_then_an_error(self, put, shorter, packed):
        rows = {"en": "a\nb\nc\nd\n", "de": "a\nb\nc\nd\n", shorter: "a\nb\n"}
        paths = {side: put(f"x.{side}{packed}", rows[side]) for side in ("en", "de")}
        reader = iter(Pairs((paths["en"], paths["de"])))
        assert list(islice(reader, 2)) == [("a", "a"), ("b", "b")]
        with pytest.raises(ValueError) as error:
            next(reader)
        longer = {"en": "de", "de": "en"}[shorter]
        one_line(error, f"{paths[shorter]} ends after line 2", f"{paths[longer]} goes on")

    def test_an_iteration_that_is_given_up_closes_its_files(self, put, tmp_path):
        handles = Path("/proc/self/fd")
        if not handles.is_dir():
            pytest.skip("needs Linux to tell the open files")

        def still_open():
            found = [os.path.realpath(handle) for handle in handles.iterdir()]
            return {Path(path).name for path in found if path.startswith(str(tmp_path))}

        reader = iter(Pairs((put("a.en", "one\ntwo"), put("a.de.gz", "eins\nzwei"))))
        next(reader)
        assert still_open() == {"a.en", "a.de.gz"}
        del reader
        assert still_open() == set()


class TestTidy:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("Quoi\u202f?", "Quoi ?"),
            ("5\u00a0000\u2009km", "5 000 km"),
            (" a \t b\r", "a b"),
            ("Bahn\u00adhof\u200b", "Bahnhof"),
            ("\ufeff", ""),
            ("👩\u200d👧 na\u00efve", "👩\u200d👧 na\u00efve"),
            ("cafe\u0301 scho\u200b\u0308n", "caf\u00e9 sch\u00f6n"),
        ],
    )
    def test_examples(self, before, after):
        assert tidy(before) == after

    @given(st.text())
    def test_words_stay_and_a_second_time_changes_nothing(self, before):
        after = tidy(before)
        assert tidy(after) == after
        kept = [c for c in before if not c.isspace() and c not in "\u00ad\u200b\ufeff"]
        assert normalize("NFC", after.replace(" ", "")) == normalize("NFC", "".join(kept))
        assert normalize("NFC", after) == after
        assert "  " not in after and after.strip() == after


PAIRS = [
    ("one two", "eins zwei"),
    ("", "leer"),
    ("blank", " \u00a0"),
    ("one  two", "eins\u00a0zwei"),
    ("a b c d e f g h", "a b c d e f g"),
    ("a b c d e f g", "a b c"),
    ("a", "a b c"),
]


class TestCleaning:
    def test_a_decomposed_corpus_is_trained_on_as_its_composed_twin_and_counted(self):
        pairs = [("One café.", "Ein Café, schön."), ("two", "zwei")]
        apart = [tuple(normalize("NFD", text) for text in pair) for pair in pairs]
        assert apart[0] != pairs[0]
        cleaned = Cleaning().of_texts(apart)
        assert list(cleaned) == pairs and cleaned.counts == Counts(read=2, kept=2, tidied=1)

    def test_by_default_only_empty_sides_are_dropped(self):
        cleaned = Cleaning().of_texts(PAIRS)
        kept = list(cleaned)
        assert kept == [PAIRS[0], PAIRS[0], *PAIRS[4:]]
        assert cleaned.counts == Counts(read=7, kept=5, empty=2, tidied=2)

    def test_each_rule_drops_and_counts_what_it_names(self):
        cleaned = Cleaning(max_words=7, max_ratio=2.5).of_texts(PAIRS)
        assert list(cleaned) == [PAIRS[0], PAIRS[0], PAIRS[5]]
        assert cleaned.counts == Counts(read=7, kept=3, empty=2, too_long=1, uneven=1, tidied=2)

    def test_limits_themselves_pass(self):
        at_the_limits = [("a b c", "a"), ("a", "a b c")]
        assert list(Cleaning(max_words=3, max_ratio=3.0).of_texts(at_the_limits)) == at_the_limits
        assert list(Cleaning(max_words=2).of_texts(at_the_limits)) == []
        assert list(Cleaning(max_ratio=2.9).of_texts(at_the_limits)) == []

    def test_without_tidying_texts_come_as_they_are(self):
        cleaned = Cleaning(tidy=False).of_texts(PAIRS)
        assert list(cleaned) == [PAIRS[0], *PAIRS[3:]]
        assert cleaned.counts == Counts(read=7, kept=5, empty=2)

    def test_ids_have_a_limit_of_their_own(self):
        pairs = [([5] * 3, [7] * 2), ([5] * 4, [7]), ([], [7]), ([5], [7] * 4)]
        cleaned = Cleaning(max_words=1, max_ratio=1.0, max_pieces=3).of_ids(pairs)
        assert list(cleaned) == pairs[:1]
        assert cleaned.counts == Counts(read=4, kept=1, empty=1, too_long=2)

    @given(
        st.lists(st.tuples(line_texts, line_texts), max_size=17),
        st.booleans(),
        st.none() | st.integers(1, 3),
        st.none() | st.floats(1, 3),
    )
    def test_every_pair_is_kept_or_counted(self, pairs, change, longest, ratio):
        cleaned = Cleaning(change, longest, ratio).of_texts(pairs)
        kept = list(cleaned)
        counts = asdict(cleaned.counts)
        assert counts["kept"] == len(kept)
        assert counts.pop("tidied") <= counts["read"] == len(pairs)
        assert counts.pop("read") == sum(counts.values())
        for pair in kept:
            short, long = sorted(map(count_words, pair))
            assert short >= 1 and long <= (longest or long) and long <= (ratio or long) * short

    def test_each_pass_counts_from_the_start(self):
        cleaned = Cleaning().of_texts(PAIRS)
        assert list(cleaned) == list(cleaned)
        assert cleaned.counts.read == 7
        first = iter(cleaned)
        next(first), next(first)
        assert (cleaned.counts.read, cleaned.counts.kept) == (4, 2)


class TestVocabulary:
    def test_it_learns_from_both_sides_as_they_stream_by(self, put):
        path = put("a.tsv", "".join(f"over {i}\tunter {i}\n" for i in range(97)))
        tokenizer = Tokenizer.train(texts(Pairs(path)), 11)
        held = [side for pair in Pairs(path) for side in pair]
        assert tokenizer.to_json() == Tokenizer.train(held, 11).to_json()
        assert tokenizer.pieces("over unter") == ["over", "unter"]

    def test_an_error_in_the_middle_of_a_file_stops_it(self, put):
        path = put("a.tsv", "one\teins\n" * 997 + "no columns\n")
        with pytest.raises(ValueError, match="line 998 has no tab"):
            Tokenizer.train(texts(Pairs(path)), 3)


def test_a_large_corpus_is_never_held(tmp_path):
    """Reading takes no memory that grows with the file, nor does learning a vocabulary."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("needs Linux to tell the peak of memory")
    megabytes = int(os.environ.get("ANNOTATED_STREAM_MB", "4"))
    script = Path(__file__).with_name("streaming.py")
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    stages = ["read", "learn", "hold"]
    command = [sys.executable, str(script), str(tmp_path), str(megabytes), *stages]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["text"] >= megabytes * 1_000_000
    assert report["read"] < 1_000_000
    assert report["learn"] < 16_000_000
    assert report["hold"] - report["learn"] > report["text"]  # so holding would have been seen
