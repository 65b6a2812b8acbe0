"""All experiments, the most wanted first."""

from itertools import product
from pathlib import Path

from annotated.experiments.entries import Experiment, Measurement, Training

ABSTRACT = "00-abstract"
BATCHES, ATTENTION = "05-1-study-what-batches-cost", "03-2-study-additive-attention"
SCHEDULE, COST = "05-2-hardware-and-schedule", "05-2-study-what-it-cost"
OPTIMIZER = "05-3-optimizer"
REGULARIZATION = "05-4-regularization"
DROPOUT, SMOOTHING = "05-4-study-dropout", "05-4-study-smoothing"
NETWORKS_WORTH = "03-3-study-what-networks-are-worth"
EMBEDDINGS, POSITIONS = "03-4-embeddings-and-softmax", "03-5-positional-encoding"
FACTOR_AND_TIES = "03-4-study-the-factor-and-the-ties"
ROTATION = "03-5-study-rotation-and-length"
DOT_PRODUCT, APPLICATIONS = (
    "03-2-1-scaled-dot-product-attention", "03-2-3-applications-of-attention",
)
ROOT = "03-2-1-study-why-the-root"
TABLE_1, EXPONENTS = "04-table-1-measured", "04-study-exponents"
LAYER_QUIZ = "quiz-why-self-attention"
BOTH_JOBS, BOTH_JOBS_WHOLE = "04-training-versus-generation", "04-study-training-and-generation"
CHOICES, STACKS, NORM_ORDER = (
    "03-study-what-each-choice-buys", "03-1-encoder-and-decoder-stacks", "03-1-study-norm-order",
)

NO_WARMUP, PRE_NORM = "training.warmup=false", "model.norm=pre"
# The book's model, four times as wide.
WIDE = "model.d_model=128", "model.d_ff=512", "model.heads=4"
FEW = "task.count=300"  # so that 600 updates see each pair more than a hundred times

# Layers, heads, d_model, and how many times as wide the feed-forward networks are.
SIZES = [
    (1, 2, 32, 4), (1, 2, 48, 4), (2, 1, 48, 4), (2, 4, 48, 4), (2, 4, 64, 4),
    *product((2,), (2,), (32, 48, 64, 96), (4,)),
    (2, 2, 32, 2), (2, 2, 48, 1), (2, 2, 48, 2), (2, 2, 64, 2),
]


def step(model: str, precision: str, seconds: dict[str, float], least: dict[str, float]):
    """§5.2: the time of an update of "base" or "big", beside the rate of matrix products.

    `model` and `precision` name it; by device, `seconds` are what the updates may take, and
    `least` what the whole needs.
    """
    return Measurement(
        name=f"step-{model}-{precision}", pages=(COST,) if "cpu" in least else (),
        function="annotated.benchmark.step:record", least=least, share=0.1,
        arguments={"model": model, "precision": precision, "seconds": seconds},
    )


def ablation(name: str, *changes: str, pages: tuple[str, ...], seconds: float = 60.0) -> Training:
    """§5.3-5.4: numbers with a setting changed; confidence and likeness of memory vectors too."""
    return Training(
        name=f"ablation-{name}", pages=pages, seeds=3, recipe="numbers-en-de", changes=changes,
        column="annotated.analysis.scores:memory_cosine",
        measures="annotated.variations.ablations:confidence", least={"cpu": seconds},
    )


def control(
    name: str, without: str, *changes: str, model: str = "", pages: tuple[str, ...] = (),
) -> Training:
    """§3-3.5, §5.3: numbers of five digits with one of the paper's choices taken away.

    `name` is the control's, `without` says what is taken away, `model` is a class of
    `variations.controls` if no setting (`changes`) does it; `pages` read it beside the study of
    all choices.
    """
    return Training(
        name=f"control-{name}", pages=(*pages, CHOICES), seeds=3,
        recipe="numbers-en-de-five-digits", changes=changes, without=without,
        model=f"annotated.variations.controls:{model}" if model else Training.model,
        column="annotated.analysis.scores:token_accuracy",
        measures="annotated.variations.controls:with_control_metrics", least={"cpu": 90.0},
    )


def size(layers: int, heads: int, d_model: int, d_ff: int) -> Training:
    """§6.2 in miniature: numbers with a model of that size, and what each head is worth.

    `layers`, `heads`, `d_model` and `d_ff` are those of `TransformerConfig`.
    """
    sizes = {"layers": layers, "heads": heads, "d_model": d_model, "d_ff": d_ff}
    return Training(
        name=f"size-{layers}-{heads}-{d_model}-{d_ff}", recipe="numbers-en-de", seeds=3,
        pages=("03-study-how-small",),
        changes=("training.steps=500", *(f"model.{name}={n}" for name, n in sizes.items())),
        measures="annotated.variations.sizes:with_heads_cut", least={"cpu": 60.0},
    )


def batches(name: str, length_noise: int) -> Training:
    """§5.1: numbers with batches of sentences of one length, or of many."""
    changes = (f"training.length_noise={length_noise}", "training.steps=200")
    return Training(
        name=f"batches-{name}", pages=(BATCHES,), seeds=3, recipe="numbers-en-de", changes=changes,
        least={"cpu": 40.0},
    )


def padding(recipe: str, seconds: float) -> Measurement:
    """§5.1: what is padding, in schemes of making batches of a recipe's training pairs."""
    return Measurement(
        name=f"padding-{recipe}", pages=(BATCHES,), function="annotated.benchmark.padding:record",
        arguments={"recipe": recipe}, least={"cpu": seconds},
    )


def table_1(grid: str, least: dict[str, float]) -> Measurement:
    """§4: Table 1 in time and memory, over the `grid` "default" or "full"."""
    default = grid == "default"
    return Measurement(
        name="table-1" if default else f"table-1-{grid}",
        pages=(TABLE_1, EXPONENTS, BOTH_JOBS, LAYER_QUIZ) if default else (TABLE_1, EXPONENTS),
        function="annotated.complexity.table_1:record", arguments={"grid": grid}, least=least,
    )


def table_1_causes(least: dict[str, float]) -> Measurement:
    """§4: what is suspected where a measured exponent is not Table 1's, by itself."""
    return Measurement(
        name="table-1-causes", pages=(TABLE_1, EXPONENTS), least=least,
        function="annotated.complexity.causes:record",
    )


def against_lstm(size: str, least: dict[str, float]) -> Measurement:
    """§4: training and generation, a Transformer "small" or "base" against LSTMs of its `size`."""
    return Measurement(
        name=f"training-and-generation-{size}",
        pages=(BOTH_JOBS, BOTH_JOBS_WHOLE, LAYER_QUIZ) if "cpu" in least else (),
        function="annotated.complexity.generation:record", arguments={"size": size}, least=least,
    )


_ALL = (
    step("base", "float32", {"cpu": 90.0}, {"cpu": 12.0}),
    step("base", "bfloat16", {"cuda": 60.0}, {"cuda": 20.0}),
    Training(
        name="numbers-en-de", recipe="numbers-en-de", pages=(SCHEDULE,), seeds=3,
        film="annotated.variations.film:film", least={"cpu": 30.0, "cuda": 30.0}, share=0.3,
    ),
    Measurement(
        name="film-numbers-en-de", pages=(SCHEDULE,), seeds=3,
        function="annotated.variations.film:record",
        arguments={"recipe": "numbers-en-de", "every": 25}, least={"cpu": 120.0},
    ),
    step("big", "float32", {"cpu": 120.0}, {"cpu": 45.0}),
    step("big", "bfloat16", {"cuda": 60.0}, {"cuda": 25.0}),
    Training(name="multi30k-en-de", recipe="multi30k-en-de", least={"cuda": 90.0}, share=1.0),
    Training(
        name="multi30k-en-de-short", recipe="multi30k-en-de-short", pages=(COST,),
        least={"cpu": 180.0}, share=1.0,
    ),
    Training(
        name="tatoeba-en-de", recipe="tatoeba-en-de", pages=(COST,),
        least={"cpu": 300.0}, share=1.0,
    ),
    Training(
        name="numbers-en-de-families", recipe="numbers-en-de-families", pages=(SCHEDULE,),
        seeds=3, least={"cpu": 60.0}, share=0.1,
    ),
    Training(
        name="numbers-en-fr", recipe="numbers-en-fr", seeds=3, least={"cpu": 80.0}, share=0.1,
    ),
    Training(name="copy", recipe="copy", seeds=3, least={"cpu": 30.0, "cuda": 30.0}, share=0.1),
    Measurement(
        name="attention-additive", pages=(ATTENTION,),
        function="annotated.benchmark.attention:record", least={"cpu": 60.0},
    ),
    control(
        "none", "nothing", pages=(
            ABSTRACT, DOT_PRODUCT, ROOT, APPLICATIONS, STACKS, NETWORKS_WORTH, EMBEDDINGS,
            FACTOR_AND_TIES, POSITIONS, ROTATION, NORM_ORDER,
        ),
    ),
    control(
        "no-scale", "the division of scores by √d_k (§3.2.1)",
        model="NoScale", pages=(ABSTRACT, DOT_PRODUCT, ROOT),
    ),
    control(
        "no-embedding-scale", "the factor √d_model of embeddings (§3.4)", model="NoEmbeddingScale",
        pages=(EMBEDDINGS, FACTOR_AND_TIES),
    ),
    control(
        "small-input", "the factor √d_model of embeddings, and positions divided by it (§3.4)",
        model="SmallInput", pages=(FACTOR_AND_TIES,),
    ),
    control(
        "no-feed-forward", "the feed-forward networks (§3.3)", model="NoFeedForward",
        pages=(NETWORKS_WORTH,),
    ),
    control(
        "no-encoder-positions", "the encoder's positions (§3.5)", model="NoEncoderPositions",
        pages=(POSITIONS,),
    ),
    control(
        "no-positions", "the positions of both sides (§3.5)", model="NoPositions",
        pages=(ABSTRACT, POSITIONS),
    ),
    control(
        "no-residual", "the residual connections (§3.1)", model="NoResidual", pages=(STACKS,),
    ),
    control(
        "untied", "the one matrix for three uses (§3.4)", "model.tie=false",
        pages=(EMBEDDINGS, FACTOR_AND_TIES),
    ),
    control(
        "learned-positions", "nothing; learned positions instead of sinusoids (§3.5)",
        "model.positions=learned", "model.max_length=32", pages=(ABSTRACT, POSITIONS, ROTATION),
    ),
    control(
        "halves", "nothing; sines in one half of the vector, cosines in the other",
        "model.positions=sinusoidal-halves", pages=(POSITIONS, ROTATION),
    ),
    control(
        "no-causal-mask", "the decoder's causal mask (§3.2.3)",
        model="NoCausalMask", pages=(APPLICATIONS,),
    ),
    control(
        "no-warmup", "the warm-up of the rate (§5.3)", NO_WARMUP, pages=(NORM_ORDER,),
    ),
    control(
        "pre-norm", "nothing; norms before sub-layers and after stacks",
        PRE_NORM, pages=(NORM_ORDER,),
    ),
    control(
        "pre-norm-no-warmup", "the warm-up, with norms like that",
        PRE_NORM, NO_WARMUP, pages=(NORM_ORDER,),
    ),
    ablation(
        "none", pages=(ABSTRACT, OPTIMIZER, REGULARIZATION, DROPOUT, SMOOTHING, NORM_ORDER),
    ),
    ablation("no-warmup", NO_WARMUP, pages=(OPTIMIZER, NORM_ORDER)),
    ablation("pre-norm", PRE_NORM, pages=(NORM_ORDER,)),
    ablation("pre-norm-no-warmup", PRE_NORM, NO_WARMUP, pages=(NORM_ORDER,)),
    ablation("wide", *WIDE, pages=(NORM_ORDER,), seconds=120.0),
    ablation("wide-no-warmup", *WIDE, NO_WARMUP, pages=(NORM_ORDER,), seconds=120.0),
    ablation(
        "no-smoothing", "training.label_smoothing=0", pages=(ABSTRACT, REGULARIZATION, SMOOTHING),
    ),
    ablation("no-dropout", "model.dropout=0", pages=(DROPOUT, SMOOTHING)),
    ablation("few", FEW, pages=(ABSTRACT, DROPOUT)),
    ablation("few-no-dropout", FEW, "model.dropout=0", pages=(ABSTRACT, DROPOUT)),
    batches("sorted", 0), batches("loose", 6), batches("random", 1_000_000),
    *(size(layers, heads, d, times * d) for layers, heads, d, times in SIZES),
    padding("numbers-en-de", 60.0), padding("multi30k-en-de-short", 300.0),
    padding("tatoeba-en-de", 1800.0),
    Measurement(
        name="recall", pages=("02-background", "02-study-recall"), seeds=3,
        function="annotated.complexity.recall:record", least={"cpu": 200.0},
    ),
    table_1("default", {"cpu": 280.0, "cuda": 90.0}),
    against_lstm("small", {"cpu": 240.0, "cuda": 60.0}),
    table_1_causes({"cpu": 90.0, "cuda": 60.0}),
    against_lstm("base", {"cuda": 120.0}),
    table_1("full", {"cpu": 1800.0, "cuda": 300.0}),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def experiment_named(name: str) -> Experiment:
    """The experiment; ValueError with the names there are for an unknown one."""
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def listing(root: Path | None = None) -> list[str]:
    """A line for each experiment and device: recorded seeds, those missing, the pages that read.

    root: the folder of results, by default the package's own.
    """
    rows = [("experiment", "device", "seeds", "missing", "pages")]
    for experiment in EXPERIMENTS.values():
        found = experiment.recorded(root)
        for kind in experiment.least:
            mine = [record for record in found if record.kind == kind]
            devices = sorted({record.device for record in mine}) or [kind]
            seeds, missing = (
                " ".join(map(str, some)) or "-"
                for some in (sorted(r.seed for r in mine), experiment.missing(kind, root))
            )
            pages = " ".join(experiment.pages) or "-"
            rows.append((experiment.name, ", ".join(devices), seeds, missing, pages))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
