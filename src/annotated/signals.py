"""What a long command meets from outside: signals to stop, readers that go away."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Signals:
    """Inside the block SIGINT and SIGTERM are noted in `signal`, 0 before.

    The second interrupts at once.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.before: dict[int, Any] = {}

    def __enter__(self):
        with contextlib.suppress(ValueError):  # signals belong to the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self.receive)
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number


class Stop(Signals):
    """Turns SIGINT and SIGTERM into an answer: called, it says whether to stop.

    Before anyone asks, and the second time, they end the process.
    """

    heeded = False

    def __call__(self) -> bool:
        self.heeded = True
        return self.signal != 0

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal or not self.heeded:
            raise SystemExit(128 + number)
        self.signal = number


class Tolerant:
    """A text stream that can't fail: once its reader is gone or its disk full, it drops the rest.

    It writes at once, so that nothing is left to fail at the program's end.
    """

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name: str):
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write and flush, or drop."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:  # the flush at the program's end would fail again
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.stream.fileno())
            os.close(nothing)
        return len(text)


@contextlib.contextmanager
def tolerant_output() -> Iterator[None]:
    """Inside the block stdout and stderr are `Tolerant`: a closed pipe costs only the words."""
    with contextlib.ExitStack() as stack:
        for name, redirect in (
            ("stdout", contextlib.redirect_stdout), ("stderr", contextlib.redirect_stderr),
        ):
            if stream := getattr(sys, name):  # None: closed from the start
                stack.enter_context(redirect(Tolerant(stream)))
        yield
