"""Sinks that tests of calls into the world outside write to."""

from __future__ import annotations

import io
import logging
from typing import Any

import torch

X = torch.ones(2)
CALLS = ((X,),) * 6


class Tee:
    """A text stream that runs code at each write."""

    def __init__(self, then: Any = None) -> None:
        self.n, self.then = 0, then

    def write(self, text: str) -> int:
        self.n += 1
        if self.then is not None:
            self.then(text)
        return len(text)


def a_logger(*handlers: logging.Handler) -> logging.Logger:
    logger = logging.Logger("mica.test.host", logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


class Keeps(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Stream(logging.StreamHandler):  # type: ignore[type-arg]
    """Of the standard error as it is now, as `lastResort` is."""


def plain_logger() -> tuple[logging.Logger, io.StringIO]:
    out = io.StringIO()
    return a_logger(logging.StreamHandler(out)), out
