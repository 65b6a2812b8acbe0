"""§5.2: several processes that train one model, each on its share of a batch."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """This process among its fellows; alone by default.

    Every process holds the whole model. They read different batches and
    agree on the sum of the gradients, so they stay the same model.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str) -> "World":
        """The processes that torchrun started, or this one alone.

        NCCL connects CUDA devices, gloo everything else.
        """
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return cls()
        if not dist.is_initialized():
            backend = "nccl" if device == "cuda" else "gloo"
            # They wait for the first to encode its corpus: NCCL gives up after
            # 10 minutes. torchrun ends them all if one dies.
            dist.init_process_group(backend, timeout=timedelta(days=1))
        return cls(dist.get_rank(), dist.get_world_size())

    def leave(self) -> None:
        """Tell the others that no more is to come."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def wait(self) -> None:
        """Go on only when every process has come this far."""
        if self.size > 1:
            dist.barrier()

    def sum_(self, tensors: list[Tensor]) -> None:
        """Replace each tensor by its sum over all processes.

        One message for each dtype: many small ones would mostly wait.
        """
        if self.size == 1:
            return
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.flatten() for tensor in same])
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in same])
            for tensor, part in zip(same, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def total(self, number: int, device: torch.device) -> int:
        """The sum of every process's number."""
        if self.size == 1:
            return number
        tensor = torch.tensor([number], device=device)
        self.sum_([tensor])
        return int(tensor)
