"""§5.2: several processes that train one model, each on its share of a batch."""

import os
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

N = TypeVar("N", int, float)
UPDATE_TIMEOUT = timedelta(minutes=30)  # of one message; the first may be testing
DATA_TIMEOUT = timedelta(hours=3)  # of one wait; the first may be encoding WMT
VARIABLES = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
# Launchers that number their processes otherwise: (number of processes, rank, rank on the machine)
LAUNCHERS = {
    "srun": ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"),
    "mpirun": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


@dataclass(frozen=True)
class World:
    """The processes of one training: the rank of this one, and their number.

    Every process holds the whole model. They read different batches and
    average their gradients, so they stay the same model. A context manager:
    at the end of the block the connection is closed.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on this machine
    device: str = "cpu"
    store: dist.Store | None = field(default=None, repr=False, compare=False)
    waits: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    @classmethod
    def join(cls, device: str) -> "World":
        """The processes that torchrun, or RANK and WORLD_SIZE, say there are; else this one alone.

        NCCL connects CUDA devices, gloo everything else. Raises ValueError
        if a variable is missing, OSError if the others can't be reached.
        """
        (rank, size), place = from_environment(), local_device(device)
        if device == "cuda":
            torch.cuda.set_device(place)
        if size == 1:
            return cls(device=place)
        backend = "nccl" if device == "cuda" else "gloo"
        try:
            store, *_ = next(dist.rendezvous("env://", timeout=UPDATE_TIMEOUT))
            dist.init_process_group(
                backend, store=dist.PrefixStore("group", store), rank=rank, world_size=size,
                timeout=UPDATE_TIMEOUT,
            )
            world = cls(rank, size, int(os.environ.get("LOCAL_RANK", 0)), place, store)
            # torchrun may keep its store when it starts all again, with what was counted there
            start = world.each(secrets.randbits(40))[0]
        except RuntimeError as error:
            address = ":".join(os.environ[name] for name in VARIABLES[2:])
            told = f"process {rank} of {size} can't join the others at {address}"
            raise lost(told, error) from None
        return replace(world, store=dist.PrefixStore(f"start {start}", store))

    def __enter__(self) -> "World":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        if self.size > 1 and isinstance(error, RuntimeError) and is_of_the_connection(error):
            told = f"process {self.rank} of {self.size} has lost the others"
            raise lost(told, error) from None

    def wait(self) -> None:
        """Go on only when every process has come this far.

        A signal is heeded meanwhile. TimeoutError after `DATA_TIMEOUT`.
        """
        if self.store is None:
            return
        number = next(self.waits)
        self.store.add(f"{number} come", 1)
        self.await_count(self.store, f"{number} come", self.size)
        # the first may hold the store, so it leaves last
        if self.rank > 0:
            self.store.add(f"{number} gone", 1)
        else:
            self.await_count(self.store, f"{number} gone", self.size - 1)

    def await_count(self, store: dist.Store, name: str, count: int) -> None:
        """Go on once so many processes have counted themselves under that name."""
        late = time.monotonic() + DATA_TIMEOUT.total_seconds()
        while (here := store.add(name, 0)) < count:
            if time.monotonic() > late:
                raise TimeoutError(
                    f"process {self.rank} has waited {DATA_TIMEOUT} for the others: "
                    f"{here} of {count} have come"
                )
            time.sleep(0.05)

    def parallel(self, model: Any) -> Any:
        """The model, its gradients averaged over the processes as they are computed."""
        if self.size == 1:
            return model
        with warnings.catch_warnings():  # a newer PyTorch calls the option otherwise
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(
                model, broadcast_buffers=False, gradient_as_bucket_view=True
            )

    def each(self, number: N) -> list[N]:
        """Every process's number, by rank."""
        if self.size == 1:
            return [number]
        numbers = torch.zeros(self.size, dtype=torch.float64, device=self.device)
        numbers[self.rank] = number
        finish(dist.all_reduce(numbers, async_op=True))
        return [type(number)(found) for found in numbers.tolist()]

    def total(self, number: N) -> N:
        """The sum of every process's number."""
        return sum(self.each(number))

    def send(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the first process's."""
        if self.size > 1:
            for tensor in tensors:
                finish(dist.broadcast(tensor, 0, async_op=True))


def from_environment() -> tuple[int, int]:
    """Rank and number of processes as the environment has them; ValueError if it has half."""
    values = {name: os.environ.get(name, "") for name in VARIABLES}
    if not (values["RANK"] or values["WORLD_SIZE"]):
        for launcher, names in LAUNCHERS.items():
            tasks, number, _ = (os.environ.get(name, "") for name in names)
            if number and tasks not in ("", "1"):
                raise ValueError(
                    f"{launcher} started {tasks} processes ({names[0]}), but RANK and WORLD_SIZE "
                    "are not set: let it start torchrun, once per machine, or set "
                    f"RANK=${names[1]} WORLD_SIZE=${names[0]} LOCAL_RANK=${names[2]} "
                    "MASTER_ADDR=… MASTER_PORT=…"
                )
        return 0, 1
    if values["WORLD_SIZE"] == "1":
        return 0, 1
    if missing := [name for name, value in values.items() if not value]:
        there = ", ".join(f"{name}={value}" for name, value in values.items() if value)
        raise ValueError(f"{there} without {', '.join(missing)}; several processes need all four")
    try:
        rank, size = int(values["RANK"]), int(values["WORLD_SIZE"])
    except ValueError:
        rank, size = -1, 0
    if not 0 <= rank < size:
        raise ValueError(
            f"RANK is {values['RANK']!r} and WORLD_SIZE {values['WORLD_SIZE']!r}; "
            "expected whole numbers, RANK from 0 to WORLD_SIZE - 1"
        )
    return rank, size


def local_device(device: str) -> str:
    """This process's own device, such as "cuda:1"; ValueError if there is none."""
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; expected cpu or cuda")
    if kind == "cpu" or number:
        return device
    place, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if place >= there:
        raise ValueError(
            f"device is cuda, but torch sees {there} CUDA devices here: none for process {place}"
        )
    return f"cuda:{place}"


def finish(work: dist.Work) -> None:
    """Wait for a message, in Python, so that a signal is heeded meanwhile."""
    pause = 1e-4
    while not work.is_completed():
        time.sleep(pause)
        pause = min(1.5 * pause, 0.05)
    work.wait()


def is_of_the_connection(error: RuntimeError) -> bool:
    """Whether torch.distributed raised it: some of its errors have no class of their own."""
    return isinstance(error, dist.DistError) or any(
        word in str(error) for word in ("gloo", "Connection closed", "NCCL")
    )


def lost(told: str, error: RuntimeError) -> ConnectionError:
    """An error of torch.distributed in one line."""
    return ConnectionError(f"{told}: {str(error).strip().splitlines()[0]}")
