"""§5.2: processes that train one model together, and what each of them must agree on.

Processes: see running.py. That the shares of several are the whole, and their number, is in
test_trainer.py.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from annotated.recipes import override, recipe_named, train
from annotated.training import World

SHORT = dict(rel=2e-4)  # float32 sums in another order, and Adam, over a dozen updates


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def assert_same_training(folder, other, **tolerance):
    """The same updates: the same tokens and rates; losses and norms to a float's tolerance."""
    ours, theirs = log_of(folder), log_of(other)
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for name in ("tokens", "rate"):
        assert [row[name] for row in ours] == [row[name] for row in theirs]
    for name in ("loss", "norm"):
        found = [row[name] for row in ours]
        assert found == pytest.approx([row[name] for row in theirs], **tolerance or SHORT)


class TestAlone:
    """Without fellows nothing is sent: no group of processes exists in this one."""

    def test_it_is_the_first_of_one(self):
        world = World()
        assert (world.rank, world.size) == (0, 1)
        assert world == World.join("cpu") == World.join("cuda")
        assert not torch.distributed.is_initialized()

    def test_its_sums_are_its_own(self):
        world, tensor = World(), torch.tensor([2.0, 3.0])
        world.sum_([tensor])
        assert tensor.tolist() == [2.0, 3.0]
        assert world.total(7, torch.device("cpu")) == 7
        world.wait()
        world.leave()
        assert not torch.distributed.is_initialized()


# Three processes that agree on sums of several tensors, of two dtypes and every shape.
SUMS = """
import os, signal, socket
import torch
import torch.distributed as dist
from annotated.training import World

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
rank = next((r for r in (1, 2) if os.fork() == 0), 0)
signal.alarm(240)  # each ends itself, should the others fail
os.environ |= {
    "RANK": str(rank), "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "test",
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
}
world = World.join("cpu")
assert world == World.join("cpu") == World(rank, 3)
tensors = [
    torch.full((2, 3), 10.0**rank), torch.tensor(rank, dtype=torch.float64),
    torch.arange(5.0)[None] * rank, torch.zeros(0), torch.full((7,), rank, dtype=torch.float64),
]
whole = tensors[0]
world.sum_(tensors)
assert whole is tensors[0] and whole.tolist() == [[111.0] * 3] * 2, whole
assert tensors[1].shape == () and tensors[1] == 3 and tensors[1].dtype == torch.float64
assert torch.equal(tensors[2], 3 * torch.arange(5.0)[None])
assert tensors[3].shape == (0,) and tensors[4].tolist() == [3.0] * 7
assert world.total(10**rank, torch.device("cpu")) == 111
assert world.total(2**40, torch.device("cpu")) == 3 * 2**40
world.wait()
world.leave()
assert not dist.is_initialized()
if rank == 0:
    ended = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
    print("all agree" if ended == [0, 0] else ended)
else:
    os._exit(0)
"""


def test_three_processes_agree_on_sums():
    done = subprocess.run([sys.executable, "-c", SUMS], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "all agree\n"), done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of one recipe with dropout and four micro-batches, trained by one or two processes.

    "one" and "two" were never stopped. The others were, after 5 updates; each is named after who
    trained before the stop, and who after. What the stop left of some is in NAME-stopped.
    """
    base = tmp_path_factory.mktemp("runs")
    jobs = ["one 1 0", "two 2 0"]
    for first, second in [(1, 2), (2, 1), (2, 2)]:
        jobs += [f"{first}-{second} {first} 5", f"{first}-{second} {second} 0"]
    jobs.append("stopped 2 5")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("running.py"), "jobs", *jobs],
        cwd=base, capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return base


def mean(folder):
    return load_file(folder / "mean.safetensors")


class TestTogether:
    def test_two_processes_train_as_one_does(self, runs):
        rows = log_of(runs / "two")
        assert [row["step"] for row in rows] == list(range(1, 14))
        assert_same_training(runs / "two", runs / "one")
        # The first update has one history: only the order of sums differs.
        for name in ("loss", "norm"):
            first = log_of(runs / "one")[0][name]
            assert rows[0][name] == pytest.approx(first, rel=1e-6)

    def test_and_end_in_the_same_model(self, runs):
        one, two = mean(runs / "one"), mean(runs / "two")
        assert one.keys() == two.keys()
        for name, tensor in one.items():
            torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-3)
        assert any(not torch.equal(two[name], tensor) for name, tensor in one.items())

    @pytest.mark.parametrize("name", ["1-2", "2-1"])
    def test_each_goes_on_from_the_others_states(self, runs, name):
        assert_same_training(runs / name, runs / "one")
        for parameter, tensor in mean(runs / "one").items():
            torch.testing.assert_close(mean(runs / name)[parameter], tensor, rtol=0, atol=1e-3)

    def test_two_that_were_stopped_end_bit_for_bit_as_two_that_were_not(self, runs):
        assert_same_training(runs / "2-2", runs / "two", rel=0, abs=0)
        for path in (runs / "two").rglob("*"):
            if path.is_file() and path.name != "log.jsonl":
                again = runs / "2-2" / path.relative_to(runs / "two")
                assert again.read_bytes() == path.read_bytes()

    def test_a_stop_that_one_hears_stops_both_with_a_state(self, runs):
        """The last process alone is told; the first writes."""
        rows = log_of(runs / "stopped")
        assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
        states = sorted(path.name for path in (runs / "stopped" / "states").glob("*.json"))
        assert states == ["step-00000004.json", "step-00000005.json"]
        assert not (runs / "stopped" / "mean.safetensors").exists()

    def test_both_learnt_something(self, runs):
        losses = [row["loss"] for row in log_of(runs / "two")]
        assert sum(losses[-3:]) < sum(losses[:3]) - 0.3


# As the book prints it, but for sizes: no look at the model and no end within a test's patience.
SETTINGS = [
    "task.count=499", "task.longest=3", "model.d_model=22", "model.d_ff=29", "model.heads=2",
    "model.d_k=11", "model.d_v=11", "model.layers=1", "model.dropout=0.3", "training.steps=100000",
    "training.batch_tokens=122", "training.micro_batches=2",
]


@contextlib.contextmanager
def torchrun(out, *more):
    """torchrun with two processes, once three more updates are in the log: it, and their ids."""
    log, late = out / "log.jsonl", time.monotonic() + 300
    wanted = 3 + (len(log_of(out)) if out.exists() else 0)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "annotated", "train", "--recipe", "copy", "--seed", "3", "--device", "cpu",
        "--out", str(out), *more,
    ]
    for setting in SETTINGS:
        command += ["--set", setting]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    try:
        while not log.exists() or len(log.read_text().splitlines()) < wanted:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < late, "no update in five minutes"
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield process, [int(child) for child in children]
    finally:
        if process.poll() is None:
            process.terminate()  # it ends its processes too
            process.communicate(timeout=100)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds children in Linux's /proc")
def test_torchrun_trains_and_a_signal_to_one_or_to_all_stops_both_with_a_state(tmp_path):
    out, steps = tmp_path / "run", []
    for more, whom in [([], "the second"), (["--resume"], "torchrun")]:
        with torchrun(out, *more) as (process, (first, second)):
            os.kill({"the second": second, "torchrun": process.pid}[whom], signal.SIGTERM)
            said = process.communicate(timeout=300)[0]
        assert process.returncode != 0
        rows = [row["step"] for row in log_of(out)]
        steps.append(rows[-1])
        assert rows == list(range(1, steps[-1] + 1)), said
        assert f"stopped after {steps[-1]} of 100000 updates; --resume goes on" in said
        for ended in (first, second):
            assert not Path(f"/proc/{ended}").exists()
        assert (out / "states" / f"step-{steps[-1]:08d}.json").exists()
    assert 3 <= steps[0] and steps[0] + 3 <= steps[1]

    recipe, seen = override(recipe_named("copy"), SETTINGS), []
    alone = dict(after=lambda update, _: seen.append(update.step))
    for folder, stop in [(tmp_path / "alone", steps[1] + 2), (out, steps[1] + 2)]:
        seen.clear()
        run = train(recipe, 3, folder=folder, stop=lambda stop=stop: seen[-1] == stop, **alone)
        assert not run.finished and seen[-1] == stop
    assert seen == [steps[1] + 1, steps[1] + 2], "one process goes on from the states of two"
    assert_same_training(out, tmp_path / "alone", rel=2e-3)
