"""Measuring: what a training step costs, counted and timed."""

from annotated.benchmark.flops import Cost, Work, paper_cost, work
from annotated.benchmark.step import Rate, Sample, Steps, matrix_rate, step_time

__all__ = [
    "Cost",
    "Rate",
    "Sample",
    "Steps",
    "Work",
    "matrix_rate",
    "paper_cost",
    "step_time",
    "work",
]
