"""Runs notebooks, always under the same settings."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ipykernel.kernelspec
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets import default

from annotated.files import write_atomically
from pages.storage import dumps, load, normalise

# The one place that says under which settings notebooks run: one thread and the same instruction
# set everywhere, so that the same numbers come out on more machines.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
}
CELL_TIMEOUT = 200  # seconds; the longest page trains live for about 150


class CellFailed(Exception):
    """A cell did not run cleanly; the message names the cell and says why."""


@contextmanager
def kernel_environment(hash_seed: int | None = None) -> Iterator[dict[str, str]]:
    """The environment every kernel starts in: ENVIRONMENT and our own start-up file.

    `hash_seed` is another order of sets of texts than ENVIRONMENT's, for trying that no page
    hangs on it.
    """
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        # A profile of ours keeps a user's IPython start-up files and settings out of the outputs.
        startup = Path(folder, "profile_default", "startup")
        startup.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("kernel_startup.py"), startup / "00-pages.py")
        # Errors only: each kernel would tell the terminal that it talks over plain TCP.
        settings = startup.with_name("ipython_kernel_config.py")
        settings.write_text("c.Application.log_level = 40\n", encoding="utf-8")
        kept = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", "PYTHONWARNINGS")}
        other = {} if hash_seed is None else {"PYTHONHASHSEED": str(hash_seed)}
        yield kept | ENVIRONMENT | other | {"IPYTHONDIR": folder}


class _ThisPython(KernelSpecManager):
    """Kernels of this very interpreter, whatever kernel specs the machine has lying about."""

    def get_kernel_spec(self, kernel_name):
        return self.kernel_spec_class(
            resource_dir=ipykernel.kernelspec.RESOURCES, **ipykernel.kernelspec.get_kernel_dict()
        )


class _KernelManager(AsyncKernelManager):
    @default("kernel_spec_manager")
    def _default_kernel_spec_manager(self):
        return _ThisPython()


def execute(book: NotebookNode, folder: Path, cell_timeout: int = CELL_TIMEOUT) -> None:
    """Run every code cell of a notebook, in place, with `folder` as working directory.

    Raises CellFailed at the first cell that raises, times out, dies or writes to stderr.
    """
    client = NotebookClient(
        book,
        kernel_manager_class=_KernelManager,
        timeout=cell_timeout,
        record_timing=False,
        force_raise_errors=True,
        skip_cells_with_tag="",  # no tag exempts a cell
        resources={"metadata": {"path": str(folder)}},
    )
    number = -1
    with kernel_environment() as environment, client.setup_kernel(env=environment):
        for place, cell in enumerate(book.cells):
            if cell.cell_type != "code":
                continue
            number += 1
            name = f"cell {number} (id {cell.get('id')})"
            try:
                client.execute_cell(cell, place)
            except CellExecutionError as error:
                plain = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback)
                raise CellFailed(f"{name}: {error.ename}: {error.evalue}\n{plain}") from None
            except CellTimeoutError:
                raise CellFailed(f"{name}: ran longer than {cell_timeout} s") from None
            except DeadKernelError:
                raise CellFailed(f"{name}: the kernel died") from None
            said = [out.text for out in cell.outputs if out.get("name") == "stderr"]
            if said:
                raise CellFailed(f"{name}: wrote to stderr:\n{''.join(said)}")


def run(path: Path, cell_timeout: int = CELL_TIMEOUT) -> bool:
    """Execute and normalise one notebook; did the file change? On failure it is untouched."""
    book = load(path)
    execute(book, path.parent, cell_timeout)
    before, after = path.read_text(encoding="utf-8"), dumps(normalise(book))
    if before == after:
        return False
    write_atomically(path, after.encode())
    return True
