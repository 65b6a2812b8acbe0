"""Every symbol of the book's formulas: its meaning, its size, its name in the code.

The page *Notation* is made of `SYMBOLS`. `tools/notebooks.py check` takes
each formula of each page apart and asks for its symbols here;
`tests/test_notation.py` looks up each name in the package, and compares each
size of a parameter with the parameter's own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """One symbol in one meaning.

    `tex` is how it is written; `means` what it stands for; `size` its value
    or shape in letters, such as "m × d_k"; `code` its name in the package,
    without "annotated.": an object, an attribute, or an argument "f(x)".
    """

    tex: str
    means: str
    size: str = ""
    code: str = ""


SYMBOLS: Mapping[str, Sequence[Symbol]] = {
    "Sizes": (
        Symbol("m", "pieces of the source, its end among them; keys", "m"),
        Symbol("n", "places that ask: pieces of the target, or of any sequence", "n"),
        Symbol(r"d_\mathrm{model}", "numbers in the vector of a piece", "d_model",
               "TransformerConfig.d_model"),
        Symbol("d", "the same, in counts of work", "d_model", "TransformerConfig.d_model"),
        Symbol(r"d_\mathrm{ff}", "numbers inside a feed-forward network", "d_ff",
               "TransformerConfig.d_ff"),
        Symbol("h", "heads of an attention", "h", "TransformerConfig.heads"),
        Symbol("d_k", "numbers in a query, and in a key", "d_k", "TransformerConfig.d_k"),
        Symbol("d_v", "numbers in a value", "d_v", "TransformerConfig.d_v"),
        Symbol("N", "layers of the encoder, and of the decoder", "N",
               "TransformerConfig.layers"),
        Symbol("V", "pieces in the vocabulary", "V", "TransformerConfig.vocab_size"),
    ),
    "Attention": (
        Symbol("Q", "queries of one head, one per row", "n × d_k",
               "scaled_dot_product_attention(query)"),
        Symbol("K", "keys of one head", "m × d_k", "scaled_dot_product_attention(key)"),
        Symbol("V", "values of one head", "m × d_v", "scaled_dot_product_attention(value)"),
        Symbol("q", "one query", "d_k"),
        Symbol("k", "one key", "d_k"),
        Symbol("w", "one weight of a softmax, from 0 to 1"),
        Symbol("c", "a vector added to every key", "d_k"),
        Symbol(r"\mathrm{Attention}", "equation (1): weights, and the mix of values", "n × d_v",
               "scaled_dot_product_attention"),
        Symbol(r"\mathrm{softmax}", "positive shares that sum to 1 along a row", "n × m",
               "model.attention.masked_softmax"),
        Symbol(r"\mathrm{MultiHead}", "h attentions, joined and projected; its Q, K and V are "
               "whole vectors", "n × d_model", "MultiHeadAttention"),
        Symbol(r"\mathrm{Concat}", "the heads' outputs side by side", "n × h·d_v"),
        Symbol(r"\mathrm{head}_i", "the output of one head", "n × d_v"),
        Symbol("W_i^Q", "makes the queries of one head", "d_model × d_k"),
        Symbol("W_i^K", "makes its keys", "d_model × d_k"),
        Symbol("W_i^V", "makes its values", "d_model × d_v"),
        Symbol("W^Q", "the queries' matrices of all heads, side by side", "d_model × h·d_k",
               "MultiHeadAttention.w_q"),
        Symbol("W^K", "the keys'", "d_model × h·d_k", "MultiHeadAttention.w_k"),
        Symbol("W^V", "the values'", "d_model × h·d_v", "MultiHeadAttention.w_v"),
        Symbol("W^O", "brings the joined heads back to the width of the model",
               "h·d_v × d_model", "MultiHeadAttention.w_o"),
        Symbol(r"\mathrm{score}", "what a query and a key get before the softmax"),
        Symbol("W_q", "of additive attention: a layer for the query", "",
               "contenders.additive.additive_attention(w_q)"),
        Symbol("W_k", "of additive attention: a layer for the key", "",
               "contenders.additive.additive_attention(w_k)"),
        Symbol("w", "of additive attention: weights that sum up", "",
               "contenders.additive.additive_attention(w)"),
    ),
    "Layers, input and output": (
        Symbol("x", "what goes into a part: vectors, one per row", "n × d_model",
               "MultiHeadAttention.forward(x)"),
        Symbol("y", "another vector like x; in training, the right piece", "d_model"),
        Symbol("f", "what a sub-layer does to x", "n × d_model",
               "model.stacks.Sublayer.forward(f)"),
        Symbol(r"\mathrm{LayerNorm}", "subtracts a vector's mean, divides by its spread; then"
               " scales and shifts, learned", "n × d_model", "model.stacks.Sublayer.norm"),
        Symbol(r"\mathrm{FFN}", "equation (2): the network at every place", "n × d_model",
               "model.PositionwiseFeedForward"),
        Symbol("W_1", "its first matrix", "d_model × d_ff", "model.PositionwiseFeedForward.w_1"),
        Symbol("b_1", "added after it", "d_ff", "model.PositionwiseFeedForward.w_1.bias"),
        Symbol("W_2", "its second matrix", "d_ff × d_model", "model.PositionwiseFeedForward.w_2"),
        Symbol("b_2", "added after it", "d_model", "model.PositionwiseFeedForward.w_2.bias"),
        Symbol("E", "embedding and output layer in one", "V × d_model",
               "model.TiedEmbedding.weight"),
        Symbol("p", "a probability: of a piece, or of being dropped"),
    ),
    "Positions": (
        Symbol("pos", "a place, counted from 0", "", "sinusoidal_encoding(start)"),
        Symbol("PE", "the vectors of the places; with an index, one of them", "n × d_model",
               "sinusoidal_encoding"),
        Symbol("i", "a pair of channels: sine 2i, cosine 2i + 1; elsewhere a place or a head"),
        Symbol(r"\omega_i", "angle by which pair i turns from place to place"),
        Symbol("k", "how many places further"),
        Symbol("R_k", "the rotation that leads k places on", "d_model × d_model",
               "analysis.positions.rotation"),
        Symbol("a", "one place"),
        Symbol("b", "another"),
        Symbol("j", "another place than i"),
        Symbol(r"\pi", "half a turn"),
        Symbol("e", "the base of natural logarithms"),
    ),
    "Training": (
        Symbol(r"\text{rate}", "equation (3): the learning rate; the paper's lrate", "",
               "learning_rate"),
        Symbol(r"\text{step}", "number of the update, from 1; the paper's step_num", "",
               "learning_rate(step)"),
        Symbol("w", "updates of warm-up; the paper's warmup_steps", "",
               "learning_rate(warmup_steps)"),
        Symbol("t", "number of the update; elsewhere a place"),
        Symbol("m", "Adam's mean of gradients; with a hat, corrected for its start"),
        Symbol("v", "Adam's mean of their squares; with a hat, corrected"),
        Symbol(r"\beta_1", "how much of the mean of gradients stays", "",
               "training.TrainingConfig.betas"),
        Symbol(r"\beta_2", "how much of the mean of squares stays", "",
               "training.TrainingConfig.betas"),
        Symbol(r"\beta", "either of the two"),
        Symbol(r"\epsilon", "keeps Adam from dividing by zero", "",
               "training.TrainingConfig.eps"),
        Symbol("q", "the target distribution of label smoothing", "V"),
        Symbol("k", "a piece of the vocabulary"),
        Symbol(r"\varepsilon", "the share that label smoothing gives away", "",
               "label_smoothed_loss(epsilon)"),
    ),
    "Costs and paths": (
        Symbol("O", "grows at most like, with a constant left out"),
        Symbol("k", "pieces that one place of a convolution reads"),
        Symbol("r", "places that one place sees, where attention is restricted"),
        Symbol("L", "layers on top of each other"),
        Symbol("h_t", "state of a recurrent network at place t", "d_model"),
        Symbol("x_t", "its input there", "d_model"),
        Symbol("W", "its matrix for the input", "d_model × d_model"),
        Symbol("U", "its matrix for the state", "d_model × d_model"),
    ),
}


def sized(size: str, known: Mapping[str, int]) -> str:
    """A size with the letters that are `known` as numbers: "m × d_k" as "m × 64"."""

    def factor(text: str) -> str:
        letters = text.split("·")
        if not all(letter in known for letter in letters):
            return text
        product = 1
        for letter in letters:
            product *= known[letter]
        return f"{product:,}".replace(",", "\u202f") if product >= 10_000 else str(product)

    return " × ".join(factor(text) for text in size.split(" × ")) if size else ""


def as_markdown(group: str, columns: Mapping[str, Mapping[str, int]]) -> str:
    """A group of `SYMBOLS` as a Markdown table, names in the code under the meanings.

    `columns` is heading -> letter -> number, for the sizes.
    """
    rows = [["symbol", "meaning, name in the code", *columns], ["---"] * (len(columns) + 2)]
    for symbol in SYMBOLS[group]:
        sizes = [sized(symbol.size, known) for known in columns.values()]
        name = f"<br>`{symbol.code}`" if symbol.code else ""
        together = (size.replace(" ", "\u00a0") for size in sizes)
        rows.append([f"${symbol.tex}$", symbol.means + name, *together])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# ------------------------------------------------ which symbols a formula has

TOKEN = re.compile(
    r"\\(?:mathrm|text|operatorname)\{(?P<word>[A-Za-z]+)\}|\\(?P<command>[A-Za-z]+)|\\."
    r"|(?P<letters>[A-Za-z]+)|(?P<digits>\d+)|(?P<mark>[_^{}])|."
)
# What writes a formula and stands for nothing, or for what every reader knows.
PLAIN = set(
    "begin end frac sqrt hat left right big quad qquad cdot times dots ldots top sum max min"
    " sin cos ln log exp tanh le ge ne approx equiv infty in mid lfloor rfloor lceil rceil".split()
)


def plain(tex: str) -> str:
    """A symbol without the ways to write it: d_\\mathrm{model} and d_{model} are d_model."""
    tex = re.sub(r"\\(?:mathrm|text|operatorname)\{(\w+)\}", r"\1", tex)
    tex = re.sub(r"\\([A-Za-z]+)", r"\1", tex)
    return re.sub(r"([_^])\{(\w+)\}", r"\1\2", tex).replace(" ", "")


KNOWN = {plain(symbol.tex) for group in SYMBOLS.values() for symbol in group}
KNOWN |= {name.replace("_i", "", 1) for name in KNOWN if "_i" in name}  # any index will do
LONG = sorted((n for n in KNOWN if re.fullmatch("[A-Za-z]{2,}", n)), key=len, reverse=True)


def unknown(formula: str) -> list[str]:
    """The symbols of a formula in TeX that `SYMBOLS` has not, in their order."""
    formula = re.sub(r"\\(begin|end)\{\w+\}", " ", formula)
    return list(dict.fromkeys(_unknown(list(TOKEN.finditer(formula)))))


def _unknown(tokens: list[re.Match[str]]) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(tokens):
        token, place = tokens[place], place + 1
        names = _names(token)
        if not names:
            continue
        scripts: dict[str, list[re.Match[str]]] = {}
        while place < len(tokens) and tokens[place]["mark"] in ("_", "^"):
            mark = tokens[place]["mark"]
            scripts[mark], place = _argument(tokens, place + 1)
        found += [name for name in names[:-1] if name not in KNOWN]
        found += _scripted(names[-1], scripts)
    return found


def _names(token: re.Match[str]) -> list[str]:
    """The names in a token: a word or Greek letter is one, of letters each, but for PE and pos."""
    if token["word"]:
        return [token["word"]]
    if token["command"]:
        return [] if token["command"] in PLAIN else [token["command"]]
    return re.findall("|".join([*LONG, "[A-Za-z]"]), token["letters"] or "")


def _argument(tokens: list[re.Match[str]], place: int) -> tuple[list[re.Match[str]], int]:
    """What a _ or ^ applies to, and the place after it."""
    if place >= len(tokens) or tokens[place]["mark"] != "{":
        return tokens[place : place + 1], place + 1
    depth, start = 1, place + 1
    place = start
    while place < len(tokens) and depth:
        depth += {"{": 1, "}": -1}.get(tokens[place]["mark"] or "", 0)
        place += 1
    return tokens[start : place - 1], place


def _scripted(base: str, scripts: dict[str, list[re.Match[str]]]) -> list[str]:
    """What is unknown of one name with what stands below and above it."""
    texts = {mark: plain("".join(t[0] for t in found)) for mark, found in scripts.items()}
    below, above = (mark + texts[mark] if mark in texts else "" for mark in "_^")
    ways = {base + below + above: "_^", base + below: "_", base + above: "^", base: ""}
    for name, used in ways.items():
        if name in KNOWN:
            rest = [found for mark, found in scripts.items() if mark not in used]
            return [name for found in rest for name in _unknown(found)]
    return [base + below]
