"""Who may see whom: the two masks, causality, padding, and sentences of padding only."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.data.batches import collate
from annotated.model import causal_mask, padding_mask, record_attention
from annotated.training.loss import label_smoothed_loss

few = settings(max_examples=15, deadline=None)
lengths = st.lists(st.integers(1, 7), min_size=2, max_size=4)
seeds = st.integers(0, 2**31)
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
PRECISIONS = pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=["float32", "float64"]
)


class TestMasks:
    def test_causal_mask_is_a_triangle_with_its_diagonal(self):
        mask = causal_mask(5)
        assert mask.dtype == torch.bool
        assert mask.shape == (5, 5)
        assert mask.tolist() == [[j <= i for j in range(5)] for i in range(5)]
        assert causal_mask(1).tolist() == [[True]]
        assert causal_mask(3, device="meta").device.type == "meta"

    @pytest.mark.parametrize("pad_id", [0, 7])
    def test_padding_mask_is_true_where_there_is_a_token(self, pad_id):
        ids = torch.tensor([[5, 3, pad_id], [2, pad_id, pad_id], [pad_id] * 3])
        mask = padding_mask(ids, pad_id)
        assert mask.dtype == torch.bool
        assert mask.shape == (3, 1, 1, 3)
        assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False], [False] * 3]

    def test_padding_may_stand_anywhere(self):
        assert padding_mask(torch.tensor([[0, 4, 0, 3]]), 0).flatten().tolist() == [
            False,
            True,
            False,
            True,
        ]

    def test_masks_combine_with_and(self):
        both = causal_mask(3) & padding_mask(torch.tensor([[5, 0, 4]]), 0)
        assert both.shape == (1, 1, 3, 3)
        assert both[0, 0].tolist() == [
            [True, False, False],
            [True, False, False],
            [True, False, True],
        ]

    def test_a_token_whose_vector_is_zero_is_no_padding(self, build):
        """Masks come from ids, never from values: a learned vector may well sum to zero."""
        model = build()
        with torch.no_grad():
            model.embedding.weight[7] = 0
        with record_attention(model) as seen, torch.no_grad():
            model(torch.tensor([[5, 7, 7]]), torch.tensor([[1, 7]]))
        assert all((w[..., 1:, 1:].tril() > 0).any() for w in seen.values())
        assert (seen["encoder.layers.0.self_attention"] > 0).all()
        assert (seen["decoder.layers.1.cross_attention"] > 0).all()


class TestCausality:
    @NORMS
    @pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
    def test_jacobian_of_logits_by_later_inputs_is_exactly_zero(self, build, norm, training):
        n, vocab = 5, 11
        model = build(norm=norm, vocab_size=vocab, dropout=0.2).train(training)
        vectors = []
        model.embedding.register_forward_hook(lambda *call: vectors.append(call[-1]))
        torch.manual_seed(3)
        logits = model(torch.tensor([[5, 3, 7, 2]]), torch.tensor([[1, 4, 6, 8, 9]]))
        source, target = vectors
        influence = torch.zeros(n, n, dtype=torch.bool)
        for t in range(n):
            for word in range(vocab):
                by_source, by_target = torch.autograd.grad(
                    logits[0, t, word], (source, target), retain_graph=True
                )
                assert (by_target[0, t + 1 :] == 0).all()
                assert (by_source[0] != 0).any(dim=-1).all()
                influence[t] |= (by_target[0] != 0).any(dim=-1)
        # and every earlier input, the present one included, does count
        assert torch.equal(influence, causal_mask(n))

    @few
    @given(n=st.integers(2, 7), t=st.integers(0, 5), seed=seeds, training=st.booleans())
    @NORMS
    def test_changing_later_words_leaves_earlier_logits_as_they_are(
        self, build, sentences, norm, n, t, seed, training
    ):
        t %= n - 1
        model = build(norm=norm).train(training)
        source, one, other = (x[None] for x in sentences([5, n, n], model.config, seed))
        other = torch.cat([one[:, : t + 1], other[:, t + 1 :]], dim=1)
        torch.manual_seed(seed)
        before = model(source, one)
        torch.manual_seed(seed)
        after = model(source, other)
        assert torch.equal(before[:, : t + 1], after[:, : t + 1])
        assert torch.equal(before, after) == torch.equal(one, other)

    def test_every_encoder_position_sees_every_other(self, build):
        model = build()
        vectors = []
        model.embedding.register_forward_hook(lambda *call: vectors.append(call[-1]))
        memory = model.encode(torch.tensor([[5, 3, 7, 2, 11]]))
        for t in range(5):
            (by_source,) = torch.autograd.grad(
                memory[0, t].square().sum() + memory[0, t, 0], vectors[0], retain_graph=True
            )
            assert (by_source != 0).any(dim=-1).all()

    def test_an_unshifted_target_would_be_given_away(self, build):
        """Negative control: the word at t is an input of the logits at t, so it has to be BOS
        or an earlier word, never the one to be predicted."""
        model = build()
        source, target = torch.tensor([[5, 3]]), torch.tensor([[1, 4, 6]])
        before = model(source, target)
        target[0, 1] = 9
        after = model(source, target)
        assert torch.equal(before[:, 0], after[:, 0])
        assert (before[:, 1:] != after[:, 1:]).any(dim=-1).all()

    @pytest.mark.parametrize("shifted", [False, True])
    def test_unshifted_words_are_copied_shifted_ones_can_only_be_guessed(self, build, shifted):
        """Negative control: random words, new at every step, so that there is nothing to learn
        but a leak. Unshifted the loss goes to 0; shifted it stays above the entropy: five of six
        labels are one of ten words at random, the sixth is EOS."""
        model = build(vocab_size=13, dropout=0.0).train()
        adam = torch.optim.Adam(model.parameters(), lr=0.01)
        random = torch.Generator().manual_seed(0)
        for _ in range(100):
            words = torch.randint(3, 13, (31, 2, 5), generator=random)
            batch = collate([*map(tuple, words.tolist())], pad_id=0, bos_id=1, eos_id=2)
            logits = model(batch.source, batch.target if shifted else batch.labels)
            total, tokens = label_smoothed_loss(logits, batch.labels, epsilon=0.0, pad_id=0)
            adam.zero_grad()
            (total / tokens).backward()
            adam.step()
        loss, entropy = (total / tokens).item(), math.log(10) * 5 / 6
        if shifted:
            assert 0.97 * entropy < loss < 1.1 * entropy
        else:
            assert loss < 0.02


class TestPadding:
    @few
    @given(lengths=lengths, seed=seeds, extra=st.integers(0, 3))
    @PRECISIONS
    def test_alone_and_in_a_padded_batch_the_logits_are_the_same(
        self, build, sentences, pad, variant, dtype, tolerance, lengths, seed, extra
    ):
        model = build(dtype, **variant)
        config = model.config
        sources = sentences(lengths, config, seed)
        targets = sentences([n % 5 + 1 for n in lengths], config, seed + 1)
        with torch.no_grad():
            together = model(
                pad(sources, config.pad_id, max(lengths) + extra), pad(targets, config.pad_id)
            )
            for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
                alone = model(source[None], target[None])[0]
                difference = (together[row, : len(target)] - alone).abs()
                assert difference.max() <= tolerance, f"max {difference.max()} in row {row}"

    @few
    @given(lengths=lengths, seed=seeds, extra=st.integers(0, 3))
    @PRECISIONS
    def test_alone_and_in_a_padded_batch_the_memory_is_the_same(
        self, build, sentences, pad, dtype, tolerance, lengths, seed, extra
    ):
        """The encoder's own attention by itself, whatever the decoder then looks at."""
        model = build(dtype)
        sources = sentences(lengths, model.config, seed)
        with torch.no_grad():
            together = model.encode(pad(sources, model.config.pad_id, max(lengths) + extra))
            for row, source in enumerate(sources):
                alone = model.encode(source[None])[0]
                assert (together[row, : len(source)] - alone).abs().max() <= tolerance, row

    def test_the_decoder_does_not_hear_what_the_memory_holds_at_padding(
        self, build, sentences, pad, variant
    ):
        """The attention to the memory by itself, at once and step by step."""
        model = build(**variant)
        source = pad(sentences([5, 3], model.config), model.config.pad_id, width=7)
        target = torch.stack(sentences([4, 4], model.config, seed=1))
        padded = (source == model.config.pad_id)[..., None]

        def answers(memory):
            cache = model.start(source, 4, memory)
            steps = [model.step(token, cache) for token in target.T]
            return model.decode(target, memory, source), torch.stack(steps, dim=1)

        with torch.no_grad():
            memory = model.encode(source)
            noise = 100 * torch.randn_like(memory)
            before = answers(memory)
            after = answers(torch.where(padded, noise, memory))
            heard = answers(torch.where(padded, memory, noise))
        for one, same, other in zip(before, after, heard, strict=True):
            assert torch.equal(one, same)
            assert (one - other).abs().amax(dim=(1, 2)).min() > 1e-2

    def test_what_stands_at_a_padded_place_does_not_matter(self, build, sentences, pad):
        model = build()
        source = pad(sentences([5, 3], model.config), model.config.pad_id)
        target = pad(sentences([4, 4], model.config), model.config.pad_id)
        before = model(source, target)
        with torch.no_grad():  # another vector for padding; the logits of pad itself do change
            model.embedding.weight[model.config.pad_id] = 100.0
        after = model(source, target)
        words = torch.arange(model.config.vocab_size) != model.config.pad_id
        assert torch.equal(before[..., words], after[..., words])

    @NORMS
    def test_no_layer_looks_at_padding(self, build, sentences, pad, norm):
        model = build(norm=norm, layers=3)
        source = pad(sentences([7, 2, 5], model.config), model.config.pad_id)
        target = pad(sentences([3, 4, 2], model.config), model.config.pad_id)
        with record_attention(model) as seen, torch.no_grad():
            model(source, target)
        padded = (source == model.config.pad_id)[:, None, None]
        looking_at_source = [name for name in seen if "decoder" not in name or "cross" in name]
        assert len(looking_at_source) == 6
        for name in looking_at_source:
            columns = padded.expand_as(seen[name])
            assert (seen[name][columns] == 0).all(), name
            assert (seen[name][~columns] > 0).all(), name

    @PRECISIONS
    def test_a_sentence_of_padding_only_leaves_its_neighbours_alone(
        self, build, sentences, pad, variant, dtype, tolerance
    ):
        model = build(dtype, **variant).train()
        model.requires_grad_()
        for module in model.modules():  # dropout would draw new masks
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        config = model.config
        real = sentences([5, 3, 4], config)
        target = pad(sentences([4, 4, 4], config, seed=1), config.pad_id)
        nothing = torch.full((5,), config.pad_id)
        whole = model(pad(real, config.pad_id), target).detach()
        with_nothing = model(pad([real[0], nothing, real[2]], config.pad_id), target)
        assert torch.equal(with_nothing[[0, 2]], whole[[0, 2]])
        assert with_nothing.shape == whole.shape
        assert with_nothing.isfinite().all()
        assert not torch.equal(with_nothing[1], whole[1])
        with_nothing.square().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())

    def test_trailing_padding_never_shortens_an_output(self, build, sentences, pad):
        """Some fast paths drop columns that are padding in every row."""
        model = build()
        source = pad(sentences([3, 2], model.config), model.config.pad_id, width=7)
        target = pad(sentences([2, 3], model.config), model.config.pad_id, width=5)
        with torch.no_grad():
            assert model.encode(source).shape == (2, 7, 22)
            assert model(source, target).shape == (2, 5, 37)
