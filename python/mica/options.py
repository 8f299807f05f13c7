"""Settings from the environment."""

from __future__ import annotations

import os

import torch


def default_num_threads() -> int:
    """Threads that one op may use.

    Returns:
      MICA_NUM_THREADS, or what torch.get_num_threads() says without it.
    Raises:
      ValueError: MICA_NUM_THREADS is not a whole number above 0.
    """
    return _number("MICA_NUM_THREADS") or torch.get_num_threads()


def default_num_streams() -> int:
    """Threads on which ops that don't need each other run at once.

    Returns:
      MICA_NUM_STREAMS, or 1 without it.
    Raises:
      ValueError: MICA_NUM_STREAMS is not a whole number above 0.
    """
    return _number("MICA_NUM_STREAMS") or 1


def default_queue() -> bool:
    """Whether threads take steps, and pieces of wide ones, from a queue.

    Returns:
      False if MICA_QUEUE is 0: then ops run one after the other, each on
      threads of OpenMP.
    """
    return os.environ.get("MICA_QUEUE", "1") != "0"


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{name}: wants a whole number above 0, got {text!r}")
    return int(text)
