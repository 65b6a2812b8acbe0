"""What readers move on the pages: the numbers that the scripts compute are Python's."""

import json
import random
import re
from copy import deepcopy
from math import isclose, log

import pytest
import torch

from annotated import (
    Transformer,
    TransformerConfig,
    label_smoothed_loss,
    learning_rate,
    paper,
    records,
)
from annotated.benchmark.padding import largest
from annotated.complexity import (
    GRU,
    LSTM,
    Convolution,
    DilatedConvolution,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolution,
)
from annotated.data.batches import batch_plan, padding_of, pair_lengths
from annotated.data.numbers import held_out, spell
from annotated.notebook import book_model
from annotated.recipes import RECIPES
from annotated.variations.film import asked_numbers

BOOK = book_model()


class Explorer:
    """One explorer on its page, moved as a reader moves it."""

    def __init__(self, page, name):
        self.tab = page.tab
        self.root = self.tab.locator(f'[data-explorer="{name}"]')
        alive = f'[data-explorer="{name}"].alive'
        self.tab.wait_for_selector(alive, state="attached", timeout=10_000)
        self.live = self.root.locator(".explorer-live")
        # Of floats the page has six digits, after a sign that they were measured.
        text = self.root.locator('script[type="application/json"]').text_content()
        self.data = json.loads(text.replace('"≈', '"'))

    def move(self, label, value):
        """Put the slider of this label at a value."""
        self.live.get_by_label(label, exact=True).evaluate(
            "(slider, value) => { slider.value = value;"
            " slider.dispatchEvent(new Event('input', { bubbles: true })) }", value)

    def press(self, name):
        self.live.get_by_role("button", name=name, exact=True).click()

    def number(self, name):
        return float(self.live.locator(f'data[data-name="{name}"]').get_attribute("value"))

    @property
    def said(self):
        return self.live.locator(".explorer-said").inner_text()


@pytest.fixture
def explorer(html, view):
    """`explorer(page, name)` opens a page; at its end the browser has complained of nothing."""
    opened = []

    def find(page, name):
        opened.append(view(html / "book" / f"{page}.html"))
        opened[-1].open_answers()
        opened[-1].wake()
        return Explorer(opened[-1], name)

    yield find
    for page in opened:
        assert page.errors == [] and page.foreign == []


def test_every_rule_of_the_style_is_read(html):
    """A brace that is missing hides all rules after it, and nothing complains."""
    style = (html / "_static" / "explorer.css").read_text(encoding="utf-8")
    depth = 0
    for line in style.splitlines():
        assert depth == 0 or line == "}" or not line or line.startswith(" "), line
        depth += line.count("{") - line.count("}")
    assert depth == 0


class TestSchedule:
    @pytest.fixture
    def schedule(self, explorer):
        return explorer("05-3-optimizer", "schedule")

    def test_rates_are_equation_3s(self, schedule):
        last = paper.TRAINING.base_steps
        for i, warmup in list(enumerate(schedule.data["warmups"]))[::3]:
            for j, width in list(enumerate(schedule.data["widths"]))[::2]:
                schedule.move("warm-up steps", i)
                schedule.move("d_model", j)
                peak, end = schedule.number("peak"), schedule.number("last")
                assert schedule.number("step") == warmup
                assert isclose(peak, learning_rate(warmup, width, warmup), rel_tol=1e-12)
                assert isclose(end, learning_rate(last, width, warmup), rel_tol=1e-12)

    def test_a_button_sets_both_and_the_books_run_is_the_recipes(self, schedule):
        recipe = RECIPES["numbers-en-de"].training
        rate = learning_rate(recipe.warmup_steps, 32, recipe.warmup_steps, recipe.factor)
        assert isclose(schedule.number("book"), rate, rel_tol=1e-5)
        schedule.press("this book's run")
        assert isclose(schedule.number("peak"), rate / recipe.factor, rel_tol=1e-5)
        schedule.press("big")
        assert isclose(schedule.number("peak"), learning_rate(4000, 1024, 4000), rel_tol=1e-12)

    def test_the_curve_peaks_where_the_sentence_says(self, schedule):
        for axes in "linear", "logarithmic":
            schedule.press(axes)
            points = schedule.live.locator(".explorer-picture path").last.get_attribute("d")
            points = [tuple(map(float, p.split())) for p in points[1:].split("L")]
            dot = schedule.live.locator("circle")
            x, y = min(points, key=lambda point: point[1])  # the highest on the screen
            assert abs(x - float(dot.get_attribute("cx"))) < 0.1
            assert abs(y - float(dot.get_attribute("cy"))) < 0.1

    def test_the_keyboard_moves_it_and_the_plot_below_gives_way(self, schedule):
        slider = schedule.live.get_by_label("warm-up steps")
        before = schedule.said
        slider.press("ArrowLeft")
        assert schedule.said != before and schedule.number("step") == 4000
        cell = schedule.root.locator("xpath=ancestor::div[contains(@class, 'cell_output')]")
        plot = cell.locator("img").first
        assert not plot.is_visible()
        schedule.tab.emulate_media(media="print")
        assert plot.is_visible() and not schedule.live.is_visible()


class TestSmoothing:
    @pytest.fixture
    def smoothing(self, explorer):
        return explorer("05-4-regularization", "smoothing")

    def losses(self, smoothing, epsilon, vocabulary):
        """The package's loss of one token: at the slider's p, and where it is lowest."""
        ceiling = 1 - epsilon + epsilon / vocabulary
        for p in smoothing.number("p"), ceiling:
            log_p = torch.full((1, vocabulary), log((1 - p) / (vocabulary - 1))).double()
            log_p[0, 7] = log(p)
            yield float(label_smoothed_loss(log_p, torch.tensor([7]), epsilon, pad_id=0)[0])

    @pytest.mark.parametrize("name, vocabulary", [
        ("this book's, 420", 420), ("the paper's, 37 000", 37_000)])
    def test_losses_are_the_packages(self, smoothing, name, vocabulary):
        smoothing.press(name.replace("37 ", "37\u202f"))
        for epsilon, nines in (0.1, 0.3), (0.1, 2), (0.1, 4.5), (0.03, 1), (0.4, 3):
            smoothing.move("ε", epsilon)
            smoothing.move("p of the right piece", nines)
            loss, floor = self.losses(smoothing, epsilon, vocabulary)
            assert isclose(smoothing.number("p"), 1 - 10**-nines, rel_tol=1e-12)
            assert isclose(smoothing.number("loss"), loss, rel_tol=1e-6)
            assert isclose(smoothing.number("plain"), -log(smoothing.number("p")), rel_tol=1e-9)
            assert isclose(smoothing.number("floor"), floor, rel_tol=1e-6)
            assert smoothing.number("floor") <= smoothing.number("loss")

    def test_without_smoothing_there_is_no_floor(self, smoothing):
        smoothing.move("ε", 0)
        assert smoothing.number("loss") == smoothing.number("plain")
        assert "certainty costs nothing" in smoothing.said


class TestQuery:
    def test_weights_and_the_hard_choice_are_the_packages(self, explorer):
        query = explorer("03-2-attention", "query")
        Q, K, V = book_model().queries_keys_values("decoder.layers.1.cross_attention", head=0)
        names = query.data["names"]
        seen = set()
        for share in (0, 0.4, 0.45, 0.8, 1):
            scores = K @ ((1 - share) * Q[1] + share * Q[2]) / 4
            for step, divisor in (0, 0.125), (3, 1), (5, 4):
                query.move("query, from zwei to undvierzig", share)
                query.move("scores also divided by", step)
                weights = (scores / divisor).softmax(-1)
                shown = [query.number(f"weight-{i}") for i in range(7)]
                torch.testing.assert_close(torch.tensor(shown), weights, atol=1e-4, rtol=1e-3)
                best = int(scores.argmax())
                seen.add(names[best])
                assert query.live.locator("li.best").inner_text().startswith(names[best])
                away = (weights @ V - V[best]).norm() / V[best].norm()
                assert isclose(query.number("away"), away, abs_tol=1e-3)
        assert seen == {"two", "forty"}


class TestFilm:
    RUNS = records.find("film-numbers-en-de")

    @pytest.fixture
    def film(self, explorer):
        film = explorer("05-2-hardware-and-schedule", "film")
        film.root.locator("xpath=ancestor::details").evaluate("folded => folded.open = true")
        return film

    def says(self, number):
        """For each look what the three models said of it."""
        columns = [
            [row["says"] for row in run.table("answers") if row["number"] == number]
            for run in self.RUNS
        ]
        return list(zip(*columns, strict=True))

    def choose(self, film, number):
        film.live.locator(f"input[type=radio][value='{number}']").check()

    def test_every_look_is_the_records(self, film):
        answers = self.says(342)
        for at, looks in enumerate(zip(*(run.curve for run in self.RUNS), strict=True)):
            film.move("updates", at)
            words = film.live.locator(".film-word").all_inner_texts()
            for word, said in zip(words, answers[at], strict=True):
                verdict = "right" if said == spell(342, "de") else "wrong"
                shown = said if len(said) <= 60 else said[:60] + " …"
                assert word == (f"{shown} {verdict}" if said else "(nothing)")
            assert film.said.startswith(f"After {looks[1]['step']} updates")
            assert film.number("loss") == looks[1]["loss"]
            assert film.number("accuracy") == looks[1]["accuracy"]
            for digits in range(2, 7):
                assert film.number(f"exact-{digits}") == looks[1][f"exact_{digits}"]
        assert [row["step"] for row in self.RUNS[1].curve] == list(range(25, 601, 25))

    def test_every_number_can_be_asked_and_is_told_whether_it_was_held_out(self, film):
        held, others = film.live.locator("fieldset").all()
        assert held.locator("legend").inner_text() == "held out of training"
        for group, unseen in (held, True), (others, False):
            values = [int(x.get_attribute("value")) for x in group.locator("input").all()]
            assert len(values) > 15 and all(held_out(n) == unseen for n in values)
        film.move("updates", 7)
        for number in (204, 7, 42, *asked_numbers()[-5:]):
            self.choose(film, number)
            assert film.live.locator(".film-asked").inner_text() == (
                f"{spell(number, 'en')}, in German {spell(number, 'de')}"
            )
            words = film.live.locator(".film-word").all_inner_texts()
            for word, said in zip(words, self.says(number)[7], strict=True):
                assert word.startswith(said[:60] or "(nothing)")
                assert word.endswith(" right") == (said == spell(number, "de"))

    def test_what_became_of_each_number_stands_under_it(self, film):
        film.press("2")
        right = 0
        for at, look in enumerate(self.RUNS[2].curve):
            film.move("updates", at)
            said = {row["number"]: row["says"] for row in self.RUNS[2].table("answers")
                    if row["step"] == look["step"]}
            right = sum(answer == spell(number, "de") for number, answer in said.items())
            assert film.number("known") == right
            verdicts = film.live.locator("fieldset small").all_inner_texts()
            assert verdicts.count("right") == right
            assert verdicts.count("silent") == list(said.values()).count("")
        assert right > 40

    def test_the_curves_are_those_of_the_chosen_seed(self, film):
        film.press("2")
        film.move("updates", 9)
        assert film.number("loss") == self.RUNS[2].curve[9]["loss"]
        assert "Seed 2:" in film.said

    def test_the_keyboard_chooses_with_arrows(self, film):
        film.live.locator("input[type=radio]:checked").press("ArrowRight")
        chosen = film.live.locator("input[type=radio]:checked").get_attribute("value")
        assert chosen != "342" and spell(int(chosen), "de") in film.said

    def test_it_plays_from_where_it_is_and_stops_when_it_is_moved(self, film):
        film.press("play")
        film.tab.wait_for_function(
            "document.querySelector('.film-time output').textContent === '50'")
        film.move("updates", 4)
        assert film.live.get_by_role("button", name="play", exact=True).is_visible()


@pytest.fixture(scope="module")
def pairs():
    """The training pairs of the book's model."""
    return RECIPES["numbers-en-de"].task.training_ids(BOOK.tokenizer, seed=0)[0]


class TestPacker:
    @pytest.fixture
    def packer(self, explorer):
        return explorer("05-1-training-data-and-batching", "packer")

    def shown(self, packer):
        groups = packer.live.locator("g[data-places]")
        return groups.evaluate_all("all => all.map(g => g.dataset.places.split(' ').map(Number))")

    def test_batches_are_the_packages_for_every_budget_in_every_order(self, packer, pairs):
        pairs = pairs[: len(packer.data["pairs"])]
        lengths, settings = pair_lengths(pairs), 0
        assert lengths.tolist() == packer.data["pairs"]
        for noise in packer.data["noises"]:
            packer.live.locator(f"button[data-value='{noise}']").first.click()
            for at, budget in enumerate(packer.data["budgets"]):
                packer.move("budget, in tokens", at)
                plan = batch_plan(lengths, budget, seed=0, length_noise=float(noise))
                assert self.shown(packer) == [places.tolist() for places in plan]
                batches = [[pairs[place] for place in places] for places in plan]
                padding = padding_of(batches)
                for name, share in padding._asdict().items():
                    assert isclose(packer.number(name), share, abs_tol=1e-12)
                assert packer.number("batches") == len(plan)
                assert packer.number("largest") == largest(batches) <= budget
                assert packer.number("fewest") == min(map(len, plan))
                assert packer.number("most") == max(map(len, plan))
                settings += 1
        assert settings >= 100

    def test_violet_is_tokens_and_the_frame_all_places(self, packer, pairs):
        for side, name in enumerate(("sources", "targets")):
            packer.press(name)
            frames = packer.live.locator("rect.packer-frame").evaluate_all(
                "all => all.map(r => r.getAttribute('width') * r.getAttribute('height'))")
            drawn = packer.live.locator("g > path.packer-token").evaluate_all(
                "all => all.map(path => path.getAttribute('d'))")
            rows = [row for path in drawn for row in re.findall(r"h(\d+)v(\d+)", path)]
            tokens = [int(across) * int(down) for across, down in rows]
            assert len(tokens) == len(packer.data["pairs"])
            share = 1 - sum(tokens) / sum(frames)
            assert isclose(packer.number(("source", "target")[side]), share, abs_tol=1e-12)

    def test_the_keyboard_moves_it_and_what_follows_stays_where_it_is(self, packer):
        slider = packer.live.get_by_label("budget, in tokens")
        before, height = packer.said, packer.root.bounding_box()["height"]
        for key in ("Home", "ArrowRight", "End"):
            slider.press(key)
            assert packer.said != before
            assert packer.root.bounding_box()["height"] == height
            before = packer.said
        packer.press("unsorted")
        assert packer.number("both") > 1 / 3
        assert packer.root.bounding_box()["height"] == height


class TestArchitecture:
    @pytest.fixture
    def architecture(self, explorer):
        return explorer("03-model-architecture", "architecture")

    @pytest.mark.parametrize("button", ["this book's", "base", "big"])
    def test_learned_numbers_of_all_boxes_are_all_of_the_models(self, architecture, button):
        if button == "this book's":
            model = book_model().model
        else:
            with torch.device("meta"):
                model = Transformer(getattr(TransformerConfig, button)())
        architecture.press(button)
        seen = {}
        for box in architecture.live.locator("a.part").all():
            box.focus()
            name = box.get_attribute("data-part")
            seen["embedding" if "embedding" in name else name] = architecture.number("parameters")
        assert len(seen) == 16
        assert sum(seen.values()) == sum(weight.numel() for weight in model.parameters())

    def test_boxes_lead_to_pages_and_to_their_code(self, architecture, html):
        book = html / "book"
        code = (book / "model-on-one-page.html").read_text(encoding="utf-8")
        for box in architecture.live.locator("a.part").all():
            assert (book / box.get_attribute("href")).is_file()
            box.focus()
            section, place = architecture.live.locator(".explorer-said a").all()
            assert section.get_attribute("href") == box.get_attribute("href")
            page, _, anchor = place.get_attribute("href").partition("#")
            assert page == "model-on-one-page.html" and f'id="{anchor}"' in code
            number = section.inner_text().split()[0]
            assert section.get_attribute("href").startswith("0" + number.replace(".", "-"))

    def test_shapes_follow_the_model(self, architecture):
        cross = architecture.live.locator("a.part.cross_attention")
        for button, weights, width in ("this book's", "2 × 4 × 7", 32), ("big", "16 × 4 × 7", 1024):
            architecture.press(button)
            assert weights in cross.text_content()
            cross.hover()
            assert f"reads 4 × {width} from below and the memory, 7 × {width}," in architecture.said

    def test_a_finger_chooses_before_it_follows(self, architecture):
        box = architecture.live.locator("a.part.feed_forward").first
        box.dispatch_event("pointerdown", {"pointerType": "touch"})
        box.dispatch_event("click")
        assert "encoder.layers.0.feed_forward" in architecture.said
        assert architecture.tab.url.endswith("03-model-architecture.html")


class TestPositions:
    @pytest.fixture
    def positions(self, explorer):
        return explorer("03-5-positional-encoding", "positions")

    def pythons(self, number, places):
        """What the package's model writes, each piece at its place, or at none."""
        ids = BOOK.batch_of([number]).source
        at = BOOK.model.positions(12)
        zero = torch.zeros_like(at[0])
        place = torch.stack([zero if p is None else at[p] for p in places])
        with torch.no_grad():
            memory = BOOK.model.encoder(BOOK.model.embedding(ids) + place, BOOK.mask(ids))
            return BOOK.translations(ids, memory)[0]

    def test_the_model_writes_what_pythons_writes(self, positions):
        written = positions.live.locator(".positions-german")
        for number, name, places in (
            (204, "their own", range(5)), (204, "first and fourth exchanged", [3, 1, 2, 0, 4]),
            (402, "all one later", range(1, 6)), (402, "all five later", range(5, 10)),
            (204, "none", [None] * 5), (342, "all five later", range(5, 12)),
        ):
            positions.press(str(number))
            positions.press(name)
            assert written.inner_text() == self.pythons(number, places), name

    def test_one_piece_alone_takes_another_place_and_the_focus_stays(self, positions):
        select = positions.live.get_by_label("place of two", exact=True)
        select.focus()
        select.select_option("7")
        assert positions.live.get_by_label("place of two", exact=True).evaluate(
            "select => select === document.activeElement")
        said = positions.live.locator(".positions-german").inner_text()
        assert said == self.pythons(204, [7, 1, 2, 3, 4])


class TestMaskLab:
    @pytest.fixture
    def lab(self, explorer):
        return explorer("03-2-3-applications-of-attention", "mask-lab")

    def pythons(self, may):
        """What the package's model says next, the right German given, with this mask."""
        batch, model = BOOK.batch(), deepcopy(BOOK.model)
        for layer in model.decoder.layers:
            attention = layer.self_attention
            attention.causal = False
            attention.prepare = lambda query, keys, mask, own: (query, keys, may)
        with torch.no_grad():
            return model(batch.source, batch.target)[0].argmax(-1), batch.labels[0]

    def paint(self, lab, may):
        for i in range(4):
            for j in range(4):
                cell = lab.live.locator(".mask-grid button").nth(4 * i + j)
                if (cell.get_attribute("aria-pressed") == "true") != bool(may[i, j]):
                    cell.click()

    def test_who_reaches_whom_and_what_is_said_are_pythons(self, lab):
        own = torch.eye(4).bool()
        causal = torch.ones(4, 4).bool().tril()
        ahead = causal | own.roll(1, 1).triu()
        for may in causal, own, own | own.roll(1, 1), ahead, torch.ones(4, 4).bool():
            self.paint(lab, may)
            for layers in 1, 3:
                lab.move("layers", layers)
                reach = (may | own).float().matrix_power(layers) > 0
                cells = lab.live.locator(".mask-grid td > span").all_inner_texts()
                assert [cell != "no" for cell in cells] == reach.flatten().tolist()
                assert lab.number("leaks") == reach.diagonal(1).sum()
            said, labels = self.pythons(may)
            assert lab.number("right") == (said == labels).sum()
            words = lab.live.locator(".film-words li").first.inner_text().split(": ")[1]
            pieces = [BOOK.tokenizer.piece(i).replace("⟨eos⟩", "EOS") for i in said.tolist()]
            assert words.split(" · ") == pieces

    def test_on_its_own_it_writes_by_the_mask(self, lab):
        alone = lab.live.locator(".film-words li").nth(1)
        assert alone.inner_text().endswith(spell(342, "de"))
        lab.press("all see all")  # nothing stands to the right while it writes
        assert "writes the right word" in lab.said


def costs_of(n, d, k, r):
    """What the package says of every layer type: name → (mixing, products, in a row, path)."""
    with torch.device("meta"):  # their shapes are enough
        layers = {
            "self-attention": SelfAttention(d), "restricted": RestrictedSelfAttention(d, r),
            "tanh RNN": Recurrent(d), "GRU": GRU(d), "LSTM": LSTM(d),
            "convolution": Convolution(d, k), "dilated": DilatedConvolution(d, k, 1),
            "separable": SeparableConvolution(d, k),
        }
    return {
        name: (layer.cost(n).mixing, layer.cost(n).products, layer.sequential(n), layer.path(n))
        for name, layer in layers.items()
    }


class TestCosts:
    SLIDERS = {"length n": "lengths", "width d": "widths", "kernel k": "kernels",
               "neighbourhood r": "windows"}
    WAYS = "what Table 1 counts", "the whole layer"

    @pytest.fixture
    def costs(self, explorer):
        return explorer("04-why-self-attention", "costs")

    # Puts every slider to each setting and presses each button: name → value, for all of them.
    TRY = """(live, [labels, settings, buttons]) => {
        const label = text => [...live.querySelectorAll("label")].find(l => l.innerText === text);
        const slider = text => document.getElementById(label(text).htmlFor);
        const button = text => [...live.querySelectorAll("button")].find(b => b.innerText === text);
        return settings.map(places => {
            labels.forEach((text, i) => {
                slider(text).value = places[i];
                slider(text).dispatchEvent(new Event("input", { bubbles: true }));
            });
            return buttons.map(text => {
                button(text).click();
                return Object.fromEntries([...live.querySelectorAll("data")].map(
                    one => [one.dataset.name, Number(one.value)]));
            });
        });
    }"""

    def tried(self, costs, settings):
        """For each setting, places of the four sliders, its sizes and the numbers of both ways."""
        values = [costs.data[name] for name in self.SLIDERS.values()]
        found = costs.live.evaluate(self.TRY, [[*self.SLIDERS], settings, [*self.WAYS]])
        for places, numbers in zip(settings, found, strict=True):
            yield [chosen[at] for chosen, at in zip(values, places)], numbers

    def test_every_number_is_the_packages(self, costs):
        """300 random settings, each counted in both ways."""
        rng = random.Random(0)
        settings = [[rng.randrange(len(costs.data[name])) for name in self.SLIDERS.values()]
                    for _ in range(300)]
        for sizes, ways in self.tried(costs, settings):
            expected = costs_of(*sizes)
            for place, numbers in enumerate(ways):
                for name, cost in expected.items():
                    shown = [numbers[f"{x}-{name}"] for x in ("work", "sequential", "path")]
                    assert shown == [cost[place], *cost[2:]], (name, sizes)

    def test_where_it_breaks_even_both_do_the_same_work(self, costs):
        settings = [[2, d, k, 0] for d in range(0, 9, 2) for k in range(len(costs.data["kernels"]))]
        for (n, d, k, r), ways in self.tried(costs, settings):
            for place, numbers in enumerate(ways):
                for other in "tanh RNN", "GRU", "LSTM", "convolution":
                    even = int(numbers[f"even-{other}"])
                    found = costs_of(even or n, d, k, r)
                    own, its = (found[name][place] for name in ("self-attention", other))
                    assert own == its if even else own > its

    def test_shares_of_the_sentence_and_the_keyboard(self, costs):
        assert costs.number("rnn") == 7 / 32
        costs.press("the whole layer")
        found = costs_of(7, 32, 3, 3)
        assert costs.number("lstm") == found["self-attention"][1] / found["LSTM"][1]
        before = costs.said
        costs.live.get_by_label("length n").press("ArrowRight")
        assert costs.said != before and costs.number("sequential-LSTM") == 8

    def test_a_button_sets_both(self, costs):
        for name, n, d in costs.data["presets"]:
            costs.press(name)
            assert (costs.number("path-LSTM"), costs.number("even-GRU")) == (n, 3 * d)
        assert costs.said.startswith("For 100\u202f000 vectors of 512 numbers, ")

    def test_on_the_narrowest_phone_nothing_is_cut(self, costs):
        costs.tab.set_viewport_size({"width": 320, "height": 700})
        costs.press("a book")
        box = costs.live.bounding_box()
        ends = costs.live.locator(".costs-layers li > *").evaluate_all(
            "all => all.flatMap(e => [e.getBoundingClientRect().left, "
            "e.getBoundingClientRect().right])")
        assert len(ends) == 64
        assert box["x"] <= min(ends) and max(ends) <= box["x"] + box["width"]
