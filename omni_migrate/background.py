"""Work in a process of its own while this one goes on, where a fork is cheap and safe."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import TypeVar, cast

Result = TypeVar("Result")


def begin(work: Callable[[], Result]) -> Callable[[], Result]:
    """Start `work`, whose result can be pickled; the function returned waits for it, and may be called once.

    Where there is no second core, no Linux or another thread, or if the process fails, the work is done on that call.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or (os.cpu_count() or 1) < 2:
        return work
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells the user, once
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writing)

    def wait() -> Result:
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        return cast(Result, pickle.loads(data)) if data else work()

    return wait
