"""Explorers that run the book's model (the loop, the heads, who asks) show Python's numbers."""

import pytest
import torch

from annotated.analysis.interventions import attentions, cut_heads
from annotated.data.numbers import spell
from annotated.data.tokenizer import spellings
from annotated.model import record_attention
from annotated.notebook import book_model

BOOK = book_model()
MODEL = BOOK.model.requires_grad_(False)
PLACES = {
    "loop": "one-sentence",
    "heads": "03-2-2-multi-head-attention",
    "who-asks": "03-2-1-scaled-dot-product-attention",
}


@pytest.fixture
def opened(html, view):
    """`opened("loop")` is the explorer, on its page."""
    views = []

    def find(name, width=1280):
        shown = view(html / "book" / f"{PLACES[name]}.html")
        views.append(shown)
        shown.open_answers()
        shown.wake()
        shown.tab.set_viewport_size({"width": width, "height": 800})
        root = shown.tab.locator(f".explorer[data-explorer={name}] > .explorer-live")
        root.wait_for(state="attached")
        return root

    yield find
    assert [shown.errors + shown.foreign for shown in views] == [[]] * len(views)


def said(root):
    return root.locator(".explorer-said").text_content()


@pytest.mark.parametrize("number", [342, 204, 987_654])
def test_each_step_of_the_loop_is_python_s(opened, number):
    root = opened("loop")
    root.get_by_label("English number").fill(str(number))
    source, target = BOOK.batch_of([number]).source, BOOK.batch_of([number]).target
    with record_attention(MODEL) as seen:
        shares = MODEL(source, target)[0].softmax(-1)
    looks = seen["decoder.layers.1.cross_attention"][0].mean(0)
    names, english = spellings(BOOK.tokenizer), BOOK.pieces(spell(number, "en"))
    german = BOOK.pieces(spell(number, "de"))
    for step, written in enumerate(german):
        best = shares[step].topk(3)
        bars = root.locator(".loop-bars > span:not(.loop-bar)").all_text_contents()
        assert bars[::2] == [names[id] for id in best.indices]
        for shown, share in zip(bars[1::2], best.values, strict=True):
            percent = float(shown.removesuffix("\u202f%"))
            assert percent == pytest.approx(100 * share.item(), abs=0.06)
        text = said(root)
        read = " ".join(["BOS", *german[:step]])
        most = looks[step].argmax()
        assert f"Step {step} reads {read} and the memory, and writes {written}." in text
        assert f"looks most at {english[most]}, weight" in text
        assert abs(float(text.split()[-1].rstrip(".")) - looks[step, most]) < 0.006
        widths = root.locator("line").evaluate_all("all => all.map(x => x.style.strokeWidth)")
        found = torch.tensor([(float(width.removesuffix("px")) - 1) / 7 for width in widths])
        assert (found - looks[step]).abs().max() < 0.002
        on = root.get_by_label("one step on")
        assert on.is_disabled() == (step == len(german) - 1)
        if step < len(german) - 1:
            on.press("Enter")
    root.get_by_label("one step back").press("Enter")
    assert said(root).startswith(f"Step {len(german) - 2} reads")


def test_whatever_heads_are_cut_the_german_is_python_s(opened):
    root = opened("heads")
    names = list(attentions(MODEL))
    switches = root.locator("td button")
    assert switches.count() == 2 * len(names) == 12
    labels = [button.get_attribute("aria-label") for button in switches.all()]
    cuts = [{name: [head]} for name in names for head in (0, 1)]
    cuts += [{name: [0, 1]} for name in names]
    cuts += [{names[0]: [0, 1], names[3]: [0]}, {name: [0, 1] for name in names}]
    for number in (342, 204):
        root.get_by_label("English number").fill(str(number))
        for cut in cuts:
            root.get_by_role("button", name="restore all").click()
            assert "All heads at work: right." in said(root)
            for name, heads in cut.items():
                for head in heads:
                    switches.nth(2 * names.index(name) + head).click()
            with cut_heads(MODEL, cut):
                (expected,) = BOOK.translations(BOOK.batch_of([number]).source)
            shown = root.locator(".heads-german").text_content().removesuffix(" …")
            assert shown == (expected[: len(shown)] or "(nothing)") and len(shown) >= min(
                len(expected), 120)
            right = expected == spell(number, "de")
            assert (": right." in said(root)) == right
            assert ("wrong; right is" in said(root)) != right
            if len(cut) > 1:
                assert "was not counted" in said(root)
            elif sum(map(len, cut.values())) == 1:
                ((name, (head,)),) = cut.items()
                count = labels[2 * names.index(name) + head].split(": ")[1].split(" of")[0]
                assert f"Of 300 unseen numbers ≈ {count} go wrong so." in said(root)


def test_the_counts_are_those_of_the_page(opened):
    root = opened("heads")
    numbers, batch = BOOK.unseen_batch()
    assert len(numbers) == 300
    rows = root.locator("tbody tr").all()
    for name, row in zip(attentions(MODEL), rows, strict=True):
        counts = row.locator("small, .heads-count").all_text_contents()
        for cut, shown in zip(([0], [1], [0, 1]), counts, strict=True):
            with cut_heads(MODEL, {name: cut}):
                wrong = BOOK.wrong(batch, MODEL(batch.source, batch.target)).changed
            assert abs(int(shown.split()[1]) - wrong) <= 2  # between machines


def test_who_asks_shows_python_s_weights_at_every_divisor(opened):
    root = opened("who-asks")
    q, k, _ = BOOK.queries_keys_values("encoder.layers.0.self_attention", 1)
    scores, pieces = q @ k.T, BOOK.pieces(BOOK.source)
    slider = root.get_by_label("Scores divided by")
    for mark, divisor in ((0, 1), (3, 16 ** (3 / 8)), (4, 4), (8, 16)):
        slider.fill(str(mark))
        weights = (scores / divisor).softmax(-1)
        for i, piece in enumerate(pieces):
            root.locator(".explorer-choice button").nth(i).click()
            rows = [row.locator("th, td").all_text_contents() for row in
                    root.locator("tbody tr").all()]
            assert [row[0] for row in rows] == pieces
            shown = torch.tensor([[float(x.replace("−", "-")) for x in row[1:]] for row in rows])
            expected = torch.stack([scores[i], scores[i] / divisor, weights[i]], dim=1)
            assert ((shown - expected).abs() < torch.tensor([0.051, 0.0051, 0.0051])).all()
            assert said(root).startswith(f"{piece} listens most to {pieces[weights[i].argmax()]} (")
    assert root.locator("output").text_content() == "d_k = 16"
    slider.fill("4")
    assert root.locator("output").text_content() == "√d_k = 4"
    slider.press("ArrowLeft")
    assert root.locator("output").text_content() == "2.83"


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("width", [320, 390])
def test_it_fits_a_phone(opened, name, width):
    root = opened(name, width)
    box = root.bounding_box()
    for part in root.locator("button, p, input, td, th").all():
        inner = part.bounding_box()
        assert inner is None or (
            inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"] + 1)


@pytest.mark.parametrize("name", ["loop", "heads"])
def test_what_is_no_number_is_said(opened, name):
    root = opened(name)
    field = root.get_by_label("English number")
    field.fill("banana")
    assert "“banana” is no part of an English number" in said(root)
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("7")
    assert "banana" not in said(root)


@pytest.mark.parametrize("name", PLACES)
def test_without_script_the_finding_stands_there(html, browser, name):
    tab = browser.new_page(java_script_enabled=False)
    tab.goto((html / "book" / f"{PLACES[name]}.html").as_uri())
    place = tab.locator(f".explorer[data-explorer={name}]")
    assert place.locator("table").is_visible()
    mark = "≈" if name == "heads" else "0."
    assert place.locator("table").text_content().count(mark) > 10
    tab.close()
