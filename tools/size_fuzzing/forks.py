"""Runs a function in a child, so that a crash is a result."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

LOG_MARK = "mica keeps sizes of "


class Died(Exception):
    """The child ended before it gave a result."""

    def __init__(self, number: int, log: str) -> None:
        super().__init__(f"signal {number}")
        self.number, self.log = number, log


def in_child(run: Callable[[], Any], seconds: int) -> tuple[Any, str]:
    """What `run` gives, and what was written to standard error.

    Raises:
      Died: By a signal; SIGALRM if it took longer than that.
    """
    read, write = os.pipe()
    with tempfile.TemporaryFile("w+b") as log:
        child = os.fork()
        if child == 0:
            os.close(read)
            _be_child(run, write, log.fileno(), seconds)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        log.seek(0)
        text = log.read(1 << 20).decode(errors="replace")
    if os.WIFSIGNALED(status):
        raise Died(os.WTERMSIG(status), text)
    if not data:
        raise Died(0, text)
    return pickle.loads(data), text


def _be_child(
    run: Callable[[], Any], write: int, log: int, seconds: int
) -> None:
    signal.alarm(seconds)
    os.dup2(log, 2)
    os.dup2(log, 1)
    status = 1
    try:
        data = pickle.dumps(run())
        with os.fdopen(write, "wb") as pipe:
            pipe.write(data)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
