"""Traces: what the engine did when, as one file."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mica import _mica


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records what the engine does inside the `with` into one file.

    The file is for https://ui.perfetto.dev or chrome://tracing: captures with
    their guards, the passes and analyses behind them, runs with each step on
    its thread's row (streams, workers of a queue, devices of a Schedule), and
    memory in use. See docs/trace.md. A process that is forked meanwhile
    records nothing.

    Args:
      path: The file, written when the block ends, however it ends.
    Raises:
      RuntimeError: Another trace is being recorded.
      LookupError: There is no such folder.
    """
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise LookupError(f"{path}: there is no folder {folder}")
    _mica.start_trace()
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == process:
            _mica.stop_trace(os.fspath(path))


def trace_whole_process(path: str) -> None:
    """Records from now on, and writes the file when the process ends."""
    block = trace(path)
    block.__enter__()
    atexit.register(block.__exit__, None, None, None)
