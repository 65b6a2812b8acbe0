"""Rules about what is stored: outputs, counts, metadata."""

import ast
import re

from pages.book import Book
from pages.page import Cell, Page
from pages.rules.reading import imports
from pages.rules.registry import Found, rule
from pages.storage import KERNELSPEC, dumps, load, normalise


@rule("kernelspec")
def kernelspec(page: Page, book: Book) -> Found:
    stored = dict(page.metadata.get("kernelspec", {}))
    if stored != KERNELSPEC:
        yield None, f"the kernel spec is {stored}; `run` writes {KERNELSPEC}"


@rule("volatile-metadata")
def volatile_metadata(page: Page, book: Book) -> Found:
    extra = set(page.metadata) - {"kernelspec", "language_info", "mystnb"}
    if extra:
        yield None, f"metadata of the notebook that nobody needs: {', '.join(sorted(extra))}"
    if "version" in page.metadata.get("language_info", {}):
        yield None, "language_info holds the version of Python, which differs between machines"
    for cell in page.cells:
        extra = set(cell.metadata) - {"tags", "mystnb", "jupyter"}
        if extra:
            yield cell, f"metadata that changes from run to run: {', '.join(sorted(extra))}"


@rule("normal-form")
def normal_form(page: Page, book: Book) -> Found:
    if dumps(normalise(load(page.path))) != page.raw:
        yield None, "not as `tools/notebooks.py run` writes it: run it"


@rule("execution-counts")
def execution_counts(page: Page, book: Book) -> Found:
    for expected, cell in enumerate((c for c in page.cells if c.is_code), start=1):
        if cell.count != expected:
            yield (
                cell,
                f"execution count {cell.count}, expected {expected}: not run in one go",
            )
        for output in cell.outputs:
            if (
                output["output_type"] == "execute_result"
                and output.get("execution_count") != cell.count
            ):
                yield (
                    cell,
                    f"an output of run {output.get('execution_count')}, the cell's is {cell.count}",
                )


@rule("stored-outputs")
def stored_outputs(page: Page, book: Book) -> Found:
    for cell in page.code:
        if not cell.outputs and (why := speaks(cell)):
            yield cell, f"no stored output, though the cell {why}"


# Methods that return nothing, so that a cell may end in them.
SILENT = {"append", "extend", "add", "sort", "update", "backward", "step", "zero_grad", "close"}


def speaks(cell: Cell) -> str | None:
    """Why running the cell must leave an output, or None."""
    if cell.tree is None or not cell.tree.body:
        return None
    last = cell.tree.body[-1]
    if isinstance(last, ast.Expr):
        name = (
            ast.unparse(last.value.func).split(".")[-1] if isinstance(last.value, ast.Call) else ""
        )
        if name not in SILENT and not name.startswith("assert_"):
            return "ends in an expression"
    # Statements that surely run; what is under `if`, `try`, `while` or `def` may not.
    stack, surely = list(cell.tree.body), []
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.For | ast.With):
            stack += statement.body
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            surely.append(statement.value)
    for call in surely:
        name = ast.unparse(call.func).split(".")[-1]
        if name in ("print", "show", "where", "display") and not any(
            k.arg == "file" for k in call.keywords
        ):
            return f"calls {name}"
    return None


@rule("no-empty-cells")
def no_empty_cells(page: Page, book: Book) -> Found:
    for cell in page.cells:
        if not cell.source.strip():
            yield cell, "an empty cell"


@rule("no-errors")
def no_errors(page: Page, book: Book) -> Found:
    for cell in page.cells:
        for output in cell.outputs:
            if output["output_type"] == "error":
                yield cell, f"a stored error: {output['ename']}: {output['evalue']}"


@rule("no-stderr")
def no_stderr(page: Page, book: Book) -> Found:
    for cell in page.cells:
        for output in cell.outputs:
            if output.get("name") == "stderr":
                yield cell, f"output on stderr: {output['text'].strip().splitlines()[0][:80]!r}"


def _refuse_types(name: str, pattern: str, why: str) -> None:
    @rule(name)
    def refuse(page: Page, book: Book) -> Found:
        for cell in page.cells:
            for mime, _ in cell.data:
                if re.fullmatch(pattern, mime):
                    yield cell, f"an output of type {mime}: {why}"


_refuse_types("png-only", r"image/(?!png$).*|application/pdf", "figures are PNG")
_refuse_types("no-widgets", r"application/vnd\.jupyter\..*", "widgets need a kernel")
_refuse_types("no-latex", "text/latex", "nbval can't sanitise it; return Markdown")
_refuse_types(
    "known-types",
    r"(?!image/|text/(plain|html|markdown|latex)$|application/(json$|pdf$|vnd\.jupyter\.)).*",
    "pages store plain text, Markdown, HTML, JSON and PNG",
)


@rule("no-addresses")
def no_addresses(page: Page, book: Book) -> Found:
    for cell in page.cells:
        for text in cell.texts:
            for address in sorted(set(re.findall(r"\b0x[0-9a-fA-F]{6,}\b", text))):
                yield cell, f"a memory address, other in every run: {address}"


ABSOLUTE = re.compile(
    r"(?<![\w.~<:/-])/(?:home|root|work|workspace|tmp|usr|var|opt|etc|mnt|srv|Users|content|private)/[^\s'\"<>)]*"
    r"|\bfile://\S+|\b[A-Z]:\\+Users\\\S*"
)


@rule("no-absolute-paths", notebooks_only=False)
def no_absolute_paths(page: Page, book: Book) -> Found:
    for cell in page.cells:
        for text in [cell.source, *cell.texts]:
            for path in sorted(set(ABSOLUTE.findall(text))):
                yield cell, f"an absolute path: {path}"


@rule("no-progress-bars")
def no_progress_bars(page: Page, book: Book) -> Found:
    for cell in page.code:
        if any("tqdm" in name for name in imports(cell)):
            yield cell, "imports tqdm: print at fixed steps instead"
        for text in cell.texts:
            if re.search(r"\r(?!\n)|\x08|\d%\|[ █▏▎▍▌▋▊▉#]*\| *\d+/|\d(?:it/s|s/it)\b", text):
                yield cell, "the output of a progress bar"
                break


@rule("file-size")
def file_size(page: Page, book: Book) -> Found:
    size = len(page.raw.encode())
    if size > 600_000:
        yield None, f"{size / 1000:.0f} KB, at most 600"
