"""Two BLEUs: each is what the command `sacrebleu` prints, and says how it was made."""

import dataclasses
import gzip
import importlib
import json
import os
import random
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unicodedata import normalize

import pytest

from annotated import machine, records
from annotated.translation.bleu import (
    CorpusScore,
    bleu_13a,
    bleu_literature,
    chrf,
    moses_tokens,
)

SACREBLEU = f"version:{version('sacrebleu')}"
DATA = Path(
    os.environ.get("ANNOTATED_DATA") or Path(__file__).parents[3] / "shared" / "data"
)

REFERENCES = [
    "Der Hund schläft unter dem alten Tisch.",
    "„Komm bald wieder“, rief sie ihm nach.",
    "Um 7.30 Uhr fährt die U-Bahn, z. B. nach Köln.",
    "Das Brot kostet 3,50 Euro – gestern war es billiger …",
    "Wie geht’s dir heute?",
]
OTHERS = [
    "Unter dem alten Tisch schläft ein Hund.",
    None,
    "Die U-Bahn nach Köln fährt um 7.30 Uhr.",
    None,
    "Wie geht es dir heute?",
]
HYPOTHESES = [
    "Der Hund schläft unter dem alten Tisch.",
    '"Komm bald wieder", rief Sie ihm nach.',
    "Um 7.30 Uhr fährt die U-Bahn nach Köln.",
    "das Brot kostet 3,50 Euro - gestern war es billig...",
    "Wie geht es dir heute?",
]
# By hand: what Moses makes of the German sentences above, and of nothing else.
TOKENS = {
    "Der Hund schläft unter dem alten Tisch.": "der hund schläft unter dem alten tisch .",
    "„Komm bald wieder“, rief sie ihm nach.":
        "&quot; komm bald wieder &quot; , rief sie ihm nach .",
    "Um 7.30 Uhr fährt die U-Bahn, z. B. nach Köln.":
        "um 7.30 uhr fährt die u-bahn , z. b. nach köln .",
    "Das Brot kostet 3,50 Euro – gestern war es billiger …":
        "das brot kostet 3,50 euro - gestern war es billiger ...",
    "Wie geht’s dir heute?": "wie geht &apos; s dir heute ?",
    "Unter dem alten Tisch schläft ein Hund.": "unter dem alten tisch schläft ein hund .",
    "Die U-Bahn nach Köln fährt um 7.30 Uhr.": "die u-bahn nach köln fährt um 7.30 uhr .",
    "Wie geht es dir heute?": "wie geht es dir heute ?",
    '"Komm bald wieder", rief Sie ihm nach.':
        "&quot; komm bald wieder &quot; , rief sie ihm nach .",
    "Um 7.30 Uhr fährt die U-Bahn nach Köln.": "um 7.30 uhr fährt die u-bahn nach köln .",
    "das Brot kostet 3,50 Euro - gestern war es billig...":
        "das brot kostet 3,50 euro - gestern war es billig ...",
    None: None,
}


def german(hypotheses, references):
    return bleu_literature(hypotheses, references, "de")


both = pytest.mark.parametrize("bleu", [bleu_13a, german])


def command_line(folder, hypotheses, references, *options):
    """Score and signature that the command prints, 12 digits after the point."""
    files = []
    for number, texts in enumerate([hypotheses, *references]):
        files.append(folder / str(number))
        files[-1].write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *map(str, files[1:]), "-i", str(files[0])]
    command += ["--metrics", "bleu", "--format", "json", "--width", "12", *options]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return printed["score"], printed["signature"]


class TestAgainstTheCommandLine:
    def test_13a(self, tmp_path):
        bleu = bleu_13a(HYPOTHESES, [REFERENCES])
        value, signature = command_line(tmp_path, HYPOTHESES, [REFERENCES])
        assert bleu.value == pytest.approx(value, abs=1e-9)
        assert 20 < bleu.value < 90  # neither end, where much goes unseen
        assert bleu.signature == signature
        assert signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{SACREBLEU}"

    def test_13a_with_two_references(self, tmp_path):
        whole = [other or first for first, other in zip(REFERENCES, OTHERS)]
        bleu = bleu_13a(HYPOTHESES, [REFERENCES, whole])
        value, signature = command_line(tmp_path, HYPOTHESES, [REFERENCES, whole])
        assert bleu.value == pytest.approx(value, abs=1e-9)
        assert bleu.signature == signature
        assert signature.startswith("nrefs:2|")
        # None adds nothing, and so does a text that is given twice
        unequal = bleu_13a(HYPOTHESES, [REFERENCES, OTHERS])
        assert unequal.value == bleu.value
        assert unequal.signature == signature.replace("nrefs:2", "nrefs:var")

    def test_literature(self, tmp_path):
        bleu = german(HYPOTHESES, [REFERENCES])
        tokens = [[TOKENS[text] for text in texts] for texts in (HYPOTHESES, REFERENCES)]
        value, signature = command_line(
            tmp_path, tokens[0], tokens[1:], "--tokenize", "none", "--lowercase"
        )
        assert bleu.value == pytest.approx(value, abs=1e-9)
        assert 20 < bleu.value < 90
        assert signature == f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|{SACREBLEU}"
        assert bleu.signature == (
            f"{signature}|before:lowercase+normalize(perl_parity)+tokenize"
            f"|sacremoses:{version('sacremoses')}|language:de"
        )
        # with lower-cased tokens, --lowercase is in the signature alone
        assert command_line(tmp_path, *(tokens[0], tokens[1:]), "--tokenize", "none")[0] == value

    def test_literature_with_references_of_unequal_number(self, tmp_path):
        bleu = german(HYPOTHESES, [REFERENCES, OTHERS])
        whole = [TOKENS[other or first] for first, other in zip(REFERENCES, OTHERS)]
        tokens = [[TOKENS[text] for text in texts] for texts in (HYPOTHESES, REFERENCES)]
        value, _ = command_line(tmp_path, tokens[0], [tokens[1], whole], "--tokenize", "none")
        assert bleu.value == pytest.approx(value, abs=1e-9)
        assert bleu.value > german(HYPOTHESES, [REFERENCES]).value
        assert bleu.signature.startswith("nrefs:var|case:lc|")


class TestMoses:
    @pytest.mark.parametrize("text", TOKENS)
    def test_tokens_by_hand(self, text):
        assert moses_tokens([text], "de") == [TOKENS[text]]

    @pytest.mark.parametrize(
        "language, text, tokens",
        [
            ("de", "»Ja«, sagte sie (leise).", "&quot; ja &quot; , sagte sie ( leise ) ."),
            ("de", "Es wiegt 1\u00a0000 kg.", "es wiegt 1,000 kg ."),
            ("de", "Das ist „Unfug.“ Wirklich?", "das ist &quot; unfug &quot; . wirklich ?"),
            ("de", "Das ist Hans’ Hut.", "das ist hans &quot; hut ."),  # as Perl's script has it
            ("en", "That is “nonsense”.", "that is &quot; nonsense . &quot;"),
            ("en", "The dog’s bowl isn't here.", "the dog &apos;s bowl isn &apos;t here ."),
            ("fr", "L’eau est « froide ».", "l&apos; eau est &quot; froide &quot; ."),
        ],
    )
    def test_each_language_has_its_own_rules(self, language, text, tokens):
        assert moses_tokens([text], language) == [tokens]

    # The number of words as the README of the data set's own repository gives it, for files
    # that its authors made with Moses' Perl scripts. Without perl_parity val.fr has one less.
    @pytest.mark.parametrize(
        "name, words",
        [
            ("val.en", 13308), ("val.de", 12828), ("val.fr", 14381),
            ("test_2016_flickr.en", 12968), ("test_2016_flickr.de", 12103),
            ("test_2016_flickr.fr", 13988),
        ],
    )
    def test_multi30k_has_as_many_tokens_as_its_authors_counted(self, name, words):
        file = DATA / "multi30k" / f"{name}.gz"
        if not file.is_file():
            pytest.skip(f"needs Multi30k: no {file.name} in $ANNOTATED_DATA/multi30k")
        texts = gzip.decompress(file.read_bytes()).decode().removesuffix("\n").split("\n")
        tokens = moses_tokens(texts, name[-2:])
        assert sum(len(line.split()) for line in tokens) == words

    def test_another_language_is_refused(self):
        for language in ("german", "DE", "nl", ""):
            expected = f"^language must be one of en, de, fr, not '{language}'$"
            with pytest.raises(ValueError, match=expected):
                bleu_literature(HYPOTHESES, [REFERENCES], language)

    def test_without_sacremoses_only_this_one_fails_and_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sacremoses", None)
        monkeypatch.delitem(sys.modules, bleu_13a.__module__)
        module = importlib.import_module(bleu_13a.__module__)
        assert module.bleu_13a is not bleu_13a  # it was imported again, without sacremoses
        with pytest.raises(ImportError, match="needs sacremoses: pip install sacremoses$"):
            module.bleu_literature(HYPOTHESES, [REFERENCES], "de")
        assert module.bleu_13a(REFERENCES, [REFERENCES]).value == pytest.approx(100)


class TestWhatTheyMeasure:
    def test_case_counts_only_in_13a(self):
        lower = [text.lower() for text in REFERENCES]
        assert bleu_13a(lower, [REFERENCES]).value < 60
        assert german(lower, [REFERENCES]).value == pytest.approx(100)

    def test_the_shape_of_quotes_counts_only_in_13a(self):
        curly = ["„Komm bald wieder“, rief sie ihm nach.", "Wie geht’s dir heute?"]
        straight = ['"Komm bald wieder", rief sie ihm nach.', "Wie geht's dir heute?"]
        guillemets = ["»Komm bald wieder«, rief sie ihm nach.", "Wie geht´s dir heute?"]
        for texts in (straight, guillemets):
            assert bleu_13a(texts, [curly]).value < 80
            assert german(texts, [curly]).value == pytest.approx(100)

    @both
    def test_a_perfect_translation_has_100(self, bleu):
        assert bleu(REFERENCES, [REFERENCES]).value == pytest.approx(100)
        # and it is perfect if it is any one of the references
        mixed = [other or first for first, other in zip(REFERENCES, OTHERS)]
        assert bleu(mixed, [REFERENCES, OTHERS]).value == pytest.approx(100)
        assert bleu(mixed, [OTHERS, REFERENCES]).value == pytest.approx(100)
        assert bleu(mixed, [REFERENCES]).value < 90

    @both
    def test_nothing_in_common_has_0_and_so_has_nothing_said(self, bleu):
        assert bleu(["Heute regnet es"] * 5, [REFERENCES[:1] * 5]).value == 0
        assert bleu([""] * 5, [REFERENCES]).value == 0

    @both
    def test_the_order_of_sentences_changes_nothing(self, bleu):
        rows = list(zip(HYPOTHESES, REFERENCES, OTHERS))
        expected = bleu(HYPOTHESES, [REFERENCES, OTHERS])
        for seed in range(7):
            random.Random(seed).shuffle(rows)
            hypotheses, *references = map(list, zip(*rows))
            assert bleu(hypotheses, references) == expected
            assert bleu(hypotheses, references[::-1]) == expected

    @both
    def test_one_word_has_0_even_if_it_is_right(self, bleu):
        """No runs of four tokens: the reason why numbers are scored by exact match."""
        words = ["dreihundertzweiundvierzig", "zweihundertvier", "vierhundertzwei"]
        assert bleu(words, [words]).value == 0
        assert bleu(["eins zwei drei"], [["eins zwei drei"]]).value == 0
        assert bleu(["eins zwei drei vier"], [["eins zwei drei vier"]]).value == pytest.approx(100)

    @both
    def test_it_is_of_the_corpus_and_not_a_mean_over_sentences(self, bleu):
        alone = [bleu([h], [[r]]).value for h, r in zip(HYPOTHESES, REFERENCES)]
        together = bleu(HYPOTHESES, [REFERENCES]).value
        assert min(alone) < together < max(alone)
        assert together != pytest.approx(sum(alone) / len(alone), abs=0.1)


class TestUnicode:
    """The same text in another normal form is the same text, and the signature says so."""

    @both
    def test_a_decomposed_copy_of_the_reference_is_right(self, bleu):
        apart = [normalize("NFD", text) for text in REFERENCES]
        changed = sum(a != b for a, b in zip(apart, REFERENCES))
        assert changed == 2
        score, plain = bleu(apart, [REFERENCES]), bleu(REFERENCES, [REFERENCES])
        assert score.value == plain.value == pytest.approx(100)
        assert score.signature == f"{plain.signature}|nfc:{changed}"

    @both
    def test_any_mixture_of_forms_has_one_score(self, bleu):
        expected = bleu(HYPOTHESES, [REFERENCES, OTHERS])
        others = [text and normalize("NFD", text) for text in OTHERS]
        score = bleu(HYPOTHESES, [REFERENCES, others])
        assert score.value == expected.value
        assert score.signature == f"{expected.signature}|nfc:2"


class TestRecord:
    @both
    def test_a_record_takes_it_as_it_is(self, bleu, tmp_path):
        score = bleu(HYPOTHESES, [REFERENCES])
        assert score.metric == records.Metric(score.value, signature=score.signature)
        record = records.Record(
            **machine.this_machine(), experiment="some-corpus", command="annotated evaluate",
            recipe=None, seed=0, commit="unknown", precision="float32", seconds=1.5,
            tokens_per_update=None, tables={}, metrics={score.name: score.metric},
            date="2024-02-29",
        )
        assert records.read(records.write(record, tmp_path)).metrics == {score.name: score.metric}

    def test_the_two_have_two_names(self):
        assert bleu_13a(HYPOTHESES, [REFERENCES]).name == "bleu_13a"
        assert german(HYPOTHESES, [REFERENCES]).name == "bleu_literature"

    def test_it_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            CorpusScore(31.7, "nrefs:1", "bleu_13a").value = 41.8


class TestErrors:
    @both
    @pytest.mark.parametrize(
        "hypotheses, references, message",
        [
            (
                "ab", [["a", "b"]],
                "hypotheses is the text 'ab'; expected a list with one text a sentence",
            ),
            ([], [[]], "there are no hypotheses; expected at least one"),
            (["Ja."], [], "there are no references; expected at least one"),
            (
                ["Ja."], ["Ja."],
                "reference list 1 is the text 'Ja.'; expected a list with one text a sentence",
            ),
            (
                ["Ja.", "Nein.", "Doch."], [["Ja.", "Nein.", "Doch."], ["Ja.", "Nein."]],
                "reference list 2 has 2 sentences; expected one for each of 3 hypotheses",
            ),
            (
                ["Ja."], [["Ja.", "Nein."]],
                "reference list 1 has 2 sentences; expected one for each of 1 hypotheses",
            ),
            (
                ["Ja.", "Nein."], [["Ja.", None], [None, None]],
                "sentence 2 has no reference; "
                "expected text, or None beside another reference's text",
            ),
            (
                ["Ja.", "Nein."], [["Ja.", "Nein."], [" ", None]],
                "sentence 1 has an empty reference; "
                "expected text, or None beside another reference's text",
            ),
        ],
    )
    def test_each_is_one_line_that_says_what_and_where(self, bleu, hypotheses, references, message):
        with pytest.raises(ValueError) as raised:
            bleu(hypotheses, references)
        assert str(raised.value) == message


PATHS = {"13a": bleu_13a, "literature": german, "chrf": chrf}


@pytest.mark.parametrize("metric", PATHS.values(), ids=PATHS)
class TestEnds:
    """What any metric of translations must say, through our path to it."""

    SAID = ["Ein Hund läuft über die grüne Wiese.", "Zwei Kinder spielen am Strand mit einem Ball.",
            "Der Zug nach Köln fährt heute um 7.30 Uhr ab."]

    def test_the_references_themselves_have_100(self, metric):
        assert metric(self.SAID, [self.SAID]).value == pytest.approx(100)
        assert metric(self.SAID, [["Etwas anderes."] * 3, self.SAID]).value == pytest.approx(100)

    def test_nothing_said_has_0(self, metric):
        assert metric(["", "", ""], [self.SAID]).value == 0

    def test_one_word_more_costs_a_little_and_one_for_another_too(self, metric):
        more = [self.SAID[0].replace("grüne", "schöne grüne"), *self.SAID[1:]]
        other = [self.SAID[0].replace("grüne", "braune"), *self.SAID[1:]]
        for said in (more, other):
            assert 75 < metric(said, [self.SAID]).value < 100
        assert metric(self.SAID[1:] + self.SAID[:1], [self.SAID]).value < 40


def test_chrf_is_the_command_lines(tmp_path):
    score = chrf(HYPOTHESES, [REFERENCES])
    value, signature = command_line(tmp_path, HYPOTHESES, [REFERENCES], "--metrics", "chrf")
    assert score.name == "chrf" and score.signature == signature
    assert score.value == pytest.approx(value, abs=1e-9) and 20 < value < 90
    assert signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|")
