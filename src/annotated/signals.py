"""Asking a long command to stop: it notes the signal and comes to its own end."""

import contextlib
import signal
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
