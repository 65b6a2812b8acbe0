"""§5.3: the learning rate as a function of the step."""


def learning_rate(
    step: int, d_model: int, warmup_steps: int, factor: float = 1.0
) -> float:
    """§5.3, eq. 3: d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    Steps count updates and start at 1; ValueError for an earlier one.
    Largest at `step == warmup_steps`. Not in the paper: `factor`.
    """
    if step < 1:
        raise ValueError(f"step is {step}; the first update is step 1")
    rise, fall = step * warmup_steps**-1.5, step**-0.5
    return factor * d_model**-0.5 * min(rise, fall)
