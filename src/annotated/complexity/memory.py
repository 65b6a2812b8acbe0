"""§4: the memory that a run takes.

On a CPU it is counted: what PyTorch's operations give out and what of it is still held. That is
the same on every machine, but the scratch inside a kernel is not in it. On a GPU the allocator
tells, scratch included.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """Bytes that operations gave out and that somebody still holds: `now`, and the `peak` of it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = storages((args, kwargs))
        result = function(*args, **kwargs)
        before = {id(storage) for storage in given}
        for storage in storages(result):
            if id(storage) not in self.known and id(storage) not in before:
                self.meet(storage)
        return result

    def meet(self, storage: torch.UntypedStorage) -> None:
        """Count new memory until the last who holds it lets go."""
        key, size = id(storage), storage.nbytes()
        self.known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def storages(tree: object) -> list[torch.UntypedStorage]:
    """The memory behind each tensor of a tree."""
    return [x.untyped_storage() for x in tree_leaves(tree) if isinstance(x, Tensor)]


def peak_bytes(run: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """The most memory that `run()` holds at one time, beyond what was there before."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with Alive() as alive:
        held = run()
        peak = alive.peak
        del held
    return peak
