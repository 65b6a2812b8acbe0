"""Named recipes: the paper's own to the letter, and every setting changed by name and by type."""

import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated import paper
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.model import MultiHeadAttention, TransformerConfig
from annotated.model.attention import ATTENTIONS
from annotated.recipes import (
    RECIPES,
    CorpusTask,
    FilesTask,
    Numbers,
    Task,
    as_document,
    explained,
    from_document,
    override,
    own_files,
    recipe_named,
    settings,
)
from annotated.recipes.recipe import VOCABULARY, comments
from annotated.training import TrainingConfig

named = pytest.mark.parametrize("name", RECIPES)


def change(name, *assignments):
    return override(RECIPES[name], assignments)


def refusal(name, *assignments) -> str:
    with pytest.raises(ValueError) as caught:
        change(name, *assignments)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestNames:
    def test_the_recipes_there_are(self):
        wmt14 = {f"wmt14-en-{pair}-{size}" for pair in ("de", "fr") for size in ("base", "big")}
        others = {"numbers-en-de", "numbers-en-fr", "copy", "multi30k-en-de", "tatoeba-en-de"}
        assert set(RECIPES) >= wmt14 | others
        for name, recipe in RECIPES.items():
            assert recipe_named(name) is recipe and recipe.name == name
            assert recipe.about and "\n" not in recipe.about
            assert isinstance(recipe.task, Task)

    @pytest.mark.parametrize("name", ["numbers", "", "Copy", "(none)"])
    def test_an_unknown_one_is_answered_with_those_there_are(self, name):
        with pytest.raises(ValueError) as caught:
            recipe_named(name)
        assert str(caught.value) == f"no recipe {name!r}; there are {', '.join(RECIPES)}"

    @named
    def test_nothing_in_a_recipe_can_be_changed_in_place(self, name):
        recipe = recipe_named(name)
        for thing in (recipe, recipe.task, recipe.model, recipe.training):
            for field in fields(thing):
                with pytest.raises(FrozenInstanceError):
                    setattr(thing, field.name, None)

    def test_all_differ_and_can_be_keys(self):
        assert len(set(RECIPES.values())) == len(RECIPES)


class TestTiny:
    def test_multi30k_is_the_published_small_model(self):
        recipe = RECIPES["multi30k-en-de"]
        assert recipe.model == TransformerConfig(
            layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3, vocab_size=4259
        )
        assert (recipe.training.warmup_steps, recipe.training.average) == (2000, 10)

    @named
    def test_all_checkpoints_to_average_are_made(self, name):
        training = RECIPES[name].training
        averaged = training.averaged()
        assert len(averaged) == training.average and averaged[-1] == training.steps
        assert min(averaged) > training.warmup_steps


class TestPaper:
    """§5.1-5.4, §6.1: nothing in the WMT14 recipes is ours, but what is marked so."""

    @pytest.mark.parametrize("pair", ["en-de", "en-fr"])
    @pytest.mark.parametrize(
        ("size", "steps", "seconds", "averaged"),
        [("base", 100_000, 0.4, 5), ("big", 300_000, 1, 20)],
    )
    def test_training(self, pair, size, steps, seconds, averaged):
        training = RECIPES[f"wmt14-{pair}-{size}"].training
        # Word for word; that Adam and the schedule have these is in their own tests.
        assert (training.steps, training.batch_tokens) == (steps, 25_000)
        assert training.micro_batches == 8  # one for each of the paper's GPUs
        assert (training.warmup_steps, training.label_smoothing) == (4000, 0.1)
        assert (training.betas, training.eps) == ((0.9, 0.98), 1e-9)
        assert training.average == averaged
        assert training.average_every * seconds == 600  # ten minutes
        # Nothing of ours is switched on, and batches are as even as §5.1 asks.
        ours = {"factor": 1.0, "warmup": True, "precision": "float32", "compile": False}
        assert {name: getattr(training, name) for name in ours} == ours
        assert training.length_noise == TrainingConfig().length_noise

    @pytest.mark.parametrize("size", ["base", "big"])
    def test_the_numbers_are_those_of_the_paper_as_this_package_states_it(self, size):
        training, stated = RECIPES[f"wmt14-en-de-{size}"].training, paper.TRAINING
        row = paper.TABLE_3[size]
        assert training.steps == row.steps == getattr(stated, f"{size}_steps")
        assert training.batch_tokens == stated.source_tokens == stated.target_tokens
        assert training.micro_batches == stated.gpus
        assert training.label_smoothing == row.label_smoothing == stated.label_smoothing
        assert training.warmup_steps == stated.warmup_steps
        assert training.betas == (stated.beta1, stated.beta2) and training.eps == stated.epsilon
        assert training.average == getattr(paper.DECODING, f"{size}_averaged")
        minutes = training.average_every * getattr(stated, f"{size}_step_seconds") / 60
        assert minutes == pytest.approx(paper.DECODING.checkpoint_minutes)

    @pytest.mark.parametrize(
        ("name", "dropout"),
        [
            ("wmt14-en-de-base", 0.1), ("wmt14-en-de-big", 0.3),
            ("wmt14-en-fr-base", 0.1), ("wmt14-en-fr-big", 0.1),
        ],
    )
    def test_model(self, name, dropout):
        model, row = RECIPES[name].model, paper.TABLE_3[name.rpartition("-")[2]]
        for field in ("layers", "d_model", "d_ff", "heads"):
            assert getattr(model, field) == getattr(row, field), field
        assert model.d_k is model.d_v is None
        assert model.d_model // model.heads == row.d_k == row.d_v == 64
        assert model.dropout == dropout
        assert model == replace(
            TransformerConfig(), layers=model.layers, d_model=model.d_model, d_ff=model.d_ff,
            heads=model.heads, dropout=dropout, vocab_size=model.vocab_size,
        ), "something is on that the paper does not have"

    @pytest.mark.parametrize(("target", "vocabulary"), [("de", 37_000), ("fr", 32_000)])
    def test_vocabulary(self, target, vocabulary):
        for size in ("base", "big"):
            corpus = RECIPES[f"wmt14-en-{target}-{size}"].task
            assert corpus.corpus == f"wmt14-en-{target}"
            # 256 bytes, 3 special ids and the merges. A vocabulary of another size is
            # refused (Tokenizer.train), and a sample has it exactly (test_wmt14.py).
            assert corpus.merges + SMALLEST == vocabulary and SMALLEST == 256 + 3
            stated = paper.STATED["5.1"][f"vocabulary_en_{target}"].value
            assert stated == vocabulary

    def test_all_pairs_are_used_but_for_the_length_that_the_papers_code_had(self):
        for target in ("de", "fr"):
            corpus = RECIPES[f"wmt14-en-{target}-big"].task
            assert corpus.pairs is None and not corpus.any_version
            cleaning = corpus.cleaning
            assert cleaning.max_pieces == 256
            assert cleaning.max_words is cleaning.max_ratio is None

    def test_base_and_big_differ_only_where_the_paper_does(self):
        base, big = (settings(RECIPES[f"wmt14-en-de-{size}"]) for size in ("base", "big"))
        assert {name for name in base if base[name] != big[name]} == {
            "model.d_model", "model.d_ff", "model.heads", "model.dropout",
            "training.steps", "training.average", "training.average_every",
        }


# Settings with few values, or with values that depend on others; assignments beside it.
SPECIAL = {
    "task.source": "fr", "task.corpus": "newstest-en-de",
    "model.positions": "sinusoidal-halves", "model.norm": "pre", "model.activation": "gelu",
    "model.attention": "unscaled",
    "model.heads": 1, "model.dropout": 0.0625, "model.attention_dropout": 0.5,
    "model.max_length": 1009, "training.precision": "bfloat16",
    "training.label_smoothing": 0.25, "training.betas": (0.5, 0.75),
    "task.thousands": (3, 5, 7), "task.cleaning.max_ratio": 9.0,
}
BESIDE = {"model.max_length": ["model.positions=learned"]}


@pytest.fixture(autouse=True)
def another_attention(monkeypatch):
    """A second one to choose from."""
    monkeypatch.setitem(ATTENTIONS, "unscaled", MultiHeadAttention)


def another(name, value):
    """A value that the setting may have and does not have."""
    if name in SPECIAL:
        return SPECIAL[name] if value != SPECIAL[name] else "en"
    if isinstance(value, bool):
        return not value
    if name == "model.d_model":
        return 2 * value
    if name == "task.digits":
        return 11 - value  # 5 or 6
    if isinstance(value, str):
        return {"de": "fr", "fr": "de"}[value]
    if isinstance(value, float):
        return 3 * value
    return {None: 17}.get(value) or value + 3


class TestOverride:
    @named
    def test_every_setting_can_be_changed_and_nothing_else_changes_with_it(self, name):
        before = settings(RECIPES[name])
        parts = {"task", "model", "training", "search"}
        assert {setting.partition(".")[0] for setting in before} == parts
        for setting, value in before.items():
            new, beside = another(setting, value), BESIDE.get(setting, [])
            after = settings(change(name, f"{setting}={new}", *beside))
            assert after[setting] == new != value, setting
            assert type(after[setting]) is type(new)
            others = {setting, *(text.partition("=")[0] for text in beside)}
            assert {n for n in before if after[n] != before[n]} == others
        assert settings(RECIPES[name]) == before

    def test_all_fields_can_be_set_but_the_vocabularys(self):
        found = set(settings(RECIPES["multi30k-en-de"]))
        config = {f"model.{field.name}" for field in fields(TransformerConfig)}
        assert config - found == {f"model.{name}" for name in VOCABULARY}
        assert {f"training.{field.name}" for field in fields(TrainingConfig)} <= found
        assert {f"task.{field.name}" for field in fields(CorpusTask)} - found == {"task.cleaning"}
        cleaning = ("tidy", "max_words", "max_ratio", "max_pieces")
        assert {f"task.cleaning.{field}" for field in cleaning} <= found

    @pytest.mark.parametrize(
        ("setting", "text", "value"),
        [
            ("training.factor", "2", 2.0),
            ("training.factor", "2.5e-1", 0.25),
            ("training.factor", " 3 ", 3.0),
            ("training.steps", "1_000", 1000),
            ("training.eps", "1e-9", 1e-9),
            ("training.betas", "0.5,0.75", (0.5, 0.75)),
            ("training.betas", "(0, 0.75)", (0.0, 0.75)),
            ("training.betas", "[0.5, 0.75]", None),
            ("training.warmup", "false", False),
            ("training.warmup", "False", False),
            ("training.compile", "TRUE", True),
            ("model.d_k", "5", 5),
            ("model.d_k", "none", None),
            ("model.d_k", "None", None),
            ("model.norm", "pre", "pre"),
            ("task.cleaning.max_ratio", "9", 9.0),
            ("task.cleaning.max_words", "80", 80),
            ("task.pairs", "211", 211),
            ("task.corpus", "5", "5"),
            ("task.corpus", "a=b c", "a=b c"),
            ("task.corpus", "'quoted'", "'quoted'"),
            ("task.corpus", "C:\\new\\true", "C:\\new\\true"),
        ],
    )
    def test_text_becomes_a_value_of_the_settings_type(self, setting, text, value):
        if value is None and text[0] == "[":
            assert "tuple[float, float]" in refusal("multi30k-en-de", f"{setting}={text}")
            return
        found = settings(change("multi30k-en-de", f"{setting}={text}"))[setting]
        assert found == value and type(found) is type(value)
        if isinstance(value, tuple):
            assert list(map(type, found)) == list(map(type, value))

    @pytest.mark.parametrize(
        ("setting", "text", "expected"),
        [
            ("training.steps", "ten", "int"),
            ("training.steps", "1.5", "int"),
            ("training.steps", "1e3", "int"),
            ("training.steps", "true", "int"),
            ("training.steps", "none", "int"),
            ("training.steps", "", "int"),
            ("training.steps", "007", "int"),
            ("training.steps", "__import__('os').getpid()", "int"),
            ("training.steps", "(" * 999 + "1" + ")" * 999, "int"),
            ("training.steps", "\0", "int"),
            ("training.factor", "fast", "float"),
            ("training.factor", "nan", "float"),
            ("training.factor", "inf", "float"),
            ("training.factor", "1e999", "float"),
            ("training.factor", "1" + "0" * 400, "float"),
            ("training.factor", "true", "float"),
            ("training.compile", "1", "bool"),
            ("training.compile", "yes", "bool"),
            ("training.betas", "0.9", "tuple[float, float]"),
            ("training.betas", "(0.9,)", "tuple[float, float]"),
            ("training.betas", "(0.9, 0.98, 0.99)", "tuple[float, float]"),
            ("training.betas", "(0.9, 'x')", "tuple[float, float]"),
            ("training.betas", "{[]: 1}", "tuple[float, float]"),
            ("model.d_k", "five", "int | None"),
            ("model.d_model", "128.0", "int"),
            ("task.count", "'60000'", "int"),
            ("task.thousands", "(1.5,)", "tuple[int, ...]"),
            ("task.thousands", "(7)", "tuple[int, ...]"),
        ],
    )
    def test_a_value_of_another_type_is_refused_with_name_value_and_type(
        self, setting, text, expected
    ):
        said = refusal("numbers-en-de", f"{setting}={text}")
        about = explained(RECIPES["numbers-en-de"])[setting].about
        assert said == f"{setting} is {text!r}; expected a value of type {expected} ({about})"

    @pytest.mark.parametrize(
        ("setting", "close"),
        [
            ("training.step", ["training.steps"]),
            ("steps", ["training.steps", ]),
            ("heads", ["model.heads"]),
            ("model.steps", ["training.steps"]),
            ("model.warmup", ["training.warmup"]),
            ("Model.Heads", ["model.heads"]),
            ("count", ["task.count"]),
        ],
    )
    def test_an_unknown_name_is_answered_with_those_that_are_close(self, setting, close):
        said = refusal("numbers-en-de", f"{setting}=5")
        start, _, names = said.partition("; there is ")
        assert start == f"numbers-en-de has no setting {setting!r}"
        names = names.split(", ")
        assert set(close) <= set(names) <= set(settings(RECIPES["numbers-en-de"]))
        assert len(names) <= 3

    @pytest.mark.parametrize(
        "setting", ["", "xyzzy", "model", "model.vocab_size", "model.pad_id", "training."]
    )
    def test_what_is_close_to_nothing_is_answered_all_the_same(self, setting):
        said = refusal("copy", f"{setting}=5")
        assert said.startswith(f"copy has no setting {setting!r}; there is ")
        assert re.search(r"(task|model|training)\.\w+", said)

    def test_a_setting_of_another_recipe_is_unknown_to_this_one(self):
        assert "no setting 'task.merges'" in refusal("copy", "task.merges=5")

    @pytest.mark.parametrize("text", ["training.steps", "", "5"])
    def test_an_assignment_without_a_value_is_shown_how(self, text):
        said = refusal("copy", text)
        assert said == f"--set takes name=value, such as training.steps=100, not {text!r}"

    @pytest.mark.parametrize(
        ("setting", "text"),
        [
            ("training.steps", "0"), ("training.average", "-3"), ("training.micro_batches", "0"),
            ("training.label_smoothing", "1"), ("training.precision", "half"),
            ("model.d_model", "0"), ("model.dropout", "1.5"), ("model.norm", "batch"),
            ("task.merges", "-1"), ("model.max_length", "0"), ("task.pairs", "0"),
            ("task.pairs", "-5"),
        ],
    )
    def test_a_value_that_can_not_be_is_refused_by_its_name(self, setting, text):
        said = refusal("multi30k-en-de", f"{setting}={text}")
        found = re.fullmatch(r"(\w+) is (\S+); expected .+", said)
        assert found and found[1] == setting.rpartition(".")[2]
        assert found[2].strip("'") in (text, f"{text}.0")

    def test_settings_that_must_agree_are_changed_together_in_any_order(self):
        """Each alone is refused: odd widths for four heads, a length for sinusoids."""
        widths = ["model.d_model=66", "model.heads=3"]
        places = ["model.positions=learned", "model.max_length=97"]
        for pair in (widths, places):
            for order in (pair, pair[::-1]):
                found = settings(change("multi30k-en-de", *order))
                assert pair == [f"{name.partition('=')[0]}={found[name.partition('=')[0]]}"
                                for name in pair]
        assert "d_model=66" in refusal("multi30k-en-de", widths[0])
        assert "max_length is 97" in refusal("multi30k-en-de", places[1])

    def test_the_last_of_two_wins(self):
        assert change("copy", "training.steps=5", "training.steps=7").training.steps == 7

    @named
    def test_no_change_is_the_same_recipe(self, name):
        assert change(name) == RECIPES[name]

    def test_from_python_a_size_that_is_no_whole_number_is_refused_too(self):
        """In a process where nothing checks types but the package itself."""
        code = """
from annotated.model import TransformerConfig
from annotated.training import TrainingConfig
for config in (TransformerConfig, TrainingConfig):
    for name, hint in config.__annotations__.items():
        for wrong in (2.5, 2.0, "2") if hint in (int, int | None) else ():
            try:
                config(**{name: wrong})
                print(name, wrong, "was taken")
            except ValueError as error:
                print(str(error).startswith(f"{name} is {wrong!r}; expected a whole number"))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == ["True"] * 3 * (11 + 6)


class TestRoundTrip:
    @named
    def test_what_is_printed_of_a_recipe_is_taken_back(self, name):
        """Also by one in which everything is another way."""
        before = settings(RECIPES[name])
        lines = [f"{setting}={value}" for setting, value in before.items()]
        assert change(name, *lines) == RECIPES[name]
        others = {setting: another(setting, value) for setting, value in before.items()}
        del others["model.max_length"]  # goes with learned positions alone
        away = change(name, *(f"{setting}={value}" for setting, value in others.items()))
        assert settings(away) == before | others
        assert override(away, lines) == RECIPES[name]

    @given(
        steps=st.integers(1, 10**9), factor=st.floats(1e-300, 1e300), compile=st.booleans(),
        betas=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
        d_k=st.none() | st.integers(1, 999), thousands=st.lists(st.integers(0, 999)),
        norm=st.sampled_from(["post", "pre"]),
    )
    def test_whatever_the_values(self, steps, factor, compile, betas, d_k, thousands, norm):
        recipe = RECIPES["numbers-en-de-families"]
        training = replace(
            recipe.training, steps=steps, factor=factor, compile=compile, betas=betas
        )
        model = replace(recipe.model, d_k=d_k, norm=norm)
        changed = replace(
            recipe, training=training, model=model, task=Numbers(thousands=tuple(thousands))
        )
        lines = [f"{setting}={value}" for setting, value in settings(changed).items()]
        assert override(recipe, lines) == changed

    @named
    def test_settings_are_plain_values_that_json_keeps(self, name):
        found = settings(RECIPES[name])
        again = json.loads(json.dumps(found))
        assert {k: tuple(v) if isinstance(v, list) else v for k, v in again.items()} == found


OWN = own_files(["a.en", "a.de"], ["b.tsv"], ["c.en.gz", "c.de"], "en", "de")
EVERY = [*RECIPES.values(), OWN]


class TestDocument:
    @pytest.mark.parametrize("recipe", EVERY, ids=lambda recipe: recipe.name)
    def test_the_whole_recipe_is_read_back_from_json(self, recipe):
        document = json.loads(json.dumps(as_document(recipe)))
        assert from_document(document, "it") == recipe
        other = override(recipe, ["training.betas=(0.5, 0.75)", "model.d_ff=31"])
        assert from_document(json.loads(json.dumps(as_document(other))), "it") == other != recipe

    @pytest.mark.parametrize(
        ("path", "value", "said"),
        [
            ("task", None, "task.kind is None"), ("task.kind", ["copying"], "task.kind"),
            ("task.kind", "copying", "damaged|'task"), ("task.count", "7", "task.count"),
            ("task.count", 7.5, "task.count"), ("task.more", 1, "'task.more'"),
            ("model.d_model", 22.0, "|model"), ("model.heads", 0, "heads is 0"),
            ("model.rotary", True, "'model.rotary'"), ("training", 3, "training"),
            ("training.betas", [0.9], "training.betas"), ("training.steps", -1, "steps is -1"),
            ("name", None, "name"), ("more", 1, "'more'"),
        ],
    )
    def test_a_field_that_can_not_be_is_refused_by_name(self, path, value, said):
        document = json.loads(json.dumps(as_document(RECIPES["numbers-en-de"])))
        *within, last = path.split(".")
        place = document
        for name in within:
            place = place[name]
        place[last] = value
        if path == "model.d_model":  # 22.0 is no whole number; 22 would be one
            place[last] = 22.5
        with pytest.raises(ValueError, match=said) as caught:
            from_document(document, "some file")
        assert str(caught.value).startswith("some file ") and "\n" not in str(caught.value)

    @pytest.mark.parametrize("document", [None, [], 3, "copy", {}, {"task": []}])
    def test_what_is_no_recipe_at_all_is_refused(self, document):
        with pytest.raises(ValueError, match="^some file is damaged: task.kind is None"):
            from_document(document, "some file")


class TestExplained:
    @pytest.mark.parametrize("recipe", EVERY, ids=lambda recipe: recipe.name)
    def test_every_setting_has_its_own_comment(self, recipe):
        found = explained(recipe)
        assert {name: setting.value for name, setting in found.items()} == settings(recipe)
        for name, setting in found.items():
            assert 3 < len(setting.about) <= 80 and "\n" not in setting.about, name
            assert not setting.about.endswith("."), name
        abouts = [setting.about for setting in found.values()]
        assert len(set(abouts)) == len(abouts)

    def test_comments_stand_above_a_field_or_at_the_end_of_its_line(self):
        found = comments(Commented)
        assert found == {
            "one": "above, in two lines", "two": "at the end, with a # in it",
            "three": "of a value in brackets", "four": "", "five": "of five, above",
        }


@dataclass(frozen=True)
class Commented:
    """Not a # comment of one."""

    # above,
    # in two lines
    one: int = 1
    two: str = "# no comment"  # at the end, with a # in it
    # of a value in brackets
    three: tuple[int, ...] = (
        1,
        2,  # within
    )
    four: int = 4
    # of five, above
    five: int = 5

    def method(self) -> int:
        one = 2  # not of the field
        return one


class TestImpossible:
    """What can't be is refused when the recipe is made, before anything is read or written."""

    @pytest.mark.parametrize(
        ("name", "assignment"),
        [
            ("numbers-en-de", "task.thousands=(-1,)"), ("numbers-en-de", "task.thousands=(1000,)"),
            ("numbers-en-de-families", "task.tested=8001"), ("numbers-en-de", "task.source=it"),
            ("numbers-en-de", "task.count=0"), ("numbers-en-de", "task.tested=0"),
            ("copy", "task.longest=200000"), ("copy", "task.longest=0"),
            ("copy", "task.watched=-1"), ("multi30k-en-de", "task.watched=0"),
            ("multi30k-en-de", "task.merges=-1"), ("multi30k-en-de", "task.merges=10000000"),
        ],
    )
    def test_by_the_fields_name(self, name, assignment):
        field = assignment.partition("=")[0].removeprefix("task.")
        assert f"{field} is " in refusal(name, assignment)

    def test_files_are_two_or_one(self):
        for files in ((), ("a", "b", "c")):
            with pytest.raises(ValueError, match="expected two files, source and target, or one"):
                FilesTask(files, ("a",), ("b",))

    def test_a_recipe_that_makes_its_sentences_has_no_files(self):
        with pytest.raises(ValueError, match="^copy makes its own sentences"):
            own_files(["a"], ["b"], ["c"], like=RECIPES["copy"])

    def test_special_ids_are_the_tokenizers(self):
        for recipe in EVERY:
            special = recipe.model.pad_id, recipe.model.bos_id, recipe.model.eos_id
            assert special == (Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id)
