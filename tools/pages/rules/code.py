"""Rules about what the code of a page may do."""

import ast
import builtins
import io
import re
import tokenize
from itertools import pairwise

from pages import FOLDS, HIDDEN, INSTALL_CELL, MEASURED_FIGURE, PREDICTED, SOLUTION
from pages.book import Book
from pages.page import Cell, Page
from pages.reading import assertions, calls, imports, names
from pages.rules.registry import Found, cell_rule, rule


@rule()
def install_cell(page: Page, book: Book) -> Found:
    """Where the package is missing the first cell installs it, everywhere in the same words: it is
    INSTALL_CELL of tools/pages, byte for byte, tag `remove-cell`, no output."""
    first = page.cells[0] if page.cells else None
    if first is None or not first.is_install:
        yield first, "the first cell is not the install cell (INSTALL_CELL in tools/pages)"
    elif first.tags != [HIDDEN] or first.outputs:
        yield first, f"the install cell has the tag {HIDDEN}, no other, and no output"
    for cell in page.code:
        if cell.source.strip() == INSTALL_CELL and cell.place:
            yield cell, "a second install cell"


@cell_rule("code")
def plain_python(cell: Cell):
    """What readers copy from a page runs as a script, and the other rules can read it."""
    if cell.tree is None or "get_ipython" in cell.source:
        yield "not plain Python: a mistake, or a shell command or magic (`!`, `%`, `?`)"


@cell_rule("code")
def no_subprocess(cell: Cell):
    """Another program need not be on the reader's machine, and its network nobody watches."""
    used = [n for n in imports(cell) if re.match(r"(?:subprocess|pexpect|pty|sh)(?:\.|$)", n)]
    used += [n for n in calls(cell) if re.match(r"os\.(?:system|popen|exec|spawn|fork)", n)]
    if used:
        yield f"starts a process: {', '.join(sorted(set(used)))}"


NETWORKS = (
    r"(?:urllib(?!\.parse)|urllib3|requests|http|httpx|aiohttp|socket|ssl|ftplib|smtplib|pooch|wget"
    r"|boto3|gdown|huggingface_hub|datasets|torch\.hub)(?:\.|$)"
    r"|.*\b(?:urlopen|urlretrieve|load_state_dict_from_url|hf_hub_download)$"
)


@cell_rule("code")
def no_network(cell: Cell):
    """Pages run anywhere, also next year. Kernels refuse other hosts; a cache would hide that."""
    used = {name for name in [*imports(cell), *calls(cell)] if re.match(NETWORKS, name)}
    if used:
        yield f"asks for the network: {', '.join(sorted(used))}"


@cell_rule("code")
def no_live_display(cell: Cell):
    """Of an output that changes while a cell runs nbval would compare some moment."""
    if used := re.findall(r"clear_output|display_id|update_display", cell.source):
        yield f"{', '.join(sorted(set(used)))}: print at fixed steps instead"


@cell_rule("code")
def no_progress_bars(cell: Cell):
    """A bar tells how fast this machine is; in the book it is a heap of broken lines."""
    if any("tqdm" in name for name in imports(cell)):
        yield "imports tqdm: print at fixed steps instead"
    if any(re.search(r"\r(?!\n)|\x08|\d(?:it/s|s/it)\b", text) for text in cell.texts):
        yield "the output of a progress bar"


@cell_rule("code")
def no_swallowed_exception(cell: Cell):
    """An assertion under a `try` whose handler is silent can't fail. A handler raises, asserts, or
    prints what it caught, so that the stored output shows that something was raised."""
    for node in cell.nodes:
        if isinstance(node, ast.ExceptHandler):
            body = [part for statement in node.body for part in ast.walk(statement)]
            spoken = any(
                isinstance(part, ast.Raise | ast.Assert)
                or isinstance(part, ast.Call)
                and ast.unparse(part.func).split(".")[-1] in ("print", "display")
                for part in body
            )
            if not spoken:
                yield f"line {node.lineno}: an exception is caught and nothing tells of it"
    if any(re.search(r"(?:^|\.)suppress$", name) for name in [*imports(cell), *calls(cell)]):
        yield "contextlib.suppress: an exception would pass in silence"


@rule()
def hidden_asserts(page: Page, book: Book) -> Found:
    """Hidden cells are there to assert; one that was emptied looks the same in the book. A look-up
    page may hide how its tables are set."""
    for cell in page.code:
        if cell.hidden and not assertions(cell) and page.kind != "look-up":
            yield cell, "a hidden cell that asserts nothing"


@cell_rule("code")
def no_trailing_semicolon(cell: Cell):
    """Jupyter hides the value of a line that ends in `;`, nbval doesn't: assign it, `_ = …`."""
    lines = io.StringIO(cell.source + "\n" if cell.tree else "").readline
    for token, following in pairwise(tokenize.generate_tokens(lines)):
        if token.string == ";" and following.type in (tokenize.NEWLINE, tokenize.COMMENT):
            yield f"line {token.start[0]} ends in `;`"


@rule()
def tags(page: Page, book: Book) -> Found:
    """A tag or comment of nbval's or Jupyter's can excuse a cell from being run or compared. A
    figure drawn from live measurements has its reason in exceptions.toml."""
    known = {HIDDEN, SOLUTION, MEASURED_FIGURE, PREDICTED} | FOLDS
    for cell in page.cells:
        for tag in cell.tags:
            if tag not in known:
                yield cell, f"the tag {tag} is not one of {', '.join(sorted(known))}"
            if tag == MEASURED_FIGURE and not book.allows(tag, page.stem, cell.id):
                yield cell, f"the tag {tag} needs a reason, [[{tag}]] in {book.exceptions.name}"
        marks = r"^\s*#+\s*((?:NBVAL|PYTEST_VALIDATE)_\w+)\s*$"
        for mark in re.findall(marks, cell.source, re.M) if cell.is_code else ():
            yield cell, f"the comment {mark} changes what nbval checks"


@rule()
def names_in_sight(page: Page, book: Book) -> Found:
    """A reader finds on the page where a name comes from: what a cell in sight uses is imported or
    assigned there, or in one in sight before it. A solution may also use what solutions before it
    define. Other hidden and folded cells use what they like and give nothing to those in sight."""
    known, solved = set(dir(builtins)), set()
    for cell in page.code:
        solution = SOLUTION in cell.tags
        if cell.tree and (solution or cell.in_sight):
            used, given = names(cell.source)
            known, solved = (known, solved | given) if solution else (known | given, solved)
            if missing := used - known - (solved if solution else set()):
                yield cell, f"no cell in sight defines {', '.join(sorted(missing))}"


@rule()
def no_redefinition(page: Page, book: Book) -> Found:
    """The code on a page is the package's, shown: a second one would drift from the tested one."""
    for cell in page.code:
        methods = {
            part
            for node in cell.nodes if isinstance(node, ast.ClassDef)
            for part in node.body if isinstance(part, ast.FunctionDef)
        }
        for node in cell.nodes:
            name = None
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node not in methods:
                name = node.name
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                name = ast.unparse(node.targets[0])
            if name in book.names:
                yield cell, f"defines {name}, which {book.names[name]} has: show that one"
