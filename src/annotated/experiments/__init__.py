"""The recorded experiments: what each runs, from which seeds, and which pages read its records."""

from annotated.experiments.entries import (
    Experiment,
    Measurement,
    Training,
    results_folder,
)
from annotated.experiments.table import EXPERIMENTS, experiment_named, listing

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Measurement",
    "Training",
    "experiment_named",
    "listing",
    "results_folder",
]
