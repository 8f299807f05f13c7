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
    text = os.environ.get("MICA_NUM_THREADS", "")
    if not text:
        return torch.get_num_threads()
    if not text.isdigit() or int(text) < 1:
        raise ValueError(
            f"MICA_NUM_THREADS: wants a whole number above 0, got {text!r}"
        )
    return int(text)
