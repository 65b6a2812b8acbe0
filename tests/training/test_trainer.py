"""§5.2-5.4, §6.1: one update by hand, many of them, and the average at the end."""

import math
import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from annotated.data.batches import collate
from annotated.model import Transformer, TransformerConfig
from annotated.training import Trainer, TrainingConfig, learning_rate
from annotated.training.trainer import average_

SIZES = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}
CONFIG = TrainingConfig(
    steps=7, batch_tokens=61, warmup_steps=5, factor=0.5, average=3, average_every=2
)


def build(seed=0, dtype=torch.float32, **overrides):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**(SIZES | {"dropout": 0.0} | overrides))).to(dtype)


def corpus(count=53, seed=0):
    """Random sentences, and each of them backwards."""
    rng = random.Random(seed)
    sources = [[rng.randrange(3, 37) for _ in range(rng.randint(1, 11))] for _ in range(count)]
    return [(source, source[::-1]) for source in sources]


def batch_of(count=13, seed=0):
    return collate(corpus(count, seed), 0, 1, 2)


def values(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


class TestConfig:
    def test_defaults_are_the_papers_base_run(self):
        config = TrainingConfig()
        assert (config.steps, config.batch_tokens, config.warmup_steps) == (100_000, 25_000, 4000)
        assert (config.betas, config.eps, config.label_smoothing) == ((0.9, 0.98), 1e-9, 0.1)
        assert (config.average, config.factor) == (5, 1.0)
        assert config.average_every * 0.4 == 600  # seconds: checkpoints ten minutes apart

    @pytest.mark.parametrize(
        "name", ["steps", "batch_tokens", "warmup_steps", "average", "average_every"]
    )
    @pytest.mark.parametrize("value", [0, -3])
    def test_a_number_below_one_is_named(self, name, value):
        with pytest.raises(ValueError, match=rf"^{name} is {value}; expected at least 1$"):
            TrainingConfig(**{name: value})

    @pytest.mark.parametrize("value", [-0.1, 1.0, math.nan])
    def test_label_smoothing_is_a_share(self, value):
        with pytest.raises(ValueError, match=rf"^label_smoothing is {value}; expected 0 to 1$"):
            TrainingConfig(label_smoothing=value)


class TestUpdate:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_three_of_them_are_adam_by_hand_at_the_scheduled_rate(self, dtype):
        """Adam from its own paper, the loss from PyTorch: nothing here is the trainer's."""
        trained, byhand = build(dtype=dtype), build(dtype=dtype)
        trainer = Trainer(trained, CONFIG)
        first, second = [[torch.zeros_like(w) for w in byhand.parameters()] for _ in range(2)]
        (b1, b2), eps = CONFIG.betas, CONFIG.eps
        for step in (1, 2, 3):
            batch = batch_of(seed=step)
            update = trainer.update(batch)

            logits = byhand(batch.source, batch.target).flatten(0, 1)
            loss = F.cross_entropy(
                logits, batch.labels.flatten(), ignore_index=0, label_smoothing=0.1
            )
            rate = 0.5 * 22**-0.5 * min(step**-0.5, step * 5**-1.5)
            gradients = torch.autograd.grad(loss, list(byhand.parameters()))
            with torch.no_grad():
                for w, g, m, v in zip(byhand.parameters(), gradients, first, second, strict=True):
                    m.mul_(b1).add_(g, alpha=1 - b1)
                    v.mul_(b2).add_(g * g, alpha=1 - b2)
                    w -= rate * (m / (1 - b1**step)) / ((v / (1 - b2**step)).sqrt() + eps)

            near = 1e-10 if dtype == torch.float64 else 1e-5
            assert update.step == step and update.rate == pytest.approx(rate, rel=1e-12)
            assert update.loss == pytest.approx(loss.item(), rel=near)
            assert update.tokens == int((batch.labels != 0).sum())
        near = {torch.float64: 1e-8, torch.float32: 1e-4}[dtype]
        for one, other in zip(trained.parameters(), byhand.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=near)
        assert not same(values(trained), values(build(dtype=dtype)))

    def test_the_loss_of_one_batch_falls_to_its_floor(self):
        trainer = Trainer(build(layers=1), replace(CONFIG, factor=0.3, warmup_steps=30))
        batch = batch_of(5)
        losses = [trainer.update(batch).loss for _ in range(101)]
        vocab, epsilon = 37, 0.1
        wrong = epsilon / vocab
        right = 1 - epsilon + wrong
        floor = -right * math.log(right) - (vocab - 1) * wrong * math.log(wrong)
        assert losses[0] > math.log(vocab) > losses[20] > losses[50] > losses[100]
        assert floor < losses[100] < floor + 0.1

    def test_it_trains_with_dropout_whatever_mode_the_model_is_in(self):
        model = build(dropout=0.5).eval()
        trainer, batch = Trainer(model, CONFIG), batch_of()
        with torch.no_grad():
            logits = model(batch.source, batch.target).flatten(0, 1)
        plain = F.cross_entropy(logits, batch.labels.flatten(), ignore_index=0, label_smoothing=0.1)
        assert trainer.update(batch).loss != pytest.approx(plain.item(), rel=1e-3)
        assert all(module.training for module in model.modules())

    def test_padding_of_the_batch_has_no_say(self):
        batch = batch_of()
        wide = replace(batch, **{name: F.pad(x, (0, 5)) for name, x in vars(batch).items()})
        one, other = build(dtype=torch.float64), build(dtype=torch.float64)
        updates = Trainer(one, CONFIG).update(batch), Trainer(other, CONFIG).update(wide)
        assert updates[0].tokens == updates[1].tokens
        assert updates[0].loss == pytest.approx(updates[1].loss, rel=1e-10)
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-8)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_loss_that_is_not_finite_does_not_reach_the_weights(self, value):
        model = build()
        trainer = Trainer(model, CONFIG)
        trainer.update(batch_of())
        before = values(model)
        moments = [s.clone() for state in trainer.adam.state.values() for s in state.values()]
        hook = model.register_forward_hook(lambda module, inputs, logits: logits + value)
        rate = f"{learning_rate(2, 22, 5, 0.5):.3g}"
        with pytest.raises(FloatingPointError, match=rf"^step 2: the loss is nan, rate {rate}$"):
            trainer.update(batch_of())
        hook.remove()
        assert same(values(model), before)
        assert same([s for state in trainer.adam.state.values() for s in state.values()], moments)
        assert math.isfinite(trainer.update(batch_of()).loss)


class TestFit:
    def test_every_update_is_reported_in_order(self):
        pairs, updates = corpus(), []
        Trainer(build(), CONFIG).fit(pairs, 0, updates.append)
        assert [update.step for update in updates] == [1, 2, 3, 4, 5, 6, 7]
        for update in updates:
            assert update.rate == learning_rate(update.step, 22, 5, 0.5)
            assert math.isfinite(update.loss) and 0 < update.tokens <= CONFIG.batch_tokens

    def test_epochs_follow_each_other_each_in_its_own_order(self):
        pairs = corpus()
        stream = Trainer(build(), CONFIG).batches(pairs, seed=0)
        epochs = []
        for _ in range(3):
            epochs.append([])
            while sum(map(len, epochs[-1])) < len(pairs):
                epochs[-1].append([[i for i in row if i] for row in next(stream).source.tolist()])
        for epoch in epochs:
            assert sorted(row[:-1] for batch in epoch for row in batch) == sorted(
                source for source, _ in pairs
            )
        assert len({str(epoch) for epoch in epochs}) == 3

    def test_the_same_seed_is_the_same_model_bit_for_bit(self):
        def run(seed, start=0):
            model, updates = build(start, dropout=0.1), []
            Trainer(model, CONFIG).fit(corpus(), seed, updates.append)
            return values(model), updates

        (weights, updates), (again, updates_again) = run(0), run(0)
        assert same(weights, again) and updates == updates_again
        assert not same(weights, run(1)[0])  # other batches
        assert not same(weights, run(0, start=1)[0])  # other weights to begin with

    def test_the_result_is_the_mean_of_the_last_checkpoints(self):
        """average=3, average_every=2 of 7 updates: after the updates 3, 5 and 7."""
        model, after = build(), {}
        Trainer(model, CONFIG).fit(
            corpus(), 0, lambda update: after.__setitem__(update.step, values(model))
        )
        for found, *kept in zip(values(model), after[3], after[5], after[7], strict=True):
            torch.testing.assert_close(found, sum(kept) / 3, rtol=1e-6, atol=1e-7)
        assert not same(values(model), after[7])

    @pytest.mark.parametrize(
        ("average", "every", "steps"),
        [(1, 2, [7]), (3, 1, [5, 6, 7]), (11, 3, [1, 4, 7]), (3, 7, [7]), (11, 11, [7])],
    )
    def test_which_checkpoints_are_averaged(self, average, every, steps):
        config, model, after = replace(CONFIG, average=average, average_every=every), build(), {}
        Trainer(model, config).fit(
            corpus(), 0, lambda update: after.__setitem__(update.step, values(model))
        )
        for found, *kept in zip(values(model), *(after[step] for step in steps), strict=True):
            torch.testing.assert_close(found, sum(kept) / len(steps), rtol=1e-6, atol=1e-7)

    def test_a_trainer_is_done_once(self):
        trainer = Trainer(build(), CONFIG)
        trainer.fit(corpus(), 0)
        before = values(trainer.model)
        with pytest.raises(ValueError, match=r"^7 of 7 updates are done already$"):
            trainer.fit(corpus(), 0)
        assert same(values(trainer.model), before)

    def test_updates_already_made_count(self):
        trainer, steps = Trainer(build(), CONFIG), []
        trainer.update(batch_of())
        trainer.fit(corpus(), 0, lambda update: steps.append(update.step))
        assert steps == [2, 3, 4, 5, 6, 7]

    def test_nothing_to_train_on_is_said(self):
        with pytest.raises(ValueError, match=r"^there are no sentence pairs to train on$"):
            Trainer(build(), CONFIG).fit([], 0)

    def test_a_pair_beyond_the_budget_is_named_before_any_update(self):
        model = build()
        before, pairs = values(model), [*corpus(), ([3] * 61, [3])]
        with pytest.raises(ValueError, match=r"^pair 53 has 62 tokens; the budget is 61$"):
            Trainer(model, CONFIG).fit(pairs, 0)
        assert same(values(model), before)


class TestAverage:
    def test_a_tied_matrix_is_averaged_once_and_stays_tied(self):
        model = build()
        checkpoints = [values(build(seed)) for seed in (1, 2, 3)]
        average_(model, checkpoints)
        assert model.matrix("source") is model.matrix("target") is model.matrix("output")
        names = [name for name, _ in model.named_parameters()]
        assert sum(name.startswith("embedding") for name in names) == 1
        place = names.index("embedding.weight")
        expected = sum(checkpoint[place] for checkpoint in checkpoints) / 3
        torch.testing.assert_close(model.embedding.weight.detach(), expected)
        assert all(parameter.requires_grad for parameter in model.parameters())

    def test_untied_matrices_are_averaged_each(self):
        model = build(tie=False)
        checkpoints = [values(build(seed, tie=False)) for seed in (1, 2)]
        average_(model, checkpoints)
        for parameter, *kept in zip(model.parameters(), *checkpoints, strict=True):
            torch.testing.assert_close(parameter.detach(), sum(kept) / 2)

    def test_of_one_checkpoint_many_times_it_is_that_checkpoint(self):
        model = build()
        once = values(build(1))
        average_(model, [once] * 4)
        assert same(values(model), once)

    def test_it_is_the_mean_of_weights_not_of_what_they_say(self):
        one, other, model = build(1), build(2), build()
        average_(model, [values(one), values(other)])
        batch = batch_of()
        with torch.no_grad():
            said = [m(batch.source, batch.target) for m in (one, other, model)]
        assert (said[2] - (said[0] + said[1]) / 2).abs().max() > 0.1
