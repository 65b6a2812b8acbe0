"""Canaries: a small real page, broken in each way that must turn the gate red.

The gate is what `make test` runs on pages: `check`, then `nbval`. A page is caught if one of them
finds it. All broken pages go through each command at once, which costs one start instead of ten.
"""

import copy
import re

import pytest
from building import code, hidden, install, reload, rewrite, store, text

pytestmark = pytest.mark.canary

# Alike in every run: text, numbers, the package's source, two figures. Different in every run: the
# process id, printed as a measured number in each kind of output that nbval compares as text.
PLOT = "with style():\n    _ = figure(3)[1].plot({})"
PAGE = (
    install(),
    text(
        "# A canary\n\nIt is small, but it runs the package and keeps every rule."
        " Each of 5 queries has an output of 4 numbers."
    ),
    code(
        "import os\nimport torch\n"
        "from IPython.display import HTML, Markdown, display\n"
        "from annotated import scaled_dot_product_attention\n"
        "from annotated.figures.style import figure, style\n"
        "from annotated.notebook import show"
    ),
    code("show(scaled_dot_product_attention)"),
    code(
        "_ = torch.manual_seed(7)\nquery, key, value = torch.randn(3, 5, 4)\n"
        "output, weights = scaled_dot_product_attention(query, key, value)\n"
        "print(output.shape, weights.sum().round().item())"
    ),
    code(PLOT.format("weights[0]"), alt="The weights of the first query over five keys"),
    hidden("assert weights[0].shape == (5,)"),
    code(PLOT.format("weights[1]"), alt="The weights of the second query over five keys"),
    hidden("assert weights[1].shape == (5,)"),
    code(
        "print(f'took ≈ {os.getpid() / 7:.3f} s')\n"
        "display(Markdown(f'**≈ {os.getpid()} %**'))\n"
        "display(HTML(f'<b>≈{os.getpid():,}</b> steps'))"
    ),
    hidden("assert os.getpid() > 1"),
    text("The weights of each query sum to one."),
    hidden("assert torch.allclose(weights.sum(-1), torch.ones(5))"),
    text("**Predict.** Is any weight negative?"),
    code("print((weights < 0).any().item())", tags=["hide-output"]),
    hidden("assert (weights > 0).all()"),
)
PROSE, IMPORTS, SOURCE, PRINT, FIRST, SECOND, MEASURED, LAST, ANSWER = (  # places
    1, 2, 3, 4, 5, 7, 9, 12, 14,
)


def stripped(cells):
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def changed_number(cells):
    cells[PRINT].outputs[0].text = cells[PRINT].outputs[0].text.replace("5.0", "4.0")


def changed_source(cells):
    data = cells[SOURCE].outputs[0].data
    data["text/markdown"] = data["text/markdown"].replace("return", "yield", 1)


def unrun_cell(cells):
    cells[PRINT].outputs, cells[PRINT].execution_count = [], None


def edited_cell(cells):
    cells[PRINT].source += "\nprint('one more line')"


def failing_cell(cells):
    cells[PRINT].source += "\nassert output.isnan().all()"


def failing_hidden_cell(cells):
    cells[FIRST + 1].source = "assert weights[0].shape == (6,)"


def swallowed_failure(cells):
    cells[PRINT].source += (
        "\ntry:\n    assert output.isnan().all()\nexcept AssertionError:\n    pass"
    )


def suppressed_failure(cells):
    cells[PRINT].source += (
        "\nimport contextlib\nwith contextlib.suppress(AssertionError):"
        "\n    assert not output.any()"
    )


def emptied_hidden_cell(cells):
    cells[LAST].source = "# assert torch.allclose(weights.sum(-1), torch.ones(5))"


def changed_prose_number(cells):
    cells[PROSE].source = cells[PROSE].source.replace("5 queries", "6 queries")


def lost_output(cells):
    cells[SOURCE].outputs = []


def unseeded_draw(cells):
    cells[PRINT].source = cells[PRINT].source.replace("manual_seed(7)", "seed()")


def printed_address(cells):
    cells[PRINT].source += "\nprint(object())"
    cells[PRINT].outputs[0].text += "<object object at 0x7f3a1c0b2d90>\n"


def swapped_figure(cells):
    cells[FIRST].outputs, cells[SECOND].outputs = cells[SECOND].outputs, cells[FIRST].outputs


def changed_curve(cells):
    cells[FIRST].source = PLOT.format("weights[0] + torch.tensor([0, 0.01, 0, 0, 0])")


def lost_figure(cells):
    cells[FIRST].outputs = []


def changed_unit(cells):
    cells[MEASURED].outputs[0].text = cells[MEASURED].outputs[0].text.replace(" s", " ms")


def no_number(cells):
    cells[MEASURED].source = "print('took ≈ nan s')"
    cells[MEASURED].outputs = cells[MEASURED].outputs[:1]


def warning(cells):
    cells[PRINT].source += "\nimport warnings\nwarnings.warn('old')"


def unfolded_answer(cells):
    del cells[ANSWER].metadata["tags"]


def answer_given_away(cells):
    cells[ANSWER].source += "\nassert (weights > 0).all()"


def unasserted_answer(cells):
    del cells[ANSWER + 1]


def name_out_of_sight(cells):
    cells[IMPORTS].metadata |= {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}


def rate_without_per(cells):
    cells[PROSE].source += " It reads tokens a second."


def ignored_cell(cells):
    cells[PRINT].metadata.tags = ["nbval-ignore-output"]


# What breaks the page -> what must find it: rules of `check`, or cells that `nbval` fails.
BROKEN = {
    stripped: {"execution-counts", "alt-text", "numerals", "predict"},
    unrun_cell: {"execution-counts", "numerals"},
    lost_figure: {"alt-text"},
    ignored_cell: {"tags"},
    swallowed_failure: {"no-swallowed-exception"},
    suppressed_failure: {"no-swallowed-exception"},
    emptied_hidden_cell: {"hidden-asserts"},
    unfolded_answer: {"predict"},
    answer_given_away: {"predict"},
    unasserted_answer: {"predict"},
    name_out_of_sight: {"names-in-sight"},
    rate_without_per: {"per"},
    changed_prose_number: {"numerals"},
    changed_number: {"Cell 3"},
    lost_output: {"Cell 2"},
    unseeded_draw: {"Cell 4", "Cell 6"},
    printed_address: {"Cell 3"},
    edited_cell: {"Cell 3"},
    failing_cell: {"Cell 3"},
    warning: {"Cell 3"},
    changed_source: {"Cell 2"},
    swapped_figure: {"Cell 4", "Cell 6"},
    changed_curve: {"Cell 4"},
    failing_hidden_cell: {"Cell 5"},
    changed_unit: {"Cell 8"},
    no_number: {"Cell 8"},
}


@pytest.fixture
def page(tmp_path, notebooks):
    """The unbroken page, as `run` leaves it."""
    path = store(tmp_path / "canary.ipynb", *PAGE)
    result = notebooks("run", path)
    assert result.returncode == 0, result.stderr
    return path


def findings(output):
    """Page -> the rules or cells that find fault with it, from the lines of `check` or `nbval`."""
    lines = re.findall(r"^(?:FAILED )?\S*?([\w-]+)\.ipynb(?:: .*?\[|::)([\w -]+)", output, re.M)
    found = {}
    for name, fault in lines:
        fault = fault.split(" -")[0].strip()  # with CI set, pytest adds " - " and the error
        found.setdefault(name, set()).add(fault)
    return found


def test_every_canary_turns_the_gate_red_and_the_whole_page_does_not(page, notebooks):
    for command in ("check", "nbval"):
        result = notebooks(command, page)
        assert result.returncode == 0, result.stdout + result.stderr

    whole, expected, paths = reload(page), {}, []
    for break_it, faults in BROKEN.items():
        book = copy.deepcopy(whole)
        break_it(book.cells)
        assert book != whole, break_it.__name__
        name = break_it.__name__.replace("_", "-")
        expected[name] = faults
        paths.append(page.with_name(f"{name}.ipynb"))
        rewrite(paths[-1], book)

    checked = notebooks("check", *paths, page)
    assert checked.returncode == 1
    found = findings(checked.stdout)
    rest = [path for path in paths if path.stem not in found]
    compared = notebooks("nbval", *rest, page)
    assert compared.returncode == 1
    assert "tools/notebooks.py run PAGE" in compared.stderr
    assert found | findings(compared.stdout) == expected


def test_what_nbval_excuses_counts_as_failure(tmp_path, notebooks):
    """After a timeout nbval expects every later cell to fail; a skip is no failure to it."""
    sleepy = store(
        tmp_path / "sleepy.ipynb", code("print(1)", "1\n"), code("import time\ntime.sleep(60)"),
        code("print(2)", "2\n"), code("print(3)", "4\n"),
    )
    skipped = store(tmp_path / "skipped.ipynb", code("y = 1 / 0", tags=["nbval-skip"]))
    result = notebooks("nbval", "--cell-timeout", 2, sleepy, skipped)
    assert result.returncode == 1
    excused = re.findall(r"^counts as a failure: (?:.*/)?(.*)$", result.stderr, re.M)
    assert sorted(excused) == [
        "skipped.ipynb::Cell 0 skipped",
        "sleepy.ipynb::Cell 2 xpassed",
        "sleepy.ipynb::Cell 3 xskipped",
    ]
    assert "nbval: 1 of 5 code cells passed" in result.stderr


def test_a_skip_alone_is_red(tmp_path, notebooks):
    path = store(tmp_path / "skipped.ipynb", code("x = 1"), code("1 / 0", tags=["nbval-skip"]))
    assert notebooks("nbval", path).returncode == 1


def test_nothing_to_compare_is_red(tmp_path, notebooks):
    (tmp_path / "page.md").write_text("# No notebook\n")
    assert notebooks("nbval", tmp_path / "page.md").returncode == 1
    empty = store(tmp_path / "empty.ipynb", text("# No code"))
    assert notebooks("nbval", empty).returncode != 0


def test_a_measured_figure_may_differ_but_not_vanish(tmp_path, notebooks):
    draw = code(
        "import os\nimport matplotlib.pyplot as plt\n_ = plt.bar([1, 2], [os.getpid() % 97, 1])",
        tags=["measured-figure"],
    )
    path = store(tmp_path / "measured.ipynb", draw)
    assert notebooks("run", path).returncode == 0
    assert notebooks("nbval", path).returncode == 0
    book = reload(path)
    book.cells[0].outputs = []
    rewrite(path, book)
    assert notebooks("nbval", path).returncode == 1
