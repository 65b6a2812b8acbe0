"""§5.2-5.4, §6.1: one update by hand, many of them, and the average at the end."""

import inspect
import json
import math
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import accumulate

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.data.batches import collate, micro_batches
from annotated.model import Transformer, TransformerConfig
from annotated.training import Trainer, TrainingConfig, World, learning_rate
from annotated.training.states import MODEL, InMemory
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


def named(model):
    """What average_ takes: a copy of the model by the names of its parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


class TestConfig:
    def test_defaults_are_the_papers_base_run(self):
        config = TrainingConfig()
        assert (config.steps, config.batch_tokens, config.warmup_steps) == (100_000, 25_000, 4000)
        assert (config.betas, config.eps, config.label_smoothing) == ((0.9, 0.98), 1e-9, 0.1)
        assert (config.average, config.factor) == (5, 1.0)
        assert (config.micro_batches, config.warmup, config.compile) == (1, True, False)
        assert config.precision == "float32"
        assert config.average_every * 0.4 == 600  # seconds: checkpoints ten minutes apart

    @pytest.mark.parametrize(
        "name",
        ["steps", "batch_tokens", "micro_batches", "warmup_steps", "average", "average_every"],
    )
    @pytest.mark.parametrize("value", [0, -3])
    def test_a_number_below_one_is_named(self, name, value):
        with pytest.raises(ValueError, match=rf"^{name} is {value}; expected at least 1$"):
            TrainingConfig(**{name: value})

    @pytest.mark.parametrize(
        ("name", "values", "expected"),
        [
            ("label_smoothing", [-0.1, 1.0, math.nan], "at least 0 and less than 1"),
            ("length_noise", [-1.0, math.inf], "at least 0"),
            ("factor", [0.0, -0.5, math.inf, math.nan], "more than 0"),
            ("eps", [0.0, -1.0, math.nan], "more than 0"),
            (
                "betas", [(1.0, 1.0), (0.9, 1.0), (-0.1, 0.9), (0.9, math.nan)],
                "two numbers of at least 0 and less than 1",
            ),
            ("average", [2**63], "less than 2^63"),
            ("batch_tokens", [1], "at least 2, a token and EOS"),
            ("micro_batches", [12_501], "at most half of batch_tokens, 25000"),
        ],
    )
    def test_what_no_training_can_have_is_named_with_what_is_expected(
        self, name, values, expected
    ):
        for value in values:
            with pytest.raises(ValueError) as caught:
                TrainingConfig(**{name: value})
            assert str(caught.value) == f"{name} is {value!r}; expected {expected}"

    def test_the_least_that_a_training_can_have(self):
        config = TrainingConfig(
            label_smoothing=0.0, length_noise=0.0, betas=(0.0, 0.0), batch_tokens=7, micro_batches=3
        )
        assert config.betas == (0.0, 0.0)

    def test_each_field_has_a_comment_above_it(self):
        lines = inspect.getsource(TrainingConfig).splitlines()
        for name in TrainingConfig.__dataclass_fields__:
            place = next(n for n, line in enumerate(lines) if line.startswith(f"    {name}: "))
            assert re.match(r"    # \S.*", lines[place - 1]), name

    def test_checkpoints_beyond_counting_take_no_time(self):
        config = replace(CONFIG, average=10**12, average_every=1, steps=10**15)
        assert len(config.averaged()) == 10**12 and config.averaged()[-1] == 10**15

    @pytest.mark.parametrize("value", ["float16", "bf16", ""])
    def test_precision_is_one_of_two(self, value):
        with pytest.raises(ValueError) as caught:
            TrainingConfig(precision=value)
        assert str(caught.value) == f"precision is {value!r}; expected 'float32' or 'bfloat16'"

    @pytest.mark.parametrize(
        ("average", "every", "steps"),
        [(1, 2, [7]), (3, 1, [5, 6, 7]), (11, 3, [1, 4, 7]), (3, 7, [7]), (11, 11, [7])],
    )
    def test_which_checkpoints_are_averaged(self, average, every, steps):
        assert list(replace(CONFIG, average=average, average_every=every).averaged()) == steps


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
            assert update.norm == pytest.approx(
                math.sqrt(sum(g.double().square().sum().item() for g in gradients)), rel=near
            )
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
        said = rf"^step 2: the loss is nan, the gradient's norm nan, rate {rate}$"
        with pytest.raises(FloatingPointError, match=said):
            trainer.update(batch_of())
        hook.remove()
        assert same(values(model), before)
        assert same([s for state in trainer.adam.state.values() for s in state.values()], moments)
        assert math.isfinite(trainer.update(batch_of()).loss)

    def test_a_state_that_is_not_finite_is_never_written(self):
        model, states = build(), Recording()
        trainer = Trainer(model, replace(CONFIG, average_every=1, average=1), states=states)

        def damage(update):
            if update.step == 3:
                with torch.no_grad():
                    model.encoder.layers[0].feed_forward.w_1.weight[5, 7] = math.inf

        said = r"^step 3: encoder\.layers\.0\.\S+ of model is not finite; the state is not written$"
        with pytest.raises(FloatingPointError, match=said):
            trainer.fit(corpus(), damage)
        assert states.written == [1, 2]

    def test_neither_does_a_gradient_that_is_not_finite_under_a_finite_loss(self):
        model = build()
        trainer, before = Trainer(model, CONFIG), values(model)
        model.embedding.weight.register_hook(lambda gradient: gradient * math.inf)
        with pytest.raises(FloatingPointError) as caught:
            trainer.update(batch_of())
        said = r"step 1: the loss is \d\.\d+, the gradient's norm inf, rate 0\.00953"
        assert re.fullmatch(said, str(caught.value))
        assert same(values(model), before) and trainer.step == 0

    def test_the_rate_rises_and_falls_or_starts_at_its_peak(self):
        batch, peak = batch_of(3), 0.5 * 22**-0.5 * 5**-0.5
        for warmup in (True, False):
            trainer = Trainer(build(layers=1), replace(CONFIG, warmup=warmup))
            rates = [trainer.update(batch).rate for _ in range(11)]
            assert rates[4] == max(rates) == pytest.approx(peak, rel=1e-12)
            if warmup:
                assert rates[:5] == pytest.approx([peak * k / 5 for k in range(1, 6)], rel=1e-12)
            else:
                assert rates[:5] == [rates[4]] * 5
            falls = [peak * (5 / k) ** 0.5 for k in range(5, 12)]
            assert rates[4:] == pytest.approx(falls, rel=1e-12)
            assert trainer.adam.param_groups[0]["lr"] == rates[-1]


def cut(pairs, sizes):
    """Pairs in ragged groups, each as a batch with padding of its own."""
    ends = list(accumulate(sizes))
    assert ends[-1] == len(pairs)
    return [collate(pairs[a:b], 0, 1, 2) for a, b in zip([0, *ends], ends)]


class TestMicroBatches:
    @settings(max_examples=11)
    @given(st.lists(st.integers(1, 7), min_size=2, max_size=7), st.integers(0, 2**20))
    def test_many_are_one_batch_of_all_of_them(self, sizes, seed):
        """Ragged ones: a mean of their means would weigh the tokens of a small one more."""
        whole, parts = build(dtype=torch.float64), build(dtype=torch.float64)
        one = Trainer(whole, CONFIG)
        many = Trainer(parts, replace(CONFIG, micro_batches=len(sizes)))
        for step in (1, 2):
            pairs = corpus(sum(sizes), seed + step)
            ours = many.update(*cut(pairs, sizes))
            theirs = one.update(collate(pairs, 0, 1, 2))
            assert (ours.step, ours.rate, ours.tokens) == (theirs.step, theirs.rate, theirs.tokens)
            assert ours.tokens == sum(1 + len(target) for _, target in pairs)
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-11)
            assert ours.norm == pytest.approx(theirs.norm, rel=1e-9)
            for a, b in zip(parts.parameters(), whole.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-11)
                torch.testing.assert_close(a, b, rtol=0, atol=1e-7)

    def test_a_mean_of_means_would_have_been_seen(self):
        pairs = [([3] * 11, [5] * 11), ([7], [9])]
        batches = cut(pairs, [1, 1])
        single = [Trainer(build(), CONFIG).update(batch) for batch in batches]
        both = Trainer(build(), replace(CONFIG, micro_batches=2)).update(*batches)
        assert (single[0].tokens, single[1].tokens, both.tokens) == (12, 2, 14)
        weighed = (12 * single[0].loss + 2 * single[1].loss) / 14
        assert both.loss == pytest.approx(weighed, rel=1e-6)
        assert both.loss != pytest.approx((single[0].loss + single[1].loss) / 2, rel=1e-3)

    def test_each_has_dropout_of_its_own(self):
        model, masks = build(dropout=0.5), []
        layer = next(m for m in model.modules() if isinstance(m, torch.nn.Dropout))
        layer.register_forward_hook(lambda module, inputs, output: masks.append(output == 0))
        trainer, batch = Trainer(model, replace(CONFIG, micro_batches=2)), batch_of()
        for _ in range(2):
            trainer.update(batch, batch)
        first = masks[:: len(masks) // 4]
        assert len(first) == 4
        assert not any(torch.equal(a, b) for i, a in enumerate(first) for b in first[:i])

    @pytest.mark.parametrize("rest", [0, 1, 2])
    def test_they_share_the_budget_of_an_update(self, rest):
        """Evenly, and what can't be shared is left: an update never exceeds its budget."""
        config = replace(CONFIG, batch_tokens=59 * 3 + rest, micro_batches=3)
        stream = micro_batches(corpus(), 59, 5, config.length_noise)
        updates = list(Trainer(build(), config, seed=5).updates(corpus()))
        assert len(updates) == 7
        for batches in updates:
            assert len(batches) == 3
            for batch in batches:
                assert max(batch.source.numel(), batch.labels.numel()) <= 59
                theirs = collate(next(stream), 0, 1, 2)
                assert all(map(torch.equal, vars(batch).values(), vars(theirs).values()))

    def test_of_several_processes_each_takes_its_share(self):
        """World alone: who is who; what they agree on is in test_world.py."""
        config = replace(CONFIG, batch_tokens=61 * 6, micro_batches=6)
        alone = Trainer(build(), config).updates(corpus())
        shares = [Trainer(build(), config, world=World(r, 3)).updates(corpus()) for r in range(3)]
        for whole, *parts in zip(alone, *shares, strict=True):
            assert [len(part) for part in parts] == [2, 2, 2]
            for place, batch in enumerate(whole):
                assert torch.equal(batch.source, parts[place % 3][place // 3].source)

    @pytest.mark.parametrize("count, processes", [(1, 2), (3, 2), (2, 3), (7, 5)])
    def test_their_number_must_be_a_multiple_of_the_processes(self, count, processes):
        said = rf"^micro_batches is {count}; expected a multiple of {processes}, the number of proc"
        with pytest.raises(ValueError, match=said):
            Trainer(build(), replace(CONFIG, micro_batches=count), world=World(1, processes))


class TestPrecision:
    def test_bfloat16_computes_in_half_and_keeps_what_it_trains_whole(self):
        losses, dtypes = {}, set()
        for precision in ("float32", "bfloat16"):
            model = build(dropout=0.0)
            trainer = Trainer(model, replace(CONFIG, precision=precision))
            model.register_forward_hook(lambda module, inputs, logits: dtypes.add(logits.dtype))
            losses[precision] = [trainer.update(batch_of(seed=k)).loss for k in range(5)]
            assert {w.dtype for w in model.parameters()} == {torch.float32}
            kept = [s for state in trainer.adam.state.values() for s in state.values()]
            assert {s.dtype for s in kept} == {torch.float32}
        assert dtypes == {torch.float32, torch.bfloat16}
        assert losses["bfloat16"] != losses["float32"]
        assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.01)

    def test_a_large_loss_is_summed_whole(self):
        """In bfloat16 a sum of 1000 would lie up to 4 beside."""
        model = build(layers=1)
        trainer = Trainer(model, replace(CONFIG, precision="bfloat16", label_smoothing=0.0))
        batch, seen = batch_of(151), []
        model.register_forward_hook(lambda module, inputs, logits: seen.append(logits.detach()))
        update = trainer.update(batch)
        loss = F.cross_entropy(
            seen[0].double().flatten(0, 1), batch.labels.flatten(), ignore_index=0
        )
        assert update.tokens > 700 and update.loss == pytest.approx(loss.item(), rel=1e-6)


# In a process of its own, as a user has it: torch.compile can't trace the tests' checks of shapes.
COMPILED = """
import functools, json, random, sys
import torch
from annotated.model import Transformer, TransformerConfig
from annotated.training import Trainer, TrainingConfig

if sys.argv[1] != "inductor":
    torch.compile = functools.partial(torch.compile, backend=sys.argv[1])
rng = random.Random(0)
pairs = [([rng.randrange(3, 37) for _ in range(n % 7 + 1)],) * 2 for n in range(53)]
losses, names = [], []
for compile in (False, True):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(
        vocab_size=37, d_model=22, d_ff=29, heads=3, d_k=5, d_v=7, layers=1, dropout=0.0
    ))
    config = TrainingConfig(
        steps=int(sys.argv[2]), batch_tokens=61, warmup_steps=5, average=2, average_every=1,
        compile=compile,
    )
    updates = []
    trainer = Trainer(model, config)
    trainer.fit(pairs, updates.append)
    losses.append([update.loss for update in updates])
    names.append(sorted(trainer.state()["model"]))
    assert (type(trainer.forward) is Transformer) != compile
print(json.dumps({"losses": losses, "names": names, "unique": len(set(map(str, names)))}))
"""


@pytest.mark.parametrize(
    ("backend", "steps"), [("aot_eager", 2), pytest.param("inductor", 1, marks=pytest.mark.weekly)]
)
def test_compiled_it_is_the_same_training(backend, steps, need):
    """Updates differ in shape; of inductor, which compiles C++ for them, the first must do."""
    if backend == "inductor":
        need(("g++", "clang++", "c++"), "inductor compiles C++")
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, backend, str(steps)], timeout=600,
        capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    eager, compiled = found["losses"]
    assert len(eager) == steps and compiled == pytest.approx(eager, rel=1e-4)
    assert found["unique"] == 1, "a compiled model's states have the names of a plain one's"


class TestFit:
    def test_every_update_is_reported_in_order(self):
        pairs, updates = corpus(), []
        Trainer(build(), CONFIG).fit(pairs, updates.append)
        assert [update.step for update in updates] == [1, 2, 3, 4, 5, 6, 7]
        for update in updates:
            assert update.rate == learning_rate(update.step, 22, 5, 0.5)
            assert math.isfinite(update.loss) and 0 < update.tokens <= CONFIG.batch_tokens

    def test_epochs_follow_each_other_each_in_its_own_order(self):
        pairs = corpus()
        updates = Trainer(build(), replace(CONFIG, steps=1000)).updates(pairs)
        epochs = []
        for _ in range(3):
            epochs.append([])
            while sum(map(len, epochs[-1])) < len(pairs):
                (batch,) = next(updates)
                epochs[-1].append([[i for i in row if i] for row in batch.source.tolist()])
        for epoch in epochs:
            assert sorted(row[:-1] for batch in epoch for row in batch) == sorted(
                source for source, _ in pairs
            )
        assert len({str(epoch) for epoch in epochs}) == 3

    def test_the_same_seed_is_the_same_model_bit_for_bit(self):
        def run(seed, start=0, dropout=0.1):
            model, updates = build(start, dropout=dropout), []
            assert Trainer(model, CONFIG, seed).fit(corpus(), updates.append) is True
            return values(model), updates

        (weights, updates), (again, updates_again) = run(0), run(0)
        assert same(weights, again) and updates == updates_again
        assert not same(weights, run(1)[0])  # other batches
        assert not same(weights, run(0, start=1)[0])  # other weights to begin with

    def test_the_state_of_torchs_generator_has_no_say(self):
        """So a look at the model between two updates can't change its training."""
        results = []
        for other in (0, 1):
            model = build(dropout=0.3)
            torch.manual_seed(other)
            Trainer(model, CONFIG).fit(corpus(), lambda update, n=other: torch.rand(n))
            results.append(values(model))
        assert same(*results)

    def test_dropout_depends_on_the_seed_alone_of_all_the_seed_decides(self):
        batch, losses = batch_of(), []
        for seed in (0, 0, 1):
            trainer = Trainer(build(dropout=0.3), CONFIG, seed)
            losses.append([trainer.update(batch).loss for _ in range(2)])
        assert losses[0] == losses[1]
        assert losses[0][0] != losses[2][0] and losses[0][1] != losses[2][1]

    @pytest.mark.parametrize(
        ("average", "every", "steps"),
        [(3, 2, [3, 5, 7]), (1, 2, [7]), (3, 1, [5, 6, 7]), (11, 3, [1, 4, 7]), (3, 7, [7])],
    )
    def test_the_result_is_the_mean_of_the_last_checkpoints(self, average, every, steps):
        config, model, after = replace(CONFIG, average=average, average_every=every), build(), {}
        Trainer(model, config).fit(
            corpus(), lambda update: after.__setitem__(update.step, values(model))
        )
        for found, *kept in zip(values(model), *(after[step] for step in steps), strict=True):
            torch.testing.assert_close(found, sum(kept) / len(steps), rtol=1e-6, atol=1e-7)
        assert same(values(model), after[7]) == (steps == [7])

    def test_done_it_stays_as_it_is(self):
        trainer, updates = Trainer(build(), CONFIG), []
        assert trainer.fit(corpus()) is True
        before = values(trainer.model)
        assert trainer.fit(corpus(), updates.append) is True
        assert same(values(trainer.model), before) and updates == []

    def test_updates_already_made_count(self):
        trainer, steps = Trainer(build(), CONFIG), []
        trainer.update(batch_of())
        trainer.fit(corpus(), lambda update: steps.append(update.step))
        assert steps == [2, 3, 4, 5, 6, 7]

    def test_nothing_to_train_on_is_said(self):
        with pytest.raises(ValueError, match=r"^there are no sentence pairs to train on$"):
            Trainer(build(), CONFIG).fit([])

    def test_a_pair_beyond_the_budget_is_named_before_any_update(self):
        model = build()
        before, pairs = values(model), [*corpus(), ([3] * 61, [3])]
        with pytest.raises(ValueError, match=r"^pair 53 has 62 tokens; the budget is 61$"):
            Trainer(model, CONFIG).fit(pairs)
        assert same(values(model), before)


class Recording(InMemory):
    """States in memory that note which were written."""

    def __init__(self):
        super().__init__()
        self.written = []

    def write(self, step, state, needed):
        self.written.append(step)
        super().write(step, state, needed)


class TestStop:
    @pytest.mark.parametrize("step", [1, 2, 5, 6])
    def test_it_writes_a_state_and_says_that_it_is_not_done(self, step):
        """average_every=2 of 7 updates: states after 1, 3, 5 and 7 in any case."""
        states, updates = Recording(), []
        trainer = Trainer(build(), CONFIG, states=states)
        finished = trainer.fit(corpus(), updates.append, lambda: trainer.step == step)
        assert finished is False
        assert [update.step for update in updates] == list(range(1, step + 1))
        assert states.written == [s for s in (1, 3, 5) if s < step] + [step]

    def test_going_on_in_the_same_process_is_as_if_it_had_never_stopped(self):
        (never, once), models = ([], []), [build(dropout=0.1) for _ in range(2)]
        Trainer(models[0], CONFIG).fit(corpus(), never.append)
        trainer = Trainer(models[1], CONFIG)
        while not trainer.fit(corpus(), once.append, lambda: trainer.step in (2, 5)):
            assert trainer.step in (2, 5)
        assert once == never and same(*map(values, models))

    def test_too_late_is_not_stopped(self):
        """After the last update there is only the mean to take."""
        trainer = Trainer(build(), CONFIG)
        assert trainer.fit(corpus(), stop=lambda: trainer.step == 7) is True

    def test_it_is_asked_after_the_update_is_told(self):
        calls = []
        Trainer(build(), CONFIG).fit(
            corpus(), lambda update: calls.append(update.step), lambda: calls.append("?") or False
        )
        assert calls == [1, "?", 2, "?", 3, "?", 4, "?", 5, "?", 6, "?", 7]


class TestAverage:
    def test_a_tied_matrix_is_averaged_once_and_stays_tied(self):
        model = build()
        checkpoints = [named(build(seed)) for seed in (1, 2, 3)]
        average_(model, checkpoints)
        assert model.matrix("source") is model.matrix("target") is model.matrix("output")
        names = [name for name, _ in model.named_parameters()]
        assert sum(name.startswith("embedding") for name in names) == 1
        expected = sum(checkpoint["embedding.weight"] for checkpoint in checkpoints) / 3
        torch.testing.assert_close(model.embedding.weight.detach(), expected)
        assert all(parameter.requires_grad for parameter in model.parameters())

    def test_untied_matrices_are_averaged_each(self):
        model = build(tie=False)
        checkpoints = [named(build(seed, tie=False)) for seed in (1, 2)]
        average_(model, checkpoints)
        for name, parameter in model.named_parameters():
            mean = (checkpoints[0][name] + checkpoints[1][name]) / 2
            torch.testing.assert_close(parameter.detach(), mean)

    def test_of_one_checkpoint_many_times_it_is_that_checkpoint(self):
        model = build()
        average_(model, [named(build(1))] * 4)
        assert same(values(model), values(build(1)))

    def test_it_is_the_mean_of_weights_not_of_what_they_say(self):
        one, other, model = build(1), build(2), build()
        average_(model, [named(one), named(other)])
        batch = batch_of()
        with torch.no_grad():
            said = [m(batch.source, batch.target) for m in (one, other, model)]
        assert (said[2] - (said[0] + said[1]) / 2).abs().max() > 0.1

    def test_the_checkpoints_stay_as_they_were(self):
        kept = [named(build(seed)) for seed in (1, 2)]
        copies = [{name: w.clone() for name, w in checkpoint.items()} for checkpoint in kept]
        average_(build(), kept)
        for ours, theirs in zip(kept, copies, strict=True):
            assert same([*ours.values()], [*theirs.values()])


class TestInMemory:
    def test_it_keeps_copies_of_what_is_needed_and_no_more(self):
        states, model = InMemory(), build()
        trainer = Trainer(model, CONFIG, states=states)
        before = values(model)
        states.write(3, trainer.state(), [3, 5])
        states.write(4, trainer.state(), [3, 5])
        with torch.no_grad():
            model.embedding.weight.zero_()
        assert same([*states.read(3, MODEL).values()], before)
        for step, part in [(4, MODEL), (3, "adam"), (5, MODEL)]:
            with pytest.raises(ValueError, match=rf"^no {part} of update {step} was kept$"):
                states.read(step, part)
        assert states.steps() == [] and not Trainer(build(), CONFIG, states=states).resume()
