"""§6.1: two BLEUs that are never mixed, and chrF, each with how it was made.

References are lists of texts, as sacreBLEU takes them: one list for each
reference, each with one text a sentence, and None where a sentence has fewer
references than another. All texts are brought to Unicode's normal form C, as
those that a model is trained on; how many it changed is in the signature
(`nfc:3`), which without that part is sacreBLEU's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from unicodedata import normalize

from sacrebleu.metrics import BLEU, CHRF

from annotated.records import Metric

LANGUAGES = ("en", "de", "fr")


@dataclass(frozen=True)
class CorpusScore:
    """A score from 0 to 100, and the signature that says how to repeat it."""

    value: float
    signature: str
    name: str

    @property
    def metric(self) -> Metric:
        """What a `Record` keeps: metrics={score.name: score.metric}."""
        return Metric(self.value, signature=self.signature)


def bleu_13a(
    hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]
) -> CorpusScore:
    """§6.1: BLEU-4 of the corpus as `sacrebleu` gives it: 13a, cased.

    Takes text as people write it, not tokens. BLEU-4 counts runs of four
    tokens: where no sentence has one, as with numbers spelled in one German
    word, it is 0 even if all is right, so numbers are scored by exact match.
    Raises ValueError for nothing to score, lists of unequal length, and a
    sentence without a reference. The order of sentences changes nothing.
    """
    rows, changed = _composed(hypotheses, references)
    return _score("bleu_13a", BLEU(tokenize="13a"), rows, *changed)


def bleu_literature(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str | None]],
    language: str,
) -> CorpusScore:
    """§6.1: BLEU-4 after `moses_tokens`, as Multi30k's literature reports it.

    Takes the same text as `bleu_13a`, with the language it is in, and raises
    the same. Upper case and the shape of quotation marks change nothing.
    """
    rows, changed = _composed(hypotheses, references)
    # All is lower-cased by then; lowercase=True makes the signature say so.
    # force=True: that the text is tokenised already is meant, and no mistake.
    bleu = BLEU(tokenize="none", lowercase=True, force=True)
    tokens = [moses_tokens(row, language) for row in rows]
    before = (
        "before:lowercase+normalize(perl_parity)+tokenize"
        f"|sacremoses:{version('sacremoses')}|language:{language}"
    )
    return _score("bleu_literature", bleu, tokens, before, *changed)


def chrf(
    hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]
) -> CorpusScore:
    """Not in the paper: chrF2 as `sacrebleu` gives it, runs of 1 to 6 letters.

    Takes the same text as `bleu_13a`, and raises the same. It needs no
    tokens, and half a German compound counts half.
    """
    rows, changed = _composed(hypotheses, references)
    return _score("chrf", CHRF(), rows, *changed)


def moses_tokens(
    texts: Sequence[str | None], language: str
) -> list[str | None]:
    """Texts lower-cased, then punctuation-normalised, then tokenised.

    That order, and Perl's rules where the port has others of its own, give
    exactly the token counts that Multi30k's authors publish. None stays None.
    Raises ValueError for a language other than English, German and French.
    """
    if language not in LANGUAGES:  # sacremoses takes unknown ones for English
        known = ", ".join(LANGUAGES)
        raise ValueError(f"language must be one of {known}, not {language!r}")
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise ImportError(
            "the literature's BLEU needs sacremoses: pip install sacremoses"
        ) from None
    normalizer = MosesPunctNormalizer(language, perl_parity=True)
    tokenizer = MosesTokenizer(language)

    def tokens(text: str) -> str:
        text = normalizer.normalize(text.lower())
        return tokenizer.tokenize(text, return_str=True)

    return [None if text is None else tokens(text) for text in texts]


def _score(name, metric, rows, *before: str) -> CorpusScore:
    value = metric.corpus_score(rows[0], rows[1:]).score
    return CorpusScore(value, "|".join([str(metric.get_signature()), *before]), name)


def _composed(hypotheses, references) -> tuple[list[list[str | None]], list[str]]:
    """Both, checked and in NFC, with what the signature says of it."""
    _check(hypotheses, references)
    rows = [hypotheses, *references]
    nfc = [[text and normalize("NFC", text) for text in row] for row in rows]
    changed = sum(a != b for row, new in zip(rows, nfc) for a, b in zip(row, new))
    return nfc, [f"nfc:{changed}"] if changed else []


def _check(hypotheses, references) -> None:
    """What sacreBLEU would pass over: it cuts every list to the shortest."""
    if isinstance(hypotheses, str):
        raise ValueError(
            f"hypotheses is the text {hypotheses!r}; "
            "expected a list with one text a sentence"
        )
    if not hypotheses or not references:
        missing = "references" if hypotheses else "hypotheses"
        raise ValueError(f"there are no {missing}; expected at least one")
    for number, texts in enumerate(references, 1):
        if isinstance(texts, str):
            raise ValueError(
                f"reference list {number} is the text {texts!r}; "
                "expected a list with one text a sentence"
            )
        if len(texts) != len(hypotheses):
            raise ValueError(
                f"reference list {number} has {len(texts)} sentences; "
                f"expected one for each of {len(hypotheses)} hypotheses"
            )
    for number, texts in enumerate(zip(*references), 1):
        given = [text for text in texts if text is not None]
        if not given or not all(map(str.strip, given)):
            fault = "an empty" if given else "no"
            raise ValueError(
                f"sentence {number} has {fault} reference; expected text, "
                "or None beside another reference's text"
            )
