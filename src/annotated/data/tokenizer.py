"""§5.1, the shared vocabulary: byte-level byte-pair encoding, one for both languages."""

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

# In a byte-level vocabulary each byte is written as one visible character: itself where it has one,
# else the next free one from U+0100 on (a blank is "Ġ").
_VISIBLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_HIDDEN = (byte for byte in range(256) if byte not in _VISIBLE)
_BYTES = {chr(byte): byte for byte in _VISIBLE} | {
    chr(256 + place): byte for place, byte in enumerate(_HIDDEN)
}

# "⟨" is no such character. So no text, whatever it holds, can be encoded to one of these three.
_SPECIAL = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩")
SMALLEST = len(_SPECIAL) + len(_BYTES)  # ids of a vocabulary without merges


class Tokenizer:
    """Text to ids and back, exactly: 3 special ids, 256 bytes, and the merges learned from texts.

    Text is cut before every blank and around every hyphen, and no piece crosses a cut. One blank is
    put before each text and taken off again when decoding, so that a word has the same piece at the
    start as after a blank: "two hundred and four" and "four hundred and two" are one bag of ids.
    `decode(encode(text)) == text` for all text that UTF-8 can carry.
    """

    pad_id, bos_id, eos_id = range(len(_SPECIAL))

    def __init__(self, merges: list[tuple[str, str]]) -> None:
        """From the merges in order, pieces in their byte-level spelling; the rest follows."""
        # Two merges may make the same piece: "a" + "bc" and "ab" + "c".
        made = dict.fromkeys(left + right for left, right in merges)
        self._pieces = [*_SPECIAL, *sorted(_BYTES), *made]
        ids = {piece: id for id, piece in enumerate(self._pieces)}
        self._bpe = _pipeline(models.BPE(ids, merges))

    @classmethod
    def train(cls, texts: Iterable[str], merges: int) -> "Tokenizer":
        """Learns `merges` pieces from `texts`: the training side of both languages.

        The same texts give the same vocabulary, in any order. Texts stream by; held is what was
        counted, about 1 kB for each different word (100 bytes a byte of new text at worst). No
        option of the library bounds that without changing the merges: millions of different words,
        as WMT14 has, take gigabytes. Raises ValueError if the texts have too few pairs to merge.
        """
        if merges < 0:
            raise ValueError(f"merges must be 0 or more, not {merges}")
        size = SMALLEST + merges
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(_SPECIAL),
            initial_alphabet=list(_BYTES),
            show_progress=False,
        )
        bpe = _pipeline(models.BPE())
        bpe.train_from_iterator(texts, trainer)
        tokenizer = cls(_merges(bpe.to_str()))
        if tokenizer.vocab_size != size:
            possible = tokenizer.vocab_size - size + merges
            raise ValueError(
                f"merges (setting task.merges) is {merges}; these texts have at most {possible}"
            )
        return tokenizer

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Tokenizer":
        """From a file of `to_json`; any other raises a ValueError that names it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            tokenizer = cls(_merges(text))
            if json.loads(text)["model"]["vocab"] != tokenizer._bpe.get_vocab():
                raise ValueError("its ids do not follow from its merges")
            return tokenizer
        # A file that isn't ours can fail at any step, and tokenizers raises plain Exceptions.
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            if isinstance(error, OSError):
                reason = error.strerror or reason
            raise ValueError(
                f"{path} is no tokenizer: expected the JSON of Tokenizer.to_json ({reason})"
            ) from None

    def to_json(self) -> str:
        """The whole tokenizer, in the format of the tokenizers library."""
        return self._bpe.to_str(pretty=True) + "\n"

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, none of them special. Nothing for the empty text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text. Raises ValueError for a lone surrogate, which no byte can carry."""
        texts = list(texts)
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"text must be valid Unicode; character {error.start} of {text!r} is a"
                    " lone surrogate"
                ) from None
        return [encoding.ids for encoding in self._bpe.encode_batch_fast(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special ones left out. Bytes that are not UTF-8 become U+FFFD."""
        ids = list(ids)
        for id in ids:
            self._check(id)
        return self._bpe.decode([id for id in ids if id >= len(_SPECIAL)])

    def piece(self, id: int) -> str:
        """One piece, to be read: "two" for " two" (two ids can read alike), "␣" for a blank alone.

        Half a letter reads as its byte, "\\xc3".
        """
        self._check(id)
        if id < len(_SPECIAL):
            return _SPECIAL[id]
        encoded = bytes(_BYTES[character] for character in self._pieces[id])
        return encoded.decode("utf-8", "backslashreplace").strip(" ") or "␣"

    def pieces(self, text: str) -> list[str]:
        """The pieces of one text, to be read."""
        return [self.piece(id) for id in self.encode(text)]

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size})"

    def _check(self, id: int) -> None:
        if not 0 <= id < self.vocab_size:
            raise ValueError(f"ids must be from 0 to {self.vocab_size - 1}, not {id}")


def spellings(tokenizer: Tokenizer) -> list[str]:
    """Every piece with the blank it may begin with: "␣two" begins a word.

    Elsewhere pieces are shown without it, where two of them can read alike.
    """
    hyphen = tokenizer.encode("-")[-1]
    names = ["PAD", "BOS", "EOS"]
    for id in range(len(names), tokenizer.vocab_size):
        piece = tokenizer.piece(id)
        begins = tokenizer.decode([hyphen, id])[1:] == f" {piece}"
        names.append(f"␣{piece}" if begins else piece)
    return names


def _pipeline(bpe: models.BPE) -> tokenizers.Tokenizer:
    """The steps around the merges; saved in the file, for other programs to read."""
    steps = tokenizers.Tokenizer(bpe)
    steps.normalizer = normalizers.Prepend(" ")  # leaves the empty text empty
    steps.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "merged_with_next"),
            pre_tokenizers.Split("-", "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    steps.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return steps


def _merges(text: str) -> list[tuple[str, str]]:
    """The merges in the library's JSON. All else in it is the same for every tokenizer of ours."""
    return [(left, right) for left, right in json.loads(text)["model"]["merges"]]
