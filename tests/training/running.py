"""Trainings in processes of their own, to be killed, or to train one model together.

python tests/training/running.py kill FOLDER SEED TIMES
python tests/training/running.py jobs JOB…
torchrun … tests/training/running.py elastic FOLDER

Processes are forked from this one, which has imported everything: a fresh one takes seconds.
"kill" trains in FOLDER/never without a stop; then in FOLDER/0, FOLDER/1…, killed at random points
(SIGKILL) and started again, until there were so many kills; it prints where they fell, as JSON. A
job is "NAME PROCESSES STOP": train in the folder NAME, by so many processes; 0 or after how many
updates the last of them alone is told to stop. "{rank}" in the name gives each process a folder of
its own, as on machines that share no disk. "elastic" trains as one process of those that torchrun
starts; the second kills itself, the first time, after 8 updates. test_resume.py and test_world.py
run it and look at what is left in the folders.
"""

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch._dynamo  # noqa: F401  each process that trains with others would import it
from safetensors.torch import save, save_file

from annotated.model import TransformerConfig
from annotated.recipes import Copying, Recipe, train
from annotated.training import Trainer, TrainingConfig, World, states

SEED = 3
LIMIT = 300  # seconds, after which a process ends itself, whoever waits for it or for whom it waits
RECIPE = Recipe(
    "miniature", "three letters at most",
    Copying(count=101, longest=3, watched=2),
    TransformerConfig.tiny(d_model=22, d_ff=29, heads=2, layers=1, dropout=0.3),
    TrainingConfig(
        steps=13, batch_tokens=186, micro_batches=6, length_noise=3.0, warmup_steps=5, average=3,
        average_every=3,
    ),
)


def run(folder: Path, stop_after: int = 0, die_after: int = 0) -> None:
    """Train, or go on; at the end keep the mean."""
    with World.join("cpu") as world:
        steps = []

        def after(update, translator):
            steps.append(update.step)
            if update.step == die_after:
                os.kill(os.getpid(), signal.SIGKILL)

        done = train(
            RECIPE, SEED, after, folder=folder, world=world,
            stop=lambda: world.rank == world.size - 1 and steps[-1] == stop_after,
        )
        if done.finished and world.rank == 0:
            model = dict(done.translator.model.named_parameters())
            save_file({name: w.detach() for name, w in model.items()}, folder / "mean.safetensors")


def fork(function) -> int:
    """The id of a process that calls the function and ends."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    status = 1
    signal.alarm(LIMIT)
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def wait(child: int = -1) -> bool:
    """Whether the process, or the first of all to end, was killed; SystemExit if it failed."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"a training failed with status {status}")
    return status != 0


class Countdown:
    """Kills its own process at the n-th of the points that it is told of, and notes which."""

    def __init__(self, count: int, notes: Path):
        self.count, self.notes = count, notes

    def __call__(self, point: str) -> None:
        self.count -= 1
        if self.count == 0:
            with open(self.notes, "a") as file:
                file.write(f"{point}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, owner, name: str) -> None:
        """A point before, and one after, each call of a function."""
        real = getattr(owner, name)

        def watched(*arguments, **named):
            self(f"before {name}")
            result = real(*arguments, **named)
            self(f"after {name}")
            return result

        setattr(owner, name, watched)

    def watch_everything(self) -> None:
        for owner, name in [
            (Trainer, "update"), (os, "fsync"), (os, "replace"), (Path, "unlink"),
        ]:
            self.watch(owner, name)

        def save_in_pieces(tensors, path):
            data = save(tensors)
            with open(path, "wb") as file:
                for start in range(0, len(data), 1 + len(data) // 3):
                    file.write(data[start : start + 1 + len(data) // 3])
                    file.flush()
                    self("half a file")

        states.save_file = save_in_pieces


def run_to_a_point(folder: Path, count: int, notes: Path) -> None:
    Countdown(count, notes).watch_everything()
    run(folder)


def kill(base: Path, seed: int, times: int) -> None:
    rng, begun = random.Random(seed), time.perf_counter()
    assert not wait(fork(partial(run, base / "never")))
    lasts, notes = time.perf_counter() - begun, base / "points"
    killed, folders = 0, 0
    while killed < times:
        folder, folders = base / str(folders), folders + 1
        alive = True
        while alive and killed < times:
            if killed % 3 == 0:  # by the clock; safetensors writes as it does
                child = fork(partial(run, folder))
                time.sleep(rng.uniform(0, lasts))
                os.kill(child, signal.SIGKILL)
                point = "by the clock"
            else:
                child = fork(partial(run_to_a_point, folder, rng.randint(1, 67), notes))
                point = ""
            alive = wait(child)
            killed += alive
            if alive and point:
                with open(notes, "a") as file:
                    file.write(f"{point}\n")
        if alive:
            assert not wait(fork(partial(run, folder)))
    print(json.dumps({"points": notes.read_text().splitlines(), "folders": folders}))


def together(name: str, processes: int, stop_after: int) -> None:
    """As srun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def one(rank: int) -> None:
        if processes > 1:
            local = 0 if "{rank}" in name else rank
            os.environ |= {
                "RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(local),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
            }
        run(Path(name.format(rank=rank)), stop_after)

    children = [fork(partial(one, rank)) for rank in range(processes)]
    try:
        for _ in children:
            assert not wait()
    except SystemExit:  # the others may wait for the one that failed
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "elastic":
        dies = os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        run(Path(sys.argv[2]), die_after=8 if dies else 0)
    else:
        for job in sys.argv[2:]:
            name, processes, stop_after = job.split()
            together(name, int(processes), int(stop_after))
