"""§6.1, Table 2: what training costs, counted; beside it the paper's own arithmetic.

A FLOP is a multiplication or an addition of a matrix product, two for each
multiply-add. Left out are softmax, LayerNorm, dropout, the loss and Adam:
they move memory more than they compute, and no matrix rate is about them.
"""

from typing import NamedTuple

from annotated import paper
from annotated.model import TransformerConfig
from annotated.model.attention import head_widths


class Work(NamedTuple):
    """Multiply-adds of one forward pass, by what they are for.

    projections: W^Q, W^K, W^V and W^O of every attention.
    attention: Q Kᵀ and the mixing of values, which grow with length squared.
    """

    projections: int
    attention: int
    feed_forward: int
    output: int

    @property
    def forward(self) -> int:
        """FLOPs of the forward pass."""
        return 2 * sum(self)

    @property
    def update(self) -> int:
        """FLOPs of forward and backward: three times the forward pass.

        Each product x W brings two of its own size on the way back, for the
        gradients of x and of W; the first layer's x is learned too. What a
        fused kernel computes again on the way back is not counted.
        """
        return 3 * self.forward


def work(config: TransformerConfig, sentences: int, source: int, target: int) -> Work:
    """§3: the products of `model(source, target)`, ids (sentences, source) and (…, target).

    `config` has the model's sizes.
    The lengths are those of the tensors, in tokens: padding is computed too.
    Masked attention is counted in full, though a kernel may skip the half
    that no position may see. Raises ValueError for a size below 1.
    """
    for name, size in dict(sentences=sentences, source=source, target=target).items():
        if size < 1:
            raise ValueError(f"{name} is {size}; expected at least 1")
    d, h = config.d_model, config.heads
    d_k, d_v = head_widths(d, h, config.d_k, config.d_v)

    def projections(n: int, m: int) -> int:
        """n queries and outputs, m keys and values."""
        return d * h * (n * (d_k + d_v) + m * (d_k + d_v))

    def attention(n: int, m: int) -> int:
        return h * n * m * (d_k + d_v)

    attentions = [(source, source), (target, target), (target, source)]  # encoder's, decoder's two
    each = sentences * config.layers
    return Work(
        projections=each * sum(projections(*size) for size in attentions),
        attention=each * sum(attention(*size) for size in attentions),
        feed_forward=each * (source + target) * 2 * d * config.d_ff,
        output=sentences * target * d * config.vocab_size,
    )


class Cost(NamedTuple):
    """One of the paper's two runs in FLOPs, four ways.

    printed: Table 2.
    from_days: the time it took × GPUs × what one of them sustains (footnote 5).
    from_steps: the same with the number of steps × the time of one (§5.2).
    counted: the same number of steps × the work of one, by `work`.
    """

    printed: float | None
    from_days: float
    from_steps: float
    counted: float

    @property
    def share(self) -> float:
        """How much of the capacity that the run took was matrix products, 0 to 1."""
        return self.counted / self.from_days


def paper_cost(name: str, length: int = 25) -> Cost:
    """§5.2, §6.1: the cost of the paper's run "base" or "big" (English-German).

    `counted` takes batches of §5.1's tokens without padding, in sentences
    of `length` pieces on each side. Raises ValueError for another name.
    """
    if name not in ("base", "big"):
        raise ValueError(f"name is {name!r}; expected 'base' or 'big'")
    run, facts = paper.RUNS[name], paper.TRAINING
    steps, seconds = getattr(facts, f"{name}_steps"), getattr(facts, f"{name}_step_seconds")
    config = getattr(TransformerConfig, name)()
    one = work(config, facts.target_tokens // length, length, length)
    return Cost(
        printed=paper.TABLE_2[run.system].flops_en_de,
        from_days=run.flops,
        from_steps=run.flops * steps * seconds / (run.days * 86_400),
        counted=steps * one.update,
    )
