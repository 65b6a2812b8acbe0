"""Bad input gets a ValueError of one line: what was wrong, and what is accepted.

All of this runs on the package without jaxtyping's wrappers, as a user runs it: the wrappers
would answer first.
"""

import re

import pytest
import torch

PRIME = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 1}
SOURCE, TARGET = torch.tensor([[5, 3, 7]]), torch.tensor([[1, 4]])


def refuses(call, *words):
    """`call` raises a ValueError in one line that has each of the words."""
    with pytest.raises(ValueError) as error:
        call()
    message = str(error.value)
    assert "\n" not in message
    assert 10 < len(message) < 200
    for word in words:
        assert re.search(rf"(?<![\w.-]){re.escape(str(word))}(?![\w])", message), (word, message)


@pytest.fixture
def build(plain):
    def make(**overrides):
        torch.manual_seed(0)
        return plain.Transformer(plain.TransformerConfig(**(PRIME | overrides))).eval()

    return make


class TestConfiguration:
    @pytest.mark.parametrize("given", [{}, {"d_k": 7}, {"d_v": 7}], ids=str)
    def test_width_that_heads_do_not_divide(self, plain, given):
        sizes = {"d_model": 20, "heads": 3} | given
        refuses(lambda: plain.TransformerConfig(**sizes), "d_model", 20, "heads", 3)
        refuses(lambda: plain.MultiHeadAttention(**sizes), "d_model", 20, "heads", 3)

    def test_it_needs_not_divide_where_head_widths_are_given(self, plain):
        config = plain.TransformerConfig(d_model=20, heads=3, d_k=7, d_v=5)
        assert (config.d_k, config.d_v) == (7, 5)

    @pytest.mark.parametrize(
        "field, wrong, accepted",
        [
            ("norm", "batch", ["post", "pre"]),
            ("norm", "Post", ["post", "pre"]),
            ("positions", "rotary", ["sinusoidal", "sinusoidal-halves", "learned"]),
            ("activation", "tanh", ["relu", "gelu"]),
        ],
    )
    def test_unknown_choices(self, plain, field, wrong, accepted):
        refuses(lambda: plain.TransformerConfig(**{field: wrong}), field, wrong, *accepted)

    @pytest.mark.parametrize("field", ["vocab_size", "d_model", "d_ff", "heads", "layers"])
    @pytest.mark.parametrize("size", [0, -3])
    def test_sizes_below_one(self, plain, field, size):
        refuses(lambda: plain.TransformerConfig(**{field: size}), field, size)

    @pytest.mark.parametrize("field", ["d_k", "d_v"])
    @pytest.mark.parametrize("size", [0, -3])
    def test_head_widths_below_one(self, plain, field, size):
        refuses(lambda: plain.TransformerConfig(**{field: size}), field, size)

    @pytest.mark.parametrize("field", ["dropout", "attention_dropout"])
    @pytest.mark.parametrize("rate", [-0.1, 1.5])
    def test_rates_that_are_no_probability(self, plain, field, rate):
        refuses(lambda: plain.TransformerConfig(**{field: rate}), field, rate)

    @pytest.mark.parametrize("field", ["pad_id", "bos_id", "eos_id"])
    @pytest.mark.parametrize("wrong", [-1, 37, 1009])
    def test_special_ids_outside_the_vocabulary(self, plain, field, wrong):
        refuses(lambda: plain.TransformerConfig(vocab_size=37, **{field: wrong}), field, wrong, 37)

    @pytest.mark.parametrize(
        "equal", [{"pad_id": 1}, {"bos_id": 2}, {"eos_id": 0}, {"pad_id": 5, "eos_id": 5}], ids=str
    )
    def test_special_ids_that_are_equal(self, plain, equal):
        refuses(lambda: plain.TransformerConfig(**equal), *equal, *equal.values())

    def test_odd_width_for_sinusoids(self, plain):
        for positions in ("sinusoidal", "sinusoidal-halves"):
            sizes = {"d_model": 21, "heads": 3, "positions": positions}
            refuses(lambda sizes=sizes: plain.TransformerConfig(**sizes), "d_model", 21, "odd")
        assert plain.TransformerConfig(d_model=21, heads=3, positions="learned", max_length=5)

    def test_max_length_belongs_to_learned_positions(self, plain):
        refuses(lambda: plain.TransformerConfig(positions="learned"), "max_length", "learned")
        refuses(lambda: plain.TransformerConfig(max_length=7), "max_length", 7, "learned")

    def test_max_length_below_one(self, plain):
        make = plain.TransformerConfig
        refuses(lambda: make(positions="learned", max_length=0), "max_length", 0)


class TestIds:
    @pytest.mark.parametrize("wrong", [-1, 37, 40_000])
    def test_source(self, build, wrong):
        model, source = build(), torch.tensor([[5, wrong, 7]])
        vocabulary = "(36|37)"
        for call in (
            lambda: model(source, TARGET),
            lambda: model.encode(source),
            lambda: model.start(source, 3),
        ):
            refuses(call, "source", wrong)
            with pytest.raises(ValueError, match=vocabulary):
                call()

    @pytest.mark.parametrize("wrong", [-1, 37, 40_000])
    def test_target(self, build, wrong):
        model, target = build(), torch.tensor([[1, wrong]])
        refuses(lambda: model(SOURCE, target), "target", wrong)
        with pytest.raises(ValueError, match="(36|37)"):
            model.decode(target, model.encode(SOURCE), SOURCE)

    @pytest.mark.parametrize("wrong", [-1, 37])
    def test_token_of_a_step(self, build, wrong):
        model = build()
        cache = model.start(SOURCE, 3)
        refuses(lambda: model.step(torch.tensor([wrong]), cache), wrong)

    def test_a_refused_step_leaves_the_cache_usable(self, build):
        model = build()
        cache = model.start(SOURCE, 3)
        first = model.step(torch.tensor([1]), cache)
        refuses(lambda: model.step(torch.tensor([37]), cache), 37)
        second = model.step(torch.tensor([4]), cache)
        whole = model(SOURCE, TARGET)
        assert torch.allclose(torch.stack([first, second], 1), whole, atol=1e-5)

    def test_the_first_and_last_id_are_accepted(self, build):
        assert build()(torch.tensor([[0, 36]]), torch.tensor([[36, 0]])).isfinite().all()

    def test_empty_sentences(self, build):
        model, nothing = build(), torch.empty(1, 0, dtype=torch.int64)
        refuses(lambda: model(nothing, TARGET), "source", "empty")
        refuses(lambda: model.start(nothing, 3), "source", "empty")
        refuses(lambda: model(SOURCE, nothing), "target", "empty")


class TestLearnedPositions:
    def test_source_and_target_that_are_too_long(self, build):
        model = build(positions="learned", max_length=5)
        five, six = torch.full((1, 5), 7), torch.full((1, 6), 7)
        assert model(five, five).isfinite().all()
        refuses(lambda: model(six, TARGET), 6, "max_length=5")
        refuses(lambda: model(SOURCE, six), 6, "max_length=5")
        refuses(lambda: model.start(six, 3), 6, "max_length=5")

    def test_a_step_too_far(self, build):
        model = build(positions="learned", max_length=3)
        cache = model.start(SOURCE, 7)
        for _ in range(3):
            model.step(torch.tensor([4]), cache)
        refuses(lambda: model.step(torch.tensor([4]), cache), 4, "max_length=3")


class TestMasks:
    @pytest.fixture(params=["function", "fused", "literal"])
    def attend(self, request, plain):
        """Attention of 3 queries to 5 keys, 2 sentences and 3 heads, three ways."""
        x, memory = torch.randn(2, 3, 13), torch.randn(2, 5, 13)
        attention = plain.MultiHeadAttention(13, 3, 5, 7)

        def function(mask):
            q, k = torch.randn(2, 3, 3, 5), torch.randn(2, 3, 5, 5)
            return plain.scaled_dot_product_attention(q, k, k, mask)

        def literal(mask):
            with plain.record_attention(attention):
                return attention(x, memory, mask)

        ways = {
            "function": function,
            "fused": lambda m: attention(x, memory, m),
            "literal": literal,
        }
        return ways[request.param]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)
    def test_dtype(self, attend, dtype):
        mask = torch.ones(2, 1, 3, 5, dtype=dtype)
        refuses(lambda: attend(mask), "mask", str(dtype), "torch.bool")

    @pytest.mark.parametrize("shape", [(5, 3), (3, 4), (2, 5), (5, 1, 1, 5), (2, 1, 2, 5)])
    def test_shape(self, attend, shape):
        refuses(lambda: attend(torch.ones(shape, dtype=torch.bool)), "mask", shape)

    @pytest.mark.parametrize("shape", [(1, 2, 1, 3, 5), (1, 1, 1, 1, 1)])
    def test_more_axes_than_there_are(self, attend, shape):
        refuses(lambda: attend(torch.ones(shape, dtype=torch.bool)), "mask", shape)

    @pytest.mark.parametrize("shape", [(1, 5), (3, 1), (3, 5), (2, 1, 1, 5), (2, 3, 3, 5)])
    def test_what_broadcasts_is_accepted(self, attend, shape):
        attend(torch.ones(shape, dtype=torch.bool))  # raises where it must not
        refuses(lambda: attend(torch.ones((*shape[:-1], 7), dtype=torch.bool)), "mask")

    def test_source_of_another_sentence(self, build):
        """decode takes its mask from source, which must be the one that gave the memory."""
        model = build()
        memory = model.encode(SOURCE)
        longer = torch.tensor([[5, 3, 7, 9]])
        refuses(lambda: model.decode(TARGET, memory, longer), 4, 3)
