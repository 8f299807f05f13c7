"""Calls of loggers that a compiled callable makes again at each hit."""

from __future__ import annotations

import logging
from typing import Any


class LogsAnError(Exception):
    """The message can't be made: logging shows the functions under way."""


def log_again(
    method: str,
    logger: logging.Logger,
    file: str,
    line: int,
    function: str,
    *args: Any,
    extra: dict[str, object] | None = None,
) -> None:
    """Logs what the program logged, from the program's own line.

    Args:
      method: The name of the method of `logging.Logger` that it called.
      logger: What it called that of.
      file: The file of the code that called,
      line: the line in it, and
      function: the function's name.
      *args: The method's arguments: the message and what it is filled with;
        of `log` the level first.
      extra: Further attributes of the record.
    Raises:
      TypeError: The level of `log` is no int, or the message is missing.
      LogsAnError: The message doesn't fit what it is to be filled with.
    """
    if method == "log":
        level, *args_of_message = args
        if not isinstance(level, int):
            raise TypeError("level must be an integer")
    else:
        level, args_of_message = getattr(logging, method.upper()), list(args)
    if not logger.isEnabledFor(level):
        return
    message, *values = args_of_message
    record = logger.makeRecord(
        logger.name,
        level,
        file,
        line,
        message,
        tuple(values),
        None,
        func=function,
        extra=extra,
    )
    if values:
        try:
            record.getMessage()
        except Exception:
            raise LogsAnError from None
    logger.handle(record)
