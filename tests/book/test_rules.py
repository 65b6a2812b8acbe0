"""Each rule of the notebook check: pages that break it and pages that keep it."""

import json
from decimal import Decimal

import pytest
from building import (
    OTHER,
    code,
    hidden,
    install,
    notebook,
    picture,
    printed,
    rewrite,
    shown,
    store,
    text,
    typed,
)
from nbformat import v4
from pages import HIDDEN, INSTALL_CELL, PREDICTED, numerals
from pages.learn import minutes
from pages.page import read
from pages.rules import BOOK_RULES, RULES, check
from pages.rules.registry import rule

LESSON = "03-2-1-scaled-dot-product-attention"
STUDY = "05-2-hardware-and-schedule"
HEAD = "05-training"
OVERVIEW = "one-sentence"
LOOKUP = "model-on-one-page"
EXERCISE = "build-it-yourself"
ABOUT = {
    LESSON: {"kind": "lesson", "section": "3.2.1"},
    STUDY: {"kind": "study", "section": "5.2"},
    HEAD: {"kind": "chapter-head", "section": "5"},
    OVERVIEW: {"kind": "overview"},
    LOOKUP: {"kind": "look-up"},
    EXERCISE: {"kind": "exercise"},
    "04-study-table-1": {"kind": "study", "section": "4"},
    "05-study-speed": {"kind": "study", "section": "5"},
    "06-1-machine-translation": {"kind": "study", "section": "6.1"},
    "08-attention-visualizations": {"kind": "other", "section": "visualizations"},
}
QUESTION = "# 3.2.1 Scaled Dot-Product Attention\n\n*Which word listens to which?*"
ALT = "Seven bars, the tallest over the word forty"


def raw_metadata(**metadata):
    """A cell whose metadata no run would write."""
    cell = code("1", typed("text/plain", "1"))
    cell.metadata.update(metadata)
    return cell


def counted(cell, number):
    cell.execution_count = number
    return cell


def result(content, number):
    return v4.new_output("execute_result", {"text/plain": content}, execution_count=number)


def section(title, body):
    return text(f"## {title}\n\n{body}")


def compared(rows):
    return f"| The paper says | We measured |\n|---|---|\n{rows}"


def exercise(number, *solution):
    return [text(f"### Exercise {number}: count\n\nHow many?"), *solution]


def solution(source="x = 3\nassert x == 3", *outputs):
    return code(source, *outputs, tags=["solution", "hide-cell"])


def prediction(*answer):
    return [text("Before it runs:\n\n**Predict.** Which bar is the tallest?"), *answer]


STUB = code('def mix(x):\n    """The mean of x."""\n    ...')
CHECKED = code("check('mix', mix)", "mix: not written yet\n")
SOLVED = code("assert check('mix', solution_mix)", tags=["solution", "hide-cell"])
ASSERTS = hidden("answer = 2\nassert answer == 2")
SPOILT = code("assert x", "1\n", tags=[PREDICTED])
ANSWER = [code("print('forty')", "forty\n", tags=[PREDICTED]), ASSERTS]
FIGURE = code("_ = plt.plot([1])", picture(), alt=ALT)
ASSERTED = hidden("x = 2\nassert x > 1")
FOLDED = code("\n".join(f"y{i} = {i}" for i in range(9)), tags=["hide-input"])


def short(lines):
    return code("\n".join(f"x{i} = {i}" for i in range(lines)))


LONG = "\n".join(f"x{i} = {i}" for i in range(26))
WORDS = "word " * 10

# rule -> pages that break it, each as its cells.
BREAKS = {
    "execution-counts": [
        [counted(code("x = 1"), 7)],
        [code("x = 1"), counted(code("y = 1"), 3)],
        [code("3", result("3", 9))],
    ],
    "no-empty-cells": [[code(" ")], [text("")]],
    "no-errors": [[code("1 / 0", v4.new_output("error", ename="E", evalue="v", traceback=[]))]],
    "no-stderr": [[code("x = 1", printed("Warning: old\n", "stderr"))]],
    "output-types": [
        [code("x", typed("image/svg+xml", "<svg/>"))],
        [code("x", typed("image/jpeg", "aaaa"))],
        [code("x", typed("application/pdf", "aaaa"))],
        [code("x", typed("application/vnd.jupyter.widget-view+json", {}))],
        [code("x", typed("text/latex", "$x$"))],
        [code("x", typed("application/javascript", "alert(1)"))],
    ],
    "plain-python": [
        [code("x = = 1")],
        [code("!ls")],
        [code("files = !ls")],
        [code("%matplotlib inline")],
        [code("%%bash\nls")],
        [code("x?")],
        [code("get_ipython().system('ls')")],
        [code(INSTALL_CELL + "\n")],
    ],
    "no-swallowed-exception": [
        [code("try:\n    assert x == 3\nexcept AssertionError:\n    pass")],
        [code("try:\n    assert x == 3\nexcept:\n    ...")],
        [code("for x in y:\n    try:\n        f(x)\n    except ValueError:\n        continue")],
        [code("try:\n    f()\nexcept* ValueError:\n    y = 3")],
        [code("def g():\n    try:\n        f()\n    except ValueError:\n        return 3")],
        [code("from contextlib import suppress")],
        [code("import contextlib\nwith contextlib.suppress(Exception):\n    assert x == 3")],
        [hidden("try:\n    assert x == 3\nexcept AssertionError:\n    pass")],
    ],
    "code-lines": [[short(21)]],
    "hidden-asserts": [
        [hidden("pass")],
        [hidden("x = 3")],
        [hidden("assert True")],
        [code("x = 1"), text("a"), hidden("# assert x == 1")],
    ],
    "no-absolute-paths": [
        [code("x", "/home/ada/book/page.py\n")],
        [code("x = open('/tmp/a.txt')")],
        [text("Look into /usr/lib/python3 for it.")],
        [code("x", "C:\\Users\\ada\n")],
    ],
    "no-progress-bars": [
        [code("from tqdm.auto import tqdm")],
        [code("x", " 45%|████▌     | 9/20 [00:01<00:01,  8.9it/s]\n")],
        [code("x", "step 1\rstep 2\n")],
    ],
    "file-size": [[code("x", "0123456789" * 60_001)]],
    "no-subprocess": [
        [code("import subprocess")],
        [code("from subprocess import run")],
        [code("import os\n_ = os.system('ls')")],
        [code("import os\n_ = os.popen('ls')")],
    ],
    "no-network": [
        [code("import requests")],
        [code("from urllib.request import urlopen")],
        [code("import pooch")],
        [code("import socket")],
        [code("import torch\nx = torch.hub.load('a/b', 'c')")],
    ],
    "no-live-display": [
        [code("from IPython.display import clear_output")],
        [code("_ = display(1, display_id=True)")],
    ],
    "install-cell": [
        [code("x = 1")],
        [],
        [code(INSTALL_CELL + "\n", tags=[HIDDEN])],
        [code(INSTALL_CELL)],
        [code(INSTALL_CELL.replace("--quiet", "-q"), tags=[HIDDEN])],
        [install(), install()],
    ],
    "no-trailing-semicolon": [[code("ax.plot([1]);", "x\n")], [code("x = 1;  # quiet\ny = 2")]],
    "tags": [
        [code("x = 1", tags=["nbval-ignore-output"])],
        [code("x = 1", tags=["nbval-skip"])],
        [code("x = 1", tags=["raises-exception"])],
        [code("x = 1", tags=["skip-execution"])],
        [code("x = 1", tags=["remove_cell"])],
        [code("x = 1", tags=["measured-figure"])],
        [code("# NBVAL_IGNORE_OUTPUT\nx = 1")],
        [code("x = 1\n    # NBVAL_SKIP")],
    ],
    "code-width": [[code(f"x = '{'x' * 73}'")]],
    "shown-size": [
        [code("show(f)", shown(text_markdown="```python\n" + "x = 1\n" * 36 + "```"))],
        [code("show(f)", shown(text_markdown=f"`f`\n\n```python\n# {'x' * 77}\n```"))],
    ],
    "no-redefinition": [
        [code("def scaled_dot_product_attention(q, k):\n    return q @ k")],
        [code("class MultiHeadAttention:\n    pass")],
        [code("if True:\n    def scaled_dot_product_attention(q):\n        return q")],
        [code("scaled_dot_product_attention = lambda q: q")],
    ],
    "alt-text": [
        [code("x", picture())],
        [code("x", picture(), alt="a bar chart")],
        [code("x = 1", alt=ALT)],
        [code("x", picture(), alt="_images/attention-weights-of-342.png")],
        [text("![](swap.png)")],
        [text("![a swap](swap.png)")],
        [text("```{figure} swap.png\n:name: swap\n```")],
        [code("x", shown(text_html="<img src='a.png'>"))],
        [code("x", shown(text_html="<svg><path d='M0 0'/></svg>"))],
    ],
    "figure-size": [
        [code("x", picture(size=(640, 30)), alt=ALT)],
        [code("x", picture(sharp=1), alt=ALT)],
        [code("x", typed("image/png", picture()["data"]["image/png"]), alt=ALT)],
    ],
    "one-figure": [[code("x", picture(), picture(), alt=ALT)]],
    "figure-asserted": [
        [FIGURE],
        [FIGURE, text("A reading."), ASSERTED],
        [FIGURE, code("x = 2\nassert x > 1")],
        [FIGURE, hidden("x = 2")],
        [FIGURE, hidden("assert True")],
    ],
    "measured-bound": [
        [code("x", "accuracy ≈ 0.98\n")],
        [code("x", "accuracy ≈ 0.98\n"), code("x = 2\nassert x > 1")],
        [code("x", "accuracy ≈ 0.98\n"), hidden("x = 2\nassert x")],
        [code("x", shown(text_html="<td>≈&nbsp;0.98</td>")), text("so"), ASSERTED],
    ],
    "measured-blanked": [[code("x", "accuracy ≈ nan\n")], [code("x", "loss ≈ {loss}\n")]],
    "no-timed-assertion": [
        [code("import time\nt = time.perf_counter()\nassert t > 0")],
    ],
    "cell-length": [[code(LONG)], [hidden(LONG)]],
    "title": [
        [text("No heading")],
        [text("# Attention")],
        [text("# 3.2 Scaled Dot-Product Attention")],
        [text("# Scaled Dot-Product Attention"), text("# Another")],
        [text("First this."), text("# Scaled Dot-Product Attention")],
    ],
    "place": [[text("# Scaled Dot-Product Attention\n\n*Who?*")], [text("# A\n\n§3.2.11, §3.2")]],
    "question": [
        [text("# Scaled Dot-Product Attention\n\nWhich word listens to which?")],
        [text("# Scaled Dot-Product Attention\n\n*A statement of some length.*")],
        [text("# Scaled Dot-Product Attention\n\n**Which word listens?**")],
        [text("# Scaled Dot-Product Attention")],
    ],
    "paper-and-measured": [[text(QUESTION)], [section("What the paper says", "Much.")]],
    "verdict": [
        [section("The paper says, we measured", compared("| Six layers | two |"))],
        [section("The paper says, we measured", compared("| Six layers | + two |"))],
        [section("The paper says, we measured", compared("| – | ✓ two layers |"))],
        [section("The paper says, we measured", compared("| Nothing about it | two |"))],
    ],
    "where-it-lives": [
        [text(QUESTION)],
        [section("Where it lives", "`annotated.model.attention`")],
        [section("Where it lives", "`tests/test_attention.py`")],
        [section("Where it lives", "`annotated.model.memory`, `tests/test_attention.py`")],
        [section("Where it lives", "`annotated.model.attention.None_`, `tests/test_attention.py`")],
        [section("Where it lives", "`annotated.model.attention`, `tests/test_memory.py`")],
        [section("Where it lives", "`annotated.model`, `tests/test_attention.py::test_none`")],
    ],
    "book-model": [[install(), code("x = 1")]],
    "strip-first": [
        [code("x = 1"), code("where('memory')", "x\n")],
        [code("x = 1"), code("x = 2\nwhere('memory')\nprint(x)", "x\n", tags=["remove-input"])],
    ],
    "shows-package": [
        [code("assert torch.allclose(a, b)")],
        [code("show(MultiHeadAttention)", "x\n"), code("x = 1\nassert x == 1")],
    ],
    "predict": [
        [text(QUESTION)],
        prediction(*ANSWER),
        [*(prediction(*ANSWER) * 5)],
        [*(prediction(*ANSWER) * 2), ANSWER[0]],
        [*(prediction(*ANSWER) * 2), *prediction(code("x", "forty\n"), ASSERTS)],
        [*(prediction(*ANSWER) * 2), *prediction(SPOILT, ASSERTS)],
        [*(prediction(*ANSWER) * 2), *prediction(text("Well."), *ANSWER)],
        [*(prediction(*ANSWER) * 2), *prediction(hidden("x = 1"), *ANSWER)],
        [*(prediction(*ANSWER) * 2), *prediction(code("x = 1"), ASSERTED)],
        [*(prediction(*ANSWER) * 2), *prediction(ANSWER[0], text("So."), ASSERTED)],
        [*(prediction(*ANSWER) * 2), *prediction(ANSWER[0], code("assert x"))],
    ],
    "names-in-sight": [
        [code("two = x")],
        [hidden("x = 3\nassert x"), code("print(x)", "3\n")],
        [code("x = 3", tags=["hide-input"]), code("print(x)", "3\n")],
        [hidden("two = 2\nassert two"), solution("print(two)")],
        [solution("two = 2\nassert two"), code("print(two)")],
        [code("print(x)", "3\n"), code("x = 3")],
        [code("def f():\n    return [y + z for y in range(3)]")],
        [code("x = [y for y in range(3)]"), code("print(y)", "2\n")],
        [code("def f(y):\n    z = 3"), code("print(y, z)", "2 3\n")],
    ],
    "exercises": [
        [text(QUESTION)],
        exercise(1, solution()),
        [cell for n in range(1, 6) for cell in exercise(n, solution())],
        [*exercise(1, solution()), *exercise(3, solution())],
        [*exercise(1, solution()), *exercise(2)],
        [*exercise(1, solution()), *exercise(2, code("x = 1\nassert x"))],
        [*exercise(1, solution()), *exercise(2, solution("x = 1"))],
    ],
    "solutions-folded": [[code("x = 1\nassert x", tags=["solution"])]],
    "terms": [
        [text("Without a mask.")],
        [text("Masks, and")],
        [text("A layer\nnorm")],
        [text("A LayerNorm here")],
        [text("Some dropout.")],
        [text("Some dropout, [here](notes.ipynb).")],
    ],
    "symbols": [
        [text("The width $z$.")],
        [text("The width\n$$ d_k + \\zeta $$")],
        [text("An index $d_z$, a word $\\mathrm{Attend}(Q)$.")],
    ],
    "per": [
        [text("One vector a piece.")],
        [text("It reads 40 tokens a\nsecond.")],
        [text("ten multiplications a step")],
    ],
    "headings": [
        [text("## The *softmax* 🎉")],
        [text("## Dividing by $\\sqrt{d_k}$")],
        [text("## Memory → decoder")],
    ],
    "links": [
        [text("[there](nothing.ipynb)")],
        [text("[there](unlisted.md#part)")],
        [text("[there](../../elsewhere.md)")],
        [text("![a picture of many words](none.png)")],
        [text("{doc}`nothing`")],
        [text("{doc}`that page <nothing>`")],
    ],
    "boxes": [
        [text(":::{note}\na\n:::\n\n:::{tip}\nb\n:::"), text("```{admonition} Look\nc\n```")],
        [text("> [!NOTE]\n> a\n\n> [!TIP]\n> a\n\n```{margin}\nb\n```")],
    ],
    "numerals": [
        [text("It took 150 steps.")],
        [text("It reached 99.4 %.")],
        [text("There are `420` pieces.")],
        [text("The base model has 38 000 pieces.")],
        [text("Rate $1.75 \\times 10^{-7}$.")],
        [code("print(0.8123)", "0.8123\n"), text("The weight is 0.82.")],
        [hidden("print(150)", "150\n"), text("It took 150 steps.")],
        [text("accuracy 0.88")],
        [text("The base model has 37 000 pieces.")],
        [code("print('16 64 512')", "16 64 512\n"), text("With 16, 64, 518 numbers.")],
        [code("print('16 64 512')", "16 64 512\n"), text("With 16, 65, 512 numbers.")],
        [code("print(150)", "150\n"), text("## Next\n\nIt took 150 steps.")],
        [code("print('steps', 150)", "updates 150\n"), text("## Next\n\nIt took 150 steps.")],
        [code("print(64.3)", "64.3\n"), text("There are 64 numbers.")],
        [code("show(f)", shown(text_markdown="```python\nx = 150\n```")), text("150 steps.")],
        [code("print(0.4)", "0.4\n"), text("It is 0.9 BLEU lower.")],
        [code("print(0.4)", "0.4\n"), text("Less than 6 % are wrong.")],
        [code("print(3)", "3\n"), text("All 4 heads together.")],
        [code("print(1e-5)", "1e-05\n"), text("It is 1e−6 in one.")],
        [code("x", picture(), alt="Seven bars, the tallest one at 0.83 over forty")],
    ],
}

# rule -> pages that keep it, though they come near.
KEEPS = {
    "execution-counts": [[install(), text("a"), code("x = 1"), code("3", result("3", 3))]],
    "no-absolute-paths": [
        [text("See https://example.org/home/page or ~/.cache, and/or src/annotated.")],
        [code("x", shown(text_html="<p>a</p><var>b</var>"))],
    ],
    "no-progress-bars": [[code("x", "| 99%| all |\n")]],
    "plain-python": [[install()], [code("x = 5 % 3\ny = not x != 2")]],
    "no-swallowed-exception": [
        [code("try:\n    f()\nexcept ValueError as error:\n    print(error)", "so\n")],
        [code("try:\n    f()\nexcept ValueError as error:\n    raise TypeError from error")],
        [hidden("try:\n    f()\nexcept ValueError as error:\n    assert 'so' in str(error)")],
        [code("try:\n    f()\nfinally:\n    close()")],
    ],
    "hidden-asserts": [[install(), ASSERTED], [hidden("torch.testing.assert_close(a, b)")]],
    "no-network": [[install()], [code("import urllib.parse\nprint('https://a')", "x\n")]],
    "install-cell": [[install(), code("x = 1")]],
    "no-trailing-semicolon": [[code("x = 'a;'\ny = 1; z = 2  # x;")]],
    "tags": [[install(), solution(), code("x = 1", tags=["hide-input"])]],
    "code-width": [[code(f"x = '{'x' * 72}'")], [hidden(f"x = '{'x' * 90}'\nassert x")]],
    "shown-size": [
        [code("show(f)", shown(text_markdown="```python\n" + "x = 1\n" * 35 + "```"))],
        [code("show(f)", shown(text_markdown=f"`f`\n\n```python\n# {'x' * 76}\n```"))],
    ],
    "no-redefinition": [
        [code("def mix(w, v):\n    return w @ v"), code("class Mine:\n    def attend(self): ...")],
    ],
    "alt-text": [
        [FIGURE, text("![The swap: two becomes six](swap.png)")],
        [text("```{figure} swap.png\n:name: swap\n:alt: The swap: two becomes six\n```")],
        [code("x", shown(text_html="<svg aria-label='a'><path/></svg><svg aria-hidden='true'/>"))],
    ],
    "figure-asserted": [
        [FIGURE, ASSERTED],
        [FIGURE, hidden("import torch\ntorch.testing.assert_close(a, b)")],
        [hidden("_ = plt.plot()", picture())],
    ],
    "measured-bound": [
        [code("x", "accuracy ≈ 0.98\n"), ASSERTED],
        [code("show(f)", shown(text_markdown="# about ≈ 85 s"))],
    ],
    "measured-blanked": [[code("x", "≈ 0.98, ≈-3, ≈  7 of 10\n")]],
    "no-timed-assertion": [[code("import time\nt = time.perf_counter()"), ASSERTED]],
    "cell-length": [[code(LONG.replace("x0 = 0\n", "\n\n"))]],
    "title": [[text("# Scaled Dot-Product Attention")], [text(QUESTION)]],
    "place": [[text(QUESTION)], [text("# Scaled Dot-Product Attention\n\nThis is §3.2.1.")]],
    "question": [[text(QUESTION)], [text("# Any title"), text("_Which one of the two?_\n\nMore.")]],
    "paper-and-measured": [[section("The paper says, we measured", "Both.")]],
    "verdict": [
        [section("The paper says, we measured", compared(
            "| Six | ✓ two |\n| $a \\| b$ | ≠ $b$ |\n| big | ○ no |\n| Nothing on it | + yes |"))],
        [section("Other", compared("| Six layers | two |"))],
    ],
    "where-it-lives": [
        [section("Where it lives", "`annotated.model.attention`, `tests/test_attention.py`")],
        [section("Where this lives", "`src/annotated/model/attention.py`,\n"
                 "`annotated.model.attention.MultiHeadAttention`,\n"
                 "`tests/test_attention.py::test_rows_sum_to_one`")],
    ],
    "book-model": [[install(), code("from annotated.notebook import book_model")]],
    "strip-first": [
        [install(), code("where('memory')", "x\n"), code("x = torch.where(a, b, c)")],
        [code("where()", "x\n"), code("where('memory')", "x\n", tags=["remove-input"])],
    ],
    "shows-package": [
        [code("show(MultiHeadAttention)", "x\n"), code("assert torch.allclose(a, b)")],
    ],
    "predict": [prediction(*ANSWER) * 3, prediction(*ANSWER) * 2],
    "names-in-sight": [
        [code("import a.b\nfrom c import d as e\nwith a.f() as g, e as (h, i):\n    print(g, h)")],
        [code("def f(x, *y, k=3, **z):\n    return [x for v in y] + [w for w in z]"),
         code("class A(f):\n    q = f\n    def g(self): return self, A, f")],
        [code("x = 3"), hidden("z = y\nassert z"), solution("y = x\nassert y"), solution("y + x")],
        [code("for i, (a, b) in {}: pass"), code("_ = lambda c: c + a + b + i\nprint(_)")],
        [code("try:\n    print(int)\nexcept ValueError as e:\n    print(e)")],
        [code("if (n := 3) > 2:\n    n += len(str(n))"), code("print(f'{n}')")],
    ],
    "exercises": [[*exercise(1, solution()), *exercise(2, code("y = 1"), solution())]],
    "solutions-folded": [[solution()]],
    "terms": [
        [text("The `mask` and $mask$, unmasked, [a mask](notes.ipynb), layer and norm.")],
        [text("Some dropout, [here](05-4-regularization.ipynb#place).")],
    ],
    "symbols": [[text("$d_k$ and `$z$`, $$ Q K^\\top $$ for $5.\n\n```python\n# $z$\n```")]],
    "per": [[text("One vector per piece; 40 tokens, a second time; pieces a model reads.")]],
    "headings": [[text("## Learned or sinusoidal – no difference?\n\n```python\n# $x\n```")]],
    "links": [
        [text("[a](index.md) [b](#here) [c](https://a.b/c.md) [d](notes.ipynb#e) {doc}`index`")],
    ],
    "boxes": [
        [text(":::{note}\n:::\n\n:::{tip}\n:::\n\n```{admonition} S\n:class: dropdown\nx\n```")],
    ],
    "numerals": [
        [text("Section 3.2.1, §5.2 and Tables 11 and 12; in 2017 (Vaswani et al., 2017), v5.")],
        [text("float32, P100, newstest2014, $x_{12}$, 16-bit, {cite}`a2017`, [a](b12.md)")],
        [
            code("print(37000)", "37000\n"),
            text("It has 37 000 pieces, or 37\u202f000, 37,000, $37\\,000$, $37{,}000$."),
        ],
        [code("print(4.5e6)", "4500000.0 1e-09\n"), text("4.5 million, $\\epsilon = 10^{-9}$.")],
        [code("print(2.3e19)", "2.3e+19\n"), text("2.3 × 10¹⁹ or $2.3 \\cdot 10^{19}$ FLOPs.")],
        [code("x", "steps: 150\n"), text("## Next\n\nIt took 150 steps.")],
        [code("x", "step  loss\n150  0.3\n"), text("## Next\n\nAt step 150.")],
        [code("x", "heads 4\n"), text("## Next\n\nAll 4 heads together.")],
        [text("Layer 1 has run, head 2 on *two*, step 3 holds; $1/n$, 3 and 7.\n\n1. One.")],
        [code("print(0.8123)", "0.8123\n"), text("The weight is 0.81, that is 81 %.")],
        [code("print(949_888)", "949888\n"), text("That is 0.95 million, or 949 888.")],
        [code("x", shown(text_html="<table><td>37.25</td></table>")), text("It is 37.25.")],
        [code("x", "12 345 7\n"), text("There are 12 and 345.")],
    ],
}

# Rules that look at more than one small notebook have tests of their own below.
APART = {
    "kind", "normal-form", "median-length", "cell-count", "word-count", "early-output", "in-toc",
    "one-source", "file-name", "study-beside", "stubs",
}


def found(tree, rule, cells, stem=LESSON):
    path = store(tree.folder / f"{stem}.ipynb", *cells, book=ABOUT.get(stem, OTHER))
    return [finding for finding in check([path], tree) if finding.rule == rule]


def cases(table):
    return [
        pytest.param(rule, cells, id=f"{rule}-{n}")
        for rule, pages in table.items()
        for n, cells in enumerate(pages)
    ]


@pytest.mark.parametrize(("rule", "cells"), cases(BREAKS))
def test_breaks(tree, rule, cells):
    (tree.folder / "unlisted.md").write_text("# A page that is not in the table of contents\n")
    findings = found(tree, rule, cells)
    assert findings
    for finding in findings:
        assert str(finding).startswith(str(tree.folder / LESSON))
        assert f"[{rule}]" in str(finding)


@pytest.mark.parametrize(("rule", "cells"), cases(KEEPS))
def test_keeps(tree, rule, cells):
    (tree.folder / "swap.png").write_bytes(b"")
    store(tree.folder / "notes.ipynb", text("# Notes"))
    assert [str(finding) for finding in found(tree, rule, cells)] == []


def test_rules_are_printed_with_their_reasons(notebooks):
    printed = notebooks("rules").stdout
    entries = printed.split("\n\n")
    assert [entry.split(":")[0].split(" (")[0] for entry in entries] == [*RULES, *BOOK_RULES]
    assert all(len(entry.split(": ", 1)[1].split()) > 5 for entry in entries)


def test_a_rule_without_a_reason_is_refused():
    with pytest.raises(ValueError, match="nothing_said has no docstring"):

        @rule()
        def nothing_said(page, book):
            yield None, "a finding"


def test_every_rule_is_tested():
    assert BREAKS.keys() | APART == RULES.keys()
    assert BREAKS.keys() & APART == set()


FIGURE_IN_SIGHT = code("plt = print\n_ = plt.plot([1])", picture(), alt=ALT)


def whole_page():
    """A concept page that keeps every rule."""
    prose = text("Each word asks. " * 30)
    return [
        install(),
        text(QUESTION),
        code("from annotated.notebook import book_model, show, where\nwhere('memory')", "strip\n"),
        code("book = book_model()\nprint(7)", "7\n"),
        *[prose] * 7,
        code("from annotated import MultiHeadAttention as M\nshow(M)", shown(text_markdown="`M`")),
        code("import torch\nours = theirs = 1\nassert torch.allclose(ours, theirs)"),
        *prediction(*ANSWER), *prediction(*ANSWER),
        FIGURE_IN_SIGHT, ASSERTED,
        *[code("x = 1")] * 4,
        section("The paper says, we measured", "Heads: 8 there, 4 here. Weights sum to one."),
        section("Where it lives", "`annotated.model.attention`, `tests/test_attention.py`."),
        text("## Exercises"), *exercise(1, solution()), *exercise(2, solution()),
    ]


def test_a_whole_page_keeps_every_rule(tree):
    store(tree.folder / f"{LESSON}.ipynb", *whole_page(), book=ABOUT[LESSON])
    store(tree.folder / "end.ipynb", install(), text("# End\n\nA mask, a layer norm."))
    pages = [path for path in tree.pages if path.stem != "index"]
    assert [str(finding) for finding in check([*pages, tree.folder / "index.md"], tree, True)] == []


def test_findings_name_file_cell_and_rule(tree):
    path = store(tree.folder / "notes.ipynb", install(), text("# N"), code("x = 1"), code("!ls"))
    lines = [str(finding) for finding in check([path], tree)]
    assert lines == [
        f"{path}: cell 2 (id c3): [plain-python] not plain Python: a mistake, or a shell command"
        " or magic (`!`, `%`, `?`)"
    ]


def test_all_findings_of_all_pages_are_listed(tree):
    store(tree.folder / "notes.ipynb", code("!ls"), code("1 + 1"))
    (tree.folder / "index.md").write_text("---\nbook: {kind: other}\n---\n# One\n\n# Two\n")
    rules = [finding.rule for finding in check(tree.pages, tree)]
    assert sorted(rules) == ["install-cell", "plain-python", "title", "title"]


def test_unreadable_file(tree):
    path = tree.folder / "notes.ipynb"
    path.write_text("{")
    assert [finding.rule for finding in check([path], tree)] == ["readable"]


# ----------------------------------------------------- rules with a page of their own


@pytest.mark.parametrize(
    "change",
    [
        lambda nb: nb.metadata.kernelspec.update(name="conda-env-book-py"),
        lambda nb: nb.metadata.pop("kernelspec"),
        lambda nb: nb.metadata.language_info.update(version="3.11.7"),
        lambda nb: nb.metadata.update(widgets={}),
        lambda nb: nb.cells[0].metadata.update(execution={}),
        lambda nb: nb.cells[0].metadata.update(jupyter={"source_hidden": True}),
    ],
)
def test_stored_form(tree, change):
    path = store(tree.folder / "notes.ipynb", text("# Notes"))
    assert "normal-form" not in {finding.rule for finding in check([path], tree)}
    book = notebook(text("# Notes"))
    change(book)
    rewrite(path, book)
    assert "normal-form" in {finding.rule for finding in check([path], tree)}


def test_jupyterlab_shows_the_answer_that_the_book_folds():
    (answer,) = notebook(ANSWER[0]).cells
    assert answer.metadata.mystnb.code_prompt_show == "Predict first, then open the {type}"
    assert "jupyter" not in answer.metadata


def test_streams_in_pieces_are_not_the_normal_form(tree):
    book = notebook(code("print(1)", "1\n"))
    book.cells[0].outputs = [printed("1"), printed("\n")]
    path = tree.folder / "notes.ipynb"
    rewrite(path, book)
    assert "normal-form" in {finding.rule for finding in check([path], tree)}


def listing(lines):
    """What show leaves: a block of source of so many lines."""
    source = "x = 1\n" * lines
    return code("show(f)", shown(text_markdown=f"`f`\n\n```python\n{source}```"))


@pytest.mark.parametrize(
    ("rule", "stem", "cells", "kept"),
    [
        ("cell-count", LESSON, [short(1)] * 5, False),
        ("cell-count", LESSON, [install(), *[short(1)] * 5, *[ASSERTED] * 9, solution()], False),
        ("cell-count", LESSON, [short(1)] * 14, True),
        ("cell-count", LESSON, [short(1)] * 15, False),
        ("cell-count", LESSON, [*[short(1)] * 14, FOLDED, solution()], True),
        ("cell-count", OVERVIEW, [short(1)] * 15, False),
        ("cell-count", STUDY, [short(1)] * 26, True),
        ("cell-count", HEAD, [short(1)], True),
        ("code-lines", LESSON, [short(20)] * 4, True),
        ("code-lines", LESSON, [short(21)], False),
        ("code-lines", LESSON, [*[short(20)] * 4, short(1)], False),
        ("code-lines", LESSON, [*[short(20)] * 4, hidden("x = 1"), FOLDED, solution()], True),
        ("code-lines", OVERVIEW, [short(9)] * 9, False),
        ("code-lines", STUDY, [short(9)] * 9, True),
        ("median-length", LESSON, [short(1), short(8), short(20)], True),
        ("median-length", LESSON, [short(1), short(9), short(20)], False),
        ("median-length", LESSON, [*[hidden("x = 1")] * 5, *[FOLDED] * 5, short(9)], False),
        ("median-length", STUDY, [short(9)], False),
        ("median-length", OVERVIEW, [short(9)], False),
        ("word-count", LESSON, [text(WORDS * 59)], False),
        ("word-count", LESSON, [text(WORDS * 60)], True),
        (
            "word-count",
            LESSON,
            [text(WORDS * 60 + "\n```python\n" + WORDS * 200 + "\n```")],
            True,
        ),
        ("word-count", LESSON, [text(WORDS * 121)], False),
        ("word-count", OVERVIEW, [text(WORDS * 121)], False),
        ("word-count", HEAD, [text(WORDS * 60)], True),
        ("word-count", HEAD, [text(WORDS * 61)], False),
        ("word-count", STUDY, [text(WORDS * 250)], True),
        ("word-count", STUDY, [text(WORDS * 251)], False),
        ("early-output", OVERVIEW, [text(WORDS * 16), code("1", "1\n")], False),
        ("predict", OVERVIEW, prediction(*ANSWER), False),
        ("predict", OVERVIEW, prediction(*ANSWER) * 2, True),
        ("predict", HEAD, [text("# 5 Training")], True),
        ("predict", HEAD, prediction(code("1", "1\n"), ASSERTS), False),
        ("exercises", OVERVIEW, [text("# One sentence")], True),
        ("place", OVERVIEW, [text("# One sentence")], True),
        ("question", OVERVIEW, [text("# One sentence")], False),
        ("paper-and-measured", OVERVIEW, [text("# One sentence")], True),
        ("where-it-lives", OVERVIEW, [text("# One sentence")], False),
        ("book-model", OVERVIEW, [code("x = 1")], False),
        ("question", LOOKUP, [text("# The model on one page")], False),
        ("where-it-lives", LOOKUP, [text("# The model on one page")], False),
        ("paper-and-measured", LOOKUP, [text("# The model on one page")], True),
        ("place", LOOKUP, [text("# The model on one page")], True),
        ("book-model", LOOKUP, [code("x = 1")], True),
        ("cell-count", LOOKUP, [short(1)], True),
        ("median-length", LOOKUP, [short(20)], True),
        ("shown-size", LOOKUP, [listing(100)], True),
        ("shown-size", LOOKUP, [listing(101)], False),
        ("predict", LOOKUP, [text("# The model on one page")], True),
        ("stubs", EXERCISE, [STUB, CHECKED, SOLVED], True),
        ("stubs", EXERCISE, [text("# Build it")], False),
        ("stubs", EXERCISE, [STUB, CHECKED], False),
        ("stubs", EXERCISE, [STUB, SOLVED], False),
        ("stubs", EXERCISE, [STUB, text("Well."), CHECKED, SOLVED], False),
        ("stubs", EXERCISE, [STUB, CHECKED, solution()], False),
        ("stubs", LESSON, [STUB], True),
        ("word-count", EXERCISE, [text(WORDS * 90)], True),
        ("word-count", EXERCISE, [text(WORDS * 91)], False),
        ("question", EXERCISE, [text("# Build it")], False),
        ("where-it-lives", EXERCISE, [text("# Build it")], False),
        ("book-model", EXERCISE, [code("x = 1")], False),
        ("early-output", LESSON, [text(WORDS * 15), code("1", "1\n"), text(WORDS)], True),
        ("early-output", LESSON, [text(WORDS * 16), code("1", "1\n")], False),
        ("early-output", LESSON, [code("where('ids')", "1\n"), text(WORDS * 16)], False),
        ("early-output", LESSON, [code("show(f)\nshow(g)", "1\n"), text(WORDS * 16)], False),
        ("early-output", LESSON, [hidden("1", "1\n"), text(WORDS * 16)], False),
        ("early-output", LESSON, [code("x = 1"), text(WORDS * 16)], False),
        ("early-output", LESSON, [ANSWER[0], text(WORDS * 16)], False),
        ("early-output", LESSON, [solution("1", "1\n"), text(WORDS * 16)], False),
        ("early-output", LESSON, [code("1", "1\n", tags=["hide-input"]), text(WORDS * 16)], True),
        ("predict", STUDY, prediction(*ANSWER), True),
        ("predict", STUDY, [text("# 5.2")], False),
        ("exercises", STUDY, [text("# 5.2")], True),
        ("book-model", "04-study-table-1", [code("x = 1")], True),
        ("book-model", "06-1-machine-translation", [code("x = 1")], False),
        ("title", "04-study-table-1", [text("# Table 1, measured")], True),
        ("place", "04-study-table-1", [text("# Table 1, measured")], False),
        ("place", "08-attention-visualizations", [text("# Attention Visualizations")], True),
        ("question", "notes", [text("# Notes")], True),
        ("file-name", "Notes", [], False),
        ("file-name", "my_notes", [], False),
        ("file-name", "search", [], False),
        ("file-name", "03-6-more-attention", [], False),
        ("file-name", "05-study-speed", [], True),
        ("file-name", "one-sentence", [], True),
        ("in-toc", "one-sentence", [], False),
        ("in-toc", "notes", [], True),
    ],
)
def test_by_kind_of_page(tree, rule, stem, cells, kept):
    assert (found(tree, rule, cells, stem) == []) is kept


def test_a_study_is_found_from_its_section(tree):
    about = {"kind": "study", "section": "3.2.1"}
    path = store(tree.folder / "03-2-1-study-width.ipynb", text("# A"), book=about)

    def messages():
        tree.__dict__.pop("_toc", None)
        return [f.message for f in check([path], tree) if f.rule == "study-beside"]

    lesson = tree.folder / f"{LESSON}.ipynb"
    store(lesson, text("A [study](03-2-1-study-widths.ipynb)"))
    assert len(messages()) == 2
    store(lesson, text("It is [small](03-2-1-study-width.ipynb#place)."))
    assert ["_toc.yml" in message for message in messages()] == [True]
    toc = tree.root / "_toc.yml"
    toc.write_text(toc.read_text() + "    sections:\n      - file: book/03-2-1-study-width\n")
    assert messages() == []
    lesson.unlink()
    assert len(messages()) == 1


def test_or_from_another_lesson_of_the_section(tree):
    about = {"section": "3.2.1"}
    more = store(tree.folder / "03-2-1-widths.ipynb", text("# A"), book=about | {"kind": "lesson"})
    study = tree.folder / "03-2-1-study-width.ipynb"
    store(study, text("# A"), book=about | {"kind": "study"})
    toc = tree.root / "_toc.yml"
    toc.write_text(toc.read_text() + (
        "  - file: book/03-2-1-widths\n    sections:\n      - file: book/03-2-1-study-width\n"
    ))
    tree.__dict__.pop("_toc", None)

    def messages():
        return [f.message for f in check([study], tree) if f.rule == "study-beside"]

    assert messages() == ["no link to it on the page of its section, 03-2-1-widths"]
    store_lesson(tree, [text("It is [small](03-2-1-study-width.ipynb).")])
    assert len(messages()) == 1  # there it is not looked for
    store(more, text("It is [small](03-2-1-study-width.ipynb)."), book=about | {"kind": "lesson"})
    assert messages() == []


def store_lesson(tree, cells):
    return store(tree.folder / f"{LESSON}.ipynb", *cells, book=ABOUT[LESSON])


def test_one_source_a_page(tree):
    assert found(tree, "one-source", [], "notes") == []
    (tree.folder / "notes.md").write_text("# Notes\n")
    assert len(found(tree, "one-source", [], "notes")) == 1


def test_markdown_pages_have_rules_too(tree):
    (tree.folder / "index.md").write_text(
        "---\nbook: {kind: other}\nversion: 150\n---\n# The 🎉 book\n\n![](a.png)\n\n"
        "150 steps, see [x](y.md).\n/home/ada\n\n:::{note}\n:::\n:::{note}\n:::\n:::{note}\n:::\n"
    )
    rules = {finding.rule for finding in check([tree.folder / "index.md"], tree)}
    assert rules == {"headings", "alt-text", "numerals", "links", "no-absolute-paths", "boxes"}


@pytest.mark.parametrize(
    ("stem", "about", "rules"),
    [
        ("how-to", None, {"kind"}),
        ("how-to", {}, {"kind"}),
        ("how-to", {"kind": "concept"}, {"kind"}),
        ("how-to", {"kind": "other", "chapter": "3"}, {"kind"}),
        ("how-to", {"kind": "other", "section": "3.9"}, {"kind"}),
        ("how-to", {"kind": "study"}, {"kind"}),
        ("how-to", {"kind": "other"}, set()),
        ("how-to", {"kind": "lesson", "section": "3.2"}, {"file-name"}),
        ("03-2-study-width", {"kind": "study", "section": "3.2"}, set()),
        ("03-2-width", {"kind": "study", "section": "3.2"}, {"file-name"}),
        ("03-2-study-width", {"kind": "lesson", "section": "3.2"}, {"file-name"}),
        ("03-2-width", {"kind": "lesson", "section": "3.2"}, set()),
        ("03-2-1-width", {"kind": "lesson", "section": "3.2"}, {"file-name"}),
        ("03-2-width", {"kind": "chapter-head", "section": "3.2"}, {"file-name"}),
        ("03-3-study-width", {"kind": "study", "section": "3.2"}, {"file-name"}),
        ("03-2-attention", {"kind": "study", "section": "3.2"}, set()),
        ("03-2-attention", {"kind": "other"}, {"file-name"}),
        ("00-abstract", {"kind": "other", "section": "abstract"}, set()),
    ],
)
def test_kind_and_section_are_data_of_the_page(tree, stem, about, rules):
    path = store(tree.folder / f"{stem}.ipynb", text("# A"), book=about)
    assert {f.rule for f in check([path], tree)} & {"kind", "file-name"} == rules
    if about is not None:
        path.with_suffix(".md").write_text(f"---\nbook: {json.dumps(about)}\n---\n# A\n")
        found = {f.rule for f in check([path.with_suffix(".md")], tree)}
        assert found & {"kind", "file-name"} == rules


# --------------------------------------------------------------------- exceptions


def test_exceptions_are_let_through_and_must_be_needed(tree):
    tree.exceptions.write_text(
        '[[numeral]]\npage = "notes"\nvalue = "150"\nreason = "a"\n'
        '[[numeral]]\npage = "*"\nvalue = "0.83"\nreason = "a"\n'
        '[[measured-figure]]\npage = "notes"\ncell = "c9"\nreason = "a"\n'
    )
    cells = [text("# N\n\n150, 0.83 and 0.84"), code("x = 1")]
    path = store(tree.folder / "notes.ipynb", *cells)
    aside = ("install-cell", "learn-path")
    findings = [f for f in check([path], tree, whole=True) if f.rule not in aside]
    assert [(f.rule, f.message.split(" ")[0]) for f in findings] == [
        ("numerals", "'0.84'"),
        ("unused-exception", "no"),
    ]
    assert "[[measured-figure]] notes, c9" in findings[-1].message


@pytest.mark.parametrize(
    "entry",
    [
        '[[numeral]]\npage = "notes"\nvalue = "150"\n',
        '[[numeral]]\npage = "notes"\nvalue = "150"\nreason = ""\n',
        '[[numeral]]\npage = "notes"\ncell = "a"\nreason = "b"\n',
        '[[boxes]]\npage = "notes"\nvalue = "a"\nreason = "b"\n',
    ],
)
def test_an_exception_says_where_and_why(tree, entry):
    tree.exceptions.write_text(entry)
    with pytest.raises(ValueError, match="a page, a value or cell, and a reason"):
        tree.allows("numeral", "notes", "150")


@pytest.fixture
def learn(tree):
    """The three pages of the tree's Learn path, with the words that they explain."""
    tree.exceptions.write_text("")
    (tree.folder / "index.md").write_text("---\nbook: {kind: other}\n---\n# The book\n")
    store(tree.folder / f"{LESSON}.ipynb", text("# Mine"), book=ABOUT[LESSON])
    store(tree.folder / "end.ipynb", text("# End\n\nA mask, a layer norm."))
    return tree


def path_findings(tree):
    tree.__dict__.pop("learn_pages", None)
    return [message for _, message in BOOK_RULES["learn-path"](tree)]


def test_the_learn_path_is_there_and_walked_in_two_hours(learn):
    assert path_findings(learn) == []
    store(learn.folder / "end.ipynb", text("word " * (128 * 200)))
    assert path_findings(learn) == []  # a page takes a minute at least
    store(learn.folder / "end.ipynb", text("word " * (129 * 200)))
    assert path_findings(learn) == ["the path takes 131 minutes, at most 130"]
    (learn.folder / "end.ipynb").unlink()
    assert path_findings(learn) == ["end is on the path, but not in the book"]


def test_a_page_has_the_terms_that_it_explains(learn):
    end = learn.folder / "end.ipynb"
    assert [f for f in check([end], learn) if f.rule == "terms"] == []
    store(end, text("# End\n\nMasks."))
    (finding,) = [f for f in check([end], learn) if f.rule == "terms"]
    assert "'layer norm/LayerNorm' is explained here" in finding.message


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        ([text("word " * 200)], 1),
        ([text("word " * 500)], 2),
        ([text("word " * 520)], 3),
        ([short(18)] * 2, 2),
        ([listing(33), code("show(f)", shown(text_markdown="```python\n\n\n```"))], 2),
        ([FIGURE] * 5, 3),
        ([code("plot()", picture(), alt=ALT, tags=["hide-input"])] * 5, 2),
        ([text("![A picture of seven bars](swap.png)")] * 6, 3),
        ([hidden("x = 1", picture()), solution("x", picture()), FOLDED] * 20, 1),
    ],
)
def test_minutes_are_counted(tree, cells, count):
    assert minutes(read(store(tree.folder / "notes.ipynb", *cells))) == count


def test_tree_size(tree):
    assert list(BOOK_RULES["tree-size"](tree)) == []
    (tree.folder / "big.ipynb").write_bytes(b" " * 10_000_001)
    assert len(list(BOOK_RULES["tree-size"](tree))) == 1


# ----------------------------------------------------------------------- numerals


@pytest.mark.parametrize(
    ("prose", "values"),
    [
        ("37 000 pieces", ["37000"]),
        ("37\u202f000 and 37,000 and 37\\,000", ["37000"] * 3),
        ("1e-9, 1.5e-9, 12e3", ["0.000000001", "0.0000000015", "12000"]),
        ("2.0 and 0.1 and 0.10 and 007", ["2.0", "0.1", "0.10"]),
        ("4 heads, 6 encoder layers, 2 of head 3, layer 3 holds, 0 words", ["4", "6"]),
        ("6.99 × 10⁻⁴, $6.99 \\times 10^{-4}$, 6.99 \\cdot 10^4", ["0.000699"] * 2 + ["69900"]),
        ("10^{6} and 10⁶", ["1000000"] * 2),
        ("$10000^{2i/d}$", ["10000"]),
        ("99 % or 99.5%", ["99", "99.5"]),
        ("8-15 minutes, 12–25 cells", ["15", "12", "25"]),
        ("d_model=512 and `d_k = 64`", ["512", "64"]),
        ("section 12, Figures 10 and 11, equation (12), Table 10–12", []),
        ("see 3.2.1 and [5.2 Hardware](a.md)", []),
        ("## 3.22 Title", []),
        ("<img width=320> and https://a.b/123", []),
        ("Python 3.11, version 1.26", []),
        ("a width of 2048 in 2017", ["2048"]),
    ],
)
def test_numerals_in_prose(prose, values):
    assert [n[0].value for n, _ in numerals.in_prose(prose)] == [Decimal(v) for v in values]


@pytest.mark.parametrize(
    ("prose", "number", "stands"),
    [
        ("0.81", "0.8123", True),
        ("0.81", "0.8151", False),
        ("81 %", "0.8123", True),
        ("81 %", "81.4", True),
        ("81", "0.8123", False),
        ("0.95 million", "949888", True),
        ("0.94 million", "949888", False),
        ("65 million", "65", True),
        ("37 000", "37012", False),
        ("64", "64.3", False),
        ("1.7 × 10⁻⁷", "1.746928e-7", True),
        ("12.5", "-12.5", True),
    ],
)
def test_rounding(prose, number, stands):
    ((readings, _),) = numerals.in_prose(prose)
    assert numerals.known(readings, {abs(Decimal(number))}) is stands
