"""What every test shares: threads, Hypothesis profiles, and the rule for missing programs.

The run-time check of shapes is switched on by pytest's options in pyproject.toml
(`--jaxtyping-packages`). It works because nothing here imports `annotated`: a module that is
imported before the hook stands goes unchecked.
"""

import os
import shutil

# Before anything imports torch or Matplotlib: with two pytest workers on two cores a second thread
# only waits, and no test may open a window.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"
NO_PROGRAM = "no program: "

# No deadline: the first example pays for imports and first calls. CI draws the same examples in
# every run, so that a red build is about the commit; a developer's runs keep looking for new ones.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if IN_CI else "here")


@pytest.fixture(scope="session")
def need():
    """`need("chromium", "what for")` gives the program's path; without it the test skips.

    Where CI=true it fails instead. Of several names, `need(("c++", "g++"), …)`, the first wins.
    """

    def find(names: str | tuple[str, ...], purpose: str) -> str:
        names = (names,) if isinstance(names, str) else names
        for path in map(shutil.which, names):
            if path:
                return path
        pytest.skip(f"{NO_PROGRAM}{' or '.join(names)} ({purpose})")

    return find


# Primes, so that no two axes can be taken for each other; d_model = 2 x 11, as sinusoids need an
# even one. d_k and d_v differ from each other and from d_model / heads, which is no integer.
PRIME = {"vocab_size": 37, "d_model": 22, "d_ff": 29, "heads": 3, "d_k": 5, "d_v": 7, "layers": 2}


def _sentences(lengths, config, seed=0):
    """One random sentence for each length: any id of the vocabulary but padding."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.tensor([i for i in range(config.vocab_size) if i != config.pad_id])
    return [words[torch.randint(len(words), (n,), generator=generator)] for n in lengths]


def _pad(sentences, pad_id, width=0):
    """(batch, longest or width), padded on the right."""
    width = max([width, *map(len, sentences)])
    return torch.stack(
        [torch.cat([s, torch.full((width - len(s),), pad_id)]).to(torch.int64) for s in sentences]
    )


# Functions handed out as fixtures of the whole session: nothing has to be importable from here,
# and Hypothesis accepts them.
@pytest.fixture(scope="session")
def build():
    # Here: nothing may import the package before the shape checks stand; and once, so that a test
    # that puts the unchecked package in its place still gets models of the checked one.
    from annotated.model import Transformer, TransformerConfig

    def make(dtype=torch.float32, shake=True, seed=0, **overrides):
        """A small model in eval mode.

        `shake` moves the biases and norms away from the zeros and ones they start from: otherwise
        a test couldn't see one that is lost or used in the wrong place.
        """
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**(PRIME | overrides))).to(dtype).eval()
        if shake:
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.dim() == 1:
                        parameter.add_(0.3 * torch.randn_like(parameter))
        return model

    return make


@pytest.fixture(scope="session")
def sentences():
    return _sentences


@pytest.fixture(scope="session")
def pad():
    return _pad


@pytest.fixture(scope="session")
def letters():
    """`letters(name, steps=5)` is a recipe of a second: three letters at most to copy."""
    from annotated.model import TransformerConfig
    from annotated.recipes import Copying, Recipe
    from annotated.training import TrainingConfig

    def make(name: str, **training) -> Recipe:
        small = dict(batch_tokens=61, length_noise=6.0, warmup_steps=3, average=2, average_every=2)
        return Recipe(
            name, "three letters at most",
            Copying(count=211, longest=3, tested=23, watched=11),
            TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1),
            TrainingConfig(**small | training),
        )

    return make


def _fail_if_a_program_is_missing(report):
    """A reader's machine may lack Chromium or a compiler; on CI a silent skip would be a hole."""
    if IN_CI and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(NO_PROGRAM):
            report.outcome = "failed"
            report.longrepr = f"CI must not skip: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _fail_if_a_program_is_missing((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _fail_if_a_program_is_missing((yield))
