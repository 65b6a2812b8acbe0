"""What trainer, search and analysis ask of a model, and nothing beyond it."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn


@runtime_checkable
class Seq2SeqConfig(Protocol):
    """What others read in a model's configuration."""

    @property
    def d_model(self) -> int: ...  # for the learning rate (§5.3, eq. 3)

    @property
    def max_length(self) -> int | None: ...  # None: a target of any length

    @property
    def pad_id(self) -> int: ...

    @property
    def bos_id(self) -> int: ...

    @property
    def eos_id(self) -> int: ...


@runtime_checkable
class Cache(Protocol):
    """What a model keeps between the steps of a search."""

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Repeat, reorder or drop rows of the batch, in place."""


@runtime_checkable
class Seq2Seq(Protocol):
    """An `nn.Module` from source ids to logits over the target's vocabulary.

    Ids are int64, padded on the right with pad_id; a target begins with
    bos_id. The trainer calls the model, a search uses `start` and `step`,
    interventions use `encode`; all read `config`.
    """

    @property
    def config(self) -> Seq2SeqConfig: ...

    def __call__(
        self, source: Int[Tensor, "batch m"], target: Int[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n vocab"]:
        """Logits at each position, for the token after it."""

    def encode(
        self, source: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m d_model"]:
        """The memory: one vector for each source token."""

    def start(
        self, source: Int[Tensor, "batch m"], capacity: int,
        memory: Float[Tensor, "batch m d_model"] | None = None,
    ) -> Cache:
        """A cache for up to `capacity` steps.

        `memory` stands in for the one that `encode` would give.
        """

    def step(
        self, token: Int[Tensor, " batch"], cache: Any
    ) -> Float[Tensor, "batch vocab"]:
        """Logits for the token after this; `cache` is one that start made."""

    # of nn.Module
    def modules(self) -> Iterator[nn.Module]: ...
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def train(self, mode: bool = True) -> Any: ...
    def eval(self) -> Any: ...
