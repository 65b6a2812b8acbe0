"""Rules about what the code of a page may do."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from IPython.core.inputtransformer2 import TransformerManager

from pages import HIDDEN, IGNORE_OUTPUT, INSTALL_CELL, MEASURED_FIGURE, SOLUTION
from pages.book import Book
from pages.page import Page
from pages.randomness import Names, unseeded
from pages.rules.reading import calls, imports
from pages.rules.registry import Found, rule


@rule("plain-python")
def plain_python(page: Page, book: Book) -> Found:
    for cell in page.code:
        if cell.tree is None:
            try:
                ast.parse(TransformerManager().transform_cell(cell.source))
            except SyntaxError as error:
                yield cell, f"not Python: {error.msg}, line {error.lineno}"


@rule("no-shell")
def no_shell(page: Page, book: Book) -> Found:
    for cell in page.code:
        if "get_ipython" in cell.source:
            yield cell, "get_ipython: pages are plain Python"
        elif cell.tree is None and "get_ipython()" in TransformerManager().transform_cell(
            cell.source
        ):
            yield cell, "a shell command or magic (`!`, `%`, `?`)"


SHELLS = r"(?:subprocess|pexpect|pty|sh)(?:\.|$)"
SHELL_CALLS = r"os\.(?:system|popen|exec\w+|spawn\w+|fork)|subprocess\..*"


@rule("no-subprocess")
def no_subprocess(page: Page, book: Book) -> Found:
    for cell in page.code:
        used = [name for name in imports(cell) if re.match(SHELLS, name)]
        used += [name for _, name in calls(cell) if re.fullmatch(SHELL_CALLS, name)]
        if used:
            yield cell, f"starts a process: {', '.join(sorted(set(used)))}"


NETWORKS = (
    r"(?:urllib(?!\.parse)|urllib3|requests|http|httpx|aiohttp|socket|ssl|ftplib|smtplib|pooch|wget|boto3|gdown"
    r"|huggingface_hub|datasets|torch\.hub)(?:\.|$)"
)
NETWORK_CALLS = (
    r"(?:torch\.hub\..*|.*\b(?:urlopen|urlretrieve|load_state_dict_from_url|hf_hub_download))"
)


@rule("no-network")
def no_network(page: Page, book: Book) -> Found:
    for cell in page.code:
        used = [name for name in imports(cell) if re.match(NETWORKS, name)]
        used += [name for _, name in calls(cell) if re.fullmatch(NETWORK_CALLS, name)]
        used += [
            argument.value
            for node, name in calls(cell)
            if name not in ("print", "Markdown", "display")
            for argument in [*node.args, *(k.value for k in node.keywords)]
            if isinstance(argument, ast.Constant)
            and re.match(r"(?:https?|ftp)://", str(argument.value))
        ]
        if used:
            yield cell, f"asks for the network: {', '.join(sorted(set(used)))}"


@rule("no-live-display")
def no_live_display(page: Page, book: Book) -> Found:
    for cell in page.code:
        used = {w for w in ("clear_output", "display_id", "update_display") if w in cell.source}
        if used:
            yield cell, f"{', '.join(sorted(used))}: nbval can't follow an output that changes"


@rule("seeded")
def seeded(page: Page, book: Book) -> Found:
    names, states = Names(), set()
    for cell in page.code:
        if cell.tree:
            for line, call in unseeded(cell.tree, names, states, book.modules):
                yield cell, f"line {line}: {call} draws without a seed before it on the page"


@rule("install-cell")
def install_cell(page: Page, book: Book) -> Found:
    first = page.cells[0] if page.cells else None
    if first is None or not first.is_install:
        yield (
            first,
            "the first cell is not the install cell, byte for byte (INSTALL_CELL in tools/pages)",
        )
    elif first.tags != [HIDDEN] or first.outputs:
        yield first, f"the install cell has the tag {HIDDEN}, no other, and no output"
    for cell in page.code:
        if cell.source.strip() == INSTALL_CELL and cell.place:
            yield cell, "a second install cell"


@rule("plots-assigned")
def plots_assigned(page: Page, book: Book) -> Found:
    names = Names()
    for cell in page.code:
        if cell.tree is None:
            continue
        for node in ast.walk(cell.tree):
            names.learn(node)
        last = cell.tree.body[-1] if cell.tree.body else None
        if (
            isinstance(last, ast.Expr)
            and isinstance(last.value, ast.Call)
            and _plots(last.value.func, names)
        ):
            yield (
                cell,
                f"ends in {ast.unparse(last.value.func)}(…), whose value shows: assign it, `_ = …`",
            )
        for text in cell.texts:
            if re.search(r"<matplotlib\.|<Axes|^\[?<?Text\(", text):
                yield (
                    cell,
                    "the value of a Matplotlib call is among the outputs: assign it, `_ = …`",
                )


def _plots(func: ast.AST, names: Names) -> bool:
    """Is this a function of pyplot or of annotated.figures, or a method of axes or a figure?"""
    root = func
    while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
        root = root.func if isinstance(root, ast.Call) else root.value
    if not isinstance(root, ast.Name) or ast.unparse(func) in ("plt.show", "plt.close"):
        return False
    origin = names.get(root.id, root.id)
    if origin.startswith(("matplotlib", "annotated.figures")):
        return True
    return isinstance(func, ast.Attribute) and bool(
        re.fullmatch(r"(?:ax|axs|axes|axis|fig|figure|plt|pyplot)(?:\d|_\w+)*", root.id)
    )


@rule("no-trailing-semicolon")
def no_trailing_semicolon(page: Page, book: Book) -> Found:
    for cell in page.code:
        if cell.tree is None:
            continue
        tokens = list(tokenize.generate_tokens(io.StringIO(cell.source + "\n").readline))
        for token, following in zip(tokens, tokens[1:], strict=False):
            if token.string == ";" and following.type in (tokenize.NEWLINE, tokenize.COMMENT):
                yield (
                    cell,
                    f"line {token.start[0]} ends in `;`, which nbval doesn't heed: assign, `_ = …`",
                )


@rule("tags")
def tags(page: Page, book: Book) -> Found:
    known = {
        HIDDEN,
        SOLUTION,
        MEASURED_FIGURE,
        IGNORE_OUTPUT,
        "hide-cell",
        "hide-input",
        "hide-output",
    }
    known |= {"remove-input"}
    listed = {IGNORE_OUTPUT: "ignore-output", MEASURED_FIGURE: "measured-figure"}
    for cell in page.cells:
        for tag in cell.tags:
            if tag in listed and not book.allows(listed[tag], page.stem, cell.id):
                yield (
                    cell,
                    f"the tag {tag} needs a reason, [[{listed[tag]}]] in {book.exceptions.name}",
                )
            elif tag not in known:
                yield cell, f"the tag {tag} is not one of {', '.join(sorted(known))}"
        if cell.is_code:
            for mark in re.findall(
                r"^\s*#+\s*((?:NBVAL|PYTEST_VALIDATE)_\w+)\s*$", cell.source, re.M
            ):
                yield cell, f"the comment {mark} changes what nbval checks"


@rule("no-redefinition")
def no_redefinition(page: Page, book: Book) -> Found:
    for cell in page.code:
        for node in _definitions(cell.tree):
            name = node.targets[0].id if isinstance(node, ast.Assign) else node.name
            if name in book.names:
                yield cell, f"defines {name}, which {book.names[name]} has: show that one"


def _definitions(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Functions, classes and named lambdas; not the methods of a class."""
    for node in ast.iter_child_nodes(tree) if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if isinstance(node.targets[0], ast.Name):
                yield node
        if not isinstance(node, ast.ClassDef):
            yield from _definitions(node)
