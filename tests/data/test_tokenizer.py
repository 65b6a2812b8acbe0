"""The tokenizer gives every text back, and cuts the book's sentence where the book says."""

import json
import os
import subprocess
import sys

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from annotated.data import numbers
from annotated.data.tokenizer import Tokenizer, spellings

SPECIAL = {Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id}
NAMES = ("<pad>", "⟨pad⟩", "⟨bos⟩", "⟨eos⟩", "</s>", "<unk>", "Ġ", "[PAD]")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """What the recipe numbers-en-de learns its vocabulary from."""
    return numbers.vocabulary_texts("en", "de")


@pytest.fixture(scope="module")
def book(texts) -> Tokenizer:
    """The vocabulary of the recipe numbers-en-de."""
    return Tokenizer.train(texts, numbers.MERGES)


# Module level, because Hypothesis and fixtures that it can't reset don't mix. It learned from text
# that is full of the special names, blanks, hyphens and letters of several bytes.
ODD = Tokenizer.train([f"{name} -{name}--x  ü{name}ß\n" for name in NAMES] * 3, merges=53)
CHARACTERS = st.sampled_from(" -\n\t\u00a0\u202f|üßé\u0301😀👩\u200d👧<pad>⟨⟩Ġ▁\x00\ufeff")


@pytest.mark.parametrize(
    ("language", "pieces"),
    [("en", "three|hundred|and|forty|-|two"), ("de", "dreihundert|zwei|undvierzig")],
)
def test_the_running_sentence_has_the_books_pieces(book, language, pieces):
    assert "|".join(book.pieces(numbers.spell(342, language))) == pieces
    assert len(book.encode(numbers.spell(342, language))) == pieces.count("|") + 1


def test_the_cut_does_not_hang_on_one_merge_count(texts, book):
    for merges in (139, 219):
        other = Tokenizer.train(texts, merges)
        for language in ("en", "de"):
            sentence = numbers.spell(342, language)
            assert other.pieces(sentence) == book.pieces(sentence)


def test_204_and_402_are_one_bag_of_ids_in_two_orders(book):
    friends = [book.encode(numbers.spell(number, "en")) for number in (204, 402)]
    assert friends[0] != friends[1] and sorted(friends[0]) == sorted(friends[1])
    assert book.pieces("two hundred and four") == ["two", "hundred", "and", "four"]
    assert book.pieces("four hundred and two") == ["four", "hundred", "and", "two"]


def test_the_vocabulary_is_three_names_256_bytes_and_the_merges(book):
    assert book.vocab_size == 3 + 256 + numbers.MERGES == 420
    assert (book.pad_id, book.bos_id, book.eos_id) == (0, 1, 2)
    assert [book.piece(id) for id in range(3)] == ["⟨pad⟩", "⟨bos⟩", "⟨eos⟩"]
    assert repr(book) == "Tokenizer(vocab_size=420)"
    # Each byte has its own id, so there is nothing that can't be encoded.
    assert len({book.encode(chr(byte))[-1] for byte in range(128)}) == 128


def test_no_piece_crosses_a_blank_or_a_hyphen(book):
    for id in range(3, book.vocab_size):
        text = book.piece(id)
        assert " " not in text and (text == "-" or "-" not in text)
    assert book.pieces("two-two") == ["two", "-", "two"]


@given(st.one_of(st.text(), st.text(CHARACTERS), st.lists(st.sampled_from(NAMES)).map("".join)))
@example("")
@example(" ")
@example("  two  hundred \n and\tfour-  ")
@example("<pad>⟨pad⟩ ⟨bos⟩-⟨eos⟩")
@example("e\u0301 ≠ é, 👩\u200d👧 ﷽ \U0010ffff \x00")
def test_every_text_comes_back_and_holds_no_special_id(text):
    ids = ODD.encode(text)
    assert ODD.decode(ids) == text
    assert not SPECIAL & set(ids)


def test_the_odd_vocabulary_did_learn_the_special_names_as_plain_text():
    """Without this, the property above would not meet the case it is for."""
    assert ODD.pieces("-<pad>") == ["␣", "-", "<pad>"]


@given(st.lists(st.text(), max_size=5))
def test_a_batch_is_its_texts_one_by_one(texts):
    assert ODD.encode_batch(texts) == [ODD.encode(text) for text in texts]
    assert ODD.encode_batch(iter(texts)) == ODD.encode_batch(texts)


def test_numbers_come_back(book, texts):
    for text in texts[:2_000]:
        assert book.decode(book.encode(text)) == text


def test_decoding_drops_special_ids_wherever_they_stand(book):
    two, hundred = book.encode("two hundred")
    assert book.decode([1, two, 0, hundred, 2, 0, 0]) == "two hundred"
    assert book.decode([]) == book.decode([0, 1, 2]) == ""


def test_decoding_what_no_text_encodes_to(book):
    """A model may stop within a letter or begin without a blank."""
    inner = book.encode("forty-two")[-1]
    assert book.decode([inner]) == "two"
    umlaut = book.encode("ü")
    first_byte = Tokenizer.train([], 0).encode("ü")[1:2]
    assert book.decode(umlaut) == "ü" and book.decode(first_byte) == "\ufffd"
    assert book.piece(first_byte[0]) == "\\xc3"


def test_pieces_are_made_to_be_read(book):
    assert book.pieces("  fünf") == ["␣", "␣", "fünf"]
    assert book.piece(book.encode("two")[0]) == book.piece(book.encode("forty-two")[-1]) == "two"


@pytest.mark.parametrize("id", [-1, 420, 10**12])
def test_an_id_outside_the_vocabulary_is_named(book, id):
    for call in (lambda: book.decode([5, id]), lambda: book.piece(id)):
        with pytest.raises(ValueError, match=f"^ids must be from 0 to 419, not {id}$"):
            call()


def test_text_that_no_byte_can_carry_is_named():
    with pytest.raises(ValueError, match=r"character 2 of 'ab\\ud800' is a lone surrogate$"):
        ODD.encode_batch(["fine", "ab\ud800"])


def test_a_count_of_merges_that_cannot_be_is_named():
    # " a", "bc", " abc" and no more, however often the text comes.
    assert Tokenizer.train(["abc"] * 5, merges=3).pieces("abc") == ["abc"]
    with pytest.raises(ValueError, match=r"task\.merges\) is 4; these texts have at most 3$"):
        Tokenizer.train(["abc"] * 5, merges=4)
    with pytest.raises(ValueError, match="^merges must be 0 or more, not -1$"):
        Tokenizer.train(["abc"] * 5, merges=-1)


def test_training_depends_neither_on_the_order_of_texts_nor_on_the_process(texts):
    """The other process draws the numbers too, under another hash seed and with more threads."""
    here = Tokenizer.train(texts[:4_000], 61).to_json()
    assert Tokenizer.train(reversed(texts[:4_000]), 61).to_json() == here
    code = (
        "import sys; from annotated.data import numbers;"
        "from annotated.data.tokenizer import Tokenizer;"
        "texts = numbers.vocabulary_texts('en', 'de')[:4_000];"
        "sys.stdout.buffer.write(Tokenizer.train(texts, 61).to_json().encode())"
    )
    hash_seed = "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "4243"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "RAYON_NUM_THREADS": "3"}
    command = [sys.executable, "-c", code]
    there = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    assert there.decode() == here


def test_a_saved_tokenizer_is_the_same_when_loaded(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(ODD.to_json(), encoding="utf-8")
    loaded = Tokenizer.load(path)
    text = " <pad> ü--ß\n⟨eos⟩"
    assert loaded.encode(text) == ODD.encode(text) and loaded.decode(loaded.encode(text)) == text
    assert loaded.to_json() == ODD.to_json()
    # The file is the tokenizers library's own format: it reads it without this package.
    library = tokenizers.Tokenizer.from_file(str(path))
    assert library.encode(text).ids == ODD.encode(text)
    assert library.decode(ODD.encode(text)) == text


def saved(change) -> str:
    """ODD's file after `change` was done to its model."""
    data = json.loads(ODD._bpe.to_str())
    change(data["model"])
    return json.dumps(data)


FOREIGN = {
    "empty": "",
    "truncated": ODD._bpe.to_str()[:1000],
    "a web page": "<!DOCTYPE html><html></html>",
    "a list": "[1, 2, 3]",
    "no model": "{}",
    "another library's": tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).to_str(),
    "an empty vocabulary": tokenizers.Tokenizer(tokenizers.models.BPE()).to_str(),
    "an older format": saved(lambda model: model.update(merges=[*map(" ".join, model["merges"])])),
    "a missing byte": saved(lambda model: model["vocab"].pop("!")),
    "a missing merge": saved(lambda model: model["merges"].pop()),
    "a piece too many": saved(lambda model: model["vocab"].update(surplus=len(model["vocab"]))),
    "an id twice": saved(lambda model: model["vocab"].update({"!": 4})),
    "special ids moved": saved(lambda model: model["vocab"].update({"⟨pad⟩": 1, "⟨bos⟩": 0})),
    "ids that are text": saved(lambda model: model["vocab"].update({"!": "3"})),
    "merges that are numbers": saved(lambda model: model.update(merges=[[1, 2]])),
    "merges in the wrong order": saved(lambda model: model["merges"].reverse()),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_no_tokenizer_of_ours_is_named_in_one_line(content, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError) as error:
        Tokenizer.load(path)
    message = str(error.value)
    start = f"{path} is no tokenizer: expected the JSON of Tokenizer.to_json ("
    assert message.startswith(start) and "\n" not in message
    assert len(start) < len(message) < len(start) + 120


def test_a_missing_file_a_folder_and_bytes_that_are_no_text(tmp_path):
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.json", ".", "binary.json"):
        with pytest.raises(ValueError) as error:
            Tokenizer.load(tmp_path / name)
        start = f"{tmp_path / name} is no tokenizer: expected the JSON of Tokenizer.to_json ("
        assert str(error.value).startswith(start) and "\n" not in str(error.value)


class TestSpellings:
    def test_of_a_sentence_are_its_pieces_with_their_blanks(self):
        tokenizer = Tokenizer.train(["two twos and forty-two", "two and forty"], merges=11)
        names = spellings(tokenizer)
        text = "two and forty-two twos"
        spelled = [names[id] for id in tokenizer.encode(text)]
        assert "".join(spelled).replace("␣", " ") == f" {text}"
        assert names[:3] == ["PAD", "BOS", "EOS"] and len(names) == tokenizer.vocab_size

    def test_of_the_book_all_differ(self):
        from annotated.translation import Translator

        names = spellings(Translator.load("numbers-en-de").tokenizer)
        assert len(set(names)) == len(names) == 420
        assert {"zwei", "␣zwei", "undvierzig", "-"} < set(names)
