"""Every test leaves no figure open behind it."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")
