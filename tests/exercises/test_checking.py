"""Usual mistakes, written here as a reader would, are named; other faults are told in words."""

import math

import pytest
import torch
import torch.nn.functional as F

from annotated.exercises import EXERCISES, check
from annotated.exercises.checking import run
from annotated.model import (
    DecoderLayer,
    MultiHeadAttention,
    Sublayer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
    sinusoidal_encoding,
)

# ------------------------------------------------------------------ as a reader would write them


def attention(divide=lambda q, k: q.size(-1) ** 0.5, axis=-1, fill=-1e9, clean=True):
    def answer(query, key, value, mask=None):
        scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / divide(query, key)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), fill)
        weights = F.softmax(scores, dim=axis)
        if mask is not None and clean:
            weights = weights.masked_fill(mask.logical_not(), 0.0)
        return weights @ value, weights

    return answer


def masking(change):
    """Attention in which `change` makes weights of scores and a mask."""

    def answer(query, key, value, mask=None):
        scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
        weights = F.softmax(scores, -1) if mask is None else change(scores, mask)
        return weights @ value, weights

    return answer


def by_hand(query, key, value, mask=None):
    scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
    shares = torch.exp(scores) if mask is None else torch.exp(scores) * mask
    weights = shares / shares.sum(-1, keepdim=True)
    return weights @ value, weights


def heads(cut=None, join=None, project=None, attend=None):
    """Multi-head attention with one step replaced."""
    cut = cut or (lambda v, h: v.view(*v.shape[:2], h, v.shape[2] // h).permute(0, 2, 1, 3))
    join = join or (lambda v: v.permute(0, 2, 1, 3).reshape(v.shape[0], v.shape[2], -1))
    project = project or (lambda x, m, q, k, v: (q(x), k(m), v(m)))
    attend = attend or attention()

    def answer(x, memory, mask, w_q, w_k, w_v, w_o, heads):
        query, key, value = (cut(p, heads) for p in project(x, memory, w_q, w_k, w_v))
        return w_o(join(attend(query, key, value, mask)[0]))

    return answer


def no_output_projection(x, memory, mask, w_q, w_k, w_v, w_o, heads_):
    return heads()(x, memory, mask, w_q, w_k, w_v, lambda joined: joined, heads_)


def one_head(x, memory, mask, w_q, w_k, w_v, w_o, heads_):
    return heads()(x, memory, mask, w_q, w_k, w_v, w_o, 1)


def waves(exponent=lambda i, d: 2 * i / d, start=0, swap=False):
    """Positions, entry by entry."""

    def answer(n, d_model):
        table = torch.zeros(n, d_model)
        for pos in range(n):
            for i in range(d_model // 2):
                angle = (pos + start) / 10000 ** exponent(i, d_model)
                pair = math.sin(angle), math.cos(angle)
                table[pos, 2 * i], table[pos, 2 * i + 1] = pair[::-1] if swap else pair
        return table

    return answer


def per_column(n, d_model):
    table = torch.zeros(n, d_model)
    for column in range(d_model):
        angle = torch.arange(n) / 10000 ** (column / d_model)
        table[:, column] = angle.cos() if column % 2 else angle.sin()
    return table


def halves(exponent):
    def answer(n, d_model):
        table = waves(exponent)(n, d_model)
        return torch.cat([table[:, 0::2], table[:, 1::2]], 1)

    return answer


def layer(steps="scf", mask_of=lambda n: torch.ones(n, n).tril() > 0, sub=None, norm_of=(0, 1, 2),
          own=None, cross=None):
    """A decoder layer: `steps` in this order, each with its norm."""
    sub = sub or (lambda x, f, norm: norm(f(x) + x))
    own = own or (lambda attend, x, memory, mask, past: attend(x, x, past))
    cross = cross or (lambda attend, x, memory, mask, past: attend(x, memory, mask))

    def answer(x, memory, mask, self_attention, cross_attention, feed_forward, norms):
        past = mask_of(x.size(1))
        does = {
            "s": lambda x: own(self_attention, x, memory, mask, past),
            "c": lambda x: cross(cross_attention, x, memory, mask, past),
            "f": feed_forward,
        }
        for step, norm in zip(steps, norm_of):
            x = sub(x, does[step], norms[norm])
        return x

    return answer


SUBS = {
    "residual missing": lambda x, f, norm: norm(f(x)),
    "norm before in place of after": lambda x, f, norm: f(norm(x)) + x,
    "norm missing": lambda x, f, norm: f(x) + x,
    "residual outside the norm": lambda x, f, norm: norm(f(x)) + x,
    "residual of the normalised vector": lambda x, f, norm: f(norm(x)) + norm(x),
    "only x normalised": lambda x, f, norm: f(x) + norm(x),
    "norm before, and residual missing": lambda x, f, norm: f(norm(x)),
    "f left out": lambda x, f, norm: norm(x),
    "f alone": lambda x, f, norm: f(x),
    "normalised twice": lambda x, f, norm: norm(f(norm(x)) + x),
}
CAUSALS = {
    "mask upside down": lambda n: torch.ones(n, n).triu(1) == 1,
    "off by one: no token sees itself": lambda n: torch.arange(n)[:, None] > torch.arange(n),
    "off by one: one step into the future": lambda n: (
        torch.arange(n)[:, None] + 1 >= torch.arange(n)),
    "queries and keys swapped": lambda n: torch.arange(n)[:, None] <= torch.arange(n),
    "numbers to be added": lambda n: torch.zeros(n, n).masked_fill(
        torch.ones(n, n).triu(1) == 1, float("-inf")),
}
SCALES = {
    "no scale": attention(lambda q, k: 1),
    "scale by √d_model": attention(lambda q, k: (q.size(1) * q.size(3)) ** 0.5),
    "scale by d_k without the root": attention(lambda q, k: q.size(3)),
    "scale upside down": attention(lambda q, k: q.size(3) ** -0.5),
    "scale by the number of keys": attention(lambda q, k: k.size(2) ** 0.5),
}
SOFTMAX = {
    "no softmax": lambda q, k, v, mask=None: (
        q @ k.mT / q.size(3) ** 0.5 @ v, q @ k.mT / q.size(3) ** 0.5),
    "softmax over the queries": attention(axis=2),
    "softmax over the heads": attention(axis=1),
    "softmax over the batch": attention(axis=0),
}
MASKS = {
    "mask after the softmax": masking(lambda s, m: F.softmax(s, -1).masked_fill(~m, 0)),
    "mask upside down": masking(
        lambda s, m: F.softmax(s.masked_fill(m, -1e9), -1).masked_fill(m, 0)),
    "scores multiplied by the mask": masking(lambda s, m: F.softmax(s.masked_fill(~m, 0), -1)),
    "mask added as ones": masking(lambda s, m: F.softmax(s + m, -1)),
}

MISTAKES = {
    "attention": SCALES | SOFTMAX | MASKS | {
        "scale by the number of queries": attention(lambda q, k: q.size(2) ** 0.5),
        "weights and output swapped": lambda *given: attention()(*given)[::-1],
        "weights not returned": lambda *given: attention()(*given)[0],
        "exponentials that overflow": by_hand,
        "mask ignored": lambda q, k, v, mask=None: attention()(q, k, v),
        "NaN from a row of −∞": attention(fill=float("-inf"), clean=False),
        "a blind query sees everything": attention(clean=False),
    },
    "causal": CAUSALS | {
        "nothing is hidden": lambda n: torch.ones(n, n) > 0,
        "numbers in place of True and False": lambda n: torch.tril(torch.ones(n, n)),
        "a shape with more axes": lambda n: (torch.ones(1, n, n) > 0).tril(),
    },
    "unpadded": {
        "mask upside down": lambda ids, pad: ids.eq(pad)[:, None, None],
        "0 in place of pad_id": lambda ids, pad: ids.ne(0)[:, None, None],
        "larger than pad_id": lambda ids, pad: ids.gt(pad)[:, None, None],
        "axes missing": lambda ids, pad: ids.ne(pad).unsqueeze(1),
        "queries hidden in place of keys": lambda ids, pad: ids.ne(pad)[:, None, :, None],
        "sentences and keys swapped": lambda ids, pad: ids.ne(pad).t()[None, None],
        "numbers in place of True and False": lambda ids, pad: ids.ne(pad).long()[:, None, None],
        "numbers to be added": lambda ids, pad: torch.where(
            ids.eq(pad), -torch.inf, 0.0)[:, None, None],
    },
    "multi_head": {
        "view in place of transpose": heads(cut=lambda v, h: v.view(len(v), h, v.size(1), -1)),
        "heads joined without transposing back": heads(
            join=lambda v: v.reshape(len(v), v.size(2), -1)),
        "heads cut like a comb": heads(
            cut=lambda v, h: v.view(*v.shape[:2], -1, h).permute(0, 3, 1, 2)),
        "heads joined like a comb": heads(
            join=lambda v: v.permute(0, 2, 3, 1).reshape(len(v), v.size(2), -1)),
        "no heads": one_head,
        "output projection missing": no_output_projection,
        "queries not projected": heads(project=lambda x, m, q, k, v: (x, k(m), v(m))),
        "keys not projected": heads(project=lambda x, m, q, k, v: (q(x), m, v(m))),
        "values not projected": heads(project=lambda x, m, q, k, v: (q(x), k(m), m)),
        "keys and values swapped": heads(project=lambda x, m, q, k, v: (q(x), v(m), k(m))),
        "queries and keys swapped": heads(project=lambda x, m, q, k, v: (k(x), q(m), v(m))),
        "memory ignored": heads(project=lambda x, m, q, k, v: (q(x), k(x), v(x))),
        "the memory asks": heads(project=lambda x, m, q, k, v: (q(m), k(x), v(x))),
        "the memory asks itself": heads(project=lambda x, m, q, k, v: (q(m), k(m), v(m))),
        "mask not passed on": heads(attend=lambda q, k, v, mask: attention()(q, k, v)),
    } | {f"in the attention: {name}": heads(attend=wrong)
         for name, wrong in (SCALES | SOFTMAX | MASKS).items()},
    "positions": {
        "halves in place of pairs": halves(lambda i, d: 2 * i / d),
        "exponent of the column in place of the pair": per_column,
        "exponent twice too large": waves(lambda i, d: 4 * i / d),
        "exponent half as large": waves(lambda i, d: i / d),
        "exponent not divided by d_model": waves(lambda i, d: 2 * i),
        "one wavelength for all": waves(lambda i, d: 0),
        "positions from 1": waves(start=1),
        "sine and cosine swapped": waves(swap=True),
        "multiplied in place of divided": waves(lambda i, d: -2 * i / d),
        "rows and columns swapped": lambda n, d: waves()(n, d).t(),
        "the spacing of another code": halves(lambda i, d: i / (d // 2 - 1)),
    },
    "sublayer": SUBS,
    "decoder_layer": {
        "sub-layers in another order": layer("csf"),
        "self-attention left out": layer("cf", norm_of=(1, 2)),
        "cross-attention left out": layer("sf"),
        "feed-forward left out": layer("sc"),
        "keys from the target in the cross-attention": layer(
            cross=lambda attend, x, memory, mask, past: attend(x, x, mask)),
        "the memory asks in the cross-attention": layer(
            cross=lambda attend, x, memory, mask, past: attend(memory, x, mask)),
        "causal mask missing": layer(mask_of=lambda n: None),
        "self-attention over the memory": layer(
            own=lambda attend, x, memory, mask, past: attend(x, memory, mask)),
        "causal mask in the cross-attention": layer(
            cross=lambda attend, x, memory, mask, past: attend(x, memory, past)),
        "padding mask not used": layer(
            cross=lambda attend, x, memory, mask, past: attend(x, memory, None)),
        "one norm for all": layer(norm_of=(0, 0, 0)),
        "norms in another order": layer(norm_of=(2, 1, 0)),
    } | {f"in the causal mask: {name}": layer(mask_of=wrong) for name, wrong in CAUSALS.items()}
      | {f"in the sub-layer: {name}": layer(sub=wrong) for name, wrong in SUBS.items()},
}
OTHERS = [  # more ways to one mistake
    ("causal", "a shape with more axes", lambda n: (torch.ones(1, 1, n, n) > 0).tril()),
    ("unpadded", "axes missing", lambda ids, pad: ids.ne(pad)),
    ("multi_head", "view in place of transpose", heads(
        cut=lambda v, h: v.view(len(v), h, v.size(1), -1),
        join=lambda v: v.reshape(len(v), v.size(2), -1))),
    ("multi_head", "heads cut like a comb", heads(
        cut=lambda v, h: v.view(*v.shape[:2], -1, h).permute(0, 3, 1, 2),
        join=lambda v: v.permute(0, 2, 3, 1).reshape(len(v), v.size(2), -1))),
    ("positions", "the spacing of another code", waves(lambda i, d: i / (d // 2 - 1))),
    *(("decoder_layer", "sub-layers in another order", layer(order))
      for order in ("sfc", "cfs", "fsc", "fcs")),
    ("decoder_layer", "sub-layers in another order", layer("csf", norm_of=(1, 0, 2))),
    ("decoder_layer", "self-attention left out", layer("cf")),
]
RIGHT = {
    "attention": attention(),
    "causal": lambda n: torch.arange(n)[:, None] >= torch.arange(n),
    "unpadded": lambda ids, pad: ids.ne(pad)[:, None, None],
    "multi_head": heads(),
    "positions": waves(),
    "sublayer": lambda x, f, norm: norm(f(x) + x),
    "decoder_layer": layer(),
}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_right_answer_is_right(name):
    report = check(name, RIGHT[name])
    assert report and report.right and report.mistake is None
    assert repr(report).startswith(f"{name}: right.")


@pytest.mark.parametrize(
    ("name", "mistake", "answer"),
    [(name, mistake, answer) for name, wrong in MISTAKES.items()
     for mistake, answer in wrong.items()] + OTHERS,
)
def test_a_usual_mistake_is_named(name, mistake, answer):
    report = check(name, answer)
    assert report.mistake == mistake
    assert not report and f": {mistake}." in report.text and report.written


@pytest.mark.parametrize("name", EXERCISES)
def test_every_mistake_that_is_known_is_written_above(name):
    assert {mistake.name for mistake in EXERCISES[name].mistakes} == MISTAKES[name].keys()


# ----------------------------------------------------------- right is what the package computes


def test_the_right_functions_are_the_packages():
    assert EXERCISES["attention"].right is scaled_dot_product_attention
    assert EXERCISES["causal"].right is causal_mask
    assert EXERCISES["unpadded"].right is padding_mask
    assert EXERCISES["positions"].right is sinusoidal_encoding


def test_multi_head_is_that_of_the_package():
    torch.manual_seed(0)
    theirs = MultiHeadAttention(12, 3)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    mask = torch.rand(2, 1, 1, 7) > 0.3
    maps = theirs.w_q, theirs.w_k, theirs.w_v, theirs.w_o
    ours = EXERCISES["multi_head"].right(x, memory, mask, *maps, 3)
    torch.testing.assert_close(ours, theirs(x, memory, mask))


def test_sublayer_and_decoder_layer_are_those_of_the_package():
    torch.manual_seed(0)
    config = TransformerConfig.tiny(dropout=0.0)
    d, right = config.d_model, {name: EXERCISES[name].right for name in EXERCISES}
    x, memory, mask = torch.randn(2, 5, d), torch.randn(2, 7, d), torch.rand(2, 1, 1, 7) > 0.3
    sublayer = Sublayer(d, 0.0)
    torch.testing.assert_close(
        right["sublayer"](x, torch.tanh, sublayer.norm), sublayer(x, torch.tanh))
    theirs = DecoderLayer(config)

    def attend(module):
        maps = module.w_q, module.w_k, module.w_v, module.w_o
        return lambda x, memory, mask: right["multi_head"](x, memory, mask, *maps, module.heads)

    ours = right["decoder_layer"](
        x, memory, mask, attend(theirs.self_attention), attend(theirs.cross_attention),
        theirs.feed_forward,
        [theirs.sublayer_1.norm, theirs.sublayer_2.norm, theirs.sublayer_3.norm],
    )
    torch.testing.assert_close(ours, theirs(x, memory, mask))


# ---------------------------------------------------------------------------- no known mistake


@pytest.mark.parametrize("name", EXERCISES)
def test_an_empty_cell_is_no_mistake(name):
    def stub(*inputs):
        """What the reader finds."""

    def refused(*inputs):
        raise NotImplementedError

    for answer in (stub, refused, lambda *inputs: ...):
        report = check(name, answer)
        assert not report and not report.written and report.mistake is None
        assert "not written yet" in repr(report)


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "this is a int; expected a function"),
        (lambda *inputs: [][1], "it stops with IndexError: list index out of range"),
        (lambda: 1, "it stops with TypeError"),
        (lambda *inputs: None + 1, "a part that you have not written yet?"),
        (lambda *inputs: 3, "it returns a int; expected"),
        (lambda *inputs: "mask", "it returns a str; expected"),
        (lambda *inputs: (torch.zeros(2), None, 3), "it returns 3 things (a tensor (2,), None, a"),
    ],
)
def test_what_is_no_answer_gets_one(name, answer, said):
    report = check(name, answer)
    assert not report and report.written and report.mistake is None
    assert said in report.text


def test_the_line_that_fails_is_quoted():
    def answer(n):
        return torch.ones(n) @ torch.ones(n + 1)

    text = check("causal", answer).text
    assert "it stops with RuntimeError" in text
    assert "In this line: return torch.ones(n) @ torch.ones(n + 1)" in text


def test_shapes_are_told_in_letters():
    report = check("sublayer", lambda x, f, norm: norm(x + f(x))[:, :2])
    assert "output has the shape (2, 2, 12); expected (2, 5, 12), that is (batch, n, d_model)" in (
        report.text)
    report = check("attention", lambda *given: tuple(t[0] for t in attention()(*given)))
    assert "output has the shape (3, 5, 13); expected (2, 3, 5, 13)" in report.text


def test_numbers_that_are_not_finite_are_pointed_at():
    def answer(x, f, norm):
        x = norm(x + f(x))
        x[1, 2, 3] = float("nan")
        return x

    text = check("sublayer", answer).text
    assert "output[1, 2, 3] is nan, not a finite number; expected" in text


def test_an_unknown_mistake_is_measured():
    def answer(x, f, norm):
        x = norm(x + f(x))
        x[1, 2, 3] += 0.25
        return x

    text = check("sublayer", answer).text
    assert "1 of its 120 numbers are wrong, by at most 0.25" in text
    assert "First output[1, 2, 3]: yours is" in text and "none of the mistakes" in text


def test_a_mask_differs_in_words():
    report = check("causal", lambda n: causal_mask(n) & (torch.arange(n) > 0))
    assert "First mask[0, 0]: yours is False, expected True." in report.text
    report = check("causal", lambda n: torch.eye(n))
    assert "mask holds torch.float32; expected torch.bool" in report.text


def test_an_answer_can_not_spoil_what_the_next_one_is_given():
    def spoils(x, f, norm):
        x.zero_()
        norm.weight.data.zero_()
        return x

    assert not check("sublayer", spoils)
    assert check("sublayer", RIGHT["sublayer"])


def test_checks_leave_the_random_numbers_alone():
    torch.manual_seed(0)
    first = torch.rand(3)
    torch.manual_seed(0)
    check("decoder_layer", RIGHT["decoder_layer"])
    assert torch.rand(3).equal(first)


def test_an_unknown_exercise():
    with pytest.raises(ValueError, match="no exercise 'atention'; expected one of attention, "):
        check("atention", attention())


def test_every_case_is_needed_by_a_mistake():
    for exercise in EXERCISES.values():
        caught = {f"({case.about})" for case in exercise.cases()}
        for mistake in exercise.mistakes:
            text = check(exercise.name, mistake.wrong).text
            caught -= {about for about in caught if about in text}
        assert caught == set(), exercise.name


def test_a_run_ends_in_a_value_or_an_error():
    (case,) = EXERCISES["causal"].cases()
    assert run(lambda n: 1 / 0, case).error.args == ("division by zero",)
    assert run(lambda n: n, case).value == 5
