# SPDX-License-Identifier: Apache-2.0
"""Something that is done again and again while something else goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(do: Callable[[], object], every: float) -> Iterator[None]:
    """Do it in a thread while the block runs, *every* so many seconds; without pause where it takes as long."""
    ends = threading.Event()

    def run() -> None:
        start, rounds = time.monotonic(), 0
        while not ends.wait(max(0.0, start + rounds * every - time.monotonic())):
            do()
            rounds += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
