"""Corpora of real sentences: cleaned and counted, kept as ids, scored by both BLEUs.

The sentences here are numbers in words, in files of the corpora's names. Where the real Multi30k
and Tatoeba are at hand, a few of their sentences go the same way.
"""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from msgspec import to_builtins
from sacrebleu.metrics import BLEU

from annotated.data.corpora import tatoeba_split
from annotated.data.id_file import IdPairs
from annotated.data.text import Cleaning, tidy
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import RECIPES, CorpusTask, override, train
from annotated.recipes.text import TextData
from annotated.translation import Translator

MERGES = 97


@pytest.fixture(scope="module")
def sentences(made):
    return made(211, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, laid_out, sentences):
    """Multi30k's files: 173 pairs to train on, 17 and 21 to choose by and to report on.

    Five pairs of the training set have faults, and one each of the others.
    """
    folder = tmp_path_factory.mktemp("data")
    train = [
        *sentences[:83], ("", "leer"), ("blank", " \t\u00a0"),
        ("word " * 40, "wort " * 41), ("one", "zwei " * 11),
        (" two\u00a0 three ", "zwei\u200b drei"), *sentences[83:173],
    ]
    dev, test = sentences[173:190], sentences[190:]
    dev[5], test[5] = ("many " * 300, "viele " * 290), ("long " * 300, "lang " * 290)
    laid_out(folder, "multi30k-en-de", train, dev, test)
    return folder


@pytest.fixture
def task():
    cleaning = Cleaning(max_words=37, max_ratio=9.0, max_pieces=53)
    return CorpusTask("multi30k-en-de", any_version=True, merges=MERGES, cleaning=cleaning)


@pytest.fixture
def corpus(task, folder):
    return task.open(folder)


class Saying(Translator):
    """A model with random weights, and answers from a book."""

    def __init__(self, pieces, answers=None):
        config = TransformerConfig.tiny(
            vocab_size=pieces.vocab_size, d_model=22, d_ff=29, heads=2, layers=1
        )
        super().__init__(Transformer(config), pieces)
        self.answers, self.asked = answers, []

    def translate(self, sentences):
        self.asked += sentences
        return [self.answers[sentence] for sentence in sentences]


class TestTraining:
    def test_the_vocabulary_is_of_cleaned_training_text_and_of_its_size(self, corpus, sentences):
        learned, real = [], Tokenizer.train

        def listen(texts, merges):
            learned.extend(texts := list(texts))
            return real(texts, merges)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tokenizer, "train", listen)
            pieces = corpus.tokenizer()
        assert pieces.vocab_size == SMALLEST + MERGES
        pairs = [*sentences[:83], ("two three", "zwei drei"), *sentences[83:173]]
        assert learned == [text for pair in pairs for text in pair]

    @pytest.mark.parametrize("kept", [False, True])
    def test_ids_are_the_cleaned_pairs_and_what_was_left_out_is_said(
        self, task, folder, sentences, tmp_path, kept
    ):
        pieces = task.open(folder).tokenizer()
        short = replace(task, cleaning=replace(task.cleaning, max_pieces=31)).open(folder)
        pairs, left_out = short.training_ids(pieces, 0, tmp_path if kept else None)
        expected = [*sentences[:83], ("two three", "zwei drei"), *sentences[83:173]]
        fits = [p for p in expected if max(len(pieces.encode(text)) for text in p) <= 31]
        assert [tuple(map(pieces.decode, pair)) for pair in pairs] == fits
        assert 100 < len(fits) < len(expected)
        assert left_out == [
            f"{len(fits)} of 178 training pairs kept (4 tidied); left out: 2 empty, "
            "1 too many words, 1 lengths too far apart, "
            f"{len(expected) - len(fits)} too many pieces"
        ]
        if kept:
            assert isinstance(pairs, IdPairs) and pairs.path == tmp_path / "train.ids"
            counts = json.loads((tmp_path / "cleaning.json").read_bytes())
            assert counts["words"]["read"] == 178 and counts["words"]["tidied"] == 4
            assert counts["pieces"]["too_long"] == len(expected) - len(fits)

    def test_nothing_left_out_is_said_too(self, task, folder):
        clean = replace(task, pairs=83).open(folder)
        assert clean.training_ids(clean.tokenizer(), 0)[1] == ["83 of 83 training pairs kept"]

    def test_a_file_of_ids_is_made_once_and_again_if_it_is_not_whole(
        self, corpus, tmp_path, monkeypatch
    ):
        pieces = corpus.tokenizer()
        first, said = corpus.training_ids(pieces, 0, tmp_path)
        data = (tmp_path / "train.ids").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("annotated.recipes.text.write_ids", lambda *_: pytest.fail("twice"))
            second, again = corpus.training_ids(pieces, 0, tmp_path)
        assert list(second) == list(first) and again == said
        for name in ("cleaning.json", "train.ids"):  # a kill in between, a file deleted
            (tmp_path / name).unlink()
            third, again = corpus.training_ids(pieces, 0, tmp_path)
            assert list(third) == list(first) and again == said
            assert (tmp_path / "train.ids").read_bytes() == data

    @pytest.mark.parametrize(
        "text",
        [
            "", "{", "null", "[]", "{}", "\udcff", "[" * 10**6, '{"words": {}}',
            '{"words": null, "pieces": {}}', '{"words": {"red": 3}, "pieces": {}}',
            '{"words": {"empty": "3"}, "pieces": {}}', '{"words": {"read": null}, "pieces": {}}',
        ],
        ids=lambda text: text[:40],
    )
    def test_a_damaged_note_is_named_and_made_again_once_it_is_deleted(
        self, corpus, tmp_path, text
    ):
        pieces = corpus.tokenizer()
        _, said = corpus.training_ids(pieces, 0, tmp_path)
        path = tmp_path / "cleaning.json"
        path.write_text(text, errors="surrogateescape")
        with pytest.raises(ValueError) as caught:
            corpus.training_ids(pieces, 0, tmp_path)
        said_of_it = str(caught.value)
        starts = f"{path} is damaged: ", f"{path} has a field 'words.red'"
        assert said_of_it.startswith(starts) and "\n" not in said_of_it
        assert said_of_it.endswith("; delete it to have it made again")
        path.unlink()
        assert corpus.training_ids(pieces, 0, tmp_path)[1] == said

    def test_so_are_damaged_ids(self, corpus, tmp_path):
        pieces = corpus.tokenizer()
        first, _ = corpus.training_ids(pieces, 0, tmp_path)
        first, path = list(first), tmp_path / "train.ids"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ValueError) as caught:
            corpus.training_ids(pieces, 0, tmp_path)
        assert str(caught.value).startswith(f"{path} is damaged: it has ")
        assert str(caught.value).endswith("; delete it to have it made again")
        path.unlink()
        assert list(corpus.training_ids(pieces, 0, tmp_path)[0]) == first

    def test_a_vocabulary_beyond_two_bytes_an_id_is_kept_too(self, corpus, tmp_path, monkeypatch):
        pieces = corpus.tokenizer()
        monkeypatch.setattr(Tokenizer, "vocab_size", 70_001)
        real = Tokenizer.encode_batch

        def encode(self, texts):
            return [[70_000, *row] for row in real(self, texts)]

        monkeypatch.setattr(Tokenizer, "encode_batch", encode)
        pairs, _ = corpus.training_ids(pieces, 0, tmp_path)
        assert {source[0] for source, _ in pairs} == {70_000}

    def test_the_first_so_many_pairs_are_read_and_no_more(self, task, folder, sentences):
        few = replace(task, pairs=61).open(folder)
        assert list(few.read()) == list(few.read()) == sentences[:61]
        pairs, said = few.training_ids(few.tokenizer(), 0)
        assert len(pairs) == 61 and said == ["61 of 61 training pairs kept"]
        assert len(list(replace(task, pairs=10**9).open(folder).read())) == 178

    @pytest.mark.parametrize("pairs", [0, -1])
    def test_no_pairs_at_all_are_refused(self, task, pairs):
        with pytest.raises(ValueError, match=f"^pairs is {pairs}; expected at least 1"):
            replace(task, pairs=pairs)

    def test_more_merges_than_the_text_has_are_refused_with_how_many_it_has(
        self, task, folder
    ):
        with pytest.raises(ValueError, match=r"task\.merges\) is \d+; .* at most \d+$"):
            replace(task, merges=10_000).open(folder).tokenizer()

    def test_a_corpus_that_is_nowhere_says_where_to_put_it(self, tmp_path):
        task = RECIPES["wmt14-en-de-base"].task
        with pytest.raises(FileNotFoundError, match=r"europarl-v7\.tgz and unpack it there"):
            task.open(tmp_path)

    @pytest.mark.parametrize("split", ["train", "val", "test_2016_flickr"])
    def test_so_is_any_of_its_files_before_anything_is_made(
        self, task, folder, tmp_path, miniature, split
    ):
        """Training set, development set and test set: found before the first update."""
        shutil.copytree(folder, tmp_path / "data")
        (tmp_path / "data" / "multi30k" / f"{split}.de").unlink()
        recipe = replace(miniature, task=task)
        with pytest.raises(FileNotFoundError, match=f"multi30k/{split}.de is in no data folder"):
            train(recipe, 0, folder=tmp_path / "out", data_dir=tmp_path / "data")
        assert not (tmp_path / "out").exists()
        if split == "train":  # a model is tested without it
            data = task.open(tmp_path / "data", training=False)
            assert len(data.references) == 21 and len(list(data.dev)) == 17

    @pytest.mark.parametrize("name", ["train", "val", "test_2016_flickr"])
    def test_so_are_files_without_a_sentence_or_of_unequal_length(
        self, task, folder, tmp_path, name
    ):
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        for side in ("en", "de"):
            path = tmp_path / "multi30k" / f"{name}.{side}"
            path.write_bytes(b"")
        with pytest.raises(ValueError, match=f"{name}.en is empty"):
            task.open(tmp_path)
        if name != "train":  # the vocabulary reads all of that
            for side, text in {"en": "one\ntwo\n", "de": "eins\n"}.items():
                (tmp_path / "multi30k" / f"{name}.{side}").write_text(text)
            with pytest.raises(ValueError, match=f"{name}.de ends after line 1 but"):
                task.open(tmp_path)

    def test_so_is_an_empty_sentence_of_the_test_set(self, task, folder, tmp_path):
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        path = tmp_path / "multi30k" / "test_2016_flickr.de"
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:6], " ", *lines[7:]]) + "\n")
        with pytest.raises(ValueError, match="^sentence 7 of the test set of multi30k-en-de is em"):
            task.open(tmp_path)


class TestNeverCleaned:
    """A test set with its hard sentences left out would be another test set."""

    def test_development_pairs_are_all_there(self, corpus, sentences):
        pieces = corpus.tokenizer()
        pairs = corpus.held_out_ids(pieces)
        expected = [*sentences[173:178], ("many " * 300, "viele " * 290), *sentences[179:190]]
        assert [tuple(map(pieces.decode, pair)) for pair in pairs] == [
            tuple(map(tidy, pair)) for pair in expected
        ]
        assert corpus.held_out_ids(pieces, 7) == pairs[:7]
        assert len(pairs[5][0]) > 300

    def test_test_sentences_are_all_translated(self, corpus, sentences):
        pieces = corpus.tokenizer()
        expected = [*sentences[190:195], ("long " * 300, "lang " * 290), *sentences[196:]]
        saying = Saying(pieces, dict(expected))
        report = corpus.test(saying)
        assert saying.asked == [source for source, _ in expected]
        assert report.metrics["tested"].value == 21


class TestReport:
    def wrong(self, sentences):
        """Every third answer of another sentence."""
        answers = [target for _, target in sentences[190:]]
        answers[5] = "lang " * 290
        said = [answers[(n + 1) % 21] if n % 3 == 0 else answer for n, answer in enumerate(answers)]
        asked = [source for source, _ in sentences[190:]]
        asked[5] = "long " * 300
        return dict(zip(asked, said, strict=True)), answers

    def test_both_bleus_perplexity_and_the_translations(self, corpus, sentences):
        answers, right = self.wrong(sentences)
        translator = Saying(corpus.tokenizer(), answers)
        report = corpus.test(translator)
        assert report.translations == list(answers.values())
        metrics = report.metrics
        assert set(metrics) == {"bleu_13a", "chrf", "bleu_literature", "perplexity", "tested"}
        theirs = BLEU().corpus_score(list(answers.values()), [right])
        assert metrics["bleu_13a"].value == pytest.approx(theirs.score) and theirs.score < 95
        assert "tok:13a" in metrics["bleu_13a"].signature
        assert "case:lc" in metrics["bleu_literature"].signature
        assert "language:de" in metrics["bleu_literature"].signature
        unsure = metrics["perplexity"].value
        assert unsure == corpus.perplexity(translator) > 50
        assert [line.split() for line in report.lines()] == [
            ["bleu_13a", f"{theirs.score:.6g}", metrics["bleu_13a"].signature],
            ["chrf", f"{metrics['chrf'].value:.6g}", metrics["chrf"].signature],
            ["bleu_literature", f"{metrics['bleu_literature'].value:.6g}",
             *metrics["bleu_literature"].signature.split()],
            ["perplexity", f"{unsure:.6g}"], ["tested", "21"],
        ]
        document = json.loads(json.dumps(report.document()))
        assert document == {"metrics": to_builtins(metrics), "tables": {}, "notes": []}

    def test_without_sacremoses_there_is_one_bleu_and_a_line_about_the_other(
        self, corpus, sentences, monkeypatch
    ):
        answers, _ = self.wrong(sentences)
        translator = Saying(corpus.tokenizer(), answers)
        whole = corpus.test(translator)
        monkeypatch.setitem(sys.modules, "sacremoses", None)
        report = corpus.test(translator)
        assert set(report.metrics) == {"bleu_13a", "chrf", "perplexity", "tested"}
        assert report.metrics == {name: whole.metrics[name] for name in report.metrics}
        assert report.translations == list(answers.values()), "to compute it from elsewhere"
        *lines, last = report.lines()
        assert last.startswith("no BLEU of the literature: ") and "pip install sacremoses" in last
        assert report.document()["notes"] == [last] == report.notes
        assert [line.split() for line in lines] == [
            line.split() for line in whole.lines() if "literature" not in line
        ]

    def test_a_look_during_training_is_perplexity_on_the_first_of_the_development_set(
        self, corpus, task, folder
    ):
        translator = Saying(corpus.tokenizer())
        watched = corpus.watch(translator)
        assert watched == {"perplexity": corpus.perplexity(translator)}
        fewer = replace(task, watched=5).open(folder).watch(translator)
        assert fewer == {"perplexity": corpus.perplexity(translator, 5)} != watched


class TestSeveralReferences:
    """Tatoeba: one file for all splits, many English sentences with several translations."""

    @pytest.fixture
    def corpus(self, tmp_path, laid_out, made):
        pairs = made(997, 1)
        twice = [(one, other.lower()) for one, other in pairs[::3]]
        laid_out(tmp_path, "tatoeba-en-de", pairs, twice, [pairs[0]])
        return CorpusTask("tatoeba-en-de", any_version=True, merges=MERGES).open(tmp_path)

    def test_each_sentence_is_asked_once_and_scored_against_all_its_answers(self, corpus):
        references = corpus.corpus.references("test")
        assert len(references) > 3 and {len(answers) for _, answers in references} == {1, 2}
        # The second answer where there is one: without its reference it would not be right.
        saying = Saying(corpus.tokenizer(), {asked: known[-1] for asked, known in references})
        report = corpus.test(saying)
        assert saying.asked == [asked for asked, _ in references]
        assert report.metrics["bleu_13a"].value == pytest.approx(100)
        assert report.metrics["bleu_literature"].value == pytest.approx(100)
        # sacreBLEU's word for a number of references that differs.
        assert "nrefs:var" in report.metrics["bleu_13a"].signature
        assert report.metrics["tested"].value == len(references)
        assert len(report.translations) == len(references)

    def test_no_tested_sentence_is_trained_on(self, corpus):
        trained = {source for source, _ in corpus.read()}
        tested = {source for source, _ in corpus.corpus.references("test")}
        assert trained and tested and not trained & tested
        assert {tatoeba_split(source) for source in trained} == {"train"}


@pytest.mark.parametrize("name", ["multi30k-en-de", "tatoeba-en-de"])
def test_a_few_hundred_real_pairs_go_all_the_way(name, real_data, tmp_path, monkeypatch):
    """A model too small to learn much: what counts is that nothing of it can stop a run."""
    monkeypatch.setenv("ANNOTATED_DATA", str(real_data))
    recipe = override(RECIPES[name], [
        "task.pairs=199", "task.watched=7", "task.merges=101", "model.d_model=16", "model.d_ff=23",
        "model.heads=2", "model.layers=1", "training.steps=3", "training.average=2",
        "training.average_every=1", "training.batch_tokens=499",
    ])
    run = train(recipe, 0, folder=tmp_path)
    assert run.left_out[0].startswith("199 of 199 training pairs kept")
    assert [list(watched) for watched in run.watched.values()] == [["perplexity"]] * 3
    data = recipe.task.open(training=False)
    data.references = data.references[:11]  # so that the test takes seconds
    answers = run.translator.translate([source for source, _ in data.references])
    assert len(answers) == 11
    monkeypatch.setattr(TextData, "perplexity", lambda self, translator, count=None: 5.0)
    report = data.test(run.translator)
    assert report.translations == answers
    assert {"bleu_13a", "bleu_literature"} < set(report.metrics)
    assert all(0 <= report.metrics[f"bleu_{kind}"].value < 50 for kind in ("13a", "literature"))
