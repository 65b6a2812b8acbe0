"""§5.2: processes that train one model together, and what each of them must agree on.

Processes: see running.py. That the shares of several are the whole, and their number, is in
test_trainer.py.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from annotated.model import Transformer, TransformerConfig
from annotated.recipes import override, recipe_named, train
from annotated.training import Trainer, TrainingConfig, World
from annotated.training import world as module
from annotated.training.world import LAUNCHERS, VARIABLES

RUNNING = Path(__file__).with_name("running.py")
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


def assert_same_bits(folder, other):
    """All that a run leaves but the times in its log."""
    assert_same_training(folder, other, rel=0, abs=0)
    ours, theirs = (
        {
            path.relative_to(base): path.read_bytes() for path in base.rglob("*")
            if path.is_file() and path.name != "log.jsonl"
        }
        for base in (folder, other)
    )
    assert ours == theirs and len(ours) > 5


class TestAlone:
    """Without others nothing is sent: no group of processes exists in this one."""

    def test_it_is_the_first_of_one(self):
        world = World()
        assert (world.rank, world.size) == (0, 1)
        assert world == World.join("cpu")
        assert not torch.distributed.is_initialized()

    def test_its_sums_are_its_own(self):
        with World() as world:
            tensor, model = torch.tensor([2.0, 3.0]), torch.nn.Linear(3, 5)
            world.send([tensor])
            assert tensor.tolist() == [2.0, 3.0]
            assert world.total(7) == 7 and world.each(0.5) == [0.5]
            assert world.parallel(model) is model
            world.wait()
        assert not torch.distributed.is_initialized()

    @pytest.mark.parametrize(
        ("there", "said"),
        [
            ({"RANK": "1"}, "RANK=1 without WORLD_SIZE, MASTER_ADDR, MASTER_PORT; several"),
            (
                {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "7"},
                "RANK=0, WORLD_SIZE=2, MASTER_PORT=7 without MASTER_ADDR; several processes need",
            ),
            (
                {"WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "7"},
                "WORLD_SIZE=2, MASTER_ADDR=x, MASTER_PORT=7 without RANK; ",
            ),
            (
                {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "7"},
                "RANK is '2' and WORLD_SIZE '2'; expected whole numbers, RANK from 0 to WORLD_SIZE",
            ),
            (
                {"RANK": "one", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "7"},
                "RANK is 'one' and WORLD_SIZE '2'; expected whole numbers",
            ),
            (
                {"SLURM_NTASKS": "4", "SLURM_PROCID": "1"},
                "srun started 4 processes (SLURM_NTASKS), but RANK and WORLD_SIZE are not set: "
                "let it start torchrun, once per machine, or set RANK=$SLURM_PROCID WORLD_SIZE=",
            ),
            (
                {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
                "mpirun started 2 processes (OMPI_COMM_WORLD_SIZE), but RANK",
            ),
        ],
    )
    def test_half_of_what_several_need_is_refused_in_one_line(self, monkeypatch, there, said):
        for name, value in there.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ValueError) as caught:
            World.join("cpu")
        assert str(caught.value).startswith(said) and "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "there",
        [
            {"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"},
            {"SLURM_NTASKS": "4"}, {"MASTER_ADDR": "x", "MASTER_PORT": "7"},
        ],
    )
    def test_one_process_needs_nothing(self, monkeypatch, there):
        for name, value in there.items():
            monkeypatch.setenv(name, value)
        assert World.join("cpu") == World()

    def test_who_has_a_newer_state_than_the_first_is_named(self, monkeypatch):
        """As after a restart that made another machine, with a disk of its own, the first."""
        monkeypatch.setattr(World, "each", lambda self, number: [number, 7, 10])
        model = Transformer(TransformerConfig.tiny(vocab_size=7, d_model=8, d_ff=5, heads=2))
        trainer = Trainer(model, TrainingConfig(micro_batches=3), world=World(0, 3))
        with pytest.raises(ValueError) as caught:
            trainer.resume()
        assert str(caught.value) == (
            "process 2 has a state of update 10, the first of update 0; "
            "expected one folder for all, or the newest at the first"
        )

    def test_no_wait_is_for_ever(self, monkeypatch):
        monkeypatch.setattr(module, "DATA_TIMEOUT", timedelta(seconds=0.2))
        with pytest.raises(TimeoutError, match=r"^process 0 has waited 0:00:00.2\d* for the other"):
            World(0, 2, store=torch.distributed.HashStore()).wait()

    def test_a_signal_ends_a_wait(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                World(0, 2, store=torch.distributed.HashStore()).wait()
        finally:
            signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in (*VARIABLES, "LOCAL_RANK", *sum(LAUNCHERS.values(), ())):
        monkeypatch.delenv(name, raising=False)


# Three processes that agree on numbers, tensors and gradients, until the last one is gone.
AGREEMENT = """
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
    "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank),
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
}
try:
    with World.join("cpu") as world:
        assert world == World(rank, 3, rank)
        assert world.each(rank) == [0, 1, 2] and world.each(rank / 4) == [0.0, 0.25, 0.5]
        assert world.total(10**rank) == 111 and type(world.total(1)) is int
        assert world.total(2**40) == 3 * 2**40
        tensors = [torch.full((2, 3), 10.0**rank), torch.tensor(rank), torch.zeros(0)]
        world.send(tensors)
        assert tensors[0].tolist() == [[1.0] * 3] * 2 and tensors[1] == 0
        world.wait()
        torch.manual_seed(rank)
        linear = torch.nn.Linear(3, 5)
        model = world.parallel(linear)
        x = torch.full((7, 3), float(rank))
        with model.no_sync():
            model(x).sum().backward()
            assert (linear.weight.grad == 7 * rank).all()
        model(x).sum().backward()
        mean = torch.full((5, 3), 14.0)  # of 0, 14 and 28
        torch.testing.assert_close(linear.weight.grad, mean)
        torch.manual_seed(0)
        assert torch.equal(linear.weight, torch.nn.Linear(3, 5).weight)  # the first's
        world.wait()
        if rank == 2:
            os._exit(0)
        world.total(1)
except ConnectionError as error:
    told = str(error)
assert told.startswith(f"process {rank} of 3 has lost the others: ") and "\\n" not in told, told
assert not dist.is_initialized()
if rank == 0:
    ended = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
    print("all agree" if ended == [0, 0] else ended)
else:
    os._exit(0)
"""


def test_three_processes_agree_until_one_is_gone():
    done = subprocess.run(
        [sys.executable, "-c", AGREEMENT], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "all agree\n"), done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of one recipe with dropout and six micro-batches, trained by one to three processes.

    "one", "two" and "three" were never stopped. The others were, after 5 updates; each is named
    after who trained before the stop, and who after. "apart-0" and "apart-1" are the folders of
    two that share no disk.
    """
    base = tmp_path_factory.mktemp("runs")
    jobs = ["one 1 0", "two 2 0", "three 3 0"]
    for first, second in [(1, 2), (2, 1), (3, 3)]:
        jobs += [f"{first}-{second} {first} 5", f"{first}-{second} {second} 0"]
    jobs += ["apart-{rank} 2 5", "apart-{rank} 2 0", "stopped 2 5"]
    done = subprocess.run(
        [sys.executable, RUNNING, "jobs", *jobs],
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

    @pytest.mark.parametrize(
        ("name", "never"), [("3-3", "three"), ("apart-0", "two")]
    )
    def test_those_that_were_stopped_end_bit_for_bit_as_those_that_were_not(
        self, runs, name, never
    ):
        assert_same_bits(runs / name, runs / never)

    def test_without_a_shared_disk_the_first_alone_keeps_states(self, runs):
        kept = {path.name for path in (runs / "apart-1").rglob("*") if path.is_file()}
        assert kept == {"task.json", "tokenizer.json"}

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


@pytest.mark.weekly
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_two_nodes_of_which_one_dies_come_back_and_end_as_two_that_never_did(runs, tmp_path):
    """An agent of torchrun for each, on loopback; see "elastic" in running.py."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--max-restarts", "2",
        "--local-addr", "127.0.0.1", RUNNING, "elastic", tmp_path / "run",
    ]
    nodes = [
        subprocess.Popen(
            command, env=os.environ | {
                "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(2)
    ]
    try:
        said = [node.communicate(timeout=500)[0] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    assert [node.returncode for node in nodes] == [0, 0], said
    assert "exitcode: -9" in "".join(said)
    assert_same_bits(tmp_path / "run", runs / "two")


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
