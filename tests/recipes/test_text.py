"""Corpora of real sentences: cleaned and counted, kept as ids, scored by both BLEUs.

The sentences here are numbers in words, in files of the corpora's names. Where the real Multi30k
and Tatoeba are at hand, a few of their sentences go the same way.
"""

import json
import sys
from dataclasses import replace

import pytest
from msgspec import to_builtins
from sacrebleu.metrics import BLEU

from annotated.data.corpora import tatoeba_split, text_corpus
from annotated.data.id_file import IdPairs
from annotated.data.text import Cleaning, tidy
from annotated.data.tokenizer import SMALLEST, Tokenizer
from annotated.model import Transformer, TransformerConfig
from annotated.recipes import RECIPES, Text, override, train
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
def corpus(folder):
    return Text(
        "multi30k-en-de", MERGES, Cleaning(max_words=37, max_ratio=9.0, max_pieces=53),
        data_dir=str(folder), any_version=True,
    )


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
        self, corpus, sentences, tmp_path, kept
    ):
        pieces = corpus.tokenizer()
        short = replace(corpus, cleaning=replace(corpus.cleaning, max_pieces=31))
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

    def test_nothing_left_out_is_said_too(self, corpus):
        clean = replace(corpus, pairs=83)
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
        assert str(caught.value) == f"{path} is damaged; delete it to have it made again"
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

    def test_the_first_so_many_pairs_are_read_and_no_more(self, corpus, sentences):
        few = replace(corpus, pairs=61)
        assert list(few.read()) == list(few.read()) == sentences[:61]
        pairs, said = few.training_ids(few.tokenizer(), 0)
        assert len(pairs) == 61 and said == ["61 of 61 training pairs kept"]
        assert len(list(replace(corpus, pairs=10**9).read())) == 178

    @pytest.mark.parametrize("pairs", [0, -1])
    def test_no_pairs_at_all_are_refused(self, corpus, pairs):
        with pytest.raises(ValueError, match=f"^pairs is {pairs}; expected at least 1"):
            replace(corpus, pairs=pairs)

    def test_more_merges_than_the_text_has_are_refused_with_how_many_it_has(self, corpus):
        with pytest.raises(ValueError, match=r"^merges must be at most \d+ for these texts"):
            replace(corpus, merges=10_000).tokenizer()

    def test_a_corpus_that_is_nowhere_says_where_to_put_it(self, tmp_path):
        corpus = replace(RECIPES["wmt14-en-de-base"].corpus, data_dir=str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"europarl-v7\.tgz and unpack it there"):
            corpus.tokenizer()


class TestNeverCleaned:
    """A test set with its hard sentences left out would be another test set."""

    def test_development_pairs_are_all_there(self, corpus, sentences):
        pieces = corpus.tokenizer()
        pairs = corpus.dev(pieces)
        expected = [*sentences[173:178], ("many " * 300, "viele " * 290), *sentences[179:190]]
        assert [tuple(map(pieces.decode, pair)) for pair in pairs] == [
            tuple(map(tidy, pair)) for pair in expected
        ]
        assert corpus.dev(pieces, 7) == pairs[:7]
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
        assert set(metrics) == {"bleu_13a", "bleu_literature", "perplexity", "tested"}
        theirs = BLEU().corpus_score(list(answers.values()), [right])
        assert metrics["bleu_13a"].value == pytest.approx(theirs.score) and theirs.score < 95
        assert "tok:13a" in metrics["bleu_13a"].signature
        assert "case:lc" in metrics["bleu_literature"].signature
        assert "language:de" in metrics["bleu_literature"].signature
        unsure = metrics["perplexity"].value
        assert unsure == round(corpus.perplexity(translator), 4) > 50
        assert report.lines == [
            f"bleu_13a {theirs.score:.2f} on test2016, 21 sentences "
            f"({metrics['bleu_13a'].signature})",
            f"bleu_literature {metrics['bleu_literature'].value:.2f} on test2016, 21 sentences "
            f"({metrics['bleu_literature'].signature})",
            f"perplexity {unsure:.3f} on val",
        ]
        assert report.facts == {"test": "test2016", "dev": "val", "metrics": to_builtins(metrics)}
        assert json.loads(json.dumps(report.facts)) == report.facts

    def test_without_sacremoses_there_is_one_bleu_and_a_line_about_the_other(
        self, corpus, sentences, monkeypatch
    ):
        answers, _ = self.wrong(sentences)
        translator = Saying(corpus.tokenizer(), answers)
        whole = corpus.test(translator)
        monkeypatch.setitem(sys.modules, "sacremoses", None)
        report = corpus.test(translator)
        assert set(report.metrics) == {"bleu_13a", "perplexity", "tested"}
        assert report.metrics == {name: whole.metrics[name] for name in report.metrics}
        assert report.translations == list(answers.values()), "to compute it from elsewhere"
        *lines, last = report.lines
        assert last.startswith("no BLEU of the literature: ") and "pip install sacremoses" in last
        assert lines == [line for line in whole.lines if "literature" not in line]

    def test_a_look_during_training_is_perplexity_on_the_first_of_the_development_set(
        self, corpus, monkeypatch
    ):
        translator = Saying(corpus.tokenizer())
        watched = corpus.watch(translator)
        assert watched == {"perplexity": round(corpus.perplexity(translator), 4)}
        monkeypatch.setattr("annotated.recipes.text.WATCHED", 5)
        fewer = corpus.watch(translator)
        assert fewer == {"perplexity": round(corpus.perplexity(translator, 5), 4)} != watched
        assert corpus.say({"perplexity": 12.345}) == "perplexity 12.35 on val"


class TestSeveralReferences:
    """Tatoeba: one file for all splits, many English sentences with several translations."""

    @pytest.fixture
    def corpus(self, tmp_path, laid_out, made):
        pairs = made(997, 1)
        twice = [(one, other.lower()) for one, other in pairs[::3]]
        laid_out(tmp_path, "tatoeba-en-de", pairs, twice, [pairs[0]])
        return Text("tatoeba-en-de", MERGES, data_dir=str(tmp_path), any_version=True)

    def test_each_sentence_is_asked_once_and_scored_against_all_its_answers(self, corpus):
        references = text_corpus(
            "tatoeba-en-de", corpus.data_dir, any_version=True
        ).references("test")
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
        tested = {source for source, _ in corpus.corpus().references("test")}
        assert trained and tested and not trained & tested
        assert {tatoeba_split(source) for source in trained} == {"train"}


@pytest.mark.parametrize("name", ["multi30k-en-de", "tatoeba-en-de"])
def test_a_few_hundred_real_pairs_go_all_the_way(name, real_data, tmp_path, monkeypatch):
    """A model too small to learn much: what counts is that nothing of it can stop a run."""
    monkeypatch.setenv("ANNOTATED_DATA", str(real_data))
    recipe = override(RECIPES[name], [
        "corpus.pairs=199", "corpus.merges=101", "model.d_model=16", "model.d_ff=23",
        "model.heads=2", "model.layers=1", "training.steps=3", "training.average=2",
        "training.average_every=1", "training.batch_tokens=499",
    ])
    monkeypatch.setattr("annotated.recipes.text.WATCHED", 7)
    run = train(recipe, 0, folder=tmp_path)
    assert run.left_out[0].startswith("199 of 199 training pairs kept")
    assert [list(watched) for watched in run.watched.values()] == [["perplexity"]] * 3
    corpus = recipe.corpus.corpus()
    asked = corpus.references(corpus.test)[:11]
    answers = run.translator.translate([source for source, _ in asked])
    assert len(answers) == 11

    class Few:
        """The first of the references, so that the test takes seconds."""

        name, target, dev, test, pairs = corpus.name, corpus.target, corpus.dev, corpus.test, None

        def __init__(self):
            self.pairs, self.references = corpus.pairs, lambda split: asked

    monkeypatch.setattr(Text, "corpus", lambda self: Few())
    monkeypatch.setattr(Text, "perplexity", lambda self, translator, count=None: 5.0)
    report = recipe.corpus.test(run.translator)
    assert report.translations == answers
    assert {"bleu_13a", "bleu_literature"} < set(report.metrics)
    assert all(0 <= report.metrics[f"bleu_{kind}"].value < 50 for kind in ("13a", "literature"))
