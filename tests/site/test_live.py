"""The model that runs in the reader's browser is the package's: the same numbers, in a browser."""

import base64
import random
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch

from annotated.analysis.interventions import attentions, cut_heads, shift_positions, swap_vectors
from annotated.analysis.swaps import swap_cases
from annotated.data.numbers import spell
from annotated.model import record_attention
from annotated.notebook import book_model
from annotated.translation import greedy_search

BOOK = book_model()
MODEL = BOOK.model.requires_grad_(False)
ATTENTIONS = list(attentions(MODEL))
LIMIT = 1e-4  # of a difference between logits, which are about ten

# `run(model, tokenizer, given)` in the page: every test's code is the body of one function.
RUN = """async ([body, given]) => {
  await Promise.all(["model.js", "numbers.js"].map((file) => annotatedExplorer.load(file)));
  const { model, tokenizer } = await annotatedModel.load();
  const flat = (x) => Array.isArray(x) ? x.flatMap(flat) : [x];
  const packed = (x) => {  // many floats travel fast as bytes
    const bytes = new Uint8Array(Float32Array.from(flat(x)).buffer);
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
  };
  const { greedySearch, hide, swapVectors } = annotatedModel, { spell, read } = annotatedNumbers;
  return new Function(
    "model", "tokenizer", "given", "packed", "greedySearch", "hide", "swapVectors", "spell",
    "read", body,
  )(model, tokenizer, given, packed, greedySearch, hide, swapVectors, spell, read);
}"""


@pytest.fixture(scope="module")
def run(html, browser):
    """`run(body, given)`: what JavaScript of this body returns, on a page opened from disk."""
    tab = browser.new_page()
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((html / "book" / "one-sentence.html").as_uri())
    yield lambda body, given=None: tab.evaluate(RUN, [body, given])
    tab.close()
    assert errors == []


def unpacked(text, *shape):
    return np.frombuffer(base64.b64decode(text), dtype=np.float32).reshape(shape)


@cache
def chosen(count, seed=0):
    """Different numbers below a million, of all lengths."""
    rng = random.Random(seed)
    return list(dict.fromkeys(rng.randrange(10 ** rng.randint(1, 6)) for _ in range(3 * count)))[
        :count
    ]


def rows(number):
    """Source and target ids of one number, as the model reads them."""
    batch = BOOK.batch_of([number])
    return batch.source, batch.target


def close(found, expected):
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found, expected.numpy(), atol=LIMIT, rtol=0)


def logits_in_the_page(run, numbers, changes, before=""):
    """Logits of the right German read, for each number, by the model with these changes.

    `before` is JavaScript that may change `ids`, what the encoder reads.
    """
    given = {"changes": changes, "rows": [[x[0].tolist() for x in rows(n)] for n in numbers]}
    found = run(f"""
      const masks = {{ full: () => true, itself: (i, j) => i === j, causal: (i, j) => j <= i }};
      const named = Object.entries(given.changes.masks || {{}});
      const changes = {{ ...given.changes,
        masks: Object.fromEntries(named.map(([name, kind]) => [name, masks[kind]])) }};
      const other = model.changed(changes);
      return given.rows.map(([ids, target]) => {{
        {before}
        return packed(other.decode(target, other.encode(ids), ids));
      }});""", given)
    return [unpacked(text, -1, MODEL.config.vocab_size) for text in found]


def compare(run, numbers, changes, change, before="", ids=lambda source: source):
    """The page's logits are Python's inside `change`, and not those of the unchanged model."""
    moved = 0
    found = logits_in_the_page(run, numbers, changes, before)
    for number, logits in zip(numbers, found, strict=True):
        source, target = rows(number)
        plain = MODEL(source, target)[0]
        with change:
            expected = MODEL(ids(source), target)[0]
        close(logits, expected)
        moved = max(moved, (plain - expected).abs().max())
    assert moved > 100 * LIMIT


def test_every_logit_of_200_numbers(run):
    numbers = chosen(200)
    for number, logits in zip(numbers, logits_in_the_page(run, numbers, {}), strict=True):
        close(logits, MODEL(*rows(number))[0])


def test_every_translation_and_distribution_of_200_numbers_with_the_cache(run):
    numbers = chosen(200, seed=1)
    found = run("""
      return given.map((number) => {
        const ids = tokenizer.source(spell(number, "en"));
        const { tokens, distributions } = greedySearch(model, ids);
        return [tokens, tokenizer.decode(tokens), packed(distributions)];
      });""", numbers)
    right = 0
    for number, (tokens, text, packed) in zip(numbers, found, strict=True):
        source, _ = rows(number)
        (expected,) = greedy_search(MODEL, source)
        assert tokens == expected.tokens and text == BOOK.tokenizer.decode(tokens)
        read = torch.tensor([[MODEL.config.bos_id, *tokens]])
        close(unpacked(packed, len(tokens) + 1, -1),
              MODEL.decode(read, MODEL.encode(source), source)[0].softmax(-1))
        right += text == spell(number, "de")
    assert right > 190


def test_search_ends_where_python_s_does(run):
    """A model that never says EOS gets as many pieces as there."""
    found = run("""
      const silent = model.changed({});
      silent.logits = (x) => [0, 0, -1, 1].concat(Array(416).fill(0));
      return [0, 50].map((extra) => greedySearch(silent, [7, 0, 8], undefined, extra).tokens);""")
    assert found == [[3] * 2, [3] * 52]


def test_a_memory_vector_swapped(run):
    cases = swap_cases(BOOK.translator, 40, seed=5)
    assert len(cases) == 40
    given = [
        [spell(case.number, "en"), spell(case.other, "en"), case.swap.places] for case in cases
    ]
    found = run("""
      return given.map(([one, other, places]) => {
        const ids = tokenizer.source(one), memory = model.encode(ids);
        const swapped = swapVectors(memory, model.encode(tokenizer.source(other)), places);
        const says = (memory) => tokenizer.decode(greedySearch(model, ids, memory).tokens);
        return [packed(swapped), says(memory), says(swapped)];
      });""", given)
    for case, (one, other, places), (packed, before, after) in zip(
        cases, given, found, strict=True
    ):
        assert (before, after) == (case.swap.before, case.swap.after)
        memory, donor = (MODEL.encode(BOOK.ids(text))[0] for text in (one, other))
        close(unpacked(packed, *memory.shape), swap_vectors(memory, donor, places))


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_head_cut(run, name, head):
    cut = {name: [head]}
    compare(run, [342, 204, *chosen(4, seed=2)], {"cut": cut}, Reusable(cut_heads, MODEL, cut))


def test_several_heads_cut(run):
    cut = {ATTENTIONS[0]: [0, 1], ATTENTIONS[-1]: [1]}
    compare(run, [342, *chosen(4, seed=3)], {"cut": cut}, Reusable(cut_heads, MODEL, cut))


@pytest.mark.parametrize("place", range(7))
def test_a_piece_hidden(run, place):
    compare(run, [342], {}, Reusable(nothing),
            f"ids = hide(ids, [{place}], model.config.pad_id);",
            lambda source: BOOK.hide(source, [place]))


MASKS = {
    "full": lambda i, j: torch.ones_like(i == j),
    "itself": lambda i, j: i == j,
    "causal": lambda i, j: j <= i,
}


@pytest.mark.parametrize("kind, name", [
    ("full", "decoder.layers.0.self_attention"), ("itself", "decoder.layers.1.self_attention"),
    ("causal", "encoder.layers.0.self_attention"), ("itself", "encoder.layers.1.self_attention"),
    ("itself", "decoder.layers.1.cross_attention"),
])
def test_a_mask_replaced(run, kind, name):
    compare(run, [342, 402, *chosen(4, seed=4)], {"masks": {name: kind}},
            Reusable(prepared, [name], lambda query, keys, mask: (query, keys, MASKS[kind](
                torch.arange(query.shape[-2])[:, None], torch.arange(keys.shape[-2])))))


@pytest.mark.parametrize("divisor", [1.0, 2.5, 16.0])
def test_scores_divided_by_another_number(run, divisor):
    compare(run, [342, *chosen(4, seed=6)], {"divisor": divisor},
            Reusable(prepared, ATTENTIONS, lambda query, keys, mask: (
                query * query.shape[-1] ** 0.5 / divisor, keys, mask)))


@pytest.mark.parametrize("use, by", [("source", 1), ("target", 3), ("source", 50)])
def test_positions_moved(run, use, by):
    compare(run, [342, *chosen(4, seed=7)], {"shift": {use: by}},
            Reusable(shift_positions, MODEL, use, by))


@pytest.mark.parametrize("use", ["source", "target"])
def test_no_positions(run, use):
    compare(run, [342, 204, *chosen(4, seed=8)], {"positionless": [use]},
            Reusable(without_positions, use))


def test_steps_with_the_cache_are_the_whole_in_one_under_every_change(run):
    changes = {"cut": {ATTENTIONS[3]: [0]}, "divisor": 3, "shift": {"target": 2}}
    apart = run("""
      const other = model.changed(given), ids = tokenizer.source("three hundred and forty-two");
      const target = [1, 44, 55, 66, 77], memory = other.encode(ids);
      const whole = other.decode(target, memory, ids), cache = other.start(ids);
      return Math.max(...target.flatMap((token, t) =>
        other.step(token, cache).map((x, i) => Math.abs(x - whole[t][i]))));""", changes)
    assert apart < 1e-9


def test_recorded_weights_are_those_of_python(run):
    source, target = rows(342)
    with record_attention(MODEL) as seen:
        MODEL(source, target)
    found = run("""
      const seen = {}, other = model.changed({});
      other.record = (name, weights) => { seen[name] = weights; };
      other.decode(given[1], other.encode(given[0]), given[0]);
      return Object.entries(seen).map(([name, weights]) => [name, packed(weights)]);""",
        [source[0].tolist(), target[0].tolist()])
    assert sorted(name for name, _ in found) == sorted(ATTENTIONS)
    for name, weights in found:
        close(unpacked(weights, *seen[name][0].shape), seen[name][0])


def test_spelling_and_pieces_of_every_number_asked(run):
    """All below two thousand, and ten thousand others: in words, as ids, and back."""
    numbers = sorted({*range(2000), *random.Random(0).sample(range(2000, 1_000_000), 10_000)})
    found = run("""
      return given.map((number) => {
        const words = ["en", "de"].map((language) => spell(number, language));
        const ids = words.map((text) => tokenizer.encode(text));
        const back = ids.map((row) => tokenizer.decode(row));
        const again = read(words[0]);
        return [words, ids, back[0] === words[0] && back[1] === words[1], again.number];
      });""", numbers)
    words = [[spell(number, language) for language in ("en", "de")] for number in numbers]
    ids = iter(BOOK.tokenizer.encode_batch(text for pair in words for text in pair))
    expected = [[pair, [next(ids), next(ids)], True, number]
                for number, pair in zip(numbers, words, strict=True)]
    assert found == expected


TEXTS = [
    "", " ", "  two  words ", "a-b--c - d", "naïve café", "日本語", "🙂👍🏽", "\ufeffbom",
    "tab\tand\nline", "I'd say: 12,345.67 (or so)!", "ein-und-zwanzig", "x" * 50,
    "\x00\x7f\xa0\xad", "hundred hundred",
]


def test_pieces_of_any_text_and_back(run):
    found = run("""
      return given.map((text) => {
        const ids = tokenizer.encode(text);
        return [ids, tokenizer.decode(ids), ids.map((id) => tokenizer.piece(id))];
      });""", TEXTS)
    tokenizer = BOOK.tokenizer
    for text, (ids, back, pieces) in zip(TEXTS, found, strict=True):
        assert ids == tokenizer.encode(text) and back == text
        half = [i for i, piece in enumerate(tokenizer.pieces(text)) if "\\x" in piece]
        shown = [p for i, p in enumerate(pieces) if i not in half]
        assert shown == [p for i, p in enumerate(tokenizer.pieces(text)) if i not in half]


@pytest.mark.parametrize("typed, number", [
    ("342", 342), (" 0 ", 0), ("007", 7), ("999999", 999_999), ("999 999", 999_999),
    ("12,345", 12_345), ("1e3", 1000), ("5.0", 5), ("-0", 0), ("+7", 7),
    ("Two hundred and four", 204), ("two hundred four", 204), ("forty two", 42), ("zero", 0),
    ("twelve thousand three hundred and forty-five", 12_345),
])
def test_what_is_a_number_is_read(run, typed, number):
    assert run("return read(given);", typed) == {"number": number}


@pytest.mark.parametrize("typed, said", [
    ("", "type one"), ("   ", "type one"), ("-5", "-5 is below zero"), ("−5", "−5 is below zero"),
    ("1e7", "1e7 is too large"), ("1000000", "1000000 is too large"), ("9" * 400, "is too large"),
    ("3.5", "3.5 is not a whole number"), ("3,5", "3,5 is not a whole number"),
    ("0.1e0", "not a whole number"), ("banana", "“banana” is no part of"),
    ("🙂", "“🙂” is no part of"), ("two hundred bananas", "“bananas” is no part of"),
    ("hundred two", "is not how"), ("forty forty", "is not how"), ("and", "is no part of"),
    ("thousand thousand", "is not how"), ("0x10", "is no part of"), ("<b>2</b>", "is no part of"),
    ("NaN", "is no part of"), ("Infinity", "is no part of"), ("constructor", "is no part of"),
])
def test_what_is_no_number_is_said_so(run, typed, said):
    found = run("return read(given);", typed)
    assert list(found) == ["message"]
    assert said in found["message"]
    assert "whole numbers from 0 to 999\u202f999" in found["message"]


def test_a_translation_takes_milliseconds(run):
    """So that it can follow a slider; a bound far from what it takes, for busy machines."""
    took = run("""
      const ids = tokenizer.source(spell(342342, "en")), times = [];
      for (let i = 0; i < 7; i++) {
        const start = performance.now();
        greedySearch(model, ids);
        times.push(performance.now() - start);
      }
      return Math.min(...times);""")
    assert took < 100


class Reusable:
    """A context manager made anew each time it is entered."""

    def __init__(self, make, *inputs):
        self.make = lambda: make(*inputs)

    def __enter__(self):
        self.inside = self.make()
        return self.inside.__enter__()

    def __exit__(self, *error):
        return self.inside.__exit__(*error)


@contextmanager
def nothing():
    yield


@contextmanager
def prepared(names, change):
    """Attentions that compare or hide otherwise: `prepare` is where the package lets them."""
    layers = [MODEL.get_submodule(name) for name in names]
    causal = [layer.causal for layer in layers]
    for layer in layers:
        def prepare(query, keys, mask, own, layer=layer):
            query, keys, mask = change(query, keys, mask)
            if mask is not None and mask.dim() == 2:
                layer.causal = False  # the mask says it all
            return query, keys, mask

        layer.prepare = prepare
    try:
        yield
    finally:
        for layer, was in zip(layers, causal, strict=True):
            del layer.prepare
            layer.causal = was


@contextmanager
def without_positions(use):
    embed = MODEL.embed

    def bare(ids, side, start=0):
        return MODEL.embedding(ids) if side == use else embed(ids, side, start)

    MODEL.embed = bare
    try:
        yield
    finally:
        del MODEL.embed
