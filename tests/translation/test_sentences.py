"""Where long texts are cut: nothing is lost or moved, no part is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated.data.text import tidy
from annotated.data.tokenizer import Tokenizer
from annotated.translation.sentences import parts, sentences

TOKENIZER = Tokenizer([])  # a piece for each byte: the longest texts there can be
texts = st.text(st.sampled_from("aB 7.!?…\"'»)(„。z-\u00e9\u4f60\U0001f642"), max_size=90).map(tidy)


def count(texts):
    return [len(ids) for ids in TOKENIZER.encode_batch(texts)]


def letters(text):
    return text.replace(" ", "")


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
            ('He said: "Go." She went.', ['He said: "Go."', "She went."]),
            ("„Geh!“ Sie ging.", ["„Geh!“", "Sie ging."]),
            ("(So it was.) Then no more.", ["(So it was.)", "Then no more."]),
            ("Well... Then he left.", ["Well...", "Then he left."]),
            ("It costs 3.50 euros. Or not.", ["It costs 3.50 euros.", "Or not."]),
            ("Mr. Smith met Dr. Jones. They ate.", ["Mr. Smith met Dr. Jones.", "They ate."]),
            ("Am 3. Mai sang J. Bach z.B. Das.", ["Am 3. Mai sang J. Bach z.B. Das."]),
            ("e.g. this one. and no other", ["e.g. this one. and no other"]),
            ("Ça va ? Oui. « Non. » Si !", ["Ça va ?", "Oui.", "« Non.", "» Si !"]),
            ("他来了。我走了！好", ["他来了。", "我走了！", "好"]),
            ("no end", ["no end"]),
        ],
    )
    def test_where_they_end(self, text, found):
        assert sentences(text) == found

    @given(texts)
    def test_nothing_is_lost_and_nothing_moves(self, text):
        found = sentences(text)
        assert letters("".join(found)) == letters(text)
        assert all(found) and all(tidy(sentence) == sentence for sentence in found)


class TestParts:
    @given(texts, st.sampled_from([8, 13, 31]))
    def test_none_is_too_long_and_nothing_is_lost(self, text, longest):
        found = parts(text, longest, count)
        assert letters("".join(found)) == letters(text)
        assert all(0 < size <= longest for size in count(found))

    @given(texts)
    def test_what_fits_is_one_part(self, text):
        assert parts(text, 1000, count) == ([text] if text else [])

    def test_sentences_before_words_before_letters(self):
        text = "Aa bb. Cc dd. " + "One two " * 5 + "x" * 40
        found = parts(text, 20, count)
        assert found[:2] == ["Aa bb.", "Cc dd."]
        assert found[2:4] == ["One two One two One", "two One two One two"]
        assert letters("".join(found[4:])) == "x" * 40 and len(found[4:]) == 3
