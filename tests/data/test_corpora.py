"""Named corpora: found where the reader says, downloaded whole or not at all, split without leaks.

The texts in these tests are their own. What is claimed about the real files is tested where they
are: in $ANNOTATED_DATA, or in ../shared/data beside this checkout.
"""

import builtins
import dataclasses
import gzip
import os
import re
import threading
import zipfile
from collections import Counter
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data import corpora, files
from annotated.data.corpora import (
    TEXT_CORPORA,
    Split,
    TextCorpus,
    tatoeba_split,
    text_corpus,
)
from annotated.data.files import DataFile, download, find
from annotated.data.text import Cleaning, Pairs, lines, texts
from annotated.data.tokenizer import Tokenizer

CONTENT = b"one\ntwo\nthree\n"
FILE = DataFile("small/train.en", sha256(CONTENT).hexdigest())
HTML = b"<!DOCTYPE html>\n<title>Sorry</title>\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """No test sees the user's own cache or variable, or has a network."""
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return tmp_path / "cache"


@pytest.fixture
def serve():
    """`serve({"/a": b"…"})` gives the address of a server on this machine, and what it was asked.

    An answer may also be (status, headers, body).
    """
    servers = []

    def start(answers: dict) -> tuple[str, list]:
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers["User-Agent"]))
                answer = answers.get(self.path, (404, {}, HTML))
                status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
                self.send_response(status)
                for name, value in ({"Content-Length": len(body)} | headers).items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def put(folder: Path, name: str, content: bytes = CONTENT) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def left_over(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def message(error: pytest.ExceptionInfo) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


class TestFind:
    def test_the_order_is_the_argument_the_variable_the_cache(self, tmp_path, cache, monkeypatch):
        mine, shared = tmp_path / "mine", tmp_path / "shared"
        monkeypatch.setenv(files.VARIABLE, str(shared))
        expected = [put(folder, FILE.name) for folder in (mine, shared, cache)]
        for path in expected:
            assert find(FILE, mine) == path
            path.unlink()
        assert [path.exists() for path in expected] == [False] * 3

    def test_a_file_may_lie_there_compressed(self, tmp_path):
        path = put(tmp_path, f"{FILE.name}.gz")
        assert find(FILE, tmp_path) == find(FILE, str(tmp_path)) == path
        plain = put(tmp_path, FILE.name)
        assert find(FILE, tmp_path) == plain

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_another_text_is_refused_with_both_hashes(self, tmp_path, suffix):
        path = put(tmp_path, FILE.name + suffix, b"one\nzwei\n")
        with pytest.raises(ValueError) as error:
            find(FILE, tmp_path)
        said = message(error)
        assert said.startswith(f"{path} ({path.stat().st_size} bytes) ")
        assert sha256(b"one\nzwei\n").hexdigest() in said and FILE.sha256 in said
        assert find(FILE, tmp_path, any_version=True) == path

    def test_a_damaged_file_is_refused_before_it_is_used(self, tmp_path):
        path = put(tmp_path, f"{FILE.name}.gz")
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError) as error:
            find(FILE, tmp_path)
        assert message(error).startswith(f"{path} is damaged")

    @pytest.mark.parametrize("by_variable", [False, True])
    def test_a_folder_that_is_none_is_refused_by_its_name(self, tmp_path, monkeypatch, by_variable):
        path = put(tmp_path, "file")
        if by_variable:
            monkeypatch.setenv(files.VARIABLE, str(path))
        with pytest.raises(ValueError) as error:
            find(FILE, None if by_variable else path)
        name = f"${files.VARIABLE}" if by_variable else "data_dir"
        assert message(error) == f"{name} must be a folder, not {str(path)!r}"

    def test_what_the_reader_must_download_is_said(self, tmp_path, cache):
        file = DataFile("wmt14/x.en", archive="https://example.org/x.tgz")
        with pytest.raises(FileNotFoundError) as error:
            find(file, tmp_path)
        said = message(error)
        for part in (file.name, str(tmp_path), str(cache), file.archive, f"${files.VARIABLE}"):
            assert part in said

    def test_without_pooch_it_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.undo()  # the real cache_folder
        monkeypatch.delenv(files.VARIABLE, raising=False)
        real = builtins.__import__

        def lacking(name, *args, **kwargs):
            if name.partition(".")[0] == "pooch":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", lacking)
        file = dataclasses.replace(FILE, addresses=("http://127.0.0.1:9/train.en",))
        with pytest.raises(FileNotFoundError) as error:
            find(file)
        assert "none named" in message(error)
        with pytest.raises(FileNotFoundError) as error:
            find(file, tmp_path)
        assert "pip install pooch" in message(error) and str(tmp_path) in message(error)
        path = put(tmp_path, FILE.name)
        assert find(file, tmp_path) == path  # files at hand need no pooch

    def test_the_cache_is_the_users(self, monkeypatch):
        monkeypatch.undo()
        import pooch

        assert files.cache_folder() == Path(pooch.os_cache("annotated")) / "data"


class TestDownload:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_a_file_is_fetched_once_and_kept(self, serve, cache, suffix):
        body = gzip.compress(CONTENT) if suffix else CONTENT
        host, asked = serve({f"/train.en{suffix}": body})
        file = dataclasses.replace(FILE, addresses=(f"{host}/train.en{suffix}",))
        path = find(file)
        assert path == cache / f"{FILE.name}{suffix}" and path.read_bytes() == body
        assert find(file) == path and len(asked) == 1
        assert asked[0][1] == "annotated-attention"  # some sites refuse Python's own name
        assert left_over(cache) == [path] and list(path.parent.iterdir()) == [path]
        assert list(lines(path)) == ["one", "two", "three"]

    def test_the_next_address_is_tried(self, serve):
        host, asked = serve({"/new/a": CONTENT})
        file = dataclasses.replace(FILE, addresses=(f"{host}/old/a", f"{host}/new/a"))
        assert find(file).read_bytes() == CONTENT
        assert [path for path, _ in asked] == ["/old/a", "/new/a"]

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (HTML, "is an HTML page"),
            (b"", "is empty"),
            (b"something else", "is no .gz file"),
            (gzip.compress(CONTENT, mtime=0)[:-9], "is damaged"),
            (gzip.compress(b"one\nzwei\n", mtime=0), "holds another text"),
        ],
    )
    def test_another_answer_is_refused_and_nothing_is_kept(self, serve, cache, body, said):
        host, _ = serve({"/train.en.gz": body})
        address = f"{host}/train.en.gz"
        with pytest.raises(ValueError) as error:
            find(dataclasses.replace(FILE, addresses=(address,)))
        assert message(error).startswith(address) and said in message(error)
        assert left_over(cache) == []

    def test_a_connection_that_breaks_off_leaves_nothing(self, serve, cache):
        host, _ = serve({"/train.en": (200, {"Content-Length": len(CONTENT) + 5}, CONTENT)})
        with pytest.raises(FileNotFoundError) as error:
            find(dataclasses.replace(FILE, addresses=(f"{host}/train.en",)))
        assert "can't be downloaded" in message(error) and left_over(cache) == []

    def test_nobody_there(self, serve, cache):
        host, _ = serve({})
        addresses = (f"{host}/gone", "http://127.0.0.1:9/closed")
        with pytest.raises(FileNotFoundError) as error:
            find(dataclasses.replace(FILE, addresses=addresses))
        said = message(error)
        assert f"{addresses[0]}: status 404; {addresses[1]}: ConnectionError" in said
        assert str(cache) in said and f"${files.VARIABLE}" in said and len(said) < 400
        assert left_over(cache) == []

    def test_a_full_disk_leaves_nothing(self, serve, cache, monkeypatch):
        host, _ = serve({"/train.en": CONTENT})

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            download(dataclasses.replace(FILE, addresses=(f"{host}/train.en",)), cache)
        assert left_over(cache) == []

    def test_what_was_kept_is_checked_again(self, serve, cache):
        host, asked = serve({"/train.en": CONTENT})
        file = dataclasses.replace(FILE, addresses=(f"{host}/train.en",))
        find(file).write_bytes(CONTENT[:-4])
        with pytest.raises(ValueError, match="holds another text"):
            find(file)
        assert len(asked) == 1


# The real corpora, as they are described


KINDS = ("multi30k", "tatoeba", "newstest", "wmt14")
NAMES = [f"{kind}-en-{target}" for kind in KINDS for target in ("de", "fr")]


def all_files(corpus: TextCorpus) -> list[DataFile]:
    parts = [part for split in corpus.splits.values() for part in split.parts]
    return [file for part in parts for file in part]


def test_the_corpora_and_an_unknown_one():
    assert sorted(TEXT_CORPORA) == sorted(NAMES)
    assert all(text_corpus(name).name == name for name in NAMES)
    assert text_corpus("wmt14-en-fr", "here", any_version=True).data_dir == "here"
    with pytest.raises(ValueError) as error:
        text_corpus("wmt14")
    assert message(error).startswith("no corpus 'wmt14'; there are multi30k-en-de, ")


@pytest.mark.parametrize("name", NAMES)
def test_a_corpus_says_all_that_a_reader_must_know(name):
    corpus = text_corpus(name)
    assert name.endswith(f"-{corpus.source}-{corpus.target}")
    assert corpus.dev in corpus.splits and corpus.test in corpus.splits
    assert corpus.licence and corpus.citation and corpus.home.startswith("https://")
    assert all(isinstance(split, Split) and split.pairs > 0 for split in corpus.splits.values())
    for file in all_files(corpus):
        if file.archive:
            assert name.startswith("wmt14") and not file.sha256 and not file.addresses
        else:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)
            # A branch or a tag can move; a commit can't.
            assert file.addresses and all(re.search("/[0-9a-f]{40}/", a) for a in file.addresses)
    with pytest.raises(ValueError, match=f"^{name} has no split 'tests'; it has "):
        corpus.pairs("tests")


def test_no_two_texts_share_a_hash_and_every_hash_is_used():
    used = {file.name: file.sha256 for c in TEXT_CORPORA.values() for file in all_files(c)}
    assert {name: hash for name, hash in used.items() if hash} == corpora.SHA256
    assert len(set(corpora.SHA256.values())) == len(corpora.SHA256)


# The same machinery on texts of our own


def own_tatoeba(folder: Path, rows: list[tuple[str, str]]) -> TextCorpus:
    """Tatoeba's corpus with other rows in its archive."""
    path = folder / "tatoeba" / "deu-eng.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deu.txt", "".join(f"{en}\t{de}\tCC-BY\n" for en, de in rows))
        archive.writestr("_about.txt", "our own rows")
    return text_corpus("tatoeba-en-de", folder, any_version=True)


def test_tatoeba_splits_by_english_sentence_and_keeps_every_answer(tmp_path):
    rows = [(f"I count to {i}.", f"Ich zähle bis {i}{end}") for i in range(997) for end in ".!"]
    corpus = own_tatoeba(tmp_path, [*rows, rows[0]])
    with pytest.raises(ValueError, match="holds another text"):
        text_corpus(corpus.name, tmp_path).pairs("train")
    found = {
        split: list(corpus.pairs(split)) for split in corpus.splits
    }
    assert sorted(sum(found.values(), [])) == sorted([*rows, rows[0]])
    english = {split: {en for en, _ in pairs} for split, pairs in found.items()}
    assert not english["train"] & (english["val"] | english["test"])
    assert not english["val"] & english["test"]
    for split, pairs in found.items():
        references = corpus.references(split)
        assert [source for source, _ in references] == list(dict(pairs))
        for source, answers in references:
            assert answers == [source.replace("I count to", "Ich zähle bis")[:-1] + e for e in ".!"]
    assert 3 <= len(english["test"]) <= 20 and 3 <= len(english["val"]) <= 20


@given(st.lists(st.text("abc", min_size=1), min_size=1).map(" ".join))
def test_dots_capitals_and_blanks_do_not_move_a_sentence_to_another_split(english):
    split = tatoeba_split(english)
    assert split in ("train", "val", "test")
    for other in (english.upper() + "!", f"  {english}. ", english.replace(" ", "\u00a0, ")):
        assert tatoeba_split(other) == split


def test_the_form_of_an_accent_does_not_move_a_sentence_either():
    for number in range(97):
        composed, apart = f"Caf\u00e9 {number}", f"Cafe\u0301 {number}"
        assert tatoeba_split(apart) == tatoeba_split(composed)


def test_the_split_never_changes():
    """Else weights trained before would have seen the test set."""
    splits = [tatoeba_split(str(number)) for number in range(500)]
    assert [n for n in range(500) if splits[n] == "test"] == [188, 416]
    assert [n for n in range(500) if splits[n] == "val"] == [83, 137, 220, 293, 294, 312]


def own_wmt14(folder: Path, rows: int = 13) -> TextCorpus:
    """The files that the archives leave, with lines of our own; News Commentary compressed."""
    corpus = text_corpus("wmt14-en-de", folder)
    for file in all_files(corpus):
        if file.archive:
            stem, _, side = Path(file.name).name.rpartition(".")
            text = "".join(f"{stem} {side} {i}\n" for i in range(rows))
            put(folder, file.name + ".gz" * stem.startswith("news"), text.encode())
    return corpus


def test_wmt14_is_its_parts_one_after_another(tmp_path):
    pairs = list(own_wmt14(tmp_path).pairs("train"))
    stems = [source.split()[0] for source, _ in pairs]
    assert len(pairs) == 39 and list(dict.fromkeys(stems)) == [
        "europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en",
    ]
    for source, target in pairs:
        assert source.replace(" en ", " de ") == target


def test_wmt14_without_one_of_its_files_names_it_and_its_archive(tmp_path):
    corpus = own_wmt14(tmp_path)
    (tmp_path / "wmt14/commoncrawl.de-en.de").unlink()
    with pytest.raises(FileNotFoundError) as error:
        corpus.pairs("train")
    said = message(error)
    assert said.startswith("wmt14/commoncrawl.de-en.de ") and "parallel-commoncrawl.tgz" in said


def test_every_stage_of_the_data_runs_on_a_sample_of_wmt14(tmp_path):
    corpus = own_wmt14(tmp_path, rows=97)
    cleaned = Cleaning(max_words=3).of_texts(corpus.pairs("train"))
    tokenizer = Tokenizer.train(texts(cleaned), 31)
    rules = Cleaning(max_pieces=256)
    ids = rules.of_ids(
        (tokenizer.encode(source), tokenizer.encode(target)) for source, target in cleaned
    )
    encoded = list(ids)
    assert len(encoded) == ids.counts.kept == cleaned.counts.kept == 3 * 97
    decoded = [tuple(map(tokenizer.decode, pair)) for pair in encoded]
    assert decoded == list(cleaned)


# The real files, where they are


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = Path(os.environ.get("ANNOTATED_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "multi30k").is_dir():
        pytest.skip("no real corpora: neither in $ANNOTATED_DATA nor in ../shared/data")
    return folder


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("multi30k", "newstest"))])
def test_real_splits_have_the_stated_numbers_of_pairs(real_data, name):
    for split, (count, _) in text_corpus(name).splits.items():
        pairs = text_corpus(name, real_data).pairs(split)
        cleaned = Cleaning().of_texts(pairs)
        assert sum(1 for _ in cleaned) == cleaned.counts.read == count
        # Of French newstest2014 a quarter has no-break spaces; of the others, few lines.
        assert cleaned.counts.tidied < (count * 0.26 if name.endswith("fr") else count * 0.03)


def test_real_newstest_is_where_wmt14_looks_for_it(real_data):
    for target in ("de", "fr"):
        wmt14, newstest = (
            text_corpus(f"{kind}-en-{target}", real_data) for kind in ("wmt14", "newstest")
        )
        for split in (wmt14.dev, wmt14.test):
            assert list(wmt14.pairs(split)) == list(newstest.pairs(split))
        references = wmt14.references(wmt14.test)
        assert len(references) == 3003 and {len(answers) for _, answers in references} == {1}


def test_real_lines_that_splitlines_would_break_stay_whole(real_data):
    """German 2009 has eight U+0085 for an ellipsis."""
    pairs = text_corpus("newstest-en-de", real_data).pairs("newstest2009")
    assert isinstance(pairs, Pairs)
    assert sum(target.count("\x85") for _, target in pairs) == 8


@pytest.mark.parametrize(("target", "sentences"), [("de", (1395, 1396)), ("fr", (985, 1064))])
def test_real_tatoeba_keeps_english_sentences_together(real_data, target, sentences):
    corpus = text_corpus(f"tatoeba-en-{target}", real_data)
    held = {split: corpus.references(split) for split in ("val", "test")}
    assert tuple(map(len, held.values())) == sentences
    for split, references in held.items():
        assert max(len(answers) for _, answers in references) > 5
        assert all(tatoeba_split(source) == split for source, _ in references)
    unseen = {spoken(source) for references in held.values() for source, _ in references}
    # One reading of the file for all splits; that pairs() divides it so is tested above.
    seen = Counter(
        "train" if spoken(source) not in unseen else tatoeba_split(source)
        for source, _ in Pairs(real_data / corpus.splits["train"].parts[0][0].name)
    )
    assert seen == {name: split.pairs for name, split in corpus.splits.items()}


def spoken(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.lower()))


def test_real_vocabulary_is_learned_from_the_training_side_alone(real_data):
    corpus = text_corpus("multi30k-en-de", real_data)
    pairs = Cleaning().of_texts(corpus.pairs("train"))
    tokenizer = Tokenizer.train(texts(pairs), 499)
    assert tokenizer.vocab_size == 3 + 256 + 499
    for source, target in corpus.pairs(corpus.test):
        assert tokenizer.decode(tokenizer.encode(source)) == source
        assert tokenizer.decode(tokenizer.encode(target)) == target


class TestOwnFiles:
    def test_two_files_and_one_tsv_here_or_in_a_data_folder_plain_or_packed(
        self, tmp_path, monkeypatch
    ):
        here, there = tmp_path / "here", tmp_path / "there"
        put(here, "a.en", b"one\ntwo\n")
        put(there, "a.de.gz", b"eins\nzwei\n")
        put(there, "deep/b.tsv.gz", b"three\tdrei\tmore\n")
        monkeypatch.chdir(here)
        corpus = TextCorpus.of_files(
            ["a.en", "a.de"], ["deep/b.tsv"], [there / "deep" / "b.tsv.gz"], "en", "de", there
        )
        assert list(corpus.pairs("train")) == [("one", "eins"), ("two", "zwei")]
        assert list(corpus.pairs(corpus.dev)) == [("three", "drei")]
        assert corpus.references(corpus.test) == [("three", ["drei"])]
        assert (corpus.source, corpus.target) == ("en", "de")

    def test_one_that_is_not_there_is_named_with_where_it_was_looked_for(self, tmp_path):
        corpus = TextCorpus.of_files(["x.en", "x.de"], ["y"], ["z"], data_dir=tmp_path)
        with pytest.raises(FileNotFoundError) as error:
            corpus.pairs("train")
        assert message(error).startswith("x.en is no file here, nor in a data folder (")
        assert str(tmp_path) in message(error)

    def test_nothing_of_the_readers_own_is_looked_up_elsewhere(self, tmp_path):
        put(tmp_path, "a.tsv", HTML)
        corpus = TextCorpus.of_files([tmp_path / "a.tsv"], ["b"], ["c"])
        with pytest.raises(ValueError, match="a.tsv is an HTML page"):
            list(corpus.pairs("train"))

    @pytest.mark.parametrize("wrong", [[], ["a", "b", "c"], "ab"])
    def test_files_of_a_split_are_two_or_one(self, wrong):
        for name in ("train", "dev", "test"):
            given = dict(train=["a"], dev=["b"], test=["c"]) | {name: wrong}
            with pytest.raises(ValueError, match=f"^{name} is .*; expected two files, source and"):
                TextCorpus.of_files(**given)
