"""Finds calls whose result depends on a random state that the page did not set before them."""

import ast
from collections.abc import Iterator

# Functions that draw from a library's global state, by the call that seeds it.
SEEDERS = {"torch.manual_seed": "torch", "numpy.random.seed": "numpy", "random.seed": "python"}
TORCH = {
    *"rand rand_like randn randn_like randint randint_like randperm".split(),
    *"bernoulli multinomial normal poisson dropout nn.functional.dropout".split(),
    *"nn.functional.alpha_dropout nn.functional.gumbel_softmax".split(),
    *"utils.data.random_split utils.data.RandomSampler".split(),
}
TORCH_LAYERS = tuple(
    "Linear Bilinear Embedding Conv MultiheadAttention Transformer LSTM GRU RNN".split()
)  # prefixes: Conv1d, LSTMCell, TransformerEncoderLayer
METHODS = {
    *"normal_ uniform_ bernoulli_ random_ exponential_ log_normal_ cauchy_ geometric_".split(),
    *"bernoulli multinomial rand_like randn_like reset_parameters".split(),
}
NEVER_SEEDED = {"uuid.uuid4", "uuid.uuid1", "os.urandom", "random.SystemRandom"}


class Names(dict):
    """Local name -> dotted origin, from the imports seen so far."""

    def learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds a; `import a.b as c` binds the module itself
                self[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                self[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def dotted(self, node: ast.AST) -> str:
        """`F.dropout` -> torch.nn.functional.dropout; "" where the root is not a plain name."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.get(node.id, node.id), *reversed(parts)])


def in_order(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order of the text."""
    places = (n for n in ast.walk(tree) if hasattr(n, "lineno"))
    yield from sorted(places, key=lambda n: (n.lineno, n.col_offset, -(n.end_col_offset or 0)))


def unseeded(
    tree: ast.Module, names: Names, seeded: set[str], modules: set[str]
) -> Iterator[tuple[int, str]]:
    """(line, what) of each draw with no seed before it. Adds to `names` and `seeded`."""
    given_seed = {  # g = torch.Generator(); g.manual_seed(0)
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "manual_seed"
        and isinstance(node.func.value, ast.Name)
    }
    chained = (
        {  # torch.Generator().manual_seed(0), or a Generator whose name is seeded in this cell
            node.func.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "manual_seed"
        }
        | {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and {getattr(t, "id", None) for t in node.targets} & given_seed
        }
    )
    for node in in_order(tree):
        names.learn(node)
        if not isinstance(node, ast.Call):
            continue
        call = names.dotted(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if call in SEEDERS and (node.args or node.keywords):
            seeded.add(SEEDERS[call])
            continue
        generator = next(
            (k.value for k in node.keywords if k.arg in ("generator", "rng", "random_state")), None
        )
        if generator is not None and not (
            isinstance(generator, ast.Constant) and generator.value is None
        ):
            continue
        if needs := _state(call, method, node, modules, chained):
            if needs not in seeded:
                yield node.lineno, ast.unparse(node.func)


def _state(
    call: str, method: str, node: ast.Call, modules: set[str], chained: set[ast.AST]
) -> str | None:
    """The random state a call draws from; "never" if it can't be set; None for no draw."""
    if call in NEVER_SEEDED or call.startswith("secrets."):
        return "never"
    if call == "torch.Generator":
        return None if node in chained else "never"
    if call in ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random"):
        first = (
            node.args[0]
            if node.args
            else next((k.value for k in node.keywords if k.arg == "seed"), None)
        )
        given = first is not None and not (isinstance(first, ast.Constant) and first.value is None)
        return None if given else "never"
    if (
        call.startswith("numpy.random.")
        and call.count(".") == 2
        and call.split(".")[-1][0].islower()
    ):
        return "numpy"
    if call.startswith("random."):
        return "python"
    if call.startswith("torch."):
        rest = call.removeprefix("torch.")
        layer = (
            rest.startswith("nn.") and rest.count(".") == 1 and rest[3:].startswith(TORCH_LAYERS)
        )
        init = rest.startswith("nn.init.") and rest.endswith("_") and rest not in (
            "nn.init.zeros_", "nn.init.ones_", "nn.init.constant_", "nn.init.eye_", "nn.init.dirac_"
        )
        loader = rest == "utils.data.DataLoader" and any(
            k.arg == "shuffle" and getattr(k.value, "value", True) for k in node.keywords
        )
        return "torch" if rest in TORCH or layer or init or loader else None
    if call.split(".")[-1] in modules:  # our modules draw their weights when made
        return "torch"
    # A NumPy generator has methods of the same names, but can't be made without a seed (above).
    return "torch" if method in METHODS and call.split(".")[0] not in ("rng", "generator") else None
