"""The symbols of the book: names that exist, sizes that are right, formulas taken apart."""

import inspect
import pkgutil

import pytest
import torch
from torch import nn

import annotated
from annotated.model import (
    MultiHeadAttention,
    PositionwiseFeedForward,
    TiedEmbedding,
    Transformer,
    TransformerConfig,
)
from annotated.model.stacks import Sublayer
from annotated.notation import KNOWN, SYMBOLS, as_markdown, sized, unknown
from annotated.paper import EQUATIONS

ALL = [symbol for group in SYMBOLS.values() for symbol in group]
MADE = {  # classes whose attributes begin with an instance
    MultiHeadAttention: (8, 2), PositionwiseFeedForward: (8, 16), TiedEmbedding: (5, 8),
    Sublayer: (8, 0.1),
}


def found(code):
    """What a name of the table stands for; raises if there is no such thing."""
    path, _, argument = code.rstrip(")").partition("(")
    thing = annotated
    for name in path.split("."):
        if isinstance(thing, type) and thing in MADE and not hasattr(thing, name):
            thing = thing(*MADE[thing])
        if inspect.ismodule(thing) and not hasattr(thing, name):
            thing = pkgutil.resolve_name(f"{thing.__name__}.{name}")
        else:
            thing = getattr(thing, name)
    if argument:
        return inspect.signature(inspect.unwrap(thing)).parameters[argument]
    return thing


@pytest.mark.parametrize("code", sorted({symbol.code for symbol in ALL if symbol.code}))
def test_each_name_in_the_code_exists(code):
    assert found(code) is not None or code.endswith((".d_k", ".d_v"))  # None is their default


@pytest.mark.parametrize("code", [
    "model.NoSuch", "model.MultiHeadAttention.w_z", "learning_rate(epoch)", "nothing.at_all",
])
def test_a_name_that_does_not_exist_is_found_out(code):
    with pytest.raises((AttributeError, ImportError, KeyError)):
        found(code)


def letters(config):
    d_k = config.d_model // config.heads
    return {"d_model": config.d_model, "d_ff": config.d_ff, "h": config.heads, "d_k": d_k,
            "d_v": d_k, "N": config.layers, "V": config.vocab_size}


@pytest.mark.parametrize("name", ["tiny", "base", "big"])
def test_sizes_are_those_of_the_parameters(name):
    config = getattr(TransformerConfig, name)()
    with torch.device("meta"):
        model = Transformer(config)
    layer = model.encoder.layers[0]
    attention, network = layer.self_attention, layer.feed_forward
    parts = {
        "W^Q": attention.w_q, "W^K": attention.w_k, "W^V": attention.w_v, "W^O": attention.w_o,
        "W_1": network.w_1, "W_2": network.w_2, "b_1": network.w_1.bias, "b_2": network.w_2.bias,
        "E": model.embedding.weight,
    }
    sizes = {symbol.tex: symbol.size for symbol in ALL if symbol.tex in parts}
    assert sizes.keys() == parts.keys()
    for tex, part in parts.items():
        shape = part.weight.T.shape if isinstance(part, nn.Linear) else part.shape
        told = sized(sizes[tex], letters(config)).replace("\u202f", "")
        assert told == " × ".join(map(str, shape)), tex


def test_sizes_of_letters_that_are_not_known_stay_letters():
    assert sized("m × d_k", {"d_k": 64}) == "m × 64"
    assert sized("n × h·d_v", {"h": 3, "d_v": 7, "n": 5}) == "5 × 21"
    assert sized("h·d_v", {"h": 3}) == "h·d_v"
    assert sized("V × d", {"V": 37_000, "d": 8}) == "37\u202f000 × 8"
    assert sized("", {"d": 8}) == ""


def test_each_size_is_of_letters_that_the_page_fills_in():
    known = letters(TransformerConfig()) | {"n": 5, "m": 7}
    for symbol in ALL:
        told = sized(symbol.size, known).replace("\u202f", "").replace(" × ", "")
        assert told == "" or told.isdigit(), symbol


def test_no_symbol_has_one_meaning_twice():
    assert len({(symbol.tex, symbol.means) for symbol in ALL}) == len(ALL)


def test_a_group_is_a_table_with_a_row_for_each_symbol():
    lines = as_markdown("Sizes", {"here": {"m": 7}, "base": {"d_model": 512}}).splitlines()
    assert lines[0] == "| symbol | meaning, name in the code | here | base |"
    assert len(lines) == 2 + len(SYMBOLS["Sizes"])
    assert {line.count("|") for line in lines} == {5}
    assert lines[2].startswith("| $m$ | ") and lines[2].endswith("| 7 | m |")
    assert lines[4].endswith("<br>`TransformerConfig.d_model` | d_model | 512 |")


@pytest.mark.parametrize("formula", [
    r"d_\mathrm{model}", r"d_\text{model} d_{model}", "8nd^2", "2n^2d", r"\sqrt{d_k}",
    r"\mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\,W^O", r"W_0^Q (W_i^K)^\top",
    r"\sum_i \mathrm{head}_i\,W_i^O", r"PE_{(pos,\,2i+1)}", r"R_k\,PE_{pos}", r"10000^{-2i/d}",
    r"\begin{pmatrix} \sin k\,\omega_i \\ 1 \end{pmatrix}", r"1-\varepsilon+\varepsilon/V",
    r"\hat m=\frac{m}{1-\beta_1^t}", r"[k=y]", r"O(knd + nd^2)", "xW_1 + b_1", "", "n = 2d",
    *(equation.tex for key, equation in EQUATIONS.items() if key != "3"),
])
def test_symbols_of_formulas_are_known(formula):
    assert unknown(formula) == []


@pytest.mark.parametrize(("formula", "names"), [
    ("z", ["z"]),
    (r"d_z", ["z"]),
    (r"x_{z+k}^\top", ["z"]),
    (r"\zeta + z^2", ["zeta", "z"]),
    (r"\mathrm{Attend}(Q)", ["Attend"]),
    (r"g_1 + g_1", ["g_1"]),
    (r"nzd", ["z"]),
    (r"n^{z}", ["z"]),
])
def test_what_is_not_in_the_table_is_named_once(formula, names):
    assert unknown(formula) == names


def test_an_index_is_no_other_symbol():
    assert {"W_i^Q", "W^Q", "omega", "head", "PE", "pos"} <= KNOWN
    assert "model" not in KNOWN
